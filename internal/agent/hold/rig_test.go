// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

func TestMain(m *testing.M) { os.Exit(mounttest.Main(m)) }

var (
	nas  = mount.Source{Kind: mount.NFS, Server: "nas1", Path: "/a"}
	nas2 = mount.Source{Kind: mount.NFS, Server: "nas2", Path: "/b"}
	pool = hold.Pool{ID: "p", Spec: mount.Spec{Source: nas}, Class: hold.Transfer}
)

// quick are limits for tests that look at nothing but what they ask for: no probes, no checks, no chance.
func quick() hold.Limits {
	return hold.Limits{ProbeEvery: -1, CheckEvery: -1, Jitter: func(d time.Duration) time.Duration { return d }}
}

// rig is a Set on a world.
type rig struct {
	*world
	*hold.Set

	tb     testing.TB
	c      hold.Config
	p      *process
	evMu   sync.Mutex
	events []hold.Event
}

// start opens a Set on a world. It is closed at the end of the test.
func start(tb testing.TB, w *world, change ...func(*hold.Config)) *rig {
	tb.Helper()
	r := &rig{world: w, tb: tb, c: hold.Config{Limits: quick()}}
	for _, f := range change {
		f(&r.c)
	}
	r.boot()
	return r
}

// boot opens a Set on what the world has.
func (r *rig) boot() {
	r.tb.Helper()
	r.p = r.process()
	c := r.c
	c.Driver, c.Journal = r.p, r.p
	c.Observe = func(e hold.Event) {
		r.evMu.Lock()
		defer r.evMu.Unlock()
		r.events = append(r.events, e)
	}
	var err error
	if r.Set, err = hold.Open(c); err != nil {
		r.tb.Fatal(err)
	}
}

// crash ends the process of the agent: what it was doing is not done.
func (r *rig) crash() {
	r.p.end()
	r.Kill()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changing = map[mount.Source]int{}
}

// restart is a crash and a new process.
func (r *rig) restart() {
	r.tb.Helper()
	r.crash()
	r.boot()
}

// stop ends the Set as it should end, and checks what must hold.
func (r *rig) stop() {
	r.tb.Helper()
	r.open()
	if err := r.Close(context.Background()); err != nil {
		r.tb.Error(err)
	}
	r.p.end()
	for _, v := range r.violations() {
		r.tb.Error(v)
	}
}

// happened returns how often there was an event.
func (r *rig) happened(kind hold.EventKind) int {
	r.evMu.Lock()
	defer r.evMu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// bubble runs a test with a clock of its own, on a new world.
func bubble(t *testing.T, test func(r *rig), change ...func(*hold.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newWorld(), change...)
		defer r.stop()
		synctest.Wait()
		test(r)
	})
}

func req(id string) hold.Request {
	return hold.Request{ID: hold.ID(id), Holder: hold.Holder{Kind: hold.Job, Name: id}}
}

// acquired is a call of Acquire that is under way.
type acquired struct {
	hold   hold.Hold
	err    error
	done   chan struct{} // What is above may be read when it is closed.
	cancel context.CancelFunc
}

func (a *acquired) ended() bool { return closed(a.done) }

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// begin calls Acquire in a goroutine and returns when nothing goes on by itself any more.
func (r *rig) begin(p hold.Pool, rq hold.Request) *acquired {
	a := &acquired{done: make(chan struct{})}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(context.Background())
	go func() {
		defer a.cancel()
		a.hold, a.err = r.Acquire(ctx, p, rq)
		if a.err == nil {
			r.hold(p.Spec.Source, rq.ID)
		}
		close(a.done)
	}()
	synctest.Wait()
	return a
}

// get acquires, and must succeed.
func (r *rig) get(p hold.Pool, rq hold.Request) hold.Hold {
	r.tb.Helper()
	h, err := r.Acquire(context.Background(), p, rq)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.hold(p.Spec.Source, rq.ID)
	return h
}

// released is a call of Release that is under way.
type released struct {
	teardown hold.Teardown
	err      error
	done     chan struct{} // What is above may be read when it is closed.
}

func (l *released) ended() bool { return closed(l.done) }

func (r *rig) leave(id string) *released {
	l := &released{done: make(chan struct{})}
	for _, s := range []mount.Source{nas, nas2} {
		r.unhold(s, hold.ID(id))
	}
	go func() {
		l.teardown, l.err = r.Release(context.Background(), hold.ID(id))
		close(l.done)
	}()
	synctest.Wait()
	return l
}

// give releases and returns the outcome.
func (r *rig) give(id string) hold.Teardown {
	r.tb.Helper()
	for _, s := range []mount.Source{nas, nas2} {
		r.unhold(s, hold.ID(id))
	}
	t, err := r.Release(context.Background(), hold.ID(id))
	if err != nil {
		r.tb.Fatal(err)
	}
	return t
}

// want inspects a pool when nothing goes on by itself any more.
func (r *rig) want(p string, state hold.State, holds ...string) hold.Status {
	r.tb.Helper()
	synctest.Wait()
	st, err := r.Inspect(context.Background(), p)
	if err != nil && !hold.IsKind(err, hold.Unknown) {
		r.tb.Fatal(err)
	}
	var ids []string
	for _, h := range st.Holds {
		ids = append(ids, string(h.ID))
	}
	if st.State != state || !slices.Equal(ids, holds) {
		r.tb.Errorf("pool %s is %s, held by %v; want %s, %v; last error %s", p, st.State, ids, state, holds, st.LastError)
	}
	return st
}

// only gates calls of some names.
func only(names ...string) func(*call) bool {
	return func(c *call) bool { return slices.Contains(names, c.what) }
}

func (w *world) gateAt(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = only(names...)
}

func (w *world) judge(decide func(*call) verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide = decide
}

// waiting returns the one call that waits, which must have a name.
func (r *rig) waiting(what string) *call {
	r.tb.Helper()
	synctest.Wait()
	calls := r.calls()
	if len(calls) != 1 || calls[0].what != what {
		var names []string
		for _, c := range calls {
			names = append(names, c.what)
		}
		r.tb.Fatalf("calls %v wait, want one of %s", names, what)
	}
	return calls[0]
}

// pass gives the one call that waits its verdict, and returns when nothing goes on by itself any more.
func (r *rig) pass(what string, v verdict) {
	r.tb.Helper()
	r.let(r.waiting(what), v)
	synctest.Wait()
}
