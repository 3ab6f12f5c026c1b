// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// removeUnknown destroys volumes and snapshots that carry our mark and are in no assignment, because
// somebody named them. It goes on after a failure, and returns those that are gone with the
// first failure.
func (s *session) removeUnknown(ctx context.Context, q *agentpb.RemoveUnknown) (removed []string, failed error) {
	k := poolKey(q.GetPool())
	for _, name := range q.GetVolumes() {
		if err := s.removeNamed(ctx, k, name); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		removed = append(removed, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.soon(k, next{lane: string(k), class: urgent})
	return removed, failed
}

// removeNamed destroys the volume or snapshot of a name.
func (a *agent) removeNamed(ctx context.Context, k model.PoolKey, name string) error {
	if id, ours := pool.ParseName(name); ours {
		is := func(c content) bool {
			_, is := c.volumes[id.Fold()]
			return is
		}
		return a.removeOne(k, name, id.Resource, is, func(p Pool) error { return a.cfg.Host.Remove(ctx, p, id) })
	}
	id, ours := pool.ParseSnapshotName(name)
	if !ours {
		return errs.New(errs.Invalid, errs.Volume, "volume %s stays in pool %s", clip(name), k).
			Because("no volume of Holdfast has such a name")
	}
	is := func(c content) bool {
		_, is := c.snapshots[id.Fold()]
		return is
	}
	return a.removeOne(k, name, id.Resource, is, func(p Pool) error { return a.cfg.Host.RemoveSnapshot(ctx, p, id) })
}

// removeOne destroys what has a name, unless it is assigned. A resource of that name that is
// assigned meanwhile is worked on only afterwards, so that it cannot lose a volume that it has
// just got.
func (a *agent) removeOne(k model.PoolKey, name, resource string, is func(content) bool, remove func(Pool) error) error {
	d := resourceKey(resource)
	p, err := a.beginRemoving(k, d, name, is)
	if err != nil {
		return err
	}
	defer a.endRemoving(d)
	a.log.Info("an unknown volume is removed, as was asked for", "pool", p.Name, "volume", name)
	return remove(p)
}

func (a *agent) beginRemoving(k model.PoolKey, d model.DefinitionKey, name string, is func(content) bool) (Pool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	assigned := cmp.Or(a.set.pools[k], a.set.strays[k])
	stays := errs.New(errs.Invalid, errs.Volume, "volume %s stays in pool %s", name, k)
	if assigned == nil || !a.set.confirmed {
		return Pool{}, stays.Because("the pool is not known to this agent")
	}
	if is(a.contentOf(k)) {
		return Pool{}, stays.Because("it is assigned to this node").Fix("delete its resource instead")
	}
	p, err := a.read.pool(assigned)
	if err != nil {
		return Pool{}, err
	}
	p.Identity = a.set.identities[k]
	a.removing[d]++
	return p, nil
}

func (a *agent) endRemoving(d model.DefinitionKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removing[d]--; a.removing[d] > 0 {
		return
	}
	delete(a.removing, d)
	if a.set.resources[d] != nil {
		a.wakeResource(d, urgent)
	}
}
