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

// Logger returns a logger that writes to w. The level is debug, info, warn or error, in any
// case, the format text or json.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("the log level %q is not known; use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("the log format %q is not known; use text or json", format)
	}
}
