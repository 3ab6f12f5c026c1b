// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// remembered is how long a suspension is kept after its limit, for a controller that asks late or
// again what was written.
const remembered = 10 * time.Minute

// suspensions are the times in which writers are held back because a controller asked for it, by
// their ids. They outlive sessions, so that a controller that was cut off can end what it began.
//
// All methods may be called at once.
type suspensions struct {
	log *slog.Logger

	mu     sync.Mutex
	all    map[string]*suspending
	closed bool
}

// suspending is one of them.
type suspending struct {
	begun chan struct{} // closed when held and err are set
	held  Suspension
	err   error
	limit *time.Timer // resumes
	drop  *time.Timer // forgets
}

func newSuspensions(log *slog.Logger) *suspensions {
	return &suspensions{log: log, all: map[string]*suspending{}}
}

// begin holds writers back by do, unless the suspension of that id is there, and returns when
// they are.
func (s *suspensions) begin(ctx context.Context, id string, limit time.Duration, do func(context.Context) (Suspension, error)) error {
	if id == "" || limit <= 0 {
		return errs.New(errs.Invalid, errs.Resource, "writers are not held back").Because("a suspension needs an id and a limit")
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return context.Canceled
	}
	x, there := s.all[id]
	if !there {
		x = &suspending{begun: make(chan struct{})}
		s.all[id] = x
	}
	s.mu.Unlock()
	if there {
		select {
		case <-x.begun:
			return x.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	held, err := do(ctx)
	s.begun(id, x, limit, held, err)
	return err
}

// begun records how the beginning of a suspension went.
func (s *suspensions) begun(id string, x *suspending, limit time.Duration, held Suspension, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.held, x.err = held, err
	if err != nil {
		delete(s.all, id) // it can be tried again
	} else {
		if s.closed {
			limit = 0
		}
		x.limit = time.AfterFunc(limit, func() { s.over(id, x) })
		x.drop = time.AfterFunc(limit+remembered, func() { s.forget(id, x) })
	}
	close(x.begun)
}

// over resumes a suspension that nobody ended.
func (s *suspensions) over(id string, x *suspending) {
	written, err := x.held.Resume()
	s.log.Warn("writers were held back until the limit or the end of the agent; they go on", "suspension", id, "written", len(written), "error", err)
}

func (s *suspensions) forget(id string, x *suspending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id] == x {
		delete(s.all, id)
	}
}

// resume lets writers go on, and returns the volumes that were written or may have been. It
// waits for a suspension that is being begun.
func (s *suspensions) resume(ctx context.Context, id string) ([]string, error) {
	s.mu.Lock()
	x := s.all[id]
	s.mu.Unlock()
	unknown := errs.New(errs.NotFound, errs.Resource, "no writers are held back by the id %s", clip(id)).
		Because("it was never begun, the agent was restarted since, or it was long ago")
	if x == nil {
		return nil, unknown
	}
	select {
	case <-x.begun:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.err != nil {
		return nil, unknown
	}
	x.limit.Stop()
	ids, err := x.held.Resume()
	var written []string
	for _, v := range ids {
		written = append(written, v.String())
	}
	return written, err
}

// close resumes all suspensions. None is begun any more.
func (s *suspensions) close() {
	s.mu.Lock()
	s.closed = true
	left := map[string]*suspending{}
	for id, x := range s.all {
		select {
		case <-x.begun:
			x.drop.Stop()
			if x.limit.Stop() { // else it is over already
				left[id] = x
			}
		default: // whoever begins it sees that it is closed
		}
	}
	s.mu.Unlock()
	for id, x := range left {
		s.over(id, x)
	}
}
