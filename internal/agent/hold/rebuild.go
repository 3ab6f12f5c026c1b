// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// rebuild makes the owner what it was when the records ended. Nothing is believed of the mount but its identity: the table says the rest.
// It is called before the owner runs.
func (s *source) rebuild(saved Saved) {
	for _, r := range saved.Records {
		s.log.image.apply(r)
	}
	m := s.log.image
	s.log.filed, s.log.lines = true, len(saved.Records)
	if m.spec != nil {
		s.want, s.running = *m.spec, *m.spec
	}
	s.identity = m.identity
	for id, h := range m.holds {
		if !s.set.own(id, s) {
			continue // Two journals claim it; the other has it.
		}
		h.Place = s.target
		s.holds[id] = &held{Hold: h, phase: given, claims: 1}
		s.set.pools[h.Pool] = s
	}
	if saved.Damaged != "" {
		id := ID("unknown holders of " + s.id.Key())
		s.holds[id] = &held{phase: given, claims: 1, Hold: Hold{
			ID: id, Source: s.id, Holder: Holder{Kind: Operator, Name: "unknown: the journal is damaged (" + saved.Damaged + ")"},
			Mode: ReadWrite, Created: time.Now(), Place: s.target,
		}}
		s.set.own(id, s)
		s.log.image.holds[id] = s.holds[id].Hold
		s.log.dirty = true
	}
	s.remember()
	o := s.begin(starting)
	o.deadline = time.Now().Add(s.set.limits.Grace)
	go func() {
		err := s.set.c.Driver.Settle(s.set.life, s.id)
		s.post(func() {
			if err != nil && s.set.life.Err() == nil {
				s.fault(err)
			}
			s.end(o)
		})
	}()
}

// remember takes over the mount that was recorded. If it is there, it is ours and was verified; if it is not, it was lost, or an unmount or a
// mount of the earlier process was not recorded as done.
func (s *source) remember() {
	m := s.log.image
	if m.entry == nil {
		return // What an unfinished mount has left is found and adopted by look.
	}
	t, err := s.set.c.Driver.Table()
	if err != nil {
		s.blind = err
		return
	}
	if e, there := t.Find(*m.entry); there {
		// A proof that another source has given as well shows when holds are asked for.
		s.at = &e
		s.fit = m.intent != MountIntent && s.set.prove(s, proof{entry: e, inode: m.inode, identity: m.identity}) == nil
		return
	}
	if m.intent == UnmountIntent && len(m.holds) == 0 {
		s.record(Record{Type: UnmountDone, Detail: "before the restart"}, false, nil)
		return
	}
	at := *m.entry
	s.at = &at // And look will see that it is lost.
}

// watch looks after all sources: at once when the table of mounts changes, and from time to time in any case.
func (s *Set) watch() {
	var tick <-chan time.Time
	if s.limits.CheckEvery > 0 {
		t := time.NewTicker(s.limits.CheckEvery)
		defer t.Stop()
		tick = t.C
	}
	asked := make(chan struct{}, 1)
	ask := func() {
		select {
		case asked <- struct{}{}: // Else an earlier look has not ended: a finder may hang.
			go func() {
				defer func() { <-asked }()
				s.askFinders()
				s.askLiveness()
			}()
		default:
		}
	}
	ask()
	changes := s.c.Changes
	strays := s.findStrays(nil)
	for {
		select {
		case <-s.life.Done():
			return
		case _, open := <-changes:
			if !open {
				changes = nil
			}
			s.each(func(*source) {}) // Each step looks at the table.
		case <-tick:
			ask()
			s.each((*source).check)
		}
		strays = s.findStrays(strays)
	}
}

// each has all owners do a step.
func (s *Set) each(step func(*source)) {
	for _, src := range s.pinAll() {
		src.send(func() { step(src) })
	}
}

// check has a source that has nothing to do any more forgotten.
func (s *source) check() {
	if s.idle() {
		s.forgetFile()
		s.checked = true
	}
}

