// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// class is the rank of work within its lane.
type class int

const (
	urgent     class = iota // someone waits for it
	routine                 // first looks, repairs, further tries
	destroying              // may take long, and no one is held up by it
	classes
)

// next is what is to become of a key after its work was done. No delay: nothing, until it
// is woken.
type next struct {
	delay time.Duration
	lane  string
	class class
}

// queue does work by key: never twice at once for one key, a bounded number at once in each
// lane. Any number of wake-ups of a key that waits are one; a wake-up of a key that is being
// worked on makes it run once more. A key at rest costs one entry in a map and one in a heap.
//
// All methods may be called at once.
type queue[K comparable] struct {
	perLane int
	do      func(context.Context, K) next

	mu      sync.Mutex
	tasks   map[K]*task[K]
	lanes   map[string]*lane[K]
	due     dueHeap[K]
	running sync.WaitGroup

	kick chan struct{} // holds one: something may have become due or ready
}

type task[K comparable] struct {
	key     K
	lane    string
	class   class
	ready   bool // waits in its lane
	running bool
	again   bool      // was woken while running, and is due again at at
	at      time.Time // when it is due, if it is in the heap
	index   int       // in the heap, -1 when in none
}

type lane[K comparable] struct {
	ready   [classes][]*task[K] // may hold tasks that have left; they are skipped
	running [classes]int
}

func newQueue[K comparable](perLane int, do func(context.Context, K) next) *queue[K] {
	return &queue[K]{
		perLane: perLane,
		do:      do,
		tasks:   map[K]*task[K]{},
		lanes:   map[string]*lane[K]{},
		kick:    make(chan struct{}, 1),
	}
}

// wake makes k ready now.
func (q *queue[K]) wake(k K, laneName string, c class) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.task(k)
	switch {
	case t.running:
		if !t.again || c < t.class {
			t.class = c
		}
		t.lane, t.again, t.at = laneName, true, time.Time{}
		return
	case t.ready && t.lane == laneName && t.class <= c:
		return
	}
	q.unschedule(t)
	q.enqueue(t, laneName, c)
	q.kickOff()
}

// soon makes k ready after a delay, unless it is ready, running or due earlier.
func (q *queue[K]) soon(k K, n next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.task(k)
	at := time.Now().Add(n.delay)
	switch {
	case t.running && t.again, t.ready, t.index >= 0 && !at.Before(t.at):
		return
	case t.running:
		t.lane, t.class, t.again, t.at = n.lane, n.class, true, at
		return
	}
	q.schedule(t, n, at)
	q.kickOff()
}

// forget drops k. Work on it that runs goes on to its end.
func (q *queue[K]) forget(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.tasks[k]
	if !ok {
		return
	}
	q.unschedule(t)
	t.ready, t.again = false, false
	if !t.running {
		delete(q.tasks, k)
		return
	}
	t.class = classes // tells done that it was forgotten
}

// run does the work, with workCtx, until ctx ends, and then begins no more of it. It does
// not wait for the work that runs: that is for wait.
func (q *queue[K]) run(ctx, workCtx context.Context) {
	for {
		timer := time.NewTimer(q.start(workCtx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-q.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// wait returns when no work runs any more. It is called after run has returned.
func (q *queue[K]) wait() { q.running.Wait() }

// start begins all work that may begin now and returns how long to wait for more.
func (q *queue[K]) start(workCtx context.Context) time.Duration {
	const idle = time.Hour
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for len(q.due) > 0 && !q.due[0].at.After(now) {
		t := q.due[0]
		q.unschedule(t)
		q.enqueue(t, t.lane, t.class)
	}
	for name, l := range q.lanes {
		for t := q.pick(name, l); t != nil; t = q.pick(name, l) {
			q.begin(workCtx, l, t)
		}
		if l.idle() {
			delete(q.lanes, name)
		}
	}
	if len(q.due) == 0 {
		return idle
	}
	return q.due[0].at.Sub(now)
}

func (q *queue[K]) begin(workCtx context.Context, l *lane[K], t *task[K]) {
	c := t.class
	t.ready, t.running, t.again = false, true, false
	l.running[c]++
	q.running.Go(func() {
		n := q.do(workCtx, t.key)
		q.done(l, t, c, n)
	})
}

func (q *queue[K]) done(l *lane[K], t *task[K], c class, n next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.running[c]--
	t.running = false
	now := time.Now()
	switch {
	case t.again && t.at.After(now):
		t.again = false
		q.schedule(t, next{lane: t.lane, class: t.class}, t.at)
	case t.again:
		q.enqueue(t, t.lane, t.class)
	case t.class == classes || n.delay <= 0:
		delete(q.tasks, t.key)
	default:
		q.schedule(t, n, now.Add(n.delay))
	}
	q.kickOff()
}

// pick takes the next task that l may begin, or nil. Urgent work may fill all slots. All
// other work leaves one free, when there is more than one; and of those that it has,
// destroying gets one even when routine work never ends.
func (q *queue[K]) pick(name string, l *lane[K]) *task[K] {
	slots := q.perLane - l.running[urgent] - l.running[routine] - l.running[destroying]
	if slots <= 0 {
		return nil
	}
	if t := l.pop(name, urgent); t != nil {
		return t
	}
	background := max(1, q.perLane-1)
	free := min(slots, background-l.running[routine]-l.running[destroying])
	if free <= 0 {
		return nil
	}
	mayDestroy := l.running[destroying] < max(1, q.perLane/2)
	if mayDestroy && background > 1 && l.running[destroying] == 0 && free == 1 {
		if t := l.pop(name, destroying); t != nil {
			return t
		}
	}
	if t := l.pop(name, routine); t != nil {
		return t
	}
	if mayDestroy {
		return l.pop(name, destroying)
	}
	return nil
}

// pop returns the first task of a class that still waits there.
func (l *lane[K]) pop(name string, c class) *task[K] {
	for len(l.ready[c]) > 0 {
		t := l.ready[c][0]
		l.ready[c][0] = nil
		l.ready[c] = l.ready[c][1:]
		if t.ready && t.lane == name && t.class == c {
			return t
		}
	}
	l.ready[c] = nil
	return nil
}

func (l *lane[K]) idle() bool {
	for c := range classes {
		if len(l.ready[c]) > 0 || l.running[c] > 0 {
			return false
		}
	}
	return true
}

func (q *queue[K]) task(k K) *task[K] {
	t, ok := q.tasks[k]
	if !ok {
		t = &task[K]{key: k, index: -1}
		q.tasks[k] = t
	}
	return t
}

func (q *queue[K]) enqueue(t *task[K], laneName string, c class) {
	l, ok := q.lanes[laneName]
	if !ok {
		l = &lane[K]{}
		q.lanes[laneName] = l
	}
	t.lane, t.class, t.ready, t.again = laneName, c, true, false
	l.ready[c] = append(l.ready[c], t)
}

func (q *queue[K]) schedule(t *task[K], n next, at time.Time) {
	t.lane, t.class, t.at = n.lane, n.class, at
	if t.index >= 0 {
		heap.Fix(&q.due, t.index)
		return
	}
	heap.Push(&q.due, t)
}

func (q *queue[K]) unschedule(t *task[K]) {
	if t.index >= 0 {
		heap.Remove(&q.due, t.index)
	}
}

func (q *queue[K]) kickOff() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// dueHeap orders tasks by the time that they are due.
type dueHeap[K comparable] []*task[K]

func (h dueHeap[K]) Len() int           { return len(h) }
func (h dueHeap[K]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *dueHeap[K]) Push(x any) {
	t := x.(*task[K])
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *dueHeap[K]) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
