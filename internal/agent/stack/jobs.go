// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// jobs is the work that goes on while no one waits for it: copies may take hours. A job is known by a key, and does what its text says; what it made is seen by
// looking at the host. A job that failed is kept until its error was told.
type jobs struct {
	changed func(resource string)
	perPool int

	mu     sync.Mutex
	all    map[string]*job
	slots  map[string]chan struct{} // Of each pool.
	closed bool
	active sync.WaitGroup
}

// job is one piece of work.
type job struct {
	text   string // What it does. Another text under the same key is other work.
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // Set before ended is closed.

	mu      sync.Mutex
	copied  pool.Copied
	waiting bool // For a slot.
	waited  int  // Who wait for its end.
}

func newJobs() *jobs { return &jobs{all: map[string]*job{}, slots: map[string]chan struct{}{}} }

// task is what is to be done in the background.
type task struct {
	key      string
	text     string
	resource string
	pool     string // Whose slots it needs. Empty: none.
	do       func(context.Context, pool.Progress) error
}

// progress is what is known of a job. The zero value says that there is none.
type progress struct {
	key     string
	text    string
	running bool // Else it failed, and nobody was told yet.
	work    Work
}

// does tells whether a job that runs does some work.
func (p progress) does(text string) bool { return p.running && text != "" && p.text == text }

// look returns what is known of a job. One that ended well is forgotten.
func (j *jobs) look(key string) progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.all[key]
	if b == nil {
		return progress{}
	}
	switch {
	case b.over() && b.err == nil:
		delete(j.all, key)
		return progress{}
	case b.over():
		return progress{key: key, text: b.text}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return progress{key: key, text: b.text, running: true, work: Work{What: b.text, Done: b.copied.Done, Total: b.copied.Total, Waiting: b.waiting}}
}

// run begins a task unless it was begun before, and waits for its end for a while. When it has not ended by then it goes on, and run returns nil.
func (j *jobs) run(ctx context.Context, t task, patience time.Duration) error {
	b, err := j.begin(ctx, t)
	if err != nil {
		return err
	}
	b.wait(+1)
	defer b.wait(-1)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-b.ended:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !b.over() {
		return nil
	}
	j.forget(t.key, b)
	return b.err
}

// over tells whether a job has ended.
func (b *job) over() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// begin returns the job of a task.
func (j *jobs) begin(ctx context.Context, t task) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, context.Canceled
	}
	if b := j.all[t.key]; b != nil && b.text == t.text {
		return b, nil
	} else if b != nil && !b.over() { // Else it failed at what is not wanted any more.
		return nil, fmt.Errorf("something else goes on: %s", b.text)
	}
	// It outlives the call that began it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &job{text: t.text, cancel: cancel, ended: make(chan struct{}), waiting: t.pool != ""}
	j.all[t.key] = b
	slots := j.slotsOf(t.pool)
	j.active.Go(func() {
		defer cancel()
		b.err = b.work(ctx, t, slots)
		close(b.ended)
		if b.unseen() && j.changed != nil {
			j.changed(t.resource)
		}
	})
	return b, nil
}

// slotsOf returns the slots of a pool. The caller holds j.mu.
func (j *jobs) slotsOf(name string) chan struct{} {
	if name == "" {
		return nil
	}
	if j.slots[name] == nil {
		j.slots[name] = make(chan struct{}, j.perPool)
	}
	return j.slots[name]
}

// work does a task when there is a slot for it.
func (b *job) work(ctx context.Context, t task, slots chan struct{}) error {
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return ctx.Err()
		}
		b.mu.Lock()
		b.waiting = false
		b.mu.Unlock()
	}
	return t.do(ctx, func(c pool.Copied) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.copied = c
	})
}

func (b *job) wait(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited += n
}

// unseen tells whether nobody waits for the end.
func (b *job) unseen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waited == 0
}

// forget drops a job that has ended.
func (j *jobs) forget(key string, b *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all[key] == b {
		delete(j.all, key)
	}
}

// cancel breaks off the job of a key, if there is one, and waits for its end.
func (j *jobs) cancel(ctx context.Context, key string) error {
	j.mu.Lock()
	b := j.all[key]
	j.mu.Unlock()
	if b == nil {
		return nil
	}
	b.cancel()
	select {
	case <-b.ended:
		j.forget(key, b)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close breaks off all jobs and waits for their ends. None is begun any more.
func (j *jobs) close() {
	j.mu.Lock()
	j.closed = true
	for _, b := range j.all {
		b.cancel()
	}
	j.mu.Unlock()
	j.active.Wait()
}
