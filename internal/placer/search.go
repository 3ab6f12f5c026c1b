// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import "slices"

// free is the value of an attribute that is not limited.
const free int32 = -1

// The work that a search may do before it gives up, in looks at an item. A search for a preference gives up early: there is another one without it.
const (
	workForRules = 1 << 24
	workForWish  = 1 << 20
)

// attribute limits how many items of each value may be chosen.
type attribute struct {
	values []int32 // Of each item.
	room   []int   // Of each value, how many items may still be chosen.
	most   int     // How many there may be of a value that is to be filled once it is begun; 0: values need not be filled.
}

// search finds the items of a list, taken in order, that a complete choice can hold: the first that is in any complete choice, then the first after it
// that is in one together with it, and so on.
//
// Items with the same values in all attributes are of one kind. They can stand for each other, so of each kind only as many as are needed are looked
// at, and when one of them fails at some point of the search, all of its kind fail there.
type search struct {
	need       int
	items      []*candidate
	kinds      []int32 // Of each item.
	kindCount  int
	attributes []attribute
	chosen     []int
	tried      [][]bool // By depth and kind.
	stuck      bool     // Whether an item failed, so that looking ahead is worth its price.
	budget     int
	gaveUp     bool
	open       []bool // Scratch: the items that may still be chosen.
	count      []int  // Scratch: of each value of one attribute, how many may be chosen.
	flow       flow
}

func newSearch(t *task, list []*candidate, need int, fill bool) *search {
	s := &search{need: need, budget: workForRules}
	if fill {
		s.budget = workForWish
	}
	list, several := onePerNode(list)
	kinds := kindSet{nodes: t.kinds}
	shared := sharedTwice(list)
	perKind := make([]int, kinds.len())
	for _, c := range list {
		c.own, c.space = free, free
		if several > 0 && len(c.node.held) > 1 {
			c.own = c.node.number
		}
		if shared[c.shared] {
			c.space = c.shared
		}
		kind := kinds.of(c)
		if int(kind) == len(perKind) {
			perKind = append(perKind, 0)
		}
		if perKind[kind]++; perKind[kind] <= need {
			s.items, s.kinds = append(s.items, c), append(s.kinds, kind)
		}
	}
	s.kindCount = kinds.len()
	for i := range t.limits {
		l := &t.limits[i]
		a := s.add(l.room, func(c *candidate) int32 { return c.node.values[i] })
		if fill && l.fill {
			a.most = l.most
		}
	}
	if several > 0 {
		s.add(ones(len(t.ordered)), func(c *candidate) int32 { return c.own })
	}
	if len(shared) > 0 {
		s.add(ones(t.spaces), func(c *candidate) int32 { return c.space })
	}
	return s
}

