// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// SizeInfo tells how much a group can still take. Sizes are bytes.
type SizeInfo struct {
	MaxVolume int64 // the largest single volume that the next spawn accepts
	Available int64 // how much data fits in all, each byte as often as there are replicas
	Capacity  int64 // the same of empty pools
	Next      []NextReplica
}

// NextReplica is where the next spawn of the largest volume would put a replica.
type NextReplica struct {
	Node       model.NodeName
	Pool       model.PoolName
	FreeRatio  float64 // over-subscription of free space; 1 for a thick pool
	TotalRatio float64 // over-subscription of all space; 1 for a thick pool
}

// QuerySize tells what the next spawn of one volume from a group, with a filter over that of
// the group, would accept, on the newest durable state. It computes with the same function
// that the spawn places with.
func (s *Resources) QuerySize(group string, filter model.Filter) (SizeInfo, error) {
	view := s.Store.Snapshot()
	g, err := schema.FindGroup(view, group)
	if err != nil {
		return SizeInfo{}, err
	}
	return s.querySize(view, g, filter)
}

// GroupSize is what QuerySize tells of one group.
type GroupSize struct {
	Group model.GroupName
	Info  SizeInfo
	Err   error // why nothing can be spawned
}

// QueryAllSizes is QuerySize for every group, by name, on one state.
func (s *Resources) QueryAllSizes(filter model.Filter) []GroupSize {
	view := s.Store.Snapshot()
	var list []GroupSize
	for g := range schema.Groups.All(view) {
		info, err := s.querySize(view, g, filter)
		list = append(list, GroupSize{g.Name, info, err})
	}
	return list
}

func (s *Resources) querySize(view *store.View, g schema.Group, filter model.Filter) (SizeInfo, error) {
	next, err := s.nextSpawn(view, g, filter)
	if err != nil {
		return SizeInfo{}, err
	}
	size, plan, err := placer.MaxSize(next.Request, next.nodes, next.pools)
	if err != nil {
		return SizeInfo{}, err
	}
	info := SizeInfo{MaxVolume: net(next.Layers, size)}
	info.Available, info.Capacity = next.usable(plan.Ranked, next.replicas)
	for _, pick := range plan.Picks {
		info.Next = append(info.Next, next.next(pick))
	}
	return info, nil
}

// net is the size of the volume of a stack that takes size bytes in a pool.
func net(layers []model.Layer, size int64) int64 {
	return max(0, size-model.Gross(layers, 0))
}

// nextSpawn is what the next spawn from a group would ask the placer.
type nextSpawn struct {
	field
	placer.Request
	replicas int
}

// nextSpawn is what the next spawn from a group, with a filter over that of the group, would
// ask the placer on a state.
func (s *Resources) nextSpawn(r store.Reader, g schema.Group, filter model.Filter) (nextSpawn, error) {
	if err := catalog.CheckFilter(errs.ResourceGroup, filter); err != nil {
		return nextSpawn{}, err
	}
	merged := filter.Over(g.Filter)
	merged.AdditionalPlaceCount = nil // a spawn has nothing to add to
	layers, err := s.stack(schema.Definition{}, nil, merged)
	if err != nil {
		return nextSpawn{}, err
	}
	replicas, err := wanted(merged)
	if err != nil {
		return nextSpawn{}, err
	}
	if err := checkReplication("", layers, replicas); err != nil {
		return nextSpawn{}, err
	}
	levels := levelsOf(schema.Definition{}, g)
	return nextSpawn{s.field(r, levels), placer.Request{
		Filter: merged, Layers: layers, Others: others(r), MixProviders: mixes(r, levels), Weights: weights(r),
	}, replicas}, nil
}

// PoolSize is how large a volume can be whose replicas all lie in pools of one name.
type PoolSize struct {
	Pool      model.PoolName
	MaxVolume int64            // bytes
	Nodes     []model.NodeName // that the replicas would lie on
	AllThin   bool
}

