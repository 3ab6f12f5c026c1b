// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// phase is how far a hold has come.
type phase int

// The phases. In all of them it keeps the source from being unmounted.
const (
	recording phase = iota // Its record is being written.
	waiting                // It is recorded and not granted.
	given                  // It was granted, or was there when the Set was opened.
	releasing              // The record of its end is being written.
)

// held is a hold that the owner knows of.
type held struct {
	Hold

	phase  phase
	claims int           // How many calls of Acquire were told that they have it.
	late   []chan<- left // Calls of Release that came while another was being recorded.
	broken string
	dead   time.Time // Since when its holder is known to be dead.
}

// settled tells whether its holder may be working with it.
func (h *held) settled() bool { return h.phase >= given }

// ask is a call of Acquire.
type ask struct {
	pool    Pool
	request Request
	reply   chan granted // Has room for the one answer.
	joined  *held        // The hold that it waits for or has been told of. Nil: none yet.
	told    bool         // It was answered with the hold.
}

type granted struct {
	hold Hold
	err  error
}

// acquire is the step of a call of Acquire.
func (s *source) acquire(a *ask) {
	s.checked = false
	if err := s.admit(a); err != nil {
		a.reply <- granted{err: err}
		return
	}
	if h := s.holds[a.request.ID]; h != nil {
		if h.phase != releasing && !h.same(a.pool, a.request) { // Of one that is being released it is seen afterwards.
			e := s.refusal(Reused, a.pool.ID)
			e.Detail = fmt.Sprintf("hold %s is of %s", h.ID, h.Holder)
			a.reply <- granted{err: e}
			return
		}
		a.joined = h
		s.asks = append(s.asks, a)
		return
	}
	anew, err := s.agree(a.pool)
	switch {
	case err != nil:
		a.reply <- granted{err: err}
	case anew:
		s.parked = append(s.parked, a)
		s.lowerTry.next = time.Time{} // There is a new reason to try.
	default:
		s.take(a)
	}
}

// admit refuses what cannot be had now, whatever it is mounted with.
func (s *source) admit(a *ask) error {
	e := s.refusal("", a.pool.ID)
	m := s.pools[a.pool.ID]
	switch {
	case s.closing:
		e.Kind = ShuttingDown
	case m != nil && m.draining:
		e.Kind = Draining
	case s.op != nil && s.op.abandoned:
		e.Kind, e.Phase, e.Since, e.Detail = TimedOut, s.op.kind.String(), s.op.began, "a helper hangs in the kernel"
	case s.lost != nil && s.lostTry.failures > 0:
		e.Kind, e.Since, e.Holders = Lost, s.lostWhen, s.names()
	case s.at != nil && s.health == StateStale && s.inUse():
		e.Kind, e.Err = Stale, s.failed
	case s.at != nil && s.health == StateSuspect && a.request.Holder.Kind != Probe:
		e.Kind, e.Err = Suspect, s.failed
	default:
		return nil
	}
	return e
}

// names returns who holds the source, as people read it.
func (s *source) names() []string {
	var names []string
	for _, h := range s.list() {
		names = append(names, h.Holder.String())
	}
	return names
}

// agree makes what p wants the way the source is mounted. When it is mounted otherwise and nobody holds it, anew is set: it has to be
// mounted anew first. When others need it as it is, that is a conflict.
func (s *source) agree(p Pool) (anew bool, err error) {
	m := s.pools[p.ID]
	id := p.Spec.Identity
	if s.at != nil && s.fit && id.UUID != "" && s.identity != id.UUID && s.inUse() {
		e := s.refusal(WrongIdentity, p.ID)
		e.Detail = fmt.Sprintf("its uuid is %q instead of %s", s.identity, id.UUID)
		return false, e
	}
	if !compatible(p.Spec, s.want) {
		others, mine := s.otherPools(p.ID)
		newer := m == nil || p.Generation > m.pool.Generation
		if len(others) > 0 || mine && !newer {
			return false, s.conflict(p, others)
		}
		s.want, s.mountTry = p.Spec, retry{}
		if s.pending() {
			s.tell(Event{Kind: OptionsPending, Detail: fmt.Sprintf("mounted with %q, wanted with %q", s.running.Options, s.want.Options)})
		}
	}
	s.want.Identity.UUID = cmp.Or(id.UUID, s.want.Identity.UUID)
	s.want.Identity.Create = s.want.Identity.Create || id.Create
	if m == nil {
		s.pools[p.ID] = &member{pool: p}
	} else {
		m.pool = p
	}
	s.set.mu.Lock()
	s.set.pools[p.ID] = s
	s.set.mu.Unlock()
	return s.renew() && !s.inUse(), nil
}

