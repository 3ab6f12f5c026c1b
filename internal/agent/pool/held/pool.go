// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// look is what was seen of a pool.
type look struct {
	at       time.Time
	space    *pool.Space
	volumes  []pool.Volume
	listed   bool
	copies   []pool.Snapshot // Of all resources.
	copied   bool
	identity string
}

// checkPrefix is before the name of a pool that is only looked at: what is held for that is no hold on the pool of that name.
const checkPrefix = "check of "

// wanted is the pool as it is held.
func (p *Pool) wanted() hold.Pool {
	w := p.spec.Pool
	if p.Trial() {
		w.ID = checkPrefix + w.ID
	}
	return w
}

// IsTrial tells whether the name of a pool in the holds of a host is that of one that is only looked at.
func IsTrial(id string) bool { return strings.HasPrefix(id, checkPrefix) }

// Spec returns what the pool lies on.
func (p *Pool) Spec() Spec { return p.spec }

// Trial tells whether the pool was opened to be checked alone.
func (p *Pool) Trial() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checking
}

// asleep tells whether the pool is not mounted and need not be, and returns what was seen of it last.
func (p *Pool) asleep(ctx context.Context) (look, bool) {
	p.mu.Lock()
	l := p.seen
	active := p.run != nil || p.hung != nil || p.spec.Pool.Residency == hold.Always || p.checking
	p.mu.Unlock()
	if active || time.Since(l.at) > p.host.c.Remember {
		return look{}, false
	}
	s, err := p.host.c.Holds.Inspect(ctx, p.wanted().ID)
	return l, err != nil || s.State == hold.Absent || s.State == hold.Unmounting
}

// remember keeps what was seen.
func (p *Pool) remember(change func(*look)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.seen)
}

// changed forgets what was seen: it is not so any more.
func (p *Pool) changed() { p.remember(func(l *look) { *l = look{} }) }

// Space implements pool.Driver.
func (p *Pool) Space(ctx context.Context) (pool.Space, error) {
	p.reside(ctx)
	if l, ok := p.asleep(ctx); ok && l.space != nil {
		return *l.space, nil
	}
	var s pool.Space
	err := p.call(ctx, spaceMethod, arguments{}, &s, p.host.c.Quick, nil)
	if err == nil {
		p.remember(func(l *look) { l.at, l.space = time.Now(), &s })
	}
	return s, err
}

// reside makes a pool resident that is to be always, and keeps it so for the time of the lease: nothing tells a driver that its pool is not assigned to
// this host any more.
func (p *Pool) reside(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spec.Pool.Residency != hold.Always || p.checking {
		return
	}
	if p.lease != nil {
		p.lease.Reset(p.host.c.Lease)
		return
	}
	if err := p.host.c.Holds.Ensure(ctx, p.spec.Pool); err != nil {
		p.host.c.Log.Warn("a pool cannot be resident", "pool", p.spec.Pool.ID, "error", err)
	}
	p.lease = time.AfterFunc(p.host.c.Lease, func() { //nolint:contextcheck // It comes later.
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lease = nil
		if err := p.host.c.Holds.Forget(context.Background(), p.spec.Pool.ID); err != nil && !hold.IsKind(err, hold.Unknown) {
			p.host.c.Log.Warn("a pool cannot be given up", "pool", p.spec.Pool.ID, "error", err)
		}
	})
}

// List implements pool.Driver.
func (p *Pool) List(ctx context.Context) ([]pool.Volume, error) {
	if l, ok := p.asleep(ctx); ok && l.listed {
		return slices.Clone(l.volumes), nil
	}
	var all []pool.Volume
	if err := p.call(ctx, listMethod, arguments{}, &all, p.host.c.Quick, nil); err != nil {
		return nil, err
	}
	if err := p.reconcile(ctx, all); err != nil {
		return nil, err
	}
	p.remember(func(l *look) { l.volumes, l.listed = slices.Clone(all), true })
	return all, nil
}

// Identity returns the uuid of the pool's folder, which is made at the first use.
func (p *Pool) Identity(ctx context.Context) (string, error) {
	if l, ok := p.asleep(ctx); ok && l.identity != "" {
		return l.identity, nil
	}
	var id string
	err := p.call(ctx, identityMethod, arguments{}, &id, p.host.c.Quick, nil)
	if err == nil {
		p.remember(func(l *look) { l.identity = id })
		p.mu.Lock()
		p.identity = id
		p.mu.Unlock()
	}
	return id, err
}

// Check implements pool.Checker. A pool that was checked makes nothing resident.
func (p *Pool) Check(ctx context.Context) error {
	p.mu.Lock()
	p.checking = true
	p.mu.Unlock()
	return p.call(ctx, checkMethod, arguments{}, nil, p.host.c.Quick, nil)
}

