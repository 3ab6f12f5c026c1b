// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// measure looks at one pool once, puts its status into the outbox, and says when to look
// again.
func (a *agent) measure(ctx context.Context, k model.PoolKey) next {
	clones := a.clones()
	a.mu.Lock()
	assigned := a.set.pools[k]
	if assigned == nil {
		assigned = a.set.strays[k]
	}
	before, identity := a.contentOf(k, clones...), a.set.identities[k]
	a.mu.Unlock()
	if assigned == nil {
		return next{}
	}
	space, err := a.space(ctx, assigned, identity, a.cfg.Host.Measure)
	if ctx.Err() != nil {
		return next{}
	}
	clones = a.clones()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set.pools[k] == nil && a.set.strays[k] == nil {
		return next{}
	}
	if identity == "" && space != nil && space.Identity != "" && a.set.pools[k] == assigned {
		a.set.identities[k] = space.Identity
		a.save()
	}
	s := poolStatus(assigned.GetName(), space, err)
	looked := err == nil && a.set.confirmed
	if looked && space != nil {
		// A volume that was assigned before or after the look is not unknown: it may have been
		// made, or destroyed and forgotten, meanwhile.
		after := a.contentOf(k, clones...)
		s.UnknownVolumes = unknown(space, before, after)
		s.AssignedAllocated = new(assignedAllocated(space, before.volumes, after.volumes))
	}
	if _, stray := a.set.strays[k]; stray && looked && len(s.GetUnknownVolumes()) == 0 {
		delete(a.set.strays, k)
		delete(a.set.identities, k)
		a.save()
		a.out.forgetPool(k)
		return next{}
	}
	return a.measured(k, s)
}

// measured records the status of a pool. The caller holds a.mu.
func (a *agent) measured(k model.PoolKey, s *agentpb.PoolStatus) next {
	before := a.out.pool(k)
	a.out.putPool(k, s)
	n := next{delay: spread(a.limits.Measure), lane: string(k), class: routine}
	if len(s.GetFaults()) > 0 {
		a.faults[k]++
		n.delay = min(n.delay, backoff(a.faults[k], a.limits.RetryFirst, a.limits.RetryMost))
		if !slices.Equal(before.GetFaults(), s.GetFaults()) {
			a.log.Warn("pool is faulty", "pool", s.GetName(), "error", s.GetFaults()[0])
		}
		return n
	}
	delete(a.faults, k)
	if len(before.GetFaults()) > 0 {
		a.log.Info("pool works again", "pool", s.GetName())
		a.wakeFailed(k)
	}
	if len(s.GetUnknownVolumes()) > 0 && !slices.Equal(before.GetUnknownVolumes(), s.GetUnknownVolumes()) {
		a.log.Warn("pool holds volumes that no one assigned; they are left alone", "pool", s.GetName(),
			"volumes", len(s.GetUnknownVolumes()), "first", s.GetUnknownVolumes()[0])
	}
	return n
}

// wakeFailed has the resources tried at once that may have failed for the pool. The caller
// holds a.mu.
func (a *agent) wakeFailed(k model.PoolKey) {
	for _, r := range a.set.usersOf(map[model.PoolKey]struct{}{k: {}}) {
		if a.out.resource(r).GetState() == agentpb.ResourceStatus_FAILED {
			a.wakeResource(r, routine)
		}
	}
}

