// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
)

// Pool is a pool on a mounted source. It implements pool.Driver and all optional abilities.
type Pool struct {
	host *Host
	spec Spec
	thin bool

	mu       sync.Mutex
	identity string
	checking bool           // It was opened for a check: it makes nothing resident.
	users    int            // Calls that are under way.
	run      *running       // What they work by. Nil: nothing.
	hung     *worker.Worker // Was killed and has not ended yet.
	hungFor  error          // Why it was killed.
	hangs    bool           // It should have ended by now.
	linger   *time.Timer
	lease    *time.Timer
	seen     look

	deployed map[pool.ID]bool // Volumes with holds.
	rebuilt  bool             // What an earlier process left is in it.
	locks    map[pool.ID]chan struct{}
}

// running is a hold with the worker in it.
type running struct {
	ready  chan struct{} // Closed when the others are set.
	hold   hold.ID
	worker *worker.Worker
	err    error
}

func (p *Pool) known() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity
}

// call calls a method of the worker. A limit of zero is the context's alone.
func (p *Pool) call(ctx context.Context, method string, a arguments, result any, limit time.Duration, progress pool.Progress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, p.faulty(pool.Unreadable, fmt.Sprintf("%s did not end in %s", method, limit), nil))
		defer stop()
	}
	over := make(chan struct{})
	defer close(over)
	go p.watch(ctx, cancel, over)
	run, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer p.leave() //nolint:contextcheck // What comes after the call does not end with it.
	var tell func(json.RawMessage)
	if progress != nil {
		tell = func(text json.RawMessage) {
			var c pool.Copied
			if json.Unmarshal(text, &c) == nil {
				progress(c)
			}
		}
	}
	err = run.worker.Call(ctx, method, a, result, tell)
	if broken := run.worker.Broken(); err != nil && broken != nil && ctx.Err() == nil {
		return p.faulty(pool.Unreadable, "its worker was lost", broken)
	}
	return err
}

// watch ends a call when the source is known not to be well.
func (p *Pool) watch(ctx context.Context, end context.CancelCauseFunc, over <-chan struct{}) {
	tick := time.NewTicker(p.host.c.Watch)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if err := p.unwell(ctx); err != nil {
			end(err)
			return
		}
	}
}

// unwell says why the source cannot be worked with although it is held, or nil.
func (p *Pool) unwell(ctx context.Context) error {
	s, err := p.host.c.Holds.Inspect(ctx, p.wanted().ID)
	if err != nil {
		return nil //nolint:nilerr // Nothing is known against it.
	}
	switch s.State {
	case hold.StateSuspect, hold.StateStale, hold.StateLost, hold.StateForeign:
		e := p.faulty(pool.Unreadable, "its source is "+string(s.State), nil)
		if s.LastError != "" {
			e = p.faulty(pool.Unreadable, "its source is "+string(s.State), errors.New(s.LastError))
		}
		return e
	default:
		return nil
	}
}

// enter makes the worker ready for one more call. After success the caller owes a leave.
func (p *Pool) enter(ctx context.Context) (*running, error) {
	const tries = 3 // A worker may end just when it is wanted.
	for range tries {
		p.mu.Lock()
		p.users++
		if p.linger != nil {
			p.linger.Stop()
		}
		run := p.run
		if run == nil {
			run = &running{ready: make(chan struct{})}
			p.run = run
			go p.begin(context.WithoutCancel(ctx), run)
		}
		p.mu.Unlock()
		select {
		case <-run.ready:
		case <-ctx.Done():
			p.leave() //nolint:contextcheck // As above.
			return nil, context.Cause(ctx)
		}
		switch {
		case run.err != nil:
			p.leave() //nolint:contextcheck // As above.
			return nil, run.err
		case run.worker.Broken() == nil:
			return run, nil
		}
		p.retire(run, run.worker.Broken()) //nolint:contextcheck // As above.
		p.leave()                          //nolint:contextcheck // As above.
	}
	return nil, p.faulty(pool.Unreadable, "its worker ends again and again", nil)
}

// begin acquires the pool and starts the worker.
func (p *Pool) begin(ctx context.Context, run *running) {
	defer close(run.ready)
	if run.err = p.start(ctx, run); run.err == nil {
		return
	}
	p.mu.Lock()
	if p.run == run {
		p.run = nil
	}
	p.mu.Unlock()
}

func (p *Pool) start(ctx context.Context, run *running) error {
	const patience = 2 * time.Minute // For a mount that comes after an unmount that hung.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.stuck(ctx); err != nil {
		return err
	}
	number, ok := p.host.note(p, true)
	if !ok {
		return p.faulty(pool.Unreadable, "the agent ends", nil)
	}
	pid := os.Getpid()
	id := hold.ID(fmt.Sprintf("agent/%s/%d-%d-%d", p.spec.Pool.ID, pid, p.host.start, number))
	h, err := p.host.c.Holds.Acquire(ctx, p.wanted(), hold.Request{
		ID: id, Holder: hold.Holder{Kind: hold.Job, Name: holderName, PID: pid, Start: p.host.start}, Mode: p.mode(),
	})
	if err != nil {
		p.host.note(p, false)
		return p.refused(err)
	}
	run.hold = id
	if run.worker, err = worker.Start(ctx, p.workerConfig(h)); err == nil {
		return nil
	}
	err = p.faulty(pool.Unreadable, "no worker could be started in "+p.spec.place(), err)
	p.end(run, err) //nolint:contextcheck // The hold is given back when the worker is gone, whoever waits.
	return err
}

