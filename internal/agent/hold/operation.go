// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"time"
)

// opKind is what is under way.
type opKind int

// The kinds of operations. Starting, mounting and lowering own the source until they end; asking makes way for whoever comes.
const (
	starting opKind = iota // Waiting for what an earlier process began.
	mounting
	asking   // Who uses the source.
	lowering // Unmounting.
)

func (k opKind) String() string {
	switch k {
	case starting:
		return "start"
	case mounting:
		return "mount"
	case asking:
		return "check"
	case lowering:
		return "unmount"
	}
	return "unknown"
}

// operation is what is under way.
type operation struct {
	kind      opKind
	began     time.Time
	deadline  time.Time // When it is abandoned. Zero: its driver was not called yet.
	abandoned bool      // It hangs in the kernel, and nobody waits for it any more.
	cancel    context.CancelFunc
}

// begin takes the slot.
func (s *source) begin(kind opKind) *operation {
	s.op = &operation{kind: kind, began: time.Now()}
	s.checked = false
	return s.op
}

// end gives the slot back, if o has it.
func (s *source) end(o *operation) {
	if s.op != o {
		return
	}
	if o.cancel != nil {
		o.cancel()
	}
	if o.abandoned {
		s.tell(Event{Kind: Returned, Detail: "what hung has ended: " + o.kind.String(), Took: time.Since(o.began)})
	}
	s.op = nil
}

// execute does the work of an operation in a goroutine of its own. When the work has ended, however late, the step that it returned is done.
// limit is the time that the work has; some time after that it is abandoned.
func (s *source) execute(o *operation, limit time.Duration, work func(context.Context) func()) {
	ctx, cancel := context.WithTimeout(s.set.life, limit)
	o.cancel, o.deadline = cancel, time.Now().Add(limit+s.set.limits.Grace)
	go func() {
		defer cancel()
		s.post(work(ctx))
	}()
}

// overdue abandons what has not ended in its time, and releases the holds of the dead.
func (s *source) overdue(now time.Time) {
	for _, h := range s.orphans {
		if h.phase == given && !now.Before(h.dead.Add(s.set.limits.OrphanGrace)) {
			s.remove(h, OrphanReleased, func(error) {})
		}
	}
	if p := s.prober; p != nil && s.health == Ready && !now.Before(p.began.Add(s.set.limits.Probe)) {
		s.sicken(StateSuspect, context.DeadlineExceeded)
	}
	if s.log.dirty && !s.log.retry.waits(now) {
		s.write()
	}
	o := s.op
	switch {
	case o == nil || o.deadline.IsZero() || now.Before(o.deadline):
	case o.kind == asking:
		s.end(o) // Its answer will come too late for anything.
		s.askedInVain()
	default:
		s.abandon(o, now)
	}
}

// abandon goes on without an operation that hangs. Whoever waits for it is told so, also those who come to wait afterwards.
func (s *source) abandon(o *operation, now time.Time) {
	timedOut := func(pool string) error {
		e := s.refusal(TimedOut, pool)
		e.Phase, e.Since = o.kind.String(), o.began
		return e
	}
	if !o.abandoned {
		o.abandoned = true
		s.tell(Event{Kind: AbandonedEvent, Detail: "it hangs in the kernel: " + o.kind.String(), Took: now.Sub(o.began)})
		s.fault(timedOut(""))
	}
	s.denyAll(timedOut)
	s.denyParked(timedOut)
	s.answer(Teardown{Outcome: Abandoned, Reason: o.kind.String() + " hangs in the kernel since " + o.began.UTC().Format(time.RFC3339)})
}

// denyParked answers all who wait for the mount to be made anew.
func (s *source) denyParked(refusal func(pool string) error) {
	for _, a := range s.parked {
		a.reply <- granted{err: refusal(a.pool.ID)}
	}
	s.parked = nil
}

// arm sets the timer to when something is to be done that no step will tell of.
func (s *source) arm() {
	var next time.Time
	at := func(t time.Time) {
		// What was due by the last step was done or does not matter; what became due since then is still to be done.
		if t.After(s.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	l := s.set.limits
	for _, h := range s.orphans {
		at(h.dead.Add(l.OrphanGrace))
	}
	if s.op != nil && !s.op.abandoned {
		at(s.op.deadline)
	}
	if s.prober != nil {
		at(s.prober.began.Add(l.Probe))
	} else if s.at != nil && l.ProbeEvery > 0 {
		at(s.probed.Add(l.ProbeEvery))
	}
	for _, r := range []*retry{&s.mountTry, &s.lowerTry, &s.lostTry, &s.log.retry} {
		at(r.next)
	}
	if s.at != nil && !s.inUse() {
		at(s.freeSince.Add(s.idleTime()))
	}
	if next.IsZero() {
		s.timer.Stop()
		return
	}
	s.timer.Reset(time.Until(next))
}