// compatible tells whether one mount is good for two specs.
func compatible(a, b mount.Spec) bool {
	ids := a.Identity.UUID == b.Identity.UUID || a.Identity.UUID == "" || b.Identity.UUID == ""
	return ids && sameMount(a, b)
}

// sameMount tells whether two specs are mounted in the same way.
func sameMount(a, b mount.Spec) bool {
	a.Identity, b.Identity = mount.Identity{}, mount.Identity{}
	return a == b
}

// conflict is the refusal of a pool that cannot have the source as it wants it.
func (s *source) conflict(p Pool, others []string) error {
	e := s.refusal(OptionsConflict, p.ID)
	e.Running, e.Wanted, e.Holders = s.want.Options, p.Spec.Options, others
	if s.at != nil {
		e.Running = s.running.Options
	}
	if e.Running == e.Wanted {
		e.Detail = "the file system type, the device or the identity differs"
	}
	return e
}

// otherPools returns the pools other than one that need the source as it is wanted now, and whether that one is held.
func (s *source) otherPools(pool string) (others []string, mine bool) {
	for _, h := range s.list() {
		if h.Pool == pool {
			mine = true
		} else if h.Pool != "" {
			others = append(others, h.Pool)
		}
	}
	for id, m := range s.pools {
		if id != pool && m.desired {
			others = append(others, id)
		}
	}
	slices.Sort(others)
	return slices.Compact(others), mine
}

// take makes the hold that a asks for, and has it recorded.
func (s *source) take(a *ask) {
	r := a.request
	if !s.set.own(r.ID, s) {
		e := s.refusal(Reused, a.pool.ID)
		e.Detail = fmt.Sprintf("hold %s is of another source", r.ID)
		a.reply <- granted{err: e}
		return
	}
	h := &held{Hold: Hold{
		ID: r.ID, Pool: a.pool.ID, Source: s.id, Holder: r.Holder, Subpath: r.Subpath, Mode: r.Mode, Created: time.Now(), Place: s.target,
	}}
	if h.Mode == "" {
		h.Mode = ReadWrite
	}
	s.holds[r.ID] = h
	a.joined = h
	s.asks = append(s.asks, a)
	saved, spec := h.Hold, s.want
	s.record(Record{Type: HoldAdded, Hold: &saved, Spec: &spec}, true, func(err error) {
		if s.holds[r.ID] != h || h.phase != recording {
			return // It was taken back.
		}
		if err != nil {
			e := s.refusal(NotRecorded, h.Pool)
			e.Err = err
			s.deny(h, e)
			return
		}
		h.phase = waiting
	})
}

// drop takes a hold out of the set. Whoever waits for it is answered by the caller.
func (s *source) drop(h *held) {
	if s.holds[h.ID] != h {
		return
	}
	delete(s.holds, h.ID)
	delete(s.orphans, h.ID)
	s.set.disown(h.ID, s)
	s.left()
}

// left notes the time when the last hold goes.
func (s *source) left() {
	s.checked = false
	if !s.inUse() {
		s.freeSince = time.Now()
	}
}

