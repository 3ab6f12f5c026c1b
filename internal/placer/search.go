// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

// free is the value of an attribute that is not limited.
const free int32 = -1

// The work that a search may do before it gives up, in looks at an item. A search for a preference gives up early: there is another one without it.
const (
	workForRules = 1 << 26
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
	shared := sharedTwice(list)
	values := make([]int32, 0, len(t.rules.limits)+2)
	kinds := kindSet{}
	perKind := []int{}
	var kept [][]int32
	for _, c := range list {
		values = append(values[:0], c.node.values...)
		values = append(values, several[c.node], free)
		if c.shared != free && shared[c.shared] {
			values[len(values)-1] = c.shared
		}
		kind := kinds.of(values)
		if int(kind) == len(perKind) {
			perKind = append(perKind, 0)
		}
		if perKind[kind]++; perKind[kind] > need {
			continue
		}
		s.items, s.kinds = append(s.items, c), append(s.kinds, kind)
		kept = append(kept, kinds.values[kind])
	}
	s.kindCount = len(perKind)
	for i, l := range t.rules.limits {
		s.addLimit(i, l, kept, fill)
	}
	for i := range 2 {
		s.addSingle(len(t.rules.limits)+i, kept)
	}
	return s
}

// onePerNode drops candidates that another one of their node can always stand for, because it is ranked before it and lies in the same shared space, or
// both lie in none. It returns a number for each node that is left with several, and free for the others.
func onePerNode(list []*candidate) ([]*candidate, map[*node]int32) {
	type place struct {
		node   *node
		shared int32
	}
	seen := make(map[place]bool, len(list))
	several := make(map[*node]int32, len(list))
	kept := make([]*candidate, 0, len(list))
	var count int32
	for _, c := range list {
		p := place{c.node, c.shared}
		if seen[p] {
			continue
		}
		seen[p] = true
		kept = append(kept, c)
		switch number, again := several[c.node]; {
		case !again:
			several[c.node] = free
		case number == free:
			several[c.node] = count
			count++
		}
	}
	return kept, several
}

// sharedTwice is the shared spaces that more than one candidate lies in.
func sharedTwice(list []*candidate) map[int32]bool {
	twice := map[int32]bool{}
	for _, c := range list {
		if c.shared != free {
			_, again := twice[c.shared]
			twice[c.shared] = again
		}
	}
	return twice
}

// addLimit adds the limit that is in column i of the values of kept items.
func (s *search) addLimit(i int, l limit, kept [][]int32, fill bool) {
	a := attribute{values: column(kept, i)}
	seen := map[string]bool{}
	for n, value := range a.values {
		for int(value) >= len(a.room) {
			a.room = append(a.room, 0)
		}
		if value != free {
			text, _ := s.items[n].node.Props.Get(l.key)
			seen[text] = true
			a.room[value] = max(0, l.most-l.used[text])
		}
	}
	if fill && l.fill {
		// Values that only existing replicas have are begun too.
		for text, used := range l.used {
			if !seen[text] {
				a.room = append(a.room, max(0, l.most-used))
			}
		}
		a.most = l.most
	}
	if len(a.room) > 0 {
		s.attributes = append(s.attributes, a)
	}
}

// addSingle adds an attribute of which each value may be chosen once.
func (s *search) addSingle(i int, kept [][]int32) {
	a := attribute{values: column(kept, i)}
	for _, value := range a.values {
		for int(value) >= len(a.room) {
			a.room = append(a.room, 1)
		}
	}
	if len(a.room) > 0 {
		s.attributes = append(s.attributes, a)
	}
}

func column(rows [][]int32, i int) []int32 {
	values := make([]int32, len(rows))
	for n, row := range rows {
		values[n] = row[i]
	}
	return values
}

// kindSet numbers lists of values.
type kindSet struct {
	numbers map[string]int32
	values  [][]int32
	key     []byte
}

func (k *kindSet) of(values []int32) int32 {
	k.key = k.key[:0]
	for _, v := range values {
		k.key = append(k.key, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	number, known := k.numbers[string(k.key)]
	if !known {
		if k.numbers == nil {
			k.numbers = map[string]int32{}
		}
		number = int32(len(k.values))
		k.numbers[string(k.key)] = number
		k.values = append(k.values, append([]int32(nil), values...))
	}
	return number
}

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
		tried[s.kinds[i]] = true
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
