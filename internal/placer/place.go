// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// node is a node with what is known of it for one request.
type node struct {
	*Node
	key      model.NodeKey
	standing standing
	fault    Reason  // Why it is no candidate, 0 when it is one.
	pools    int     // How many pools it has of the kind that is asked for.
	tuple    int32   // Nodes of one number have the same values of the properties that must be common.
	values   []int32 // For each limit the number of its value, or free.
}

// candidate is a pool that can take a replica.
type candidate struct {
	node    *node
	pool    *Pool
	name    model.PoolKey
	classes class
	shared  int32 // The number of its shared space, or free.
	score   float64
}

func (c *candidate) pick() Pick {
	return Pick{Node: c.node.key, Pool: c.name, Score: c.score, Convert: c.node.standing != empty}
}

// task is one request being worked on.
type task struct {
	req      *Request
	rules    *rules
	mixing   mixing
	nodes    map[model.NodeKey]*node
	ordered  []*node // By key.
	pools    []Pool
	sharing  map[string]bool        // Shared spaces that existing replicas lie in.
	names    map[model.PoolKey]bool // Pools that counted replicas lie in.
	matched  map[model.DefinitionKey]bool
	rejected []Rejection
	want     int
	have     int
}

// Place plans where the replicas of a request go. When there are fewer places than wanted it returns the plan, without picks, together with an
// errs.NotEnough that carries the reasons; a request that makes no sense is errs.Invalid or errs.Unsupported.
func Place(req Request, nodes []Node, pools []Pool) (Plan, error) {
	t, err := prepare(&req, nodes, pools)
	if err != nil {
		return Plan{}, err
	}
	candidates := t.candidates()
	rank(candidates, t.weights())
	plan := Plan{Want: t.want, Have: t.have, Ranked: picksOf(candidates), Rejected: t.rejected}
	if need := t.want - t.have; need > 0 {
		chosen, decided := t.choose(candidates, need)
		if chosen == nil {
			return plan, t.notEnough(candidates, need, decided)
		}
		plan.Picks = picksOf(chosen)
	}
	if on := req.Filter.DisklessOnRemaining; on != nil && *on {
		plan.DisklessOn = t.remaining(plan.Picks)
	}
	return plan, nil
}

func picksOf(candidates []*candidate) []Pick {
	picks := make([]Pick, len(candidates))
	for i, c := range candidates {
		picks[i] = c.pick()
	}
	return picks
}

func (t *task) weights() Weights {
	if t.req.Weights == nil {
		return DefaultWeights()
	}
	return *t.req.Weights
}

// prepare joins what was brought, and counts what exists.
func prepare(req *Request, nodes []Node, pools []Pool) (*task, error) {
	t := &task{
		req: req, pools: pools,
		nodes:   make(map[model.NodeKey]*node, len(nodes)),
		ordered: make([]*node, len(nodes)),
		sharing: map[string]bool{}, names: map[model.PoolKey]bool{}, matched: map[model.DefinitionKey]bool{},
	}
	backing := make([]node, len(nodes))
	for i := range nodes {
		backing[i] = node{Node: &nodes[i], key: nodes[i].Name.Key()}
		t.nodes[backing[i].key] = &backing[i]
		t.ordered[i] = &backing[i]
	}
	slices.SortFunc(t.ordered, func(a, b *node) int { return cmp.Compare(a.key, b.key) })
	diskless := req.Filter.DisklessType != nil && *req.Filter.DisklessType != ""
	counted := t.countExisting(diskless)
	rules, err := compile(req, counted)
	if err != nil {
		return nil, err
	}
	t.rules = rules
	for i := range pools {
		if n := t.nodes[pools[i].Node]; n != nil && diskless == (pools[i].Provider == model.Diskless) {
			n.pools++
		}
	}
	t.want = t.have + t.needed()
	t.numberValues()
	return t, nil
}

// needed is how many replicas are still to be placed; negative when there are more than asked for.
func (t *task) needed() int {
	f := &t.req.Filter
	switch {
	case f.AdditionalPlaceCount != nil && *f.AdditionalPlaceCount > 0:
		return int(*f.AdditionalPlaceCount)
	case f.PlaceCount != nil:
		return int(*f.PlaceCount) - t.have
	default:
		return -t.have
	}
}

