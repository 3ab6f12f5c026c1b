// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// raise mounts the source, or verifies what is mounted there already.
func (s *source) raise() {
	o := s.begin(mounting)
	spec := s.want
	if s.at != nil {
		spec = s.running // What is there is verified as what it is.
		spec.Identity = s.want.Identity
	}
	if spec.Identity.UUID == "" && s.bound() {
		spec.Identity.UUID = s.identity // Who holds it, holds that very file system.
	}
	found := s.at != nil
	s.record(Record{Type: MountIntent, Spec: &spec}, true, func(err error) {
		if err != nil {
			s.end(o)
			s.raiseFailed(NotRecorded, "", err, o)
			return
		}
		s.execute(o, s.set.limits.Mount, func(ctx context.Context) func() {
			m, err := s.set.c.Driver.Mount(ctx, spec)
			return func() { s.raised(o, spec, m, err, found) }
		})
	})
}

// raised is the step after a mount. What the table says counts, not what the driver says.
func (s *source) raised(o *operation, spec mount.Spec, m mount.Mounted, err error, found bool) {
	if s.op != o {
		return // An operator went on without it. The table tells what it did.
	}
	t, blind := s.set.c.Driver.Table()
	if blind != nil {
		s.end(o)
		s.raiseFailed(NotReady, "", errors.Join(err, blind), o)
		return
	}
	top, there := t.At(s.target)
	switch {
	case err == nil && (!there || !top.Same(m.Entry)):
		err = &mount.Error{Fault: mount.NotMounted, Step: "mount", Source: s.id.String(), Target: s.target, Detail: "mounting was reported as done"}
	case err == nil:
		s.commit(o, spec, m, found)
		return
	}
	s.end(o)
	if there && s.set.c.Driver.Matches(t, top, spec) {
		s.at, s.fit, s.running = &top, false, spec // It failed after it had mounted.
	} else {
		s.at, s.fit = nil, false
		if !there && s.log.image.entry == nil {
			s.record(Record{Type: UnmountDone, Detail: "the mount failed"}, false, nil)
		}
	}
	kind, phase := kindOf(err)
	s.raiseFailed(kind, phase, err, o)
}

// commit makes a mount that was verified the one that holds are granted on, once it is recorded.
func (s *source) commit(o *operation, spec mount.Spec, m mount.Mounted, found bool) {
	if other := s.set.prove(s, proof{entry: m.Entry, inode: m.Inode, identity: m.Identity}); other != nil {
		s.end(o)
		e := s.refusal(SameSource, "")
		e.Detail = fmt.Sprintf("it is the same file system as %s", other.id)
		s.at, s.fit, s.running, s.reject = &m.Entry, false, spec, e
		s.raiseFailed(SameSource, e.Detail, nil, o)
		return
	}
	entry := m.Entry
	s.record(Record{Type: MountDone, Spec: &spec, Entry: &entry, Identity: m.Identity, Inode: m.Inode}, true, func(err error) {
		s.end(o)
		s.at, s.running, s.reject = &entry, spec, nil
		if err != nil {
			s.raiseFailed(NotRecorded, "", err, o)
			return
		}
		s.fit, s.identity = true, m.Identity
		s.mountTry, s.health, s.failed = retry{}, Ready, nil
		s.probed = time.Now()
		kind := MountedEvent
		if found {
			kind = Adopted
		}
		s.tell(Event{Kind: kind, Detail: entry.String(), Took: time.Since(o.began)})
	})
}

// raiseFailed tells all who wait why there is no mount, and when it is tried again.
func (s *source) raiseFailed(kind Kind, detail string, err error, o *operation) {
	refuse := func(pool string) error {
		e := s.refusal(kind, pool)
		e.Err = err
		if kind == TimedOut {
			e.Phase = detail
		} else {
			e.Detail = detail
		}
		return e
	}
	s.mountTry.failed(time.Now(), s.set.limits.MountRetry, s.set.limits.Jitter)
	s.fault(refuse(""))
	s.tell(Event{Kind: MountError, Err: refuse(""), Took: time.Since(o.began)})
	s.denyAll(refuse)
	s.denyParked(refuse)
}
