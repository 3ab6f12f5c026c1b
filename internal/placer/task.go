// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"slices"
	"strings"

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
	kind     int32   // Nodes of one number have the same values.
	number   int32   // Of the node.
	held     []int32 // Scratch of a search: the shared spaces of its candidates.
}

// candidate is a pool that can take a replica.
type candidate struct {
	node    *node
	pool    *Pool
	name    model.PoolKey
	classes class
	shared  int32 // The number of its shared space, or free.
	score   float64
	own     int32 // Scratch of a search: the node's number where it has several candidates, else free.
	space   int32 // Scratch of a search: the shared space's number where others lie in it too, else free.
}

// tally is a limit with the room that existing replicas leave for each value, by its number.
type tally struct {
	limit
	room []int
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
	limits   []tally
	kinds    int32 // How many combinations of values nodes have.
	spaces   int   // How many shared spaces candidates lie in.
	rejected []Rejection
	want     int
	have     int
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
	kinds := map[kindStep]int32{}
	values := make([]numbers, len(t.rules.limits))
	t.limits = make([]tally, len(values))
	for i, l := range t.rules.limits {
		t.limits[i].limit = l
	}
	backing := make([]int32, len(values)*len(t.ordered))
	for i, n := range t.ordered {
		n.number = int32(i)
		var tuple strings.Builder
		for _, key := range t.rules.common {
			value, _ := n.Props.Get(key)
			tuple.WriteString(value + "\x00")
		}
		n.tuple = tuples.of(tuple.String())
		n.values, backing = backing[:len(values):len(values)], backing[len(values):]
		for i := range t.limits {
			n.values[i] = t.limits[i].number(&values[i], n.Props)
			n.kind = numberOf(kinds, kindStep{i, n.kind, n.values[i]})
		}
	}
	t.kinds = int32(len(kinds)) + 1
}

// kindStep is a combination of values that is continued by one more.
type kindStep struct {
	place         int
	before, value int32
}

// numberOf numbers keys from 1 in the order in which they come.
func numberOf[K comparable](known map[K]int32, key K) int32 {
	number, ok := known[key]
	if !ok {
		number = int32(len(known)) + 1
		known[key] = number
	}
	return number
}

// number numbers the value of a node, and notes the room for it when it is new.
func (l *tally) number(values *numbers, props model.Props) int32 {
	value, ok := props.Get(l.key)
	if !ok {
		return free
	}
	number := values.of(value)
	if int(number) == len(l.room) {
		l.room = append(l.room, max(0, l.most-l.used[value]))
	}
	return number
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
