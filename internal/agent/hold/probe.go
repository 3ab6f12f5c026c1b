// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// probing is a probe that is under way. There is one at most, also while it hangs.
type probing struct {
	began  time.Time
	cancel context.CancelFunc
	ended  chan struct{}
}

// probe asks the server for a sign of life, when it is time for that.
func (s *source) probe(now time.Time) {
	every := s.set.limits.ProbeEvery
	if every < 0 || s.prober != nil || now.Before(s.probed.Add(every)) {
		return
	}
	ctx, cancel := context.WithTimeout(s.set.life, s.set.limits.Probe)
	p := &probing{began: now, cancel: cancel, ended: make(chan struct{})}
	s.prober, s.probed = p, now
	entry, spec := *s.at, s.running
	spec.Identity.UUID = s.identity
	go func() {
		defer cancel()
		err := s.set.c.Driver.Probe(ctx, spec, entry)
		close(p.ended)
		s.post(func() { s.probedNow(entry, err) })
	}()
}

// probedNow is the step after a probe, however late.
func (s *source) probedNow(entry mount.Entry, err error) {
	s.prober = nil
	if s.at == nil || !s.at.Same(entry) {
		return
	}
	var failed *mount.Error
	switch {
	case err == nil:
		if s.health != Ready {
			s.health, s.failed = Ready, nil
			s.tell(Event{Kind: Recovered})
		}
	case errors.As(err, &failed) && (failed.Fault == mount.StaleHandle || failed.Fault == mount.WrongIdentity):
		s.sicken(StateStale, err)
	case errors.As(err, &failed) && failed.Fault == mount.TimedOut:
		s.sicken(StateSuspect, err)
	case errors.Is(err, context.Canceled):
	default:
		s.fault(err) // The probe failed, not the server.
	}
}

// sicken notes that the source is of no use at the moment.
func (s *source) sicken(state State, why error) {
	s.fault(why)
	if s.health == state {
		return
	}
	s.health = state
	kind := SuspectEvent
	if state == StateStale {
		kind = StaleEvent
	}
	s.tell(Event{Kind: kind, Err: why, Users: s.blockers})
}
