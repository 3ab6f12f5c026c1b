// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// advance begins what is to be done, after each step: it compares what is with what is wanted, and needs no memory of how it came to that.
func (s *source) advance() {
	now := time.Now()
	s.now = now
	s.overdue(now)
	if s.op != nil && s.op.kind == asking && s.inUse() && s.lost == nil {
		s.end(s.op) // Somebody came: nobody needs to know any more who else is there.
	}
	if s.op == nil {
		s.look()
		s.act(now)
	}
	s.serveDrains()
	if s.closing && s.calm() {
		select {
		case <-s.quiet:
		default:
			close(s.quiet)
		}
	}
}

// act does what is to be done when nothing is under way.
func (s *source) act(now time.Time) {
	switch {
	case s.blind != nil:
		s.denyAll(func(pool string) error {
			e := s.refusal(NotReady, pool)
			e.Err = s.blind
			return e
		})
		s.answer(Teardown{Outcome: Deferred, Reason: s.blind.Error()})
	case s.lost != nil:
		s.recover(now)
	case s.foreign != nil:
		refuse := func(pool string) error {
			e := s.refusal(Foreign, pool)
			e.Found = s.foreign
			return e
		}
		s.denyAll(refuse)
		s.denyParked(refuse)
		s.answer(Teardown{Outcome: Deferred, Reason: "something else lies at its place: " + s.foreign.String()})
	case s.needed():
		s.provide(now)
	default:
		s.dismiss(now)
	}
}

// look compares the kernel's table with what is known.
func (s *source) look() {
	driver := s.set.c.Driver
	t, err := driver.Table()
	if s.blind = err; err != nil {
		s.fault(err)
		return
	}
	if s.at != nil && s.at == s.seen && len(t) > 0 && &t[0] == s.seenIn {
		return // Nothing was mounted or unmounted since.
	}
	before := s.foreign
	s.foreign = nil
	top, mounted := t.At(s.target)
	switch {
	case s.at != nil && mounted && top.Same(*s.at):
		s.at = &top // Its options may have changed.
		s.seen, s.seenIn = s.at, &t[0]
		return
	case s.at != nil:
		if _, there := t.Find(*s.at); there {
			s.setForeign(before, t, top, mounted)
			return
		}
		s.lose()
	}
	switch {
	case !mounted:
	case s.id.Kind == mount.Existing && !s.needed():
	case driver.Matches(t, top, s.want) || s.log.image.spec != nil && driver.Matches(t, top, *s.log.image.spec):
		s.adopt(top)
	default:
		s.setForeign(before, t, top, mounted)
	}
}

// setForeign notes what lies at the place, or hides it, and tells of it once.
func (s *source) setForeign(before *mount.Entry, t mount.Table, top mount.Entry, mounted bool) {
	if !mounted {
		top, _, _ = t.Reach(s.target) // Something is mounted over a folder above it.
	}
	s.foreign = &top
	if before == nil || !before.Same(top) {
		s.tell(Event{Kind: ForeignEvent, Detail: "found " + top.String()})
	}
}

// adopt takes a mount that we did not make just now, unverified. It is what an earlier process or somebody else mounted.
func (s *source) adopt(e mount.Entry) {
	s.at, s.fit = &e, false
	s.running = s.want
	if spec := s.log.image.spec; spec != nil {
		s.running = *spec
	}
	s.probed = s.now
}

// lose notes that our mount is gone and that we did not unmount it.
func (s *source) lose() {
	gone := s.at
	s.at, s.fit, s.health = nil, false, Ready
	s.set.unprove(s)
	s.tell(Event{Kind: LostEvent, Detail: "gone: " + gone.String()})
	if s.lost == nil {
		s.lost, s.lostWhen, s.lostTry = gone, time.Now(), retry{}
	}
}

