// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"sync/atomic"
)

// Collection is the declaration of one kind of row: V, found by a key K that is part of it. Collections hold no rows: these are
// in the states of a [Store], and one declaration serves any number of stores.
//
// Rows are values. What Get and the iterators return is the caller's own, except for the maps, slices and pointers in it: these are
// shared with the state and must not be changed in place; replace them by changed copies. [Paranoid] finds who does.
type Collection[K comparable, V any] struct {
	def *definition
	key keyOf[K]
}

// Registered is a [Collection] of any types.
type Registered interface {
	Name() string
	definition() *definition
}

// definition is what the store knows of a collection, without its types. Rows are handled as pointers to V.
type definition struct {
	name     string
	encodeK  func(row any) string
	showK    func(key string) string
	schema   int
	upgrade  func(from int, raw []byte) ([]byte, error)
	closing  func(row any) bool // nil: never
	decode   func(raw []byte) (any, error)
	measure  measurer
	parents  []*edge
	children []*edge // the edges of others that lead here
	indexes  []*indexDefinition
	totals   []*totalDefinition
	sealed   atomic.Bool // a store was opened with it: no more may be declared
}

// edge is a reference from each row of child to rows of parent. Its index, in the child, finds the children of a parent.
type edge struct {
	child, parent *definition
	index         *indexDefinition
}

// Option says more about a collection of rows V.
type Option[V any] func(*definition)

var collectionName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// Define declares a collection. The name is part of every stored key, for ever; key returns the key of a row. Define panics when the
// declaration is wrong: a key type that is not made of strings, integers, bools and structs of these, or a row type that would not
// read back from JSON as it was written (unexported or hidden fields, interfaces, functions).
func Define[K comparable, V any](name string, key func(*V) K, opts ...Option[V]) *Collection[K, V] {
	if !collectionName.MatchString(name) {
		panic(fmt.Sprintf("store: collection name %q: want lower-case letters, digits, _ and -", name))
	}
	c := &Collection[K, V]{key: compileKey[K]()}
	c.def = &definition{
		name:    name,
		encodeK: func(row any) string { return c.key.encode(key(row.(*V))) },
		showK:   c.key.show,
		decode: func(raw []byte) (any, error) {
			v := new(V)
			return v, json.Unmarshal(raw, v)
		},
		measure: measurerOf(name, reflect.TypeFor[V]()),
	}
	for _, o := range opts {
		o(c.def)
	}
	return c
}

// ChildOf makes each row a child of the rows of p whose keys refs returns. A row cannot be inserted while one of its parents is
// missing or closing, a reference cannot be changed to such a parent, and a parent cannot be deleted while a child refers to it. A
// collection may have several parents, and a row several references through one of them.
func ChildOf[PK comparable, P, V any](p *Collection[PK, P], refs func(*V) []PK) Option[V] {
	return func(child *definition) {
		p.def.mutable()
		e := &edge{child: child, parent: p.def}
		e.index = addIndex(child, "parent "+p.def.name, p.key, refs)
		child.parents = append(child.parents, e)
		p.def.children = append(p.def.children, e)
	}
}

// Closing makes rows for which f is true take no new references. Those that exist stay.
func Closing[V any](f func(*V) bool) Option[V] {
	return func(d *definition) { d.closing = func(row any) bool { return f(row.(*V)) } }
}

// Version numbers the shape of the stored rows; without it, it is 0. Rows stored under an earlier number are brought forward when
// they are loaded: upgrade is given the JSON of a row of schema from and returns it in schema from+1. Rows of a later
// number are set aside. Raise the number when older programs would misread new rows.
func Version[V any](schema int, upgrade func(from int, raw []byte) ([]byte, error)) Option[V] {
	return func(d *definition) { d.schema, d.upgrade = schema, upgrade }
}

func (c *Collection[K, V]) definition() *definition { return c.def }

// mutable panics when a store was opened with the declaration already.
func (d *definition) mutable() {
	if d.sealed.Load() {
		panic(fmt.Sprintf("store: collection %s is in use already: declare indexes and children before opening a store", d.name))
	}
}

// stored is the engine's key of a row.
func (d *definition) stored(key string) string { return d.name + "/" + key }

// Name is the name in stored keys and messages.
func (c *Collection[K, V]) Name() string { return c.def.name }

// Get returns the row with key k.
func (c *Collection[K, V]) Get(r Reader, k K) (V, bool) {
	if row, ok := r.table(c.def).rows.Get(c.key.encode(k)); ok {
		return *r.hand(c.def, row).(*V), true
	}
	var none V
	return none, false
}

// Revision returns the revision of the update that last wrote the row with key k, and 0 when there is no such row. In the transaction that
// writes the row it is the transaction's own.
func (c *Collection[K, V]) Revision(r Reader, k K) Revision {
	if row, ok := r.table(c.def).rows.Get(c.key.encode(k)); ok {
		return row.revision
	}
	return 0
}

// All yields all rows in key order. Like every sequence of this package it yields the rows that were there when the iteration
// began, also when the transaction changes them on the way.
func (c *Collection[K, V]) All(r Reader) iter.Seq[V] { return c.from(r, "") }

// From yields the rows whose keys are not less than k, in key order.
func (c *Collection[K, V]) From(r Reader, k K) iter.Seq[V] { return c.from(r, c.key.encode(k)) }

func (c *Collection[K, V]) from(r Reader, key string) iter.Seq[V] {
	return func(yield func(V) bool) {
		r.frozen(c.def).rows.Ascend(key, func(_ string, row *row) bool {
			return yield(*r.hand(c.def, row).(*V))
		})
	}
}

// Len is the number of rows.
func (c *Collection[K, V]) Len(r Reader) int { return r.table(c.def).rows.Len() }

// Insert adds a row. Errors: [*ExistsError], [*ParentError], [*UniqueError], [*RowError], [*AsideError].
func (c *Collection[K, V]) Insert(tx *Tx, v V) error { return tx.insert(c.def, &v) }

// Update replaces the row that has v's key. Parents are asked only for references that the old row did not have. Errors:
// [*NotFoundError], [*ParentError], [*UniqueError], [*RowError].
func (c *Collection[K, V]) Update(tx *Tx, v V) error { return tx.update(c.def, &v) }

// Delete removes the row with key k. Errors: [*NotFoundError], [*ChildrenError].
func (c *Collection[K, V]) Delete(tx *Tx, k K) error { return tx.delete(c.def, c.key.encode(k)) }

// Changed reads a change of this collection: the key, and copies of the row before and after, nil when it was absent. It is false when
// the change is one of another collection.
func (c *Collection[K, V]) Changed(ch Change) (key K, old, new *V, ok bool) {
	if ch.def != c.def {
		return key, nil, nil, false
	}
	key, _, err := c.key.decode(ch.Key)
	if err != nil {
		return key, nil, nil, false
	}
	if ch.old != nil {
		v := *ch.old.value.(*V)
		old = &v
	}
	if ch.new != nil {
		v := *ch.new.value.(*V)
		new = &v
	}
	return key, old, new, true
}