// askFinders asks all finders and tells all sources, if there are any.
func (s *Set) askFinders() {
	s.mu.Lock()
	none := len(s.sources) == 0
	s.mu.Unlock()
	if none {
		return
	}
	for i := range s.c.Finders {
		ctx, cancel := context.WithTimeout(s.life, s.limits.Ask)
		found, err := s.find(ctx, i)
		cancel()
		if s.life.Err() != nil {
			return
		}
		if err != nil {
			s.tell(Event{Kind: FinderError, Err: err, Detail: "users of pools cannot be learned, so nothing is unmounted"})
			continue
		}
		s.each(func(src *source) { src.derive(i, found) })
	}
}

// askLiveness looks for holders that have died.
func (s *Set) askLiveness() {
	for _, src := range s.pinAll() {
		holders := make(chan map[ID]Holder, 1)
		if !src.send(func() { holders <- src.mortals() }) {
			continue
		}
		select {
		case hs := <-holders:
			for id, h := range hs {
				s.askAlive(src, id, h)
			}
		case <-src.gone:
		}
	}
}

// find asks one finder. A finder that hangs is asked no second time before it has answered, and keeps nobody longer than his context.
func (s *Set) find(ctx context.Context, finder int) ([]Found, error) {
	select {
	case s.finding[finder] <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("ask for users: an earlier question is not answered yet: %w", ctx.Err())
	}
	type answer struct {
		found []Found
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		found, err := s.c.Finders[finder].Find(ctx)
		<-s.finding[finder]
		answered <- answer{found, err}
	}()
	select {
	case a := <-answered:
		return a.found, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("ask for users: %w", ctx.Err())
	}
}

func (s *Set) askAlive(src *source, id ID, h Holder) {
	ctx, cancel := context.WithTimeout(s.life, s.limits.Ask)
	defer cancel()
	alive, err := s.c.Liveness[h.Kind].Alive(ctx, h)
	if err != nil {
		return // Not known to be dead is alive.
	}
	if s.pinBy(func() *source { return src }) != nil {
		src.send(func() { src.noted(id, h, alive) })
	}
}

// mortals returns the holders of whom somebody knows whether they live.
func (s *source) mortals() map[ID]Holder {
	holders := map[ID]Holder{}
	for id, h := range s.holds {
		if s.set.c.Liveness[h.Holder.Kind] != nil && h.phase == given {
			holders[id] = h.Holder
		}
	}
	return holders
}

// noted is the step when it is known whether a holder lives.
func (s *source) noted(id ID, holder Holder, alive bool) {
	h := s.holds[id]
	switch {
	case h == nil || h.Holder != holder || h.phase != given:
	case alive:
		h.dead = time.Time{}
		delete(s.orphans, id)
	case h.dead.IsZero():
		h.dead = time.Now()
		s.orphans[id] = h
		s.tell(Event{Kind: Orphaned, Hold: new(h.view()), Detail: "its holder has ended; it is released at " + h.dead.Add(s.set.limits.OrphanGrace).UTC().Format(time.RFC3339)})
	}
}

// strayFinder is a driver that knows which mounts lie in its own folder.
type strayFinder interface {
	Strays(t mount.Table) []mount.Entry
}

// findStrays reports the mounts in our folder that no source owns, each once. It returns those that are there now.
func (s *Set) findStrays(before map[string]bool) map[string]bool {
	f, ok := s.c.Driver.(strayFinder)
	if !ok {
		return nil
	}
	t, err := s.c.Driver.Table()
	if err != nil {
		return before
	}
	s.mu.Lock()
	targets := map[string]bool{}
	for src := range maps.Values(s.sources) {
		targets[src.target] = true
	}
	s.mu.Unlock()
	now := map[string]bool{}
	for _, e := range f.Strays(t) {
		if targets[e.Target] {
			continue
		}
		now[e.String()] = true
		if !before[e.String()] {
			s.tell(Event{Kind: Stray, Target: e.Target, Detail: "nobody knows of " + e.String()})
		}
	}
	return now
}
