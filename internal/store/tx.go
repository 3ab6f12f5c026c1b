// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Tx is an update under way: it reads the newest state, with its own changes, and changes it. It belongs to the function that it was
// given to, and ends with it.
type Tx struct {
	state    state
	owned    []bool // tables that are this transaction's own clones
	writes   []*write
	byKey    map[place]*write
	discards []string // stored keys of rows set aside
	marked   bool     // it has an effect even without writes
	paranoid bool
	handed   []handed
	over     bool
}

// place is where a row is.
type place struct {
	table int
	key   string
}

// write is what a transaction does to one row, from its first to its last word on it.
type write struct {
	def      *definition
	key      string
	old, new *row
	size     int    // the most bytes that it can take in a commit
	stored   string // the engine's key, once it is encoded
	raw      []byte // the stored form of new, once it is encoded
}

// handed is a row that a paranoid transaction gave out or took in.
type handed struct {
	def *definition
	row *row
}

// The room that a commit leaves to the rows of one update: the rest is for the store's own row.
const (
	maxRows  = kv.MaxRows - 1
	maxBytes = kv.MaxBytes - 512
)

func begin(head *state, paranoid bool) *Tx {
	tx := &Tx{state: *head, owned: make([]bool, len(head.tables)), paranoid: paranoid}
	tx.state.tables = slices.Clone(head.tables)
	tx.state.revision++
	return tx
}

// Revision is the revision that the update will have if it writes something and succeeds: that of the rows that it writes.
func (tx *Tx) Revision() Revision { return tx.state.revision }

func (tx *Tx) table(d *definition) *table {
	if tx.over {
		panic("store: a transaction was used after its update had ended")
	}
	return tx.state.tables[tx.state.layout.place(d)]
}

func (tx *Tx) frozen(d *definition) *table {
	t := tx.table(d)
	if tx.owned[tx.state.layout.place(d)] {
		return t.clone()
	}
	return t // a write clones it first
}

func (tx *Tx) hand(d *definition, r *row) any {
	if tx.paranoid {
		r.unchanged(d)
		tx.handed = append(tx.handed, handed{d, r})
	}
	return r.value
}

func (tx *Tx) insert(d *definition, value any) error {
	t := tx.table(d)
	key := d.encodeK(value)
	if _, taken := t.rows.Get(key); taken {
		return &ExistsError{Collection: d.name, Key: d.showK(key)}
	}
	if len(tx.state.aside) > 0 {
		if a, is := tx.state.aside[d.stored(key)]; is {
			return &AsideError{Aside: a}
		}
	}
	return tx.put(d, key, nil, value)
}

func (tx *Tx) update(d *definition, value any) error {
	key := d.encodeK(value)
	old, ok := tx.table(d).rows.Get(key)
	if !ok {
		return &NotFoundError{Collection: d.name, Key: d.showK(key)}
	}
	return tx.put(d, key, old, value)
}

func (tx *Tx) delete(d *definition, key string) error {
	old, ok := tx.table(d).rows.Get(key)
	if !ok {
		return &NotFoundError{Collection: d.name, Key: d.showK(key)}
	}
	for _, e := range d.children {
		if err := tx.childless(e, key); err != nil {
			return err
		}
	}
	tx.set(d, key, old, nil, len(d.name)+1+len(key))
	return nil
}

// put checks a row that is about to replace old, which may be nil, and writes it.
func (tx *Tx) put(d *definition, key string, old *row, value any) error {
	if n := len(d.stored(key)); n > kv.MaxKey {
		return &RowError{Collection: d.name, Key: d.showK(key), Reason: "its key is too long"}
	}
	size, err := d.size(key, value)
	if err != nil {
		return err
	}
	r := d.row(tx.state.revision, value, key)
	if err := tx.parents(d, key, old, r); err != nil {
		return err
	}
	if err := tx.unique(d, key, r); err != nil {
		return err
	}
	if tx.paranoid {
		if r.check, err = d.encode(r); err != nil {
			return &RowError{Collection: d.name, Key: d.showK(key), Reason: err.Error()}
		}
		tx.handed = append(tx.handed, handed{d, r})
	}
	tx.set(d, key, old, r, size)
	return nil
}

