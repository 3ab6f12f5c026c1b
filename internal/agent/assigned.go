// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// assigned is what the node shall have: the last full set and the increments since. It is
// not safe for use at once. The messages in it are never changed.
type assigned struct {
	resultsIn string
	confirmed bool // a controller sent a full set to this process
	pools     map[model.PoolKey]*agentpb.Pool
	resources map[model.DefinitionKey]*agentpb.Resource

	// strays are pools that were assigned once and are absent from a full set. They are
	// looked at for volumes of ours, which no one else would report.
	strays map[model.PoolKey]*agentpb.Pool

	// identities are the marks that pools and strays were seen to carry.
	identities map[model.PoolKey]string

	// made are the volumes that were there once, and the pools that they were in. One of them
	// that is missing is lost: an empty one in its place would pass for it.
	made map[model.DefinitionKey]map[int32]model.PoolKey
}

// delta is what assignments changed.
type delta struct {
	confirmed     bool // the set is confirmed now and was not before
	first         bool // there was nothing before
	resources     []model.DefinitionKey
	goneResources []model.DefinitionKey
	pools         []model.PoolKey
	gonePools     []model.PoolKey
}

// chainError says that an increment does not belong to the set that the agent has.
type chainError struct {
	appliesTo, have string
}

func (e *chainError) Error() string {
	return fmt.Sprintf("the controller sent a change to the assigned set %q, but the agent has %q", e.appliesTo, e.have)
}

func newAssigned() *assigned {
	return &assigned{
		pools:     map[model.PoolKey]*agentpb.Pool{},
		resources: map[model.DefinitionKey]*agentpb.Resource{},
		strays:    map[model.PoolKey]*agentpb.Pool{},

		identities: map[model.PoolKey]string{},
		made:       map[model.DefinitionKey]map[int32]model.PoolKey{},
	}
}

// take takes m over. After a *chainError nothing has changed.
func (s *assigned) take(m *agentpb.Assignments) (delta, error) {
	if m.GetFull() {
		return s.replace(m), nil
	}
	if asksOnly(m) {
		return delta{}, nil
	}
	if !s.confirmed || m.GetAppliesTo() != s.resultsIn {
		return delta{}, &chainError{appliesTo: m.GetAppliesTo(), have: s.resultsIn}
	}
	return s.change(m), nil
}

// asksOnly tells whether m leaves the set as it is and needs no place in the chain.
func asksOnly(m *agentpb.Assignments) bool {
	return m.GetAppliesTo() == "" && m.GetResultsIn() == "" && len(m.GetPools()) == 0 && len(m.GetResources()) == 0 &&
		len(m.GetGonePools()) == 0 && len(m.GetGoneResources()) == 0
}

func (s *assigned) change(m *agentpb.Assignments) delta {
	var d delta
	for _, name := range m.GetGoneResources() {
		s.dropResource(resourceKey(name), &d)
	}
	for _, name := range m.GetGonePools() {
		k := poolKey(name)
		if s.pools[k] != nil || s.strays[k] != nil {
			d.gonePools = append(d.gonePools, k)
		}
		delete(s.pools, k)
		delete(s.strays, k)
		delete(s.identities, k)
	}
	s.add(m, &d)
	s.resultsIn = m.GetResultsIn()
	return d
}

// replace makes the full set m the assigned set. What it leaves out is forgotten, not
// destroyed.
func (s *assigned) replace(m *agentpb.Assignments) delta {
	d := delta{confirmed: !s.confirmed, first: len(s.resources) == 0 && len(s.pools) == 0}
	names := make(map[model.DefinitionKey]struct{}, len(m.GetResources()))
	for _, r := range m.GetResources() {
		names[resourceKey(r.GetName())] = struct{}{}
	}
	for k := range s.resources {
		if _, stays := names[k]; !stays {
			s.dropResource(k, &d)
		}
	}
	pools := make(map[model.PoolKey]struct{}, len(m.GetPools()))
	for _, p := range m.GetPools() {
		pools[poolKey(p.GetName())] = struct{}{}
	}
	for k, p := range s.pools {
		if _, stays := pools[k]; !stays {
			s.strays[k] = p
			delete(s.pools, k)
		}
	}
	s.add(m, &d)
	s.resultsIn = m.GetResultsIn()
	s.confirmed = true
	return d
}