// recover decides what becomes of those who held a mount that is gone. While somebody who may write still has it open, there is no other:
// what he writes and what later users see would be two things. A mount of the same file system that somebody made is as good as the old.
func (s *source) recover(now time.Time) {
	if !s.writers() || s.at != nil && s.at.SameFS(*s.lost) {
		s.regain()
		return
	}
	if s.lostTry.failures > 0 { // It is known that somebody has it open.
		s.denyAll(func(pool string) error {
			e := s.refusal(Lost, pool)
			e.Since, e.Holders = s.lostWhen, s.names()
			return e
		})
	}
	s.answer(Teardown{Outcome: Done, Reason: "it was gone already"})
	if s.closing || s.lostTry.waits(now) {
		return
	}
	o := s.begin(asking)
	old := *s.lost
	s.execute(o, s.set.limits.Ask, func(ctx context.Context) func() {
		users, err := s.set.c.Driver.Users(ctx, old)
		return func() { s.askedAfterLoss(o, users, err) }
	})
}

// askedAfterLoss is the step when it is known who still uses a mount that is gone.
func (s *source) askedAfterLoss(o *operation, users []mount.User, err error) {
	if s.op != o || s.lost == nil {
		return
	}
	s.end(o)
	s.blockers = mount.Others(users)
	if err == nil && len(s.blockers) == 0 {
		s.regain()
		return
	}
	for _, h := range s.holds {
		if h.settled() {
			h.broken = "its mount is gone since " + s.lostWhen.UTC().Format(time.RFC3339)
		}
	}
	if s.lostTry.failures == 0 {
		s.tell(Event{Kind: LostEvent, Detail: "it is still used", Users: s.blockers, Err: err})
	}
	s.lostTry.failed(time.Now(), s.set.limits.UnmountRetry, s.set.limits.Jitter)
}

// regain forgets a mount that is gone: nobody can be harmed by another one.
func (s *source) regain() {
	s.lost, s.lostTry, s.blockers = nil, retry{}, nil
	for _, h := range s.holds {
		h.broken = ""
	}
	if s.at == nil {
		s.record(Record{Type: UnmountDone, Detail: "lost"}, false, nil)
	}
	s.tell(Event{Kind: Regained, Detail: "nobody who may write has it open"})
	s.act(s.now)
}

// provide has the source mounted and grants holds on it.
func (s *source) provide(now time.Time) {
	if s.at == nil || !s.fit {
		if s.closing || s.mountTry.waits(now) || s.want.Source != s.id { // A damaged journal has holds and does not say of what.
			if !s.inUse() {
				s.answer(Teardown{Outcome: NotNeeded, Reason: "it is to be mounted always"})
			}
			return
		}
		s.raise()
		return
	}
	s.lowerTry, s.lowered, s.hung, s.blockers = retry{}, Teardown{}, false, nil
	s.denyWriters()
	s.denySick()
	s.grant()
	if len(s.parked) > 0 {
		s.refuseParked("it is in use by now")
	}
	s.answer(Teardown{Outcome: NotNeeded, Holders: s.users(), Reason: s.stays()})
	s.probe(now)
}

// stays says why a source that nobody holds is not unmounted.
func (s *source) stays() string {
	if !s.inUse() {
		return "it is to be mounted always"
	}
	return ""
}

// refuseParked answers those who wait for other options that they cannot have them.
func (s *source) refuseParked(why string) {
	s.denyParked(func(pool string) error {
		e := s.refusal(OptionsConflict, pool)
		e.Running, e.Wanted, e.Holders, e.Detail = s.running.Options, s.want.Options, s.names(), why
		return e
	})
}

// calm tells whether nothing is left to be done before the end of the Set.
func (s *source) calm() bool {
	if s.op != nil && !s.op.abandoned || len(s.leavers) > 0 || s.log.writing || len(s.log.queue) > 0 {
		return false
	}
	return s.at == nil || s.inUse() || !s.leavesAtClose() || s.op != nil || s.lowerTry.failures > 0 || s.foreign != nil || s.blind != nil
}

// leavesAtClose tells whether a source that nobody holds is unmounted at the end of the Set: transfers are, what volumes live on is not.
func (s *source) leavesAtClose() bool { return s.transfer() && !s.desired() }
