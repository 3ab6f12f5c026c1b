// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package converge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Worker does the work of jobs and evictions.
type Worker interface {
	// Work makes one try at a job.
	Work(ctx context.Context, j schema.Job, progress resources.Progress) schema.JobTry
	// EvictNode gives up waiting for a node.
	EvictNode(ctx context.Context, name string) (schema.Job, []errs.Notice, error)
}

// Config is what the loops work with. Store, Observed and Worker are required.
type Config struct {
	Store    *store.Store
	Observed *observed.State
	Worker   Worker
	Beside   []func(ctx context.Context) // run from Run on, until their context ends
	Log      *slog.Logger                // nothing is logged when nil

	RetryFirst    time.Duration // the first delay after a try without success; 1 s when zero
	RetryMost     time.Duration // the longest; 1 min when zero
	AtOnce        int           // how many jobs are worked on at a time; 8 when zero
	EvictionCheck time.Duration // how often it is looked whether a node is to be evicted; 10 s when zero
}

// Loops is the loops of one controller.
type Loops struct {
	cfg Config
}

// New returns the loops, which do nothing until Run.
func New(c Config) *Loops {
	c.RetryFirst = cmp.Or(c.RetryFirst, time.Second)
	c.RetryMost = cmp.Or(c.RetryMost, time.Minute)
	c.AtOnce = cmp.Or(c.AtOnce, 8)
	c.EvictionCheck = cmp.Or(c.EvictionCheck, 10*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Loops{cfg: c}
}

// Run runs the loops until ctx ends, which is no error, or another controller has taken the
// database. When it returns, everything that it started has ended.
func (l *Loops) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		select {
		case <-l.cfg.Store.Fenced():
			cancel(store.ErrFenced)
		case <-ctx.Done():
		}
	})
	loops.Go(func() { l.evictions(ctx) })
	for _, run := range l.cfg.Beside {
		loops.Go(func() { run(ctx) })
	}
	err := l.jobs(ctx)
	switch {
	case errors.Is(context.Cause(ctx), store.ErrFenced):
		err = store.ErrFenced
	case ctx.Err() != nil:
		return nil
	}
	cancel(err)
	return fmt.Errorf("run the loops of the leader: %w", err)
}

// delay is how long to wait after n tries in a row that brought nothing.
func (l *Loops) delay(n int) time.Duration {
	d := l.cfg.RetryFirst
	for range n {
		if d *= 2; d >= l.cfg.RetryMost {
			return l.cfg.RetryMost
		}
	}
	return d
}
