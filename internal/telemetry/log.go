// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up what the programs say about themselves, the same way in all of
// them: structured logs, and the metrics of a process and its runtime. What a program measures
// beyond that it registers itself. Nothing here keeps state of its own.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// Log is a logger whose level can be changed while it is used.
type Log struct {
	*slog.Logger

	Level *slog.LevelVar
}

// Logger returns a logger that writes to w. The level is debug, info, warn or error, in any
// case, the format text or json.
func Logger(w io.Writer, level, format string) (Log, error) {
	log := Log{Level: new(slog.LevelVar)}
	if err := log.Level.UnmarshalText([]byte(level)); err != nil {
		return Log{}, fmt.Errorf("the log level %q is not known; use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: log.Level}
	switch format {
	case "json":
		log.Logger = slog.New(slog.NewJSONHandler(w, options))
	case "text":
		log.Logger = slog.New(slog.NewTextHandler(w, options))
	default:
		return Log{}, fmt.Errorf("the log format %q is not known; use text or json", format)
	}
	return log, nil
}
