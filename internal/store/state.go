// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tidwall/btree"
)

// Revision numbers the updates of a store, 1, 2, 3 and so on, through restarts. 0 is the empty store.
type Revision uint64

// Reader is what rows are read from: a [*View] or a [*Tx].
type Reader interface {
	table(*definition) *table
	// frozen is table as it is now, whatever the transaction does to it later.
	frozen(*definition) *table
	// hand is called with each row that is about to be given out.
	hand(*definition, *row) any
}

// row is a stored row. It never changes once it is in a table.
type row struct {
	revision Revision
	value    any        // pointer to V
	entries  [][]string // for each index of the collection, its entries in that index
	shares   [][]share  // for each total of the collection, its contributions
	check    []byte     // its encoding when it was made, in a paranoid store
}

// table is the rows of one collection with everything derived from them. A table that a state was published with never
// changes; a transaction changes clones.
type table struct {
	rows    *btree.Map[string, *row]
	indexes []*entries
	totals  []*btree.Map[string, int64] // by encoded value
}

// entries is the content of an index: for each value of each row, the encoded value followed by the encoded key of the row.
type entries = btree.Map[string, struct{}]

// degree is that of the trees: smaller ones make cheaper copies for the next update, larger ones faster scans.
const degree = 16

func newTable(d *definition) *table {
	t := &table{rows: btree.NewMap[string, *row](degree)}
	for range d.indexes {
		t.indexes = append(t.indexes, btree.NewMap[string, struct{}](degree))
	}
	for range d.totals {
		t.totals = append(t.totals, btree.NewMap[string, int64](degree))
	}
	return t
}

// clone takes a constant time: the trees are copied when they are written. It is not for concurrent use on one table.
func (t *table) clone() *table {
	c := &table{
		rows:    t.rows.Copy(),
		indexes: make([]*entries, len(t.indexes)),
		totals:  make([]*btree.Map[string, int64], len(t.totals)),
	}
	for i, ix := range t.indexes {
		c.indexes[i] = ix.Copy()
	}
	for i, sum := range t.totals {
		c.totals[i] = sum.Copy()
	}
	return c
}

// set replaces old, which may be nil, by new, which may be nil, with all that is derived from them.
func (t *table) set(key string, old, new *row) {
	if new != nil {
		t.rows.Set(key, new)
	} else {
		t.rows.Delete(key)
	}
	for i, ix := range t.indexes {
		var before, after []string
		if old != nil {
			before = old.entries[i]
		}
		if new != nil {
			after = new.entries[i]
		}
		differences(before, after,
			func(gone string) { ix.Delete(gone) },
			func(come string) { ix.Set(come, struct{}{}) })
	}
	for i, sum := range t.totals {
		if old != nil {
			add(sum, old.shares[i], -1)
		}
		if new != nil {
			add(sum, new.shares[i], 1)
		}
	}
}

func add(sum *btree.Map[string, int64], shares []share, sign int64) {
	for _, s := range shares {
		n, _ := sum.Get(s.value)
		if n += sign * s.n; n != 0 {
			sum.Set(s.value, n)
		} else {
			sum.Delete(s.value)
		}
	}
}

// differences calls gone for what is only in before and come for what is only in after. Both are sorted.
func differences(before, after []string, gone, come func(string)) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			gone(before[0])
			before = before[1:]
		case len(before) == 0 || after[0] < before[0]:
			come(after[0])
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
}

// under calls f with the key of each row that has an encoded value, in key order, until f returns false.
func (t *table) under(def *indexDefinition, value string, f func(key string) bool) {
	t.indexes[def.at].Ascend(value, func(entry string, _ struct{}) bool {
		return strings.HasPrefix(entry, value) && f(entry[len(value):])
	})
}

// count is the number of rows that have an encoded value.
func (t *table) count(def *indexDefinition, value string) int {
	ix := t.indexes[def.at]
	from := rank(ix, 0, func(entry string) bool { return entry >= value })
	return rank(ix, from, func(entry string) bool { return !strings.HasPrefix(entry, value) }) - from
}

// rank is the position, not before from, of the first entry for which at is true, given that it is true for all later ones.
func rank(ix *entries, from int, at func(entry string) bool) int {
	lo, hi := from, ix.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if entry, _, _ := ix.GetAt(mid); at(entry) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// free is the least number from first to last such that no row has the value that ends with it after head.
func (t *table) free(def *indexDefinition, head string, first, last uint64) (uint64, bool) {
	ix := t.indexes[def.at]
	end := len(head) + 8 // of a value
	number := func(entry string) uint64 { return word(entry[:end]) }
	if !def.unique {
		free := first
		ix.Ascend(head+tail(first), func(entry string, _ struct{}) bool {
			if !strings.HasPrefix(entry, head) || number(entry) > free {
				return false
			}
			if number(entry) == free {
				free++
			}
			return free <= last && free != 0
		})
		return free, free <= last && free >= first
	}
	// The entries from first on hold different numbers in order, so number minus position never falls: the first position at
	// which it is more than at the beginning is behind the gap.
	begin := rank(ix, 0, func(entry string) bool { return entry >= head+tail(first) })
	lo, hi := begin, ix.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		entry, _, _ := ix.GetAt(mid)
		if !strings.HasPrefix(entry, head) || number(entry)-first > uint64(mid-begin) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	gap := uint64(lo - begin)
	return first + gap, gap <= last-first
}

// state is everything at one revision. A published state never changes.
type state struct {
	layout   *layout
	revision Revision
	origin   Origin
	tables   []*table
	aside    map[string]Aside // by stored key
}

// layout gives each collection of a store its place in the states.
type layout struct {
	defs []*definition
	at   map[*definition]int
	name map[string]int
}

func (l *layout) place(d *definition) int {
	i, ok := l.at[d]
	if !ok {
		panic(fmt.Sprintf("store: collection %s is not one of this store", d.name))
	}
	return i
}

// View is the durable state at one revision. It never changes and may be kept, and used from several goroutines.
type View struct {
	state    *state
	paranoid bool
}

// Revision is the revision of the newest update that the view shows.
func (v *View) Revision() Revision { return v.state.revision }

func (v *View) table(d *definition) *table  { return v.state.tables[v.state.layout.place(d)] }
func (v *View) frozen(d *definition) *table { return v.table(d) }

func (v *View) hand(d *definition, r *row) any {
	if v.paranoid {
		r.unchanged(d)
	}
	return r.value
}

// tail is the encoding of the last number of a value.
func tail(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
