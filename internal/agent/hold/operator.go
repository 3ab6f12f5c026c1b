// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// drain is a call of Drain.
type drain struct {
	pool  string
	reply chan Teardown
}

// Drain refuses new holds on a pool, also when it is desired, and returns when nobody holds it and its source is not mounted for it any more,
// or when ctx ends: then the outcome is Deferred, and the pool stays closed until Ensure or Resume.
func (s *Set) Drain(ctx context.Context, pool string) (Teardown, error) {
	src := s.pinBy(func() *source { return s.pools[pool] })
	if src == nil {
		return Teardown{}, &Error{Kind: Unknown, Pool: pool}
	}
	d := &drain{pool: pool, reply: make(chan Teardown, 1)}
	if !src.send(func() { src.drain(d) }) {
		return Teardown{Outcome: Done}, nil // It has retired.
	}
	select {
	case t := <-d.reply:
		return t, nil
	case <-src.gone:
		return Teardown{}, &Error{Kind: ShuttingDown, Pool: pool, Source: src.id.String()}
	case <-ctx.Done():
	}
	t := Teardown{Outcome: Deferred, Reason: "it is still held"}
	s.pinBy(func() *source { return src })
	err := src.call(context.WithoutCancel(ctx), func() error {
		src.drains = slices.DeleteFunc(src.drains, func(o *drain) bool { return o == d })
		t.Holders, t.Blockers = src.users(), src.blockers
		return nil
	})
	return t, err
}

// Resume ends a Drain.
func (s *Set) Resume(ctx context.Context, pool string) error {
	src := s.pinBy(func() *source { return s.pools[pool] })
	if src == nil {
		return &Error{Kind: Unknown, Pool: pool}
	}
	return src.call(ctx, func() error {
		if m := src.pools[pool]; m != nil {
			m.draining = false
		}
		return nil
	})
}

func (s *source) drain(d *drain) {
	s.checked = false
	m := s.pools[d.pool]
	if m == nil { // Known from holds of an earlier process.
		m = &member{pool: Pool{ID: d.pool, Spec: s.want}}
		s.pools[d.pool] = m
	}
	m.draining = true
	s.drains = append(s.drains, d)
}

// serveDrains answers those whose pools are empty.
func (s *source) serveDrains() {
	s.drains = slices.DeleteFunc(s.drains, func(d *drain) bool {
		others := 0
		for _, h := range s.list() {
			if h.Pool == d.pool {
				return false
			}
			others++
		}
		switch {
		case others > 0:
			d.reply <- Teardown{Outcome: NotNeeded, Holders: others}
		case s.at == nil && s.op == nil:
			d.reply <- Teardown{Outcome: Done}
		case s.op == nil && s.desired():
			d.reply <- Teardown{Outcome: NotNeeded, Reason: "another pool of the source is to be mounted always"}
		default:
			return false
		}
		return true
	})
}

// Detach is for an operator whose pool cannot be unmounted: calls that wait for its server fail, and the mount leaves its place, in use or
// not. Whoever has files of it open goes on with them. token must be the one that Inspect shows, so that nothing else is hit than what he
// has seen. Holds stay and are broken.
func (s *Set) Detach(ctx context.Context, pool, reason, token string) (Teardown, error) {
	src := s.pinBy(func() *source { return s.pools[pool] })
	if src == nil {
		return Teardown{}, &Error{Kind: Unknown, Pool: pool}
	}
	reply := make(chan left, 1)
	if !src.send(func() { src.detach(reason, token, reply) }) { //nolint:contextcheck // It goes on when ctx ends.
		return Teardown{}, &Error{Kind: ShuttingDown, Pool: pool, Source: src.id.String()}
	}
	select {
	case l := <-reply:
		return l.teardown, l.err
	case <-src.gone:
		return Teardown{}, &Error{Kind: ShuttingDown, Pool: pool, Source: src.id.String()}
	case <-ctx.Done():
		return Teardown{Outcome: Deferred, Reason: "it goes on without being waited for"}, nil
	}
}

// token names what is mounted now.
func (s *source) token() string {
	if s.at == nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", s.at.ID, s.at.Unique)
}

// detach is the step of Detach. An operation that hangs does not keep an operator from it: it is the only way on.
func (s *source) detach(reason, token string, reply chan<- left) {
	refuse := func(kind Kind, detail string) {
		e := s.refusal(kind, "")
		e.Detail = detail
		reply <- left{err: e}
	}
	switch {
	case s.at == nil:
		reply <- left{teardown: Teardown{Outcome: Done, Reason: "it was not mounted"}}
		return
	case token != s.token():
		refuse(Invalid, fmt.Sprintf("token %q is not that of what is mounted now: look at it again", token))
		return
	case s.id.Kind == mount.Existing:
		refuse(Invalid, "the operator has mounted it and can unmount it")
		return
	case s.op != nil && !s.op.abandoned && s.op.kind != asking:
		refuse(NotReady, "it is being changed at this moment: try again")
		return
	}
	if s.op != nil && s.op.kind == asking {
		s.end(s.op)
	}
	o, entry := s.begin(lowering), *s.at
	s.leavers = append(s.leavers, reply)
	s.tell(Event{Kind: Forced, Detail: "an operator detaches it: " + reason, Users: s.blockers})
	s.record(Record{Type: UnmountIntent, Detail: reason}, true, func(error) {
		s.execute(o, s.set.limits.Unmount, func(ctx context.Context) func() {
			err := s.set.c.Driver.Unmount(ctx, s.id, entry, mount.Detach)
			return func() {
				for _, h := range s.holds {
					if h.settled() {
						h.broken = "an operator has detached its mount: " + reason
					}
				}
				s.unmounted(o, entry, mount.Detach, nil, err)
			}
		})
	})
}

