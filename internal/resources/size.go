// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/schema"
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
	merged := filter.Over(g.Filter)
	merged.AdditionalPlaceCount = nil // a spawn has nothing to add to
	layers, err := s.stack(schema.Definition{}, nil, merged)
	if err != nil {
		return SizeInfo{}, err
	}
	replicas, err := wanted(merged)
	if err != nil {
		return SizeInfo{}, err
	}
	if err := checkReplication("", layers, replicas); err != nil {
		return SizeInfo{}, err
	}
	levels := levelsOf(schema.Definition{}, g)
	f := s.field(view, levels)
	size, plan, err := placer.MaxSize(placer.Request{
		Filter: merged, Layers: layers, Others: others(view), MixProviders: mixes(view, levels), Weights: weights(view),
	}, f.nodes, f.pools)
	if err != nil {
		return SizeInfo{}, err
	}
	info := SizeInfo{MaxVolume: size}
	info.Available, info.Capacity = f.usable(plan.Ranked, replicas)
	for _, pick := range plan.Picks {
		info.Next = append(info.Next, f.next(pick))
	}
	return info, nil
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
	if n < 1 {
		return 0, errs.New(errs.Invalid, errs.ResourceGroup, "there is nothing to place").About(errs.PlaceCount).
			Because("neither the request nor the group has a place count").Fix("set a place count of 1 or more")
	}
	return n, nil
}

// usable sums what pools that could be picked can take, now and if they were empty.
func (f field) usable(picks []placer.Pick, replicas int) (available, capacity int64) {
	var rooms, totals []int64
	for _, pick := range picks {
		p := f.pool(pick)
		room, _ := p.Space.Room(p.Provider)
		rooms = append(rooms, room)
		totals = append(totals, p.Space.Total)
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