// space asks the host about a pool by look, for a limited time. There is none of a pool of
// replicas without storage.
func (a *agent) space(
	ctx context.Context, p *agentpb.Pool, identity string, look func(context.Context, Pool) (Space, error),
) (*Space, error) {
	wanted, err := a.read.pool(p)
	if err != nil {
		return nil, err
	}
	if wanted.Provider == model.Diskless {
		return nil, nil
	}
	wanted.Identity = identity
	ctx, cancel := context.WithTimeout(ctx, a.limits.Inspect)
	defer cancel()
	space, err := look(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return &space, nil
}

// poolStatus is the status of a pool without its unknown volumes.
func poolStatus(name string, s *Space, err error) *agentpb.PoolStatus {
	switch {
	case err != nil:
		return &agentpb.PoolStatus{Name: clip(name), Faults: []string{messageOf(err)}}
	case s == nil:
		return &agentpb.PoolStatus{Name: clip(name)}
	}
	return &agentpb.PoolStatus{
		Name: clip(name), Total: &s.Total, Free: &s.Free, Allocated: &s.Allocated,
		Granularity: s.Granularity, SupportsSnapshots: s.CanSnapshot,
	}
}

// assignedAllocated sums what volumes take that were assigned before and after the look, each
// up to what it was assigned: what it takes beyond that, and what unknown volumes take, was
// promised to nobody.
func assignedAllocated(space *Space, before, after map[pool.ID]int64) (sum int64) {
	for _, v := range space.Volumes {
		size, assigned := before[v.ID.Fold()]
		if _, still := after[v.ID.Fold()]; !assigned || !still {
			continue
		}
		if g := max(space.Granularity, 1); size%g != 0 {
			size += g - size%g
		}
		sum += min(v.Allocated, size)
	}
	return sum
}

// content is what is assigned to a pool: volumes with their sizes, and snapshots.
type content struct {
	volumes   map[pool.ID]int64
	snapshots map[pool.SnapshotID]struct{}
	loans     map[pool.ID]struct{} // that any pool may make for a time, to copy from
}

// clones returns what jobs have made for themselves, in whatever pools.
func (a *agent) clones() []pool.ID {
	if a.cfg.Jobs == nil {
		return nil
	}
	return a.cfg.Jobs.Clones()
}

// contentOf returns what is assigned to a pool, and the clones of jobs. The caller holds a.mu.
func (a *agent) contentOf(k model.PoolKey, clones ...pool.ID) content {
	c := content{volumes: map[pool.ID]int64{}, snapshots: map[pool.SnapshotID]struct{}{}, loans: map[pool.ID]struct{}{}}
	for _, id := range clones {
		c.loans[id.Fold()] = struct{}{}
	}
	for _, r := range a.set.resources {
		for _, v := range r.GetVolumes() {
			id := pool.ID{Resource: r.GetName(), Volume: int(v.GetNumber())}.Fold()
			if poolKey(v.GetPool()) == k {
				c.volumes[id] = grossOf(v)
			}
			if v.GetSource() != nil {
				c.loans[id] = struct{}{}
			}
		}
		for _, s := range r.GetSnapshots() {
			for _, v := range s.GetVolumes() {
				if poolKey(v.GetPool()) == k {
					id := pool.SnapshotID{Resource: r.GetName(), Volume: int(v.GetNumber()), Snapshot: s.GetName()}
					c.snapshots[id.Fold()] = struct{}{}
				}
			}
		}
	}
	return c
}

// grossOf is what an assigned volume may take of its pool, in bytes.
func grossOf(v *agentpb.Volume) int64 {
	if v.GetLuks() != nil {
		return v.GetSize() + model.LUKSHeader
	}
	return v.GetSize()
}

// unknown names the volumes and snapshots that are in none of the sets.
func unknown(space *Space, sets ...content) []string {
	const most = 10_000
	var names []string
	for _, v := range space.Volumes {
		known := slices.ContainsFunc(sets, func(set content) bool {
			_, in := set.volumes[v.ID.Fold()]
			_, lent := set.loans[v.ID.Fold()]
			return in || lent && v.New
		})
		if !known && len(names) < most {
			names = append(names, clip(v.ID.Name()))
		}
	}
	for _, s := range space.Snapshots {
		known := slices.ContainsFunc(sets, func(set content) bool {
			_, in := set.snapshots[s.ID.Fold()]
			return in
		})
		if !known && len(names) < most {
			names = append(names, clip(s.ID.Name()))
		}
	}
	return names
}