// add takes the new and changed items of m. The last one of a name counts.
func (s *assigned) add(m *agentpb.Assignments, d *delta) {
	for _, p := range m.GetPools() {
		k := poolKey(p.GetName())
		if proto.Equal(s.pools[k], p) {
			continue
		}
		if before := cmp.Or(s.pools[k], s.strays[k]); !samePlace(before, p) {
			delete(s.identities, k)
		}
		s.pools[k] = p
		delete(s.strays, k)
		d.pools = append(d.pools, k)
	}
	for _, r := range m.GetResources() {
		k := resourceKey(r.GetName())
		if proto.Equal(s.resources[k], r) {
			continue
		}
		s.resources[k] = r
		d.resources = append(d.resources, k)
	}
}

func (s *assigned) dropResource(k model.DefinitionKey, d *delta) {
	if s.resources[k] == nil {
		return
	}
	delete(s.resources, k)
	delete(s.made, k)
	d.goneResources = append(d.goneResources, k)
}

// samePlace tells whether two assignments of a pool mean the same place of the host.
func samePlace(a, b *agentpb.Pool) bool {
	place := func(p *agentpb.Pool) string {
		at, _ := Place(Pool{Provider: model.Provider(p.GetProvider()), Props: model.PropsOf(p.GetProps())})
		return at
	}
	return a.GetProvider() == b.GetProvider() && place(a) == place(b)
}

// madeIn tells whether a volume was there once in the pool that it is assigned to.
func (s *assigned) madeIn(k model.DefinitionKey, v *agentpb.Volume) bool {
	in, made := s.made[k][v.GetNumber()]
	return made && in == poolKey(v.GetPool())
}

// saw notes which of the volumes of r were seen to be there after all steps succeeded. It
// returns whether that is news.
func (s *assigned) saw(k model.DefinitionKey, r *agentpb.Resource, there []*agentpb.VolumeStatus) (news bool) {
	if r.GetDestroy() {
		_, news = s.made[k]
		delete(s.made, k)
		return news
	}
	for _, v := range r.GetVolumes() {
		exists := slices.ContainsFunc(there, func(t *agentpb.VolumeStatus) bool { return t.GetNumber() == v.GetNumber() })
		switch made := s.madeIn(k, v); {
		case !exists && v.GetDestroy():
			_, was := s.made[k][v.GetNumber()]
			news = news || was
			delete(s.made[k], v.GetNumber())
		case exists && !made && !v.GetDestroy() && v.GetPool() != "":
			news = true
			if s.made[k] == nil {
				s.made[k] = map[int32]model.PoolKey{}
			}
			s.made[k][v.GetNumber()] = poolKey(v.GetPool())
		}
	}
	return news
}

// full returns the set as one message, for the disk: without keys.
func (s *assigned) full() *agentpb.Assignments {
	m := &agentpb.Assignments{Full: true, ResultsIn: s.resultsIn}
	for _, p := range s.pools {
		m.Pools = append(m.Pools, p)
	}
	for _, r := range s.resources {
		m.Resources = append(m.Resources, withoutKeys(r))
	}
	return m
}

// usersOf returns the resources that have a volume or a snapshot in one of the pools.
func (s *assigned) usersOf(pools map[model.PoolKey]struct{}) []model.DefinitionKey {
	var keys []model.DefinitionKey
	for k, r := range s.resources {
		for _, p := range poolsOf(r) {
			if _, in := pools[p]; in {
				keys = append(keys, k)
				break
			}
		}
	}
	return keys
}

// An invalid name has a key too: an item that cannot be served is still reported by its name.
func resourceKey(name string) model.DefinitionKey { return model.DefinitionName(name).Key() }
func poolKey(name string) model.PoolKey           { return model.PoolName(name).Key() }
func snapshotKey(name string) model.SnapshotKey   { return model.SnapshotName(name).Key() }
