// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// field is what a placement chooses from: all nodes that run an agent, and their pools.
type field struct {
	nodes []placer.Node
	pools []placer.Pool
}

// field reads the nodes and pools of a state, with what their agents last said. levels are
// the properties of what is placed: its definition and group.
func (s *Resources) field(r store.Reader, levels []props.Level) field {
	levels = append(cluster(r), levels...)
	f := field{nodes: make([]placer.Node, 0, schema.Nodes.Len(r)), pools: make([]placer.Pool, 0, schema.Pools.Len(r))}
	for n := range schema.Nodes.All(r) {
		if n.Type.RunsAgent() {
			f.nodes = append(f.nodes, s.node(r, n, levels))
		}
	}
	pools := s.poolsOf(r, levels)
	for p := range schema.Pools.All(r) {
		f.pools = append(f.pools, pools.pool(p))
	}
	return f
}

func (s *Resources) node(r store.Reader, n schema.Node, levels []props.Level) placer.Node {
	key := n.Name.Key()
	seen := s.Observed.Node(key)
	levels = append(slices.Clip(levels), props.Level{Scope: props.Node, Props: n.Props})
	out := placer.Node{
		Name: n.Name, Online: seen.Connection == observed.Online, Props: n.Props,
		NoTarget: !props.Bool("AutoplaceTarget", levels...),
		Layers:   seen.Layers, Providers: seen.Providers, Replicas: int(schema.ReplicasByNode.Of(r, key)),
	}
	out.Leaving = whyLeaving(n)
	return out
}

// whyLeaving tells why a node takes nothing new; empty when it does.
func whyLeaving(n schema.Node) string {
	switch {
	case n.Deleting:
		return "node is lost and being removed"
	case n.Evacuating:
		return "node is being evacuated"
	case n.Evicted:
		return "node was evicted"
	}
	return ""
}

// pool is one pool as the placer wants it.
func (s *Resources) pool(r store.Reader, p schema.Pool, levels []props.Level) placer.Pool {
	return s.poolsOf(r, levels).pool(p)
}

// pooling makes pools of rows. Few pools say anything about placement themselves: what all
// others inherit is looked up once.
type pooling struct {
	*Resources
	r      store.Reader
	levels []props.Level
	named  map[model.PoolKey]model.Props // what is set for all pools of a name
	usual  rules
}

// rules is what properties say about placing into a pool.
type rules struct {
	noTarget              bool
	freeRatio, totalRatio float64
	throughput            int64
	minRoom               props.Portion // of a thin pool
}

func (s *Resources) poolsOf(r store.Reader, levels []props.Level) *pooling {
	return &pooling{s, r, levels, map[model.PoolKey]model.Props{}, rulesOf(levels)}
}

// rulesOf reads the rules from what a pool inherits, and from what is set for itself.
func rulesOf(levels []props.Level, own ...props.Level) rules {
	levels = append(slices.Clip(levels), own...)
	out := rules{
		noTarget:   !props.Bool("AutoplaceTarget", own...),
		freeRatio:  ratio("MaxFreeCapacityOversubscriptionRatio", levels),
		totalRatio: ratio("MaxTotalCapacityOversubscriptionRatio", levels),
		minRoom:    props.PortionOf("Autoplacer/MinThinFreeSpace", levels...),
	}
	out.throughput, _ = props.Int("Autoplacer/MaxThroughput", levels...)
	return out
}

// rulesIn tells whether properties say anything about placing into their pool.
func rulesIn(p model.Props) bool {
	if p.Len() == 0 {
		return false
	}
	for _, key := range []string{
		"AutoplaceTarget", "MaxOversubscriptionRatio", "MaxFreeCapacityOversubscriptionRatio", "MaxTotalCapacityOversubscriptionRatio",
		"Autoplacer/MaxThroughput", "Autoplacer/MinThinFreeSpace",
	} {
		if _, set := p.Get(key); set {
			return true
		}
	}
	return false
}

func (l *pooling) pool(p schema.Pool) placer.Pool {
	id := model.PoolID{Node: p.Node, Pool: p.Name.Key()}
	named, looked := l.named[id.Pool]
	if !looked {
		named = schema.PropsOfPools(l.r, id.Pool)
		l.named[id.Pool] = named
	}
	rules := l.usual
	if rulesIn(p.Props) || rulesIn(named) {
		// What is set for all pools of the name comes after what is set for the pool itself.
		rules = rulesOf(l.levels, props.Level{Scope: props.Pool, Props: p.Props}, props.Level{Scope: props.Pool, Props: named})
	}
	seen, _ := l.Observed.Pool(id)
	out := placer.Pool{
		Node: p.Node, Name: p.Name, Provider: p.Provider, SharedSpace: p.SharedSpace, NoTarget: rules.noTarget,
		Granularity: seen.Granularity, Fault: strings.Join(seen.Faults, "; "), Throughput: rules.throughput,
		Space: space(seen, p.SharedSpace != "", promisedIn(l.r, p)),
	}
	out.Space.FreeRatio, out.Space.TotalRatio = rules.freeRatio, rules.totalRatio
	if p.Provider.Thin() {
		out.MinRoom = rules.minRoom.Of(out.Space.Total)
	}
	return out
}