// add adds an attribute.
func (s *search) add(room []int, value func(*candidate) int32) *attribute {
	a := attribute{room: slices.Clone(room), values: make([]int32, len(s.items))}
	for i, c := range s.items {
		a.values[i] = value(c)
	}
	s.attributes = append(s.attributes, a)
	return &s.attributes[len(s.attributes)-1]
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// onePerNode drops candidates that another one of their node can always stand for, because it is ranked before it and lies in the same shared space, or
// both lie in none. It tells how many nodes are left with several, and notes at each in which spaces.
func onePerNode(list []*candidate) (kept []*candidate, several int) {
	for _, c := range list {
		c.node.held = c.node.held[:0]
	}
	kept = make([]*candidate, 0, len(list))
	for _, c := range list {
		n := c.node
		if slices.Contains(n.held, c.shared) {
			continue
		}
		if n.held = append(n.held, c.shared); len(n.held) == 2 {
			several++
		}
		kept = append(kept, c)
	}
	return kept, several
}

// sharedTwice is the shared spaces that more than one candidate lies in.
func sharedTwice(list []*candidate) map[int32]bool {
	count := map[int32]int{}
	for _, c := range list {
		if c.shared != free {
			count[c.shared]++
		}
	}
	twice := map[int32]bool{}
	for space, n := range count {
		if n > 1 {
			twice[space] = true
		}
	}
	return twice
}

// kindSet numbers the combinations of values that candidates have: that of the node alone, or above those, together with what ties a candidate to others.
type kindSet struct {
	nodes int32
	more  map[[3]int32]int32
}

func (k *kindSet) of(c *candidate) int32 {
	if c.own == free && c.space == free {
		return c.node.kind
	}
	key := [3]int32{c.node.kind, c.own, c.space}
	number, known := k.more[key]
	if !known {
		if k.more == nil {
			k.more = map[[3]int32]int32{}
		}
		number = k.nodes + int32(len(k.more))
		k.more[key] = number
	}
	return number
}

func (k *kindSet) len() int { return int(k.nodes) + len(k.more) }

// run returns the chosen items, or nil.
func (s *search) run() []*candidate {
	if len(s.items) < s.need {
		return nil
	}
	s.tried = make([][]bool, s.need)
	if !s.extend(0) {
		return nil
	}
	found := make([]*candidate, len(s.chosen))
	for i, item := range s.chosen {
		found[i] = s.items[item]
	}
	return found
}

// extend completes the choice with items from the given one on.
func (s *search) extend(from int) bool {
	depth := len(s.chosen)
	if depth == s.need {
		return s.filled(0)
	}
	if s.tried[depth] == nil {
		s.tried[depth] = make([]bool, s.kindCount)
	}
	tried := s.tried[depth]
	clear(tried)
	if !s.possible(from, tried) {
		return false
	}
	for i := from; i < len(s.items); i++ {
		if tried[s.kinds[i]] || !s.fits(i) {
			continue
		}
		s.take(i, -1)
		s.chosen = append(s.chosen, i)
		if s.extend(i + 1) {
			return true
		}
		s.chosen = s.chosen[:depth]
		s.take(i, 1)
		tried[s.kinds[i]], s.stuck = true, true
		if !s.possible(i+1, tried) {
			return false
		}
	}
	return false
}

// fits tells whether every limit permits the item.
func (s *search) fits(item int) bool {
	for i := range s.attributes {
		a := &s.attributes[i]
		if v := a.values[item]; v != free && a.room[v] <= 0 {
			return false
		}
	}
	return true
}

// take changes the room of the item's values.
func (s *search) take(item, change int) {
	for i := range s.attributes {
		a := &s.attributes[i]
		if v := a.values[item]; v != free {
			a.room[v] += change
		}
	}
}

// possible tells whether the choice may still be completed with items from the given one on that are not of a tried kind. It never says no wrongly.
func (s *search) possible(from int, tried []bool) bool {
	remaining := s.need - len(s.chosen)
	if s.budget -= len(s.items) - from; s.budget < 0 {
		s.gaveUp = true
	}
	if s.gaveUp || !s.filled(remaining) {
		return false
	}
	if len(s.attributes) == 0 {
		return len(s.items)-from >= remaining
	}
	s.open = sized(s.open, len(s.items))
	for i := from; i < len(s.items); i++ {
		s.open[i] = !tried[s.kinds[i]] && s.fits(i)
	}
	for i := range s.attributes {
		if s.bound(&s.attributes[i]) < remaining {
			return false
		}
	}
	return !s.stuck || s.possiblePairs(from, remaining)
}

// possiblePairs is possible for each two attributes together.
func (s *search) possiblePairs(from, remaining int) bool {
	for i := range s.attributes {
		for j := range i {
			s.budget -= (len(s.items) - from) * remaining
			if s.flow.most(&s.attributes[i], &s.attributes[j], s.open, remaining) < remaining {
				return false
			}
		}
	}
	return true
}

// bound is how many open items one attribute permits to choose.
func (s *search) bound(a *attribute) int {
	s.count = sized(s.count, len(a.room))
	bound := 0
	for item, v := range a.values {
		switch {
		case !s.open[item]:
		case v == free:
			bound++
		case s.count[v] < a.room[v]:
			s.count[v]++
			bound++
		}
	}
	return bound
}

// sized is a slice of n zeros, in the memory of the given one when that is enough.
func sized[T any](slice []T, n int) []T {
	if cap(slice) < n {
		return make([]T, n)
	}
	slice = slice[:n]
	clear(slice)
	return slice
}

// filled tells whether so many more items can leave at most one value of an attribute begun and not filled, where that is wished.
func (s *search) filled(more int) bool {
	for i := range s.attributes {
		a := &s.attributes[i]
		sum, largest := 0, 0
		for _, room := range a.room {
			if room > 0 && room < a.most {
				sum += room
				largest = max(largest, room)
			}
		}
		if sum-largest > more {
			return false
		}
	}
	return true
}