// Create implements pool.Driver.
func (p *Pool) Create(ctx context.Context, id pool.ID, size int64) error {
	p.changed()
	return p.call(ctx, createMethod, arguments{ID: id, Size: size}, nil, 0, nil)
}

// Finish implements pool.Driver.
func (p *Pool) Finish(ctx context.Context, id pool.ID) error {
	p.changed()
	return p.call(ctx, finishMethod, arguments{ID: id}, nil, 0, nil)
}

// Grow implements pool.Driver.
func (p *Pool) Grow(ctx context.Context, id pool.ID, size int64) error {
	p.changed()
	return p.call(ctx, growMethod, arguments{ID: id, Size: size}, nil, 0, nil)
}

// Find implements pool.Finder.
func (p *Pool) Find(ctx context.Context, id pool.ID) (pool.Volume, bool, error) {
	var f found
	err := p.call(ctx, findMethod, arguments{ID: id}, &f, p.host.c.Quick, nil)
	return f.Volume, f.Found, err
}

// Holders implements pool.HolderLister.
func (p *Pool) Holders(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	var all []pool.Holder
	err := p.call(ctx, holdersMethod, arguments{ID: id}, &all, p.host.c.Quick, nil)
	return all, err
}

// Clone implements pool.Cloner.
func (p *Pool) Clone(ctx context.Context, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
	p.changed()
	return p.call(ctx, cloneMethod, arguments{ID: id, Size: size, Snapshot: from}, nil, 0, progress)
}

// TakeSnapshot implements pool.Snapshotter.
func (p *Pool) TakeSnapshot(ctx context.Context, id pool.SnapshotID, progress pool.Progress) error {
	p.changed()
	return p.call(ctx, takeSnapshotMethod, arguments{Snapshot: id}, nil, 0, progress)
}

// FinishSnapshot implements pool.Snapshotter.
func (p *Pool) FinishSnapshot(ctx context.Context, id pool.SnapshotID) error {
	p.changed()
	return p.call(ctx, finishSnapshotMethod, arguments{Snapshot: id}, nil, 0, nil)
}

// Snapshots implements pool.Snapshotter.
func (p *Pool) Snapshots(ctx context.Context, resource string) ([]pool.Snapshot, error) {
	if l, ok := p.asleep(ctx); ok && l.copied {
		return slices.DeleteFunc(slices.Clone(l.copies), func(s pool.Snapshot) bool {
			return resource != "" && !strings.EqualFold(s.ID.Resource, resource)
		}), nil
	}
	var all []pool.Snapshot
	err := p.call(ctx, snapshotsMethod, arguments{Text: resource}, &all, p.host.c.Quick, nil)
	if err == nil && resource == "" {
		p.remember(func(l *look) { l.copies, l.copied = slices.Clone(all), true })
	}
	return all, err
}

// RemoveSnapshot implements pool.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, id pool.SnapshotID) error {
	p.changed()
	return p.call(ctx, removeSnapshotMethod, arguments{Snapshot: id}, nil, 0, nil)
}

// RollBack implements pool.RollBacker.
func (p *Pool) RollBack(ctx context.Context, to pool.SnapshotID, token string, progress pool.Progress) error {
	p.changed()
	release, err := p.lock(ctx, to.Of())
	if err != nil {
		return err
	}
	defer release()
	if err := p.call(ctx, rollBackMethod, arguments{Snapshot: to, Text: token}, nil, 0, progress); err != nil {
		return err
	}
	p.undeploy(ctx, to.Of()) // It is closed.
	return nil
}

// Suspend implements pool.Suspender.
func (p *Pool) Suspend(ctx context.Context, ids []pool.ID, limit time.Duration) (pool.Suspension, error) {
	s := &suspension{pool: p, ids: slices.Clone(ids)}
	if err := p.call(ctx, suspendMethod, arguments{IDs: ids, Limit: limit}, &s.key, 0, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// suspension is one in the worker. When that is lost, writers go on and nobody knows whether they wrote: all volumes count as written.
type suspension struct {
	pool *Pool
	ids  []pool.ID
	key  string

	once    sync.Once
	written []pool.ID
	err     error
}

// Resume implements pool.Suspension.
func (s *suspension) Resume() ([]pool.ID, error) {
	s.once.Do(func() {
		s.err = s.pool.call(context.Background(), resumeMethod, arguments{Text: s.key}, &s.written, s.pool.host.c.Quick, nil)
		if s.err != nil {
			s.written = s.ids
		}
	})
	return s.written, s.err
}
