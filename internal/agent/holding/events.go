// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"context"
	"log/slog"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
)

// observe is told of all events of the set.
func (h *Holding) observe(e hold.Event) {
	attrs := []slog.Attr{slog.String("event", string(e.Kind))}
	if e.Source.Path != "" {
		attrs = append(attrs, slog.String("source", e.Source.Device()))
	}
	if e.Hold != nil {
		attrs = append(attrs, slog.String("hold", string(e.Hold.ID)), slog.String("holder", e.Hold.Holder.String()), slog.String("pool", e.Hold.Pool))
	}
	if e.Detail != "" {
		attrs = append(attrs, slog.String("detail", e.Detail))
	}
	for _, u := range e.Users {
		attrs = append(attrs, slog.String("user", u.String()))
	}
	if e.Took > 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	h.log.LogAttrs(context.Background(), level(e.Kind), "pools on mounts", attrs...)
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.events {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// level says how much an event matters.
func level(k hold.EventKind) slog.Level {
	switch k {
	case hold.Held, hold.Left:
		return slog.LevelDebug
	case hold.MountedEvent, hold.Adopted, hold.Unmounted, hold.Recovered, hold.Regained, hold.Returned, hold.OptionsPending:
		return slog.LevelInfo
	default:
		return slog.LevelWarn
	}
}

// subscribe returns a channel that gets a value after events, many at once make one, and what ends that.
func (h *Holding) subscribe() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.events, c)
	}
}
