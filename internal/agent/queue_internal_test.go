// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// works is a queue whose work is done when the test says so.
type works struct {
	*queue[string]
	mu      sync.Mutex
	running []string
	done    map[string]chan next
	twice   bool
	order   []string
	cancel  context.CancelFunc
	ended   chan struct{}
}

// startWorks runs a queue in the bubble of the caller.
func startWorks(perLane int) *works {
	w := newWorks(perLane)
	w.begin()
	return w
}

// newWorks returns a queue that begins no work before begin.
func newWorks(perLane int) *works {
	w := &works{done: map[string]chan next{}, ended: make(chan struct{})}
	w.queue = newQueue(perLane, func(ctx context.Context, k string) next {
		w.mu.Lock()
		w.twice = w.twice || slices.Contains(w.running, k)
		w.running = append(w.running, k)
		w.order = append(w.order, k)
		done := make(chan next, 1)
		w.done[k] = done
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.running = slices.DeleteFunc(w.running, func(r string) bool { return r == k })
		}()
		select {
		case n := <-done:
			return n
		case <-ctx.Done():
			return next{}
		}
	})
	return w
}

func (w *works) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() {
		defer close(w.ended)
		w.run(ctx, ctx)
		w.wait()
	}()
}

func (w *works) stop() {
	w.cancel()
	<-w.ended
}

// now returns what runs when everything that can begin has begun.
func (w *works) now() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.running))
}

func (w *works) finish(k string, n next) {
	synctest.Wait()
	w.mu.Lock()
	done := w.done[k]
	w.mu.Unlock()
	done <- n
	synctest.Wait()
}

func (w *works) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := w.now(); !slices.Equal(got, want) {
		t.Errorf("running: %v, want %v", got, want)
	}
}

func TestUrgentWorkFindsASlotAndGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(4)
		for i := range 5 {
			w.wake(fmt.Sprint("destroy", i), "l", destroying)
			w.wake(fmt.Sprint("look", i), "l", routine)
		}
		w.begin() // Not before all of it is there to choose from.
		defer w.stop()
		w.expect(t, "destroy0", "look0", "look1")
		w.wake("new0", "l", urgent)
		w.wake("new1", "l", urgent)
		w.expect(t, "destroy0", "look0", "look1", "new0")
		w.finish("look0", next{})
		w.expect(t, "destroy0", "look1", "new0", "new1")
		w.finish("new0", next{})
		w.expect(t, "destroy0", "look1", "look2", "new1")
		w.wake("far", "other", urgent)
		w.expect(t, "destroy0", "far", "look1", "look2", "new1")
	})
}

func TestDestroyingAloneLeavesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorks(4)
		defer w.stop()
		for i := range 5 {
			w.wake(fmt.Sprint("d", i), "l", destroying)
		}
		w.expect(t, "d0", "d1")
		w.wake("look", "l", routine)
		w.expect(t, "d0", "d1", "look")
	})
}

func TestOneSlotServesAllClassesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorks(1)
		defer w.stop()
		w.wake("first", "l", routine)
		w.expect(t, "first")
		w.wake("d", "l", destroying)
		w.wake("r", "l", routine)
		w.wake("u", "l", urgent)
		for _, k := range []string{"first", "u", "r", "d"} {
			w.expect(t, k)
			w.finish(k, next{})
		}
		w.expect(t)
	})
}

func TestWakeWhileRunningRunsOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorks(4)
		defer w.stop()
		w.wake("a", "l", urgent)
		w.expect(t, "a")
		for range 10 {
			w.wake("a", "other", routine)
		}
		w.finish("a", next{})
		w.expect(t, "a")
		w.finish("a", next{})
		w.expect(t)
		if got := len(w.order); got != 2 {
			t.Errorf("ran %d times", got)
		}
	})
}

func TestDelayedWorkIsBroughtForwardButNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorks(4)
		defer w.stop()
		w.wake("a", "l", urgent)
		w.finish("a", next{delay: time.Minute, lane: "l", class: routine})
		w.soon("a", next{delay: 2 * time.Minute, lane: "l", class: routine})
		began := time.Now()
		w.expect(t)
		<-time.After(time.Minute)
		w.expect(t, "a")
		w.finish("a", next{delay: time.Minute, lane: "l", class: routine})
		w.soon("a", next{delay: time.Second, lane: "l", class: routine})
		<-time.After(time.Second)
		w.expect(t, "a")
		w.soon("a", next{delay: time.Second, lane: "l", class: routine})
		w.finish("a", next{delay: time.Hour, lane: "l", class: routine})
		w.expect(t)
		<-time.After(time.Second)
		w.expect(t, "a")
		if took := time.Since(began); took != time.Minute+2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestForgottenWorkDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorks(1)
		defer w.stop()
		w.wake("runs", "l", urgent)
		w.wake("waits", "l", urgent)
		w.soon("due", next{delay: time.Second, lane: "l"})
		w.expect(t, "runs")
		for _, k := range []string{"runs", "waits", "due", "unknown"} {
			w.forget(k)
		}
		w.finish("runs", next{delay: time.Second, lane: "l"})
		<-time.After(time.Minute)
		w.expect(t)
		if n := len(w.tasks) + len(w.due) + len(w.lanes); n != 0 {
			t.Errorf("%d entries left", n)
		}
		w.wake("runs", "l", urgent)
		w.expect(t, "runs")
		w.forget("runs")
		w.wake("runs", "l", urgent) // Assigned again while the old work runs.
		w.finish("runs", next{})
		w.expect(t, "runs")
		w.finish("runs", next{})
	})
}

// op is one step of a random run of a queue.
type op struct {
	kind  int
	key   string
	lane  string
	class class
	delay time.Duration
}

// TestQueueKeepsItsPromises runs random schedules and checks after each step that no key runs
// twice, that no lane is over its bound, and in the end that everything woken has run.
func TestQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// All is drawn before the bubble: what rapid throws must not cross it.
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
			return op{
				kind:  rapid.IntRange(0, 5).Draw(t, "kind"),
				key:   rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "key"),
				lane:  rapid.SampledFrom([]string{"x", "y"}).Draw(t, "lane"),
				class: class(rapid.IntRange(0, int(classes)-1).Draw(t, "class")),
				delay: time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * time.Second,
			}
		}), 1, 60).Draw(rt, "ops")
		perLane := rapid.IntRange(1, 4).Draw(rt, "per lane")
		var fault string
		synctest.Test(t, func(*testing.T) { fault = runOps(ops, perLane) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

func runOps(ops []op, perLane int) (fault string) {
	w := startWorks(perLane)
	defer w.stop()
	owed := map[string]bool{} // woken and not begun since
	w.do = func(do func(context.Context, string) next) func(context.Context, string) next {
		return func(ctx context.Context, k string) next {
			w.mu.Lock()
			delete(owed, k)
			w.mu.Unlock()
			return do(ctx, k)
		}
	}(w.do)
	owe := func(k string, is bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if is {
			owed[k] = true
		} else {
			delete(owed, k)
		}
	}
	for _, o := range ops {
		running := w.now()
		switch o.kind {
		case 0, 1:
			owe(o.key, true)
			w.wake(o.key, o.lane, o.class)
		case 2:
			w.soon(o.key, next{delay: o.delay, lane: o.lane, class: o.class})
		case 3:
			owe(o.key, false)
			w.forget(o.key)
		case 4:
			if len(running) > 0 {
				w.finish(running[0], next{delay: o.delay, lane: o.lane, class: o.class})
			}
		case 5:
			<-time.After(o.delay)
		}
		running = w.now()
		if w.twice || len(running) > 2*perLane {
			return fmt.Sprintf("running %v after %+v", running, o)
		}
	}
	for range 100 {
		for _, k := range w.now() {
			w.finish(k, next{})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(owed) > 0 {
		return fmt.Sprintf("woken and never run: %v", owed)
	}
	return ""
}
