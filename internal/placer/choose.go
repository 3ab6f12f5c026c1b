// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// wish is a set of preferences that a search is to keep.
type wish struct {
	fill    bool // Values are filled one after the other.
	oneName bool // All pools have one name.
}

// choose returns need candidates, best first, or nil when there is no such placement. Candidates are ranked. decided is false when the search gave up.
func (t *task) choose(candidates []*candidate, need int) (chosen []*candidate, decided bool) {
	for _, w := range t.wishes(candidates) {
		var best []*candidate
		decided = true
		for _, list := range t.lists(candidates, w, need) {
			s := newSearch(t, list, need, w.fill)
			found := s.run()
			decided = decided && !s.gaveUp
			if found != nil && (best == nil || better(found, best)) {
				best = found
			}
		}
		if best != nil {
			return best, true
		}
	}
	return nil, decided
}

// wishes lists the preferences to try, the last of which is none.
func (t *task) wishes(candidates []*candidate) []wish {
	var wishes []wish
	oneName := !t.rules.diskless && len(t.names) <= 1 && slices.ContainsFunc(candidates, func(c *candidate) bool {
		return c.name != candidates[0].name
	})
	fill := slices.ContainsFunc(t.rules.limits, func(l limit) bool { return l.fill })
	for _, w := range []wish{{true, true}, {true, false}, {false, true}, {false, false}} {
		if (fill || !w.fill) && (oneName || !w.oneName) {
			wishes = append(wishes, w)
		}
	}
	return wishes
}

// lists splits the candidates into lists within which nothing but limits, nodes and shared spaces is to be looked at: a common tuple of values, a
// class of providers and, when that is wished, a name of the pools. A list with fewer nodes than needed is left out.
func (t *task) lists(candidates []*candidate, w wish, need int) [][]*candidate {
	type key struct {
		tuple int32
		class class
		name  model.PoolKey
	}
	place := map[key]int{}
	var lists [][]*candidate
	for _, c := range candidates {
		k := key{tuple: c.node.tuple}
		if w.oneName {
			if len(t.names) > 0 && !t.names[c.name] {
				continue
			}
			k.name = c.name
		}
		for k.class = 1; k.class <= noDisk; k.class <<= 1 {
			if c.classes&k.class == 0 {
				continue
			}
			i, ok := place[k]
			if !ok {
				i = len(lists)
				place[k] = i
				lists = append(lists, nil)
			}
			lists[i] = append(lists[i], c)
		}
	}
	return slices.DeleteFunc(lists, func(list []*candidate) bool { return len(list) < need })
}

// better tells whether placement a is to be preferred to b: fewer nodes where the definition is in use without a disk, then the higher sum of scores, then
// by name.
func better(a, b []*candidate) bool {
	return cmp.Or(
		cmp.Compare(clients(a), clients(b)),
		cmp.Compare(total(b), total(a)),
		slices.CompareFunc(a, b, func(x, y *candidate) int {
			return cmp.Or(cmp.Compare(x.node.key, y.node.key), cmp.Compare(x.name, y.name))
		}),
	) < 0
}

func clients(list []*candidate) (n int) {
	for _, c := range list {
		if c.node.standing == client {
			n++
		}
	}
	return n
}

func total(list []*candidate) (sum float64) {
	for _, c := range list {
		sum += c.score
	}
	return sum
}
