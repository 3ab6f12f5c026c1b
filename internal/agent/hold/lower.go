// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// dismiss takes down a source that nobody needs.
func (s *source) dismiss(now time.Time) {
	switch {
	case s.at == nil:
		s.answer(Teardown{Outcome: Done})
		s.unpark()
		return
	case s.id.Kind == mount.Existing:
		s.at, s.fit, s.reject = nil, false, nil
		s.set.unprove(s)
		s.record(Record{Type: UnmountDone, Detail: "it is left to the operator"}, false, nil)
		s.answer(Teardown{Outcome: Done, Reason: "it stays mounted: the operator has mounted it"})
		s.unpark()
		return
	case s.closing && !s.leavesAtClose():
		s.answer(Teardown{Outcome: NotNeeded, Reason: "the agent ends, and volumes may live there"})
		return
	}
	if until := s.freeSince.Add(s.idleTime()); now.Before(until) && !s.urgent() {
		s.answer(Teardown{Outcome: Deferred, Reason: "it is kept for a while", Next: until})
		return
	}
	if s.lowerTry.waits(now) {
		s.lowered.Next = s.lowerTry.next
		s.answer(s.lowered)
		return
	}
	s.lower()
}

// urgent tells whether a mount that nobody holds goes at once.
func (s *source) urgent() bool {
	if s.closing || s.renew() || !s.fit {
		return true
	}
	for _, m := range s.pools {
		if m.draining {
			return true
		}
	}
	return false
}

// unpark lets those who waited for the mount to go ask again.
func (s *source) unpark() {
	parked := s.parked
	s.parked = nil
	for _, a := range parked {
		s.acquire(a)
	}
}

// lower begins to unmount: it asks who uses the source besides those who hold it.
func (s *source) lower() {
	o := s.begin(asking)
	entry := *s.at
	p := s.prober
	if p != nil {
		p.cancel() // It must not be what keeps the mount busy.
	}
	s.execute(o, s.set.limits.Ask, func(ctx context.Context) func() {
		if p != nil {
			enough := time.NewTimer(s.set.limits.Grace)
			select {
			case <-p.ended:
			case <-enough.C: // It hangs, and counts as one of our own.
			}
			enough.Stop()
		}
		found := map[int][]Found{}
		var failed error
		for i := range s.set.c.Finders {
			users, err := s.set.find(ctx, i)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			found[i] = users
		}
		users, err := s.set.c.Driver.Users(ctx, entry)
		return func() { s.asked(o, found, users, errors.Join(failed, err)) } //nolint:contextcheck // What follows has a time limit of its own.
	})
}

// asked is the step when it is known who uses the source. From here to the call of the driver there is no way for anyone to get a hold
// unnoticed: each step looks again whether somebody came.
func (s *source) asked(o *operation, found map[int][]Found, users []mount.User, err error) {
	if s.op != o {
		return // Somebody came and has it.
	}
	for i, f := range found {
		s.derive(i, f)
	}
	s.blockers = mount.Others(users)
	switch {
	case s.inUse():
		s.end(o)
		return
	case err != nil:
		s.end(o)
		s.hung = false
		s.postpone(fmt.Sprintf("who uses it cannot be learned: %v", err), err, o)
		return
	case len(s.blockers) > 0:
		s.end(o)
		s.hung = false
		s.postpone("it is in use", nil, o)
		return
	}
	o.kind, o.deadline = lowering, time.Time{}
	s.record(Record{Type: UnmountIntent}, true, func(err error) {
		switch {
		case err != nil:
			s.end(o)
			s.postpone(fmt.Sprintf("it cannot be recorded: %v", err), err, o)
		case s.inUse():
			s.end(o)
		default:
			s.unmount(o)
		}
	})
}

// askedInVain is the step when those who were asked who uses the source have not answered in time.
func (s *source) askedInVain() {
	o := &operation{kind: asking, began: s.now}
	if s.lost != nil {
		s.lostTry.failed(s.now, s.set.limits.UnmountRetry, s.set.limits.Jitter)
		return
	}
	s.postpone("who uses it could not be learned in time", context.DeadlineExceeded, o)
}