// mode is what the agent does to the pool: nothing is written to a source that is mounted read-only.
func (p *Pool) mode() hold.Mode {
	if p.spec.Pool.Spec.Options.ReadOnly() {
		return hold.ReadOnly
	}
	return hold.ReadWrite
}

// stuck waits for the end of the worker before, and says that it hangs when it does not end as killed processes do.
func (p *Pool) stuck(ctx context.Context) error {
	p.mu.Lock()
	w, why, known := p.hung, p.hungFor, p.hangs
	p.mu.Unlock()
	if w == nil {
		return nil
	}
	patience := p.host.c.Farewell
	if known {
		patience = 0
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-w.Gone():
		return nil
	case <-wait.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.hangs = p.hung == w
	p.mu.Unlock()
	pid, _ := w.Process()
	return p.faulty(pool.Unreadable, fmt.Sprintf("process %d of the agent hangs in the kernel there, and nothing is begun before it ends", pid), why)
}

// retire takes a worker out of use that cannot be called any more.
func (p *Pool) retire(run *running, why error) {
	p.mu.Lock()
	mine := p.run == run
	if mine {
		p.run = nil
	}
	p.mu.Unlock()
	if mine {
		p.end(run, why)
	}
}

// end kills a worker and gives its hold back when it is gone, without waiting for that.
func (p *Pool) end(run *running, why error) {
	w := run.worker
	if w == nil {
		p.release(run.hold)
		return
	}
	w.Kill(why)
	p.mu.Lock()
	p.hung, p.hungFor, p.hangs = w, why, false
	p.mu.Unlock()
	go func() {
		<-w.Gone()
		p.mu.Lock()
		if p.hung == w {
			p.hung, p.hungFor, p.hangs = nil, nil, false
		}
		p.mu.Unlock()
		p.release(run.hold)
	}()
}

// release gives the agent's own hold back.
func (p *Pool) release(id hold.ID) {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if t, err := p.host.c.Holds.Release(ctx, id); err != nil {
		p.host.c.Log.Warn("a hold could not be released", "pool", p.spec.Pool.ID, "hold", id, "error", err)
	} else if t.Outcome == hold.Deferred || t.Outcome == hold.Abandoned {
		p.host.c.Log.Warn("a pool is not used any more and stays mounted", "pool", p.spec.Pool.ID, "outcome", t.String())
	}
	p.mu.Lock()
	idle := p.run == nil
	p.mu.Unlock()
	if idle {
		p.host.note(p, false)
	}
}

// leave ends a call. After the last one the worker stays for a while.
func (p *Pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	run := p.run
	if p.users > 0 || run == nil {
		return
	}
	if p.linger != nil {
		p.linger.Stop()
	}
	p.linger = time.AfterFunc(p.host.c.Linger, func() { p.rest(run) })
}

// rest ends the worker when nobody has come meanwhile.
func (p *Pool) rest(run *running) {
	p.mu.Lock()
	mine := p.users == 0 && p.run == run
	if mine {
		p.run = nil
	}
	p.mu.Unlock()
	if mine {
		p.end(run, errRest)
	}
}

var errRest = errors.New("nobody works in the pool")

// shut ends the worker, whatever it does, and waits until it is gone.
func (p *Pool) shut(ctx context.Context) {
	p.mu.Lock()
	run := p.run
	p.run = nil
	for _, t := range []*time.Timer{p.linger, p.lease} {
		if t != nil {
			t.Stop()
		}
	}
	p.mu.Unlock()
	if run == nil {
		return
	}
	select {
	case <-run.ready:
	case <-ctx.Done():
		return
	}
	if run.err != nil {
		return
	}
	run.worker.Kill(errors.New("the agent ends"))
	select {
	case <-run.worker.Gone():
		p.release(run.hold) //nolint:contextcheck // It has a limit of its own.
	case <-ctx.Done():
	}
}

// refused turns a refusal of a hold into a fault of the pool.
func (p *Pool) refused(err error) error {
	reason := pool.Unreadable
	switch {
	case hold.IsKind(err, hold.MountFailed):
		reason = pool.Missing
	case hold.IsKind(err, hold.WrongIdentity), hold.IsKind(err, hold.Foreign):
		reason = pool.WrongIdentity
	case hold.IsKind(err, hold.ReadOnlySource):
		reason = pool.ReadOnly
	}
	return p.faulty(reason, "", err)
}

func (p *Pool) faulty(r pool.Reason, detail string, err error) error {
	return &pool.FaultyError{
		Pool: p.spec.Pool.ID, Place: p.spec.place(), Reason: r, Detail: detail, Err: err,
		Correction: "see what holdfast pool inspect " + p.spec.Pool.ID + " tells of its source",
	}
}
