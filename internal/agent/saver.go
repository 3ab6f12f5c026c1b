// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/internal/durable"
)

// saver writes the assigned set to disk after it changed. It spends a small part of its time
// writing, however large the set is: many changes become one write.
type saver struct {
	dir      string
	log      *slog.Logger
	snapshot func() ([]byte, error)
	dirty    chan struct{} // holds one
}

func newSaver(dir string, log *slog.Logger, snapshot func() ([]byte, error)) *saver {
	return &saver{dir: dir, log: log, snapshot: snapshot, dirty: make(chan struct{}, 1)}
}

// changed has the set written soon.
func (s *saver) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// run writes until ctx ends.
func (s *saver) run(ctx context.Context) {
	const (
		share = 20 // of the time is spent on writing: one part in so many
		least = 100 * time.Millisecond
		most  = 10 * time.Second
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
		}
		began := time.Now()
		if err := s.write(); err != nil {
			s.log.Error("the assigned set could not be saved; it will be tried again", "error", err)
			s.changed()
			pause(ctx, time.Second)
			continue
		}
		pause(ctx, min(max(share*time.Since(began), least), most))
	}
}

// last writes what is not written yet. It is called after run has returned.
func (s *saver) last() {
	select {
	case <-s.dirty:
		if err := s.write(); err != nil {
			s.log.Error("the assigned set could not be saved", "error", err)
		}
	default:
	}
}

// write replaces the saved file as a whole.
func (s *saver) write() error {
	b, err := s.snapshot()
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(s.dir, savedName), b)
}