// unmount calls the driver. It is called in the step that saw that nobody holds the source and nobody waits for it.
func (s *source) unmount(o *operation) {
	entry, force := *s.at, s.force()
	s.execute(o, s.set.limits.Unmount, func(ctx context.Context) func() {
		err := s.set.c.Driver.Unmount(ctx, s.id, entry, force)
		var users []mount.User
		if err != nil && ctx.Err() == nil {
			users, _ = s.set.c.Driver.Users(ctx, entry) // Only to name who blocks it.
		}
		return func() { s.unmounted(o, entry, force, users, err) }
	})
}

// force is how the next unmount may be done. Nobody is found to use the source when it is asked.
func (s *source) force() mount.Force {
	if !s.transfer() || !s.hung || s.lowerTry.failures == 0 {
		return mount.Plain
	}
	switch since := s.now.Sub(s.lowerTry.since); {
	case since >= s.set.limits.DetachAfter:
		return mount.Detach
	case since >= s.set.limits.ForceAfter && (s.id.Kind == mount.NFS):
		return mount.Abort
	}
	return mount.Plain
}

// unmounted is the step after an unmount. It was one when the mount is gone from the table, whatever the driver says.
func (s *source) unmounted(o *operation, entry mount.Entry, force mount.Force, users []mount.User, err error) {
	if s.op != o {
		return // An operator went on without it. The table tells what it did.
	}
	abandoned := o.abandoned
	s.end(o)
	t, blind := s.set.c.Driver.Table()
	if blind == nil {
		if _, there := t.Find(entry); !there {
			s.down(t, entry, force, o)
			return
		}
	}
	if err == nil {
		err = fmt.Errorf("unmount %s: it was reported as done, and it is still mounted", s.id)
	}
	if blind != nil {
		err = errors.Join(err, blind)
	}
	var failed *mount.Error
	s.hung = abandoned || s.health != Ready || errors.As(err, &failed) && failed.Fault == mount.TimedOut
	s.blockers = mount.Others(users)
	s.postpone(err.Error(), err, o)
}

// down notes that the source is no longer mounted.
func (s *source) down(t mount.Table, entry mount.Entry, force mount.Force, o *operation) {
	td := Teardown{Outcome: Done}
	if twins := t.Twins(entry); len(twins) > 0 && s.id.Kind != mount.Bind {
		td.Reason = "what it shows is still mounted at " + twins[0].Target
	}
	kind := Unmounted
	if force != mount.Plain {
		kind = Forced
		td.Reason = "by force: " + string(force)
	}
	s.tell(Event{Kind: kind, Detail: td.Reason, Took: time.Since(o.began)})
	s.at, s.fit, s.reject, s.health = nil, false, nil, Ready
	s.set.unprove(s)
	s.lowerTry, s.lowered, s.hung, s.blockers = retry{}, Teardown{}, false, nil
	if !s.inUse() {
		s.identity = "" // Whoever comes next depends on nobody's file system.
	}
	s.record(Record{Type: UnmountDone}, false, nil)
	for _, h := range s.holds {
		if h.settled() { // An operator's word. Who only waits has never had what is gone.
			s.lost, s.lostWhen, s.lostTry = &entry, time.Now(), retry{}
			break
		}
	}
	s.answer(td)
}

// postpone plans another try to unmount, and tells all who wait for it.
func (s *source) postpone(reason string, err error, o *operation) {
	s.lowerTry.failed(time.Now(), s.set.limits.UnmountRetry, s.set.limits.Jitter)
	s.lowered = Teardown{Outcome: Deferred, Reason: reason, Next: s.lowerTry.next, Blockers: s.blockers}
	if err != nil {
		s.fault(err)
	}
	s.tell(Event{Kind: UnmountDeferred, Detail: reason, Users: s.blockers, Err: err, Took: time.Since(o.began)})
	s.answer(s.lowered)
	s.refuseParked(s.lowered.String())
}

// derive takes over what a finder has told.
func (s *source) derive(finder int, found []Found) {
	delete(s.unasked, finder)
	var holds []Hold
	for _, f := range found {
		rest, ok := strings.CutPrefix(path.Clean(f.Path), s.target)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		mode := f.Mode
		if mode == "" {
			mode = ReadWrite
		}
		holds = append(holds, Hold{
			ID: ID(fmt.Sprintf("%s %s", f.Holder, f.Path)), Holder: f.Holder, Mode: mode, Derived: true, Place: s.target,
			Subpath: strings.TrimPrefix(rest, "/"), Source: s.id,
		})
	}
	before := s.inUse()
	s.derived[finder] = holds
	if before && !s.inUse() {
		s.left()
	}
}
