// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"fmt"
	"slices"
)

// left is the answer to a Release.
type left struct {
	teardown Teardown
	err      error
}

// release is the step of a call of Release.
func (s *source) release(id ID, reply chan<- left) {
	s.checked = false
	h := s.holds[id]
	switch {
	case h == nil:
		s.anomaly(id, reply)
		return
	case h.phase == releasing: // Whether it is still there is known when the first release has ended.
		h.late = append(h.late, reply)
		return
	case !h.settled():
		e := s.refusal(Released, h.Pool)
		e.Detail = fmt.Sprintf("hold %s was released while it was being acquired", id)
		s.deny(h, e)
		s.leave(reply)
		return
	}
	s.remove(h, Left, func(err error) {
		if err != nil {
			e := s.refusal(NotRecorded, h.Pool)
			e.Detail, e.Err = fmt.Sprintf("hold %s stays", id), err
			reply <- left{err: e}
			return
		}
		s.leave(reply)
	})
}

// anomaly answers a release of what is not held.
func (s *source) anomaly(id ID, reply chan<- left) {
	s.tell(Event{Kind: Anomaly, Hold: &Hold{ID: id, Source: s.id}, Detail: "a hold was released that is not there"})
	reply <- left{teardown: Teardown{Outcome: NotNeeded, Holders: s.users(), Anomaly: true}}
}

// remove has the end of a hold recorded and then takes it out of the set. When it cannot be recorded, the hold stays.
func (s *source) remove(h *held, kind EventKind, done func(error)) {
	before := h.phase
	h.phase = releasing
	s.record(Record{Type: HoldRemoved, ID: h.ID}, false, func(err error) {
		if err != nil {
			h.phase = before
			s.log.image.apply(Record{Type: HoldAdded, Hold: new(h.Hold)}) // The journal is written anew with it.
		} else {
			s.drop(h)
			s.tell(Event{Kind: kind, Hold: new(h.view())})
		}
		done(err)
		s.afterwards(h)
	})
}

// afterwards serves those who came while a hold was being released, now that it is known whether it is gone.
func (s *source) afterwards(h *held) {
	late := h.late
	h.late = nil
	for _, l := range late {
		s.release(h.ID, l)
	}
	var again []*ask
	s.asks = slices.DeleteFunc(s.asks, func(a *ask) bool {
		if a.joined == h {
			a.joined = nil
			again = append(again, a)
		}
		return a.joined == nil
	})
	for _, a := range again {
		s.acquire(a)
	}
}

// leave answers whoever has given a hold back: at once when others are left, otherwise when it is known what becomes of the mount.
func (s *source) leave(reply chan<- left) {
	if s.inUse() {
		reply <- left{teardown: Teardown{Outcome: NotNeeded, Holders: s.users()}}
		return
	}
	s.leavers = append(s.leavers, reply)
}

// answer tells all who wait for it what has become of the mount.
func (s *source) answer(t Teardown) {
	for _, l := range s.leavers {
		l <- left{teardown: t}
	}
	s.leavers = nil
}

// desire is the step of Ensure.
func (s *source) desire(p Pool) error {
	s.checked = false
	if _, err := s.agree(p); err != nil {
		return err
	}
	m := s.pools[p.ID]
	m.desired, m.draining = true, false
	return nil
}

// forget is the step of Forget.
func (s *source) forget(pool string) {
	s.checked = false
	m := s.pools[pool]
	if m == nil {
		return
	}
	m.desired = false
	for _, h := range s.holds {
		if h.Pool == pool {
			return // Its class still says what may be done to its holders.
		}
	}
	delete(s.pools, pool)
}
