// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package converge

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// jobs works on all jobs until ctx ends, and returns why it ended.
func (l *Loops) jobs(ctx context.Context) error {
	wake, watched := make(chan struct{}, 1), make(chan error)
	ctx, cancel := context.WithCancel(ctx)
	b := &board{Loops: l, tries: map[string]*attempt{}, ended: make(chan outcome)}
	defer b.wait()
	defer cancel()
	go func() {
		defer close(watched)
		watched <- l.watchJobs(ctx, wake)
	}()
	for {
		timer := time.NewTimer(b.begin(ctx))
		select {
		case <-wake:
		case <-timer.C:
		case o := <-b.ended:
			b.end(o)
		case err := <-watched:
			timer.Stop()
			for range watched { // It is closed once the watch has ended.
			}
			return err
		}
		timer.Stop()
	}
}

// watchJobs wakes whenever a job may have changed, until ctx ends.
func (l *Loops) watchJobs(ctx context.Context, wake chan<- struct{}) error {
	poke := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	for {
		after := l.cfg.Store.Snapshot().Revision()
		poke()
		for c, err := range l.cfg.Store.Watch(ctx, after) {
			if errors.Is(err, store.ErrCompacted) {
				break
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(c.Changes, func(ch store.Change) bool { return ch.Collection == schema.Jobs.Name() }) {
				poke()
			}
		}
	}
}

// board is the tries that are being made.
type board struct {
	*Loops
	tries map[string]*attempt
	ended chan outcome
}

// outcome is the end of a try, and why it could not be recorded.
type outcome struct {
	id  string
	err error
}

// attempt is one try at a job.
type attempt struct {
	cancel context.CancelFunc
	again  time.Time // not before, when it could not be recorded; zero while it runs
}

// begin begins the tries that are due, ends those whose job has ended, and returns how long
// there is nothing to do.
func (b *board) begin(ctx context.Context) time.Duration {
	const idle = time.Hour
	wait, now := idle, time.Now()
	view := b.cfg.Store.Snapshot()
	for id, a := range b.tries {
		if j, ok := schema.Jobs.Get(view, id); !ok || j.State != schema.JobRunning {
			a.cancel()
			if !a.again.IsZero() {
				delete(b.tries, id)
			}
		}
	}
	var due []schema.Job
	for target := range schema.JobsRunning.Values(view, schema.JobTarget{}) {
		j, _ := schema.JobsRunning.One(view, target)
		at := j.NextTry
		if a := b.tries[j.ID]; a != nil {
			if a.again.IsZero() {
				continue
			}
			at = a.again
		}
		if left := at.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, j)
	}
	slices.SortFunc(due, func(x, y schema.Job) int { return x.Updated.Compare(y.Updated) })
	for _, j := range due {
		if b.running() >= b.cfg.AtOnce || ctx.Err() != nil {
			break // the end of another begins it
		}
		b.try(ctx, j)
	}
	return wait
}

func (b *board) running() int {
	n := 0
	for _, a := range b.tries {
		if a.again.IsZero() {
			n++
		}
	}
	return n
}

// try begins one try at a job.
func (b *board) try(ctx context.Context, j schema.Job) {
	ctx, cancel := context.WithCancel(ctx)
	b.tries[j.ID] = &attempt{cancel: cancel}
	go func() {
		o := outcome{id: j.ID}
		defer func() { b.ended <- o }()
		defer cancel()
		p := &progress{Loops: b.Loops, id: j.ID}
		t := b.work(ctx, j, func(total, finished int) { p.tell(ctx, total, finished) })
		if ctx.Err() != nil {
			return // cut off: what it came to is not the outcome of a try
		}
		o.err = b.record(ctx, j, t)
	}()
}

// work is Worker.Work, with a panic as a problem.
func (b *board) work(ctx context.Context, j schema.Job, tell func(total, finished int)) (t schema.JobTry) {
	defer func() {
		if p := recover(); p != nil {
			b.cfg.Log.Error("a job panicked", "kind", j.Kind, "object", j.Object, "panic", p, "stack", string(debug.Stack()))
			t = schema.JobTry{State: schema.JobRunning, Total: j.Total, Done: j.Done, Problems: []string{fmt.Sprintf("a fault of the software: %v", p)}}
		}
	}()
	return b.cfg.Worker.Work(ctx, j, tell)
}

// record writes what came of a try.
func (b *board) record(ctx context.Context, j schema.Job, t schema.JobTry) error {
	attempts := j.Attempts
	if t.Progress {
		attempts = 0
	}
	now := time.Now()
	t.NextTry = now.Add(b.delay(attempts))
	_, err := schema.Update(ctx, b.cfg.Store, func(tx *store.Tx) error { return schema.RecordTry(tx, j.ID, j.Asked, t, now) })
	log := b.cfg.Log.With("kind", j.Kind, "object", j.Object, "state", t.State, "done", t.Done, "of", t.Total)
	switch {
	case err != nil:
		log.Warn("what came of a try could not be recorded, it is made again", "err", err)
	case len(t.Problems) > 0:
		log.Warn("a job has problems", "problems", len(t.Problems), "first", t.Problems[0], "next", t.NextTry)
	case t.State != schema.JobRunning:
		log.Info("a job has ended")
	}
	return err
}

// end takes note that a try has ended. One that could not be recorded is not made again at
// once: whatever keeps the database from being written would make that a loop.
func (b *board) end(o outcome) {
	if o.err == nil {
		delete(b.tries, o.id)
		return
	}
	b.tries[o.id].again = time.Now().Add(b.cfg.RetryFirst)
}

// wait waits for all tries to end. The context that they work with has ended.
func (b *board) wait() {
	for n := b.running(); n > 0; n-- {
		<-b.ended
	}
}

// progress writes how far a try came, not too often.
type progress struct {
	*Loops
	id   string
	last time.Time
}

// tell is called by one goroutine at a time.
func (p *progress) tell(ctx context.Context, total, finished int) {
	const often = time.Second
	now := time.Now()
	if now.Sub(p.last) < often {
		return
	}
	p.last = now
	if _, err := schema.Update(ctx, p.cfg.Store, func(tx *store.Tx) error {
		return schema.RecordProgress(tx, p.id, total, finished, now)
	}); err != nil && ctx.Err() == nil {
		p.cfg.Log.Warn("how far a job came could not be recorded", "err", err)
	}
}