// countExisting takes note of the replicas that exist, and returns the properties of the nodes of those that count in rules. Replicas in one shared
// space are one copy of the data and count once.
func (t *task) countExisting(diskless bool) []model.Props {
	var counted []model.Props
	var providers []model.Provider
	allMix, spaces := true, map[string]bool{}
	for _, e := range t.req.Existing {
		n, known := t.nodes[e.Node]
		if known {
			n.standing = max(n.standing, standingOf(e))
		}
		pool := t.poolOf(e)
		if pool != nil && pool.SharedSpace != "" {
			t.sharing[pool.SharedSpace] = true
		}
		if e.Uncounted {
			continue
		}
		if known && (e.Diskful || diskless) {
			counted = append(counted, n.Props)
		}
		if e.Diskful {
			allMix = allMix && known && n.Mixes
			t.names[e.Pool] = true
			if pool != nil {
				providers = append(providers, pool.Provider)
			}
		}
		again := pool != nil && pool.SharedSpace != "" && spaces[pool.SharedSpace]
		if e.Diskful != diskless && !again {
			t.have++
		}
		if pool != nil {
			spaces[pool.SharedSpace] = true
		}
	}
	t.mixing = mixingOf(t.req.MixProviders, providers, allMix)
	return counted
}

func standingOf(e Existing) standing {
	switch {
	case e.Diskful, e.Uncounted:
		return occupied
	case e.Client:
		return client
	default:
		return witness
	}
}

// poolOf is the pool that an existing replica lies in, nil when that is not known.
func (t *task) poolOf(e Existing) *Pool {
	for i := range t.pools {
		if p := &t.pools[i]; e.Diskful && p.Node == e.Node && p.Name.Key() == e.Pool {
			return p
		}
	}
	return nil
}

// numberValues gives the values that rules compare small numbers.
func (t *task) numberValues() {
	var tuples numbers
	values := make([]numbers, len(t.rules.limits))
	for _, n := range t.ordered {
		var tuple strings.Builder
		for _, key := range t.rules.common {
			value, _ := n.Props.Get(key)
			tuple.WriteString(value + "\x00")
		}
		n.tuple = tuples.of(tuple.String())
		n.values = make([]int32, len(values))
		for i, l := range t.rules.limits {
			n.values[i] = free
			if value, ok := n.Props.Get(l.key); ok {
				n.values[i] = values[i].of(value)
			}
		}
	}
}

// numbers numbers strings from 0 in the order in which they come.
type numbers struct{ of32 map[string]int32 }

func (n *numbers) of(s string) int32 {
	number, known := n.of32[s]
	if !known {
		if n.of32 == nil {
			n.of32 = map[string]int32{}
		}
		number = int32(len(n.of32))
		n.of32[s] = number
	}
	return number
}

// candidates filters, and takes note of the reason of each rejection.
func (t *task) candidates() []*candidate {
	for _, n := range t.ordered {
		if r := t.rejectNode(n); r.Kind != 0 {
			n.fault = r.Kind
			t.rejected = append(t.rejected, r)
		}
	}
	var candidates []*candidate
	var spaces numbers
	for i := range t.pools {
		p := &t.pools[i]
		n := t.nodes[p.Node]
		if n == nil || n.fault != 0 {
			continue
		}
		if r := t.rejectPool(n, p); r.Kind != 0 {
			if r.Kind != PoolKind {
				t.rejected = append(t.rejected, r)
			}
			continue
		}
		c := &candidate{node: n, pool: p, name: p.Name.Key(), shared: free, classes: t.mixing.classes(p.Provider, n.Mixes)}
		if p.SharedSpace != "" {
			c.shared = spaces.of(p.SharedSpace)
		}
		candidates = append(candidates, c)
	}
	slices.SortFunc(t.rejected, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pool, b.Pool))
	})
	return candidates
}

// remaining is the nodes that get a client: those that can, and have neither a replica that stays as it is nor get one. A tie-breaker becomes a client.
func (t *task) remaining(picks []Pick) []model.NodeKey {
	taken := make(map[model.NodeKey]bool, len(picks))
	for _, p := range picks {
		taken[p.Node] = true
	}
	var nodes []model.NodeKey
	for _, n := range t.ordered {
		if n.standing <= witness && n.Leaving == "" && n.Online && slices.Contains(n.Layers, model.DRBD) && !taken[n.key] {
			nodes = append(nodes, n.key)
		}
	}
	return nodes
}

// notEnough is the error for a plan that could not be made.
func (t *task) notEnough(candidates []*candidate, need int, decided bool) error {
	if !decided {
		return errs.New(errs.Unsupported, errs.Resource, "it could not be decided whether %d replicas can be placed", need).
			Because("the rules about nodes with the same and different values cross each other in too many ways").
			Fix("give fewer such rules, or name the nodes")
	}
	found := need - 1
	for ; found > 0; found-- {
		if chosen, _ := t.choose(candidates, found); chosen != nil {
			break
		}
	}
	e := errs.New(errs.NotEnough, errs.Resource, "not enough nodes: %s wanted in addition to %d, and only %d can be placed",
		count(need, "replica"), t.have, max(found, 0)).
		Fix("add nodes, pools or space, or ask for less").
		Detail(Summarize(t.rejected))
	if causes := t.causes(candidates, need); len(causes) > 0 {
		e = e.Because("%s", strings.Join(causes, "; "))
	}
	return e
}
