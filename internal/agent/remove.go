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

// removeUnknown destroys volumes that carry our mark and are in no assignment, because
// somebody named them. It goes on after a failure, and returns those that are gone with the
// first failure.
func (s *session) removeUnknown(ctx context.Context, q *agentpb.RemoveUnknown) (removed []string, failed error) {
	k := poolKey(q.GetPool())
	for _, name := range q.GetVolumes() {
		id, ours := pool.ParseName(name)
		if !ours {
			failed = cmp.Or[error](failed, errs.New(errs.Invalid, errs.Volume, "volume %s stays in pool %s", clip(name), clip(q.GetPool())).
				Because("no volume of Holdfast has such a name"))
			continue
		}
		if err := s.removeOne(ctx, k, id); err != nil {
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

// removeOne destroys one volume. A resource of its name that is assigned meanwhile is worked
// on only afterwards, so that it cannot lose a volume that it has just got.
func (a *agent) removeOne(ctx context.Context, k model.PoolKey, id pool.ID) error {
	d := resourceKey(id.Resource)
	p, err := a.beginRemoving(k, d, id)
	if err != nil {
		return err
	}
	defer a.endRemoving(d)
	a.log.Info("an unknown volume is removed, as was asked for", "pool", p.Name, "volume", id.Name())
	return a.cfg.Host.Remove(ctx, p, id)
}

func (a *agent) beginRemoving(k model.PoolKey, d model.DefinitionKey, id pool.ID) (Pool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	assigned := cmp.Or(a.set.pools[k], a.set.strays[k])
	stays := errs.New(errs.Invalid, errs.Volume, "volume %s stays in pool %s", id.Name(), k)
	if assigned == nil || !a.set.confirmed {
		return Pool{}, stays.Because("the pool is not known to this agent")
	}
	if _, is := a.volumesOf(k)[id.Fold()]; is {
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