// space is what is known of a pool's room: what its agent measured, and what was promised. The
// agent tells the volumes that were promised from those that were not, which take room but
// redeem no promise. Of a shared space it cannot: those of other nodes are unknown to it.
func space(seen observed.PoolStatus, shared bool, promised int64) placer.Space {
	if seen.Total == nil || seen.Free == nil {
		return placer.Space{Promised: promised}
	}
	sp := placer.Space{Known: true, Total: *seen.Total, Free: *seen.Free, Promised: promised}
	redeemed := seen.Pledged
	if shared {
		redeemed = seen.Allocated
	}
	if redeemed != nil {
		sp.Allocated = *redeemed
	}
	return sp
}

// promisedIn is what was promised in a pool, and in all others that are one space with it. A
// volume that several nodes have in one space counts for each of them: that is more than
// it takes, and never less.
func promisedIn(r store.Reader, p schema.Pool) int64 {
	if p.SharedSpace == "" {
		return schema.Promised.Of(r, model.PoolID{Node: p.Node, Pool: p.Name.Key()})
	}
	var sum int64
	for other := range schema.PoolsBySpace.Get(r, p.SharedSpace) {
		sum += schema.Promised.Of(r, model.PoolID{Node: other.Node, Pool: other.Name.Key()})
	}
	return sum
}

// Space returns what is known of a pool's room, and how much it can still promise.
func (s *Resources) Space(r store.Reader, p schema.Pool) (sp placer.Space, room int64, known bool) {
	in := s.pool(r, p, cluster(r))
	room, known = in.Space.Room(p.Provider)
	return in.Space, room, known
}

// cluster is the properties of the whole cluster as a level.
func cluster(r store.Reader) []props.Level {
	return []props.Level{{Scope: props.Controller, Props: schema.SettingsOf(r)}}
}

// ratio returns an over-subscription ratio: of its own key, else the general one.
func ratio(key string, levels []props.Level) float64 {
	if f, ok := props.Float(key, levels...); ok {
		return f
	}
	f, _ := props.Float("MaxOversubscriptionRatio", levels...)
	return f
}

// weights returns how much each criterion of a placement counts.
func weights(r store.Reader) *placer.Weights {
	levels := cluster(r)
	weight := func(name string) float64 {
		f, _ := props.Float("Autoplacer/Weights/"+name, levels...)
		return f
	}
	return &placer.Weights{
		MaxFreeSpace: weight("MaxFreeSpace"), MinReservedSpace: weight("MinReservedSpace"),
		MinRscCount: weight("MinRscCount"), MaxThroughput: weight("MaxThroughput"),
	}
}

// existing lists the replicas that a definition has, as the placer wants them. Those that go,
// or lie on nodes that leave, do not count.
func existing(r store.Reader, d model.DefinitionKey) []placer.Existing {
	var list []placer.Existing
	for x := range schema.ResourcesOf(r, d) {
		e := placer.Existing{
			Node: x.Node, Diskful: x.Kind == schema.Diskful, Client: x.Kind == schema.Client, Uncounted: !counts(r, x),
		}
		if e.Diskful && len(x.Volumes) > 0 {
			e.Pool = x.Volumes[0].Pool
		}
		list = append(list, e)
	}
	return list
}

// counts tells whether a replica is one to rely on.
func counts(r store.Reader, x schema.Resource) bool {
	n, ok := schema.Nodes.Get(r, x.Node)
	return ok && !x.Deleting && x.Becomes == "" && !n.Leaving()
}

// others yields the definitions that have a replica on a node.
func others(r store.Reader) func(model.NodeKey) iter.Seq[model.DefinitionKey] {
	return func(n model.NodeKey) iter.Seq[model.DefinitionKey] {
		return func(yield func(model.DefinitionKey) bool) {
			for x := range schema.ResourcesByNode.Get(r, n) {
				if !x.Deleting && !yield(x.Definition) {
					return
				}
			}
		}
	}
}

// promise is what a volume of size bytes is promised in a pool.
func (s *Resources) promise(id model.PoolID, size int64) int64 {
	seen, _ := s.Observed.Pool(id)
	g := seen.Granularity
	if g <= 1 || size%g == 0 {
		return size
	}
	return size + g - size%g
}