// Close ends the Set: no more holds are granted, mounts of transfers that nobody holds are unmounted, and all others stay as they are, with
// their holds recorded for the next process. It waits for what is under way until ctx ends, and never for what hangs.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	all := slices.Collect(maps.Values(s.sources))
	for _, src := range all {
		src.pins++
	}
	s.mu.Unlock()
	for _, src := range all {
		src.send(src.close)
	}
	var err error
	for _, src := range all {
		select {
		case <-src.quiet:
		case <-src.gone:
		case <-ctx.Done():
			err = fmt.Errorf("end the holds of this host: %w", ctx.Err())
		}
	}
	s.die()
	s.loops.Wait()
	return err
}

// close is the step of Close.
func (s *source) close() {
	s.closing = true
	refuse := func(pool string) error { return s.refusal(ShuttingDown, pool) }
	for len(s.asks) > 0 {
		s.deny(s.asks[0].joined, refuse(s.asks[0].joined.Pool))
	}
	s.denyParked(refuse)
	for _, d := range s.drains {
		d.reply <- Teardown{Outcome: Deferred, Reason: "the agent ends"}
	}
	s.drains = nil
}

// status is the step of Inspect.
func (s *source) status() Status {
	st := Status{
		Source: s.id, Place: s.target, State: s.state(), Mounted: s.at != nil, Identity: s.identity, Wanted: s.want.Options,
		OptionsPending: s.pending(), Desired: s.desired(), Holds: s.list(), Blockers: slices.Clone(s.blockers), Token: s.token(),
		UsersKnown: len(s.unasked) == 0, Pools: slices.Sorted(maps.Keys(s.pools)),
	}
	if s.at != nil {
		st.Mount, st.Running, st.ReadOnly, st.Shared = *s.at, s.running.Options, s.at.ReadOnly(), s.at.Shared()
	}
	for id, m := range s.pools {
		if m.draining {
			st.Draining = append(st.Draining, id)
		}
	}
	slices.Sort(st.Draining)
	if s.foreign != nil {
		st.Found = new(*s.foreign)
	}
	if s.failed != nil {
		st.LastError, st.LastErrorAt = s.failed.Error(), s.failedAt
	}
	for _, r := range []retry{s.mountTry, s.lowerTry, s.lostTry} {
		if r.failures > 0 && (st.NextTry.IsZero() || r.next.Before(st.NextTry)) {
			st.NextTry = r.next
		}
	}
	if s.op != nil {
		st.Working, st.Since = s.op.kind.String(), s.op.began
		if s.op.abandoned {
			st.Hanging++
		}
	}
	if p := s.prober; p != nil && time.Since(p.began) >= s.set.limits.Probe+s.set.limits.Grace {
		st.Hanging++
	}
	return st
}

// state is what the source is in, in one word.
func (s *source) state() State {
	switch {
	case s.op != nil && (s.op.abandoned || s.op.kind == starting) || s.blind != nil:
		return StateUnknown
	case s.op != nil && s.op.kind == mounting && s.at == nil:
		return Mounting
	case s.op != nil && s.op.kind == lowering:
		return Unmounting
	case s.lost != nil:
		return StateLost
	case s.foreign != nil:
		return StateForeign
	case s.at == nil:
		return Absent
	case !s.fit:
		return StateUnknown
	case s.health != Ready:
		return s.health
	case !s.inUse() && s.lowerTry.failures > 0:
		return Busy
	}
	return Ready
}

// Count returns figures of the Set as it is now.
func (s *Set) Count(ctx context.Context) (Counts, error) {
	c := Counts{Sources: map[State]int{}, Holds: map[HolderKind]int{}}
	all, err := s.InspectAll(ctx)
	if err != nil {
		return c, err
	}
	for _, st := range all {
		c.Sources[st.State]++
		c.Hanging += st.Hanging
		for _, h := range st.Holds {
			switch {
			case h.Waiting:
				c.Waiting++
			default:
				c.Holds[h.Holder.Kind]++
			}
			if !h.Orphan.IsZero() {
				c.Orphans++
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Events = maps.Clone(s.events)
	c.Anomalies = s.events[Anomaly]
	return c, nil
}