// deny answers all who wait for a hold with an error. One that was never granted is gone then, also from the journal if that can be written.
func (s *source) deny(h *held, err error) {
	var told []*ask
	s.asks = slices.DeleteFunc(s.asks, func(a *ask) bool {
		if a.joined == h {
			told = append(told, a)
		}
		return a.joined == h
	})
	tell := func(error) {
		for _, a := range told {
			a.reply <- granted{err: err}
		}
	}
	if h.settled() {
		tell(nil)
		return
	}
	s.drop(h)
	s.record(Record{Type: HoldRemoved, ID: h.ID}, false, tell)
}

// denyAll answers all who wait with an error made for the pool of each, but those whose holds are not recorded yet: they came too late to be
// concerned by what has failed.
func (s *source) denyAll(refusal func(pool string) error) {
	for _, a := range slices.Clone(s.asks) {
		if a.joined.phase != recording && slices.Contains(s.asks, a) {
			s.deny(a.joined, refusal(a.joined.Pool))
		}
	}
}

// withdraw is the step of a call of Acquire whose context has ended. A hold that nobody else was told of or waits for is gone afterwards. He does
// not wait for the journal to say so too: if the process dies before that, the hold is that of a holder who does not know of it.
func (s *source) withdraw(a *ask) {
	s.parked = slices.DeleteFunc(s.parked, func(o *ask) bool { return o == a })
	s.asks = slices.DeleteFunc(s.asks, func(o *ask) bool { return o == a })
	h := a.joined
	if h != nil && a.told {
		h.claims-- // Nobody has heard it.
	}
	if h == nil || s.holds[h.ID] != h || h.claims > 0 || h.phase == releasing || slices.ContainsFunc(s.asks, func(o *ask) bool { return o.joined == h }) {
		return
	}
	s.drop(h)
	s.record(Record{Type: HoldRemoved, ID: h.ID}, false, nil)
	if h.settled() {
		s.tell(Event{Kind: Left, Hold: new(h.view()), Detail: "whoever acquired it had gone"})
	}
}

// grant answers those whose holds are recorded. The mount was seen in this very step.
func (s *source) grant() {
	s.asks = slices.DeleteFunc(s.asks, func(a *ask) bool {
		h := a.joined
		if h.phase == recording || h.phase == releasing {
			return false
		}
		h.Mount, h.broken = *s.at, ""
		h.claims++
		a.told = true
		if h.phase == waiting {
			h.phase = given
			s.tell(Event{Kind: Held, Hold: new(h.view())})
		}
		a.reply <- granted{hold: h.view()}
		return true
	})
}

// denyWriters answers those who want to write to what is read-only.
func (s *source) denyWriters() {
	if !s.at.ReadOnly() {
		return
	}
	for _, a := range slices.Clone(s.asks) {
		if h := a.joined; h.phase == waiting && h.writes() && slices.Contains(s.asks, a) {
			e := s.refusal(ReadOnlySource, h.Pool)
			e.Detail = "mounted with " + s.at.Options + ", the file system with " + s.at.Super
			s.deny(h, e)
		}
	}
}

// denySick answers those who came before it was known that the server does not answer, or has lost what is mounted.
func (s *source) denySick() {
	if s.health == Ready {
		return
	}
	for _, a := range slices.Clone(s.asks) {
		if h := a.joined; h.phase == waiting && (h.Holder.Kind != Probe || s.health == StateStale) && slices.Contains(s.asks, a) {
			e := s.refusal(Suspect, h.Pool)
			if s.health == StateStale {
				e.Kind = Stale
			}
			e.Err = s.failed
			s.deny(h, e)
		}
	}
}

// view is the hold as others see it.
func (h *held) view() Hold {
	v := h.Hold
	v.Waiting, v.Broken, v.Orphan = !h.settled(), h.broken, h.dead
	return v
}

// list returns all holds, by id.
func (s *source) list() []Hold {
	var all []Hold
	for _, h := range s.holds {
		all = append(all, h.view())
	}
	for _, d := range s.derived {
		all = append(all, d...)
	}
	slices.SortFunc(all, func(a, b Hold) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return all
}
