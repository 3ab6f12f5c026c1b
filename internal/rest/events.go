// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Bounds of a stream of events.
const (
	eventBeat  = 10 * time.Second // how often a line is sent when nothing happens, so that both ends see who is gone
	eventWrite = 10 * time.Second // how long a reader may take for what is sent at once
)

// stream is a stream of server-sent events to one reader. Nothing is queued for it: what happens while it is busy is merged
// by its source, and it is told what is different from what it was told last. So a reader costs a bounded amount of memory
// however slow it is, none of them holds up another, and one that takes nothing for eventWrite is cut off.
type stream struct {
	q    *request
	flow *http.ResponseController
}

// teller tells a reader what it does not know yet. The zero changes ask for everything.
type teller func(s *stream, c observed.Changes) error

// events answers with a stream, until the client goes or the server stops.
func (q *request) events(changes <-chan observed.Changes, tell teller) {
	s := &stream{q: q, flow: http.NewResponseController(q.w)}
	h := q.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // Proxies are to pass events on at once.
	q.begin(http.StatusOK)
	beat := time.NewTicker(eventBeat)
	defer beat.Stop()
	// Whoever was told that he is connected misses nothing from then on.
	if tell(s, observed.Changes{}) != nil || s.comment("connected") != nil {
		return
	}
	for {
		var err error
		select {
		case c := <-changes:
			err = tell(s, c)
		case <-beat.C:
			err = s.comment("alive")
		case <-q.server.stop.channel():
			return
		case <-q.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// send sends one event.
func (s *stream) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode the event %s: %w", event, err)
	}
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, text))
}

// comment sends a line that readers skip.
func (s *stream) comment(text string) error { return s.write(": " + text + "\n\n") }

func (s *stream) write(text string) error {
	if err := s.flow.SetWriteDeadline(time.Now().Add(eventWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bound the time of a reader: %w", err)
	}
	if _, err := s.q.Write([]byte(text)); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	if err := s.flow.Flush(); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}

// changes returns a channel with what hosts say, and with an empty change whenever rows of a collection changed, until ctx ends.
// The returned function waits for that end.
func (s *Server) changes(ctx context.Context, collection string) (<-chan observed.Changes, func()) {
	out := make(chan observed.Changes)
	pass := func(c observed.Changes) {
		select {
		case out <- c:
		case <-ctx.Done():
		}
	}
	var sources sync.WaitGroup
	sources.Go(func() {
		for c := range s.Observed.Subscribe(ctx) {
			pass(c)
		}
	})
	sources.Go(func() {
		for ctx.Err() == nil && s.Store.Err() == nil {
			s.follow(ctx, collection, func() { pass(observed.Changes{}) })
		}
	})
	return out, sources.Wait
}

// follow calls changed for each commit that changed rows of a collection, until commits were missed or ctx ends.
func (s *Server) follow(ctx context.Context, collection string, changed func()) {
	after := s.Store.Snapshot().Revision()
	changed()
	for c, err := range s.Store.Watch(ctx, after) {
		if err != nil {
			return
		}
		for _, ch := range c.Changes {
			if ch.Collection == collection {
				changed()
				break
			}
		}
	}
}

// Stop ends all streams of events, so that the server can end gracefully. It may be called once the server stops.
func (s *Server) Stop() { s.stop.end() }

// stopping is closed when the server stops.
type stopping struct {
	mu    sync.Mutex
	ch    chan struct{}
	ended bool
}

func (s *stopping) channel() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get()
}

func (s *stopping) get() chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *stopping) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.get(); !s.ended {
		s.ended = true
		close(ch)
	}
}

// fromCurrent tells whether a reader wants to be told first how things are.
func fromCurrent(q *request) bool {
	return strings.EqualFold(strings.TrimSpace(q.Header.Get("Last-Event-ID")), wire.EventLastIDForSnapshot)
}
