// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// Explanation tells what the next spawn from a group would do, and why.
type Explanation struct {
	Group    model.GroupName
	Layers   []model.Layer
	Replicas int           // wanted
	Picks    []Placement   // where they would go, best first; none when Problem says why not
	Pools    []PoolVerdict // every pool for data, and nodes without any, by node and pool
	Problem  *errs.Error   // nil when all replicas can be placed
}

// PoolVerdict tells whether one pool could take a replica, and why not.
type PoolVerdict struct {
	Node     model.NodeName
	Pool     model.PoolName // empty for a node that has none
	Provider model.Provider
	Accepted bool
	Picked   bool
	Score    float64      // of an accepted pool, from 0 to the sum of the weights
	Reason   string       // of a pool that is not accepted
	Space    placer.Space // what is known of its room
	Room     int64        // bytes that it can still promise; meaningful when Space.Known
}

// Explain tells where a spawn from a group, of volumes of the given sizes and with a filter
// over that of the group, would put its replicas on the newest durable state, and of every
// pool whether it could take one or why not. It places with the function that the spawn
// places with, and changes nothing. That the replicas cannot be placed is an answer, not an
// error.
func (s *Resources) Explain(group string, sizes []int64, filter model.Filter) (Explanation, error) {
	for _, size := range sizes {
		if err := model.CheckVolumeSize(size); err != nil {
			return Explanation{}, err
		}
	}
	view := s.Store.Snapshot()
	g, err := schema.FindGroup(view, group)
	if err != nil {
		return Explanation{}, err
	}
	next, err := s.nextSpawn(view, g, filter)
	if err != nil {
		return Explanation{}, err
	}
	next.Sizes = gross(next.Layers, sizes)
	out := Explanation{Group: g.Name, Layers: next.Layers, Replicas: next.replicas}
	plan, err := placer.Place(next.Request, next.nodes, next.pools)
	if err != nil {
		if out.Problem = errs.As(err); out.Problem == nil || !errs.Is(err, errs.NotEnough) {
			return out, err
		}
	}
	for _, pick := range plan.Picks {
		p := next.next(pick)
		out.Picks = append(out.Picks, Placement{Node: p.Node, Pool: p.Pool, Kind: schema.Diskful})
	}
	out.Pools = next.verdicts(plan)
	return out, nil
}

// verdicts tells what a plan says of each pool.
func (f field) verdicts(plan placer.Plan) []PoolVerdict {
	rejected := map[model.PoolID]placer.Rejection{}
	for _, r := range plan.Rejected {
		rejected[model.PoolID{Node: r.Node, Pool: r.Pool}] = r
	}
	scores, picked := map[model.PoolID]float64{}, map[model.PoolID]bool{}
	for _, p := range plan.Ranked {
		scores[model.PoolID{Node: p.Node, Pool: p.Pool}] = p.Score
	}
	for _, p := range plan.Picks {
		picked[model.PoolID{Node: p.Node, Pool: p.Pool}] = true
	}
	names, poolless := map[model.NodeKey]model.NodeName{}, map[model.NodeKey]bool{}
	for _, n := range f.nodes {
		names[n.Name.Key()], poolless[n.Name.Key()] = n.Name, true
	}
	var list []PoolVerdict
	for _, p := range f.pools {
		name, runsAgent := names[p.Node]
		if p.Provider == model.Diskless || !runsAgent {
			continue
		}
		delete(poolless, p.Node)
		id := model.PoolID{Node: p.Node, Pool: p.Name.Key()}
		v := PoolVerdict{Node: name, Pool: p.Name, Provider: p.Provider, Space: p.Space, Picked: picked[id]}
		v.Room, _ = p.Space.Room(p.Provider)
		v.Score, v.Accepted = scores[id]
		if r, ok := rejected[model.PoolID{Node: p.Node}]; ok {
			v.Reason = r.String()
		} else if r, ok := rejected[id]; ok {
			v.Reason = r.String()
		}
		list = append(list, v)
	}
	for key := range poolless {
		v := PoolVerdict{Node: names[key], Reason: placer.NoPool.String()}
		if r, ok := rejected[model.PoolID{Node: key}]; ok {
			v.Reason = r.String()
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b PoolVerdict) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pool, b.Pool)) })
	return list
}