// MaxVolumeSizes tells, for each name of a pool, how large a volume of a group can be whose
// replicas all lie in pools of that name. Names in which none can lie are left out.
func (s *Resources) MaxVolumeSizes(group string, filter model.Filter) ([]PoolSize, error) {
	view := s.Store.Snapshot()
	g, err := schema.FindGroup(view, group)
	if err != nil {
		return nil, err
	}
	return s.maxVolumeSizes(view, g, filter)
}

// MaxVolumeSizesFor is MaxVolumeSizes without a group.
func (s *Resources) MaxVolumeSizesFor(filter model.Filter) ([]PoolSize, error) {
	return s.maxVolumeSizes(s.Store.Snapshot(), schema.Group{}, filter)
}

func (s *Resources) maxVolumeSizes(view *store.View, g schema.Group, filter model.Filter) ([]PoolSize, error) {
	next, err := s.nextSpawn(view, g, filter)
	if err != nil {
		return nil, err
	}
	listed := next.Filter.Pools
	names := map[model.PoolKey]model.PoolName{}
	for _, p := range next.pools {
		if p.Provider != model.Diskless && (len(listed) == 0 || slices.ContainsFunc(listed, func(n string) bool {
			return model.PoolName(n).Key() == p.Name.Key()
		})) {
			names[p.Name.Key()] = p.Name
		}
	}
	var list []PoolSize
	for _, key := range slices.Sorted(maps.Keys(names)) {
		next.Filter.Pools = []string{string(key)}
		size, plan, err := placer.MaxSize(next.Request, next.nodes, next.pools)
		if err != nil {
			continue // there is no room in pools of that name
		}
		out := PoolSize{Pool: names[key], MaxVolume: net(next.Layers, size), AllThin: true}
		for _, pick := range plan.Picks {
			out.Nodes = append(out.Nodes, next.next(pick).Node)
			out.AllThin = out.AllThin && next.pool(pick).Provider.Thin()
		}
		list = append(list, out)
	}
	return list, nil
}

// wanted returns how many replicas a filter asks for, and refuses one that asks for none.
func wanted(f model.Filter) (int, error) {
	n := 0
	switch {
	case f.AdditionalPlaceCount != nil && *f.AdditionalPlaceCount > 0:
		n = int(*f.AdditionalPlaceCount)
	case f.PlaceCount != nil:
		n = int(*f.PlaceCount)
	}
	if n >= 1 {
		return n, nil
	}
	e := errs.New(errs.Invalid, errs.ResourceGroup, "there is nothing to place").About(errs.PlaceCount).Fix("set a place count of 1 or more")
	if f.PlaceCount != nil {
		return 0, e.Because("the place count is %d", *f.PlaceCount)
	}
	return 0, e.Because("neither the request nor the group has a place count")
}

// usable sums what pools that could be picked can take, now and if they were empty.
func (f field) usable(picks []placer.Pick, replicas int) (available, capacity int64) {
	picked := make(map[model.PoolID]bool, len(picks))
	for _, pick := range picks {
		picked[model.PoolID{Node: pick.Node, Pool: pick.Pool}] = true
	}
	var rooms, totals []int64
	for i := range f.pools {
		p := &f.pools[i]
		if picked[model.PoolID{Node: p.Node, Pool: p.Name.Key()}] {
			room, _ := p.Space.Room(p.Provider)
			rooms, totals = append(rooms, room), append(totals, p.Space.Total)
		}
	}
	return placer.Usable(rooms, replicas), placer.Usable(totals, replicas)
}

func (f field) pool(pick placer.Pick) placer.Pool {
	for _, p := range f.pools {
		if p.Node == pick.Node && p.Name.Key() == pick.Pool {
			return p
		}
	}
	return placer.Pool{Node: pick.Node, Name: model.PoolName(pick.Pool)}
}

func (f field) next(pick placer.Pick) NextReplica {
	p := f.pool(pick)
	out := NextReplica{Pool: p.Name, FreeRatio: 1, TotalRatio: 1}
	for _, n := range f.nodes {
		if n.Name.Key() == pick.Node {
			out.Node = n.Name
		}
	}
	if p.Provider.Thin() {
		out.FreeRatio, out.TotalRatio = p.Space.FreeRatio, p.Space.TotalRatio
	}
	return out
}