// parents checks that the parents of r are there and, for references that old had not, that they are not closing.
func (tx *Tx) parents(d *definition, key string, old, r *row) error {
	for _, e := range d.parents {
		var before []string
		if old != nil {
			before = old.entries[e.index.at]
		}
		var refused error
		differences(before, r.entries[e.index.at], func(string) {}, func(entry string) {
			if refused != nil {
				return
			}
			pk := entry[:len(entry)-len(key)]
			parent, ok := tx.table(e.parent).rows.Get(pk)
			closing := ok && e.parent.closing != nil && e.parent.closing(parent.value)
			if !ok || closing {
				refused = &ParentError{
					Collection: d.name, Key: d.showK(key),
					Parent: e.parent.name, ParentKey: e.parent.showK(pk), Closing: closing,
				}
			}
		})
		if refused != nil {
			return refused
		}
	}
	return nil
}

// unique checks that no other row holds a value of r in a unique index.
func (tx *Tx) unique(d *definition, key string, r *row) error {
	t := tx.table(d)
	for _, ix := range d.indexes {
		if !ix.unique {
			continue
		}
		for _, entry := range r.entries[ix.at] {
			value := entry[:len(entry)-len(key)]
			holder, held := t.holder(ix, value, key)
			if held {
				return &UniqueError{
					Collection: d.name, Key: d.showK(key),
					Index: ix.name, Value: ix.show(value), Holder: d.showK(holder),
				}
			}
		}
	}
	return nil
}

// holder is a row other than the one with key that has an encoded value.
func (t *table) holder(ix *indexDefinition, value, key string) (holder string, held bool) {
	t.under(ix, value, func(k string) bool {
		if k != key {
			holder, held = k, true
		}
		return !held
	})
	return holder, held
}

// firstChildren is how many children an error names.
const firstChildren = 5

// childless checks that no row refers to the parent with an encoded key.
func (tx *Tx) childless(e *edge, key string) error {
	t := tx.table(e.child)
	var first []string
	t.under(e.index, key, func(child string) bool {
		first = append(first, e.child.showK(child))
		return len(first) < firstChildren
	})
	if len(first) == 0 {
		return nil
	}
	return &ChildrenError{
		Collection: e.parent.name, Key: e.parent.showK(key),
		Child: e.child.name, Count: t.count(e.index, key), First: first,
	}
}

// set puts new, which may be nil, in the place of old, which may be nil.
func (tx *Tx) set(d *definition, key string, old, new *row, size int) {
	at := tx.state.layout.place(d)
	if !tx.owned[at] {
		tx.state.tables[at] = tx.state.tables[at].clone()
		tx.owned[at] = true
	}
	tx.state.tables[at].set(key, old, new)
	p := place{at, key}
	if w, again := tx.byKey[p]; again {
		w.new, w.size = new, size
		return
	}
	if tx.byKey == nil {
		tx.byKey = map[place]*write{}
	}
	w := &write{def: d, key: key, old: old, new: new, size: size}
	tx.byKey[p] = w
	tx.writes = append(tx.writes, w)
}

// finish ends the transaction and returns its writes, refusing those that no commit could take.
func (tx *Tx) finish() ([]*write, error) {
	tx.over = true
	tx.release()
	writes := slices.DeleteFunc(tx.writes, func(w *write) bool { return w.old == nil && w.new == nil })
	if n := len(writes) + len(tx.discards); n > maxRows {
		return nil, &LimitError{What: "rows", Have: n, Max: maxRows}
	}
	if err := fits(writes); err != nil {
		return nil, err
	}
	return writes, nil
}

// fits refuses writes that are too large for one commit. It encodes them only when their bound alone does not tell.
func fits(writes []*write) error {
	bound := 0
	for _, w := range writes {
		bound += w.size
	}
	if bound <= maxBytes {
		return nil
	}
	exact := 0
	for _, w := range writes {
		if err := w.encode(); err != nil {
			return err
		}
		exact += w.bytes()
	}
	if exact > maxBytes {
		return &LimitError{What: "bytes", Have: exact, Max: maxBytes}
	}
	return nil
}

// encode makes the stored form of a write.
func (w *write) encode() error {
	if w.stored == "" {
		w.stored = w.def.stored(w.key)
	}
	if w.new == nil || w.raw != nil {
		return nil
	}
	raw, err := w.def.encode(w.new)
	if err != nil {
		return &RowError{Collection: w.def.name, Key: w.def.showK(w.key), Reason: err.Error()}
	}
	w.raw = raw
	return nil
}

// bytes is what an encoded write counts in a commit.
func (w *write) bytes() int { return len(w.stored) + len(w.raw) }

// release checks that what a paranoid transaction gave out and took in is as it was.
func (tx *Tx) release() {
	for _, h := range tx.handed {
		h.row.unchanged(h.def)
	}
}
