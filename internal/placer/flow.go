// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

// flow tells how many items two attributes together permit to choose, which is exact for the two: each item is an edge between its values, and at most as
// many edges as a value has room may be chosen at it. It keeps its memory between calls.
type flow struct {
	room  [2][]int   // Of each value on each side.
	at    [2][][]int // Of each value on each side, its items.
	ends  [2][]int32 // Of each item on each side.
	taken []bool     // Of each item.
	seen  [2][]bool
	queue []visit
}

// visit is a value that was reached, from which item, and where that visit is in the queue.
type visit struct {
	side  int
	value int32
	item  int
	from  int
}

// most is the largest number of open items that can be chosen together, but not more than enough.
func (f *flow) most(a, b *attribute, open []bool, enough int) int {
	f.reset(a, b, open)
	chosen := 0
	for chosen < enough && f.augment() {
		chosen++
	}
	return chosen
}

// reset sets up the graph. Items that are free on a side share a value without a limit there.
func (f *flow) reset(a, b *attribute, open []bool) {
	for side, attr := range []*attribute{a, b} {
		unlimited := int32(len(attr.room))
		f.room[side] = append(append(f.room[side][:0], attr.room...), len(attr.values))
		f.seen[side] = sized(f.seen[side], len(f.room[side]))
		f.at[side] = sized(f.at[side], len(f.room[side]))
		f.ends[side] = f.ends[side][:0]
		for item, v := range attr.values {
			if v == free {
				v = unlimited
			}
			f.ends[side] = append(f.ends[side], v)
			if open[item] {
				f.at[side][v] = append(f.at[side][v], item)
			}
		}
	}
	f.taken = sized(f.taken, len(a.values))
}

// augment chooses one more item, if need be by exchanging chosen ones along the shortest path, and tells whether it could.
func (f *flow) augment() bool {
	clear(f.seen[0])
	clear(f.seen[1])
	f.queue = f.queue[:0]
	for v, room := range f.room[0] {
		if room > 0 && len(f.at[0][v]) > 0 {
			f.seen[0][v] = true
			f.queue = append(f.queue, visit{side: 0, value: int32(v), item: -1, from: -1})
		}
	}
	for i := 0; i < len(f.queue); i++ {
		at := f.queue[i]
		if at.side == 1 && f.room[1][at.value] > 0 {
			f.exchange(i)
			return true
		}
		// From the first side the path goes along items that are not chosen, back from the second side along chosen ones.
		other := 1 - at.side
		for _, item := range f.at[at.side][at.value] {
			end := f.ends[other][item]
			if f.taken[item] == (at.side == 1) && !f.seen[other][end] {
				f.seen[other][end] = true
				f.queue = append(f.queue, visit{side: other, value: end, item: item, from: i})
			}
		}
	}
	return false
}

// exchange turns every item on the path that ends at a visit.
func (f *flow) exchange(end int) {
	f.room[1][f.queue[end].value]--
	for i := end; ; i = f.queue[i].from {
		at := f.queue[i]
		if at.item < 0 {
			f.room[0][at.value]--
			return
		}
		f.taken[at.item] = !f.taken[at.item]
	}
}
