// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Index finds the rows of a collection by values that a function derives from each row. It lives in memory, is rebuilt when
// a store is opened, and changes with the rows in the same update. Values sort as keys do.
type Index[K comparable, V, I any] struct {
	c   *Collection[K, V]
	def *indexDefinition
	val keyOf[I]
}

// indexDefinition is an index without its types.
type indexDefinition struct {
	owner  *definition
	name   string
	at     int // position among the owner's indexes
	unique bool
	of     func(row any, key string) []string // its entries for a row with an encoded key
	show   func(value string) string
}

// By declares an index that any number of rows may share a value of. The function returns the values of a row, none, one or
// several; it must depend on the row alone.
func By[I any, K comparable, V any](c *Collection[K, V], name string, of func(*V) []I) *Index[K, V, I] {
	return declareIndex(c, name, of, false)
}

// Unique declares an index that lets no two rows have the same value: an insertion or update that would is refused with
// [*UniqueError].
func Unique[I any, K comparable, V any](c *Collection[K, V], name string, of func(*V) []I) *Index[K, V, I] {
	return declareIndex(c, name, of, true)
}

// Children is the index of a [ChildOf] declaration: it finds the rows of c that refer to a row of p, by the key of that row. It panics
// when there is no such declaration. It needs no space of its own, so no other index by the same reference is needed.
func Children[K, PK comparable, V, P any](c *Collection[K, V], p *Collection[PK, P]) *Index[K, V, PK] {
	for _, e := range c.def.parents {
		if e.parent == p.def {
			return &Index[K, V, PK]{c: c, def: e.index, val: p.key}
		}
	}
	panic(fmt.Sprintf("store: collection %s is no child of %s", c.def.name, p.def.name))
}

func declareIndex[I any, K comparable, V any](c *Collection[K, V], name string, of func(*V) []I, unique bool) *Index[K, V, I] {
	val := compileKey[I]()
	def := addIndex(c.def, name, val, of)
	def.unique = unique
	return &Index[K, V, I]{c: c, def: def, val: val}
}

func addIndex[I, V any](d *definition, name string, val keyOf[I], of func(*V) []I) *indexDefinition {
	d.mutable()
	def := &indexDefinition{
		owner: d,
		name:  name,
		at:    len(d.indexes),
		show:  val.show,
		of: func(row any, key string) []string {
			values := of(row.(*V))
			es := make([]string, len(values))
			for i, v := range values {
				es[i] = val.before(v, key)
			}
			return es
		},
	}
	d.indexes = append(d.indexes, def)
	return def
}

// entries returns the entries of a row with an encoded key, sorted, each once.
func (def *indexDefinition) entries(row any, key string) []string {
	es := def.of(row, key)
	if len(es) > 1 {
		slices.Sort(es)
		es = slices.Compact(es)
	}
	return es
}

// Get yields the rows that have the value, in key order.
func (ix *Index[K, V, I]) Get(r Reader, value I) iter.Seq[V] {
	return func(yield func(V) bool) {
		t := r.frozen(ix.c.def)
		t.under(ix.def, ix.val.encode(value), func(key string) bool {
			row, _ := t.rows.Get(key)
			return yield(*r.hand(ix.c.def, row).(*V))
		})
	}
}

// One returns the first row that has the value: the only one, when the index is unique.
func (ix *Index[K, V, I]) One(r Reader, value I) (V, bool) {
	for v := range ix.Get(r, value) {
		return v, true
	}
	var none V
	return none, false
}

// Has reports whether a row has the value.
func (ix *Index[K, V, I]) Has(r Reader, value I) bool {
	found := false
	r.table(ix.c.def).under(ix.def, ix.val.encode(value), func(string) bool {
		found = true
		return false
	})
	return found
}

// Len is the number of rows that have the value.
func (ix *Index[K, V, I]) Len(r Reader, value I) int {
	return r.table(ix.c.def).count(ix.def, ix.val.encode(value))
}

// From yields the values that are not less than from, in order, with a row for each: once for each row that has the value.
func (ix *Index[K, V, I]) From(r Reader, from I) iter.Seq2[I, V] {
	return func(yield func(I, V) bool) {
		t := r.frozen(ix.c.def)
		t.indexes[ix.def.at].Ascend(ix.val.encode(from), func(entry string, _ struct{}) bool {
			value, key := ix.split(entry)
			row, _ := t.rows.Get(key)
			return yield(value, *r.hand(ix.c.def, row).(*V))
		})
	}
}

// Values yields the values that are not less than from and that some row has, each once, in order.
func (ix *Index[K, V, I]) Values(r Reader, from I) iter.Seq[I] {
	return func(yield func(I) bool) {
		last, begun := "", false
		r.frozen(ix.c.def).indexes[ix.def.at].Ascend(ix.val.encode(from), func(entry string, _ struct{}) bool {
			if begun && strings.HasPrefix(entry, last) {
				return true // no value's encoding is the beginning of another's
			}
			value, key := ix.split(entry)
			last, begun = entry[:len(entry)-len(key)], true
			return yield(value)
		})
	}
}

// split reads an entry: the value and the encoded key of the row.
func (ix *Index[K, V, I]) split(entry string) (I, string) {
	value, key, err := ix.val.decode(entry)
	if err != nil {
		panic(fmt.Sprintf("store: index %s of %s has the entry %q: %v", ix.def.name, ix.c.def.name, entry, err))
	}
	return value, key
}

// Free returns the least value from lo to hi that no row has. The value type must be an integer or a struct that ends with one; lo
// and hi may differ in that last field only. On a unique index it takes a time that hardly grows with the number of rows.
func (ix *Index[K, V, I]) Free(r Reader, lo, hi I) (I, bool) {
	a, b := ix.val.encode(lo), ix.val.encode(hi)
	head := len(a) - 8
	if !endsWithInteger(reflect.TypeFor[I]()) {
		panic(fmt.Sprintf("store: index %s of %s has no integer at the end of its values", ix.def.name, ix.c.def.name))
	}
	if head > len(b)-8 || a[:head] != b[:head] || len(a) != len(b) {
		panic(fmt.Sprintf("store: free value of index %s of %s: the ends of the range differ in more than their last number", ix.def.name, ix.c.def.name))
	}
	first, last := word(a), word(b)
	var none I
	if first > last {
		return none, false
	}
	free, ok := r.table(ix.c.def).free(ix.def, a[:head], first, last)
	if !ok {
		return none, false
	}
	value, _, err := ix.val.decode(a[:head] + tail(free))
	if err != nil {
		return none, false
	}
	return value, true
}

// word is the integer in the last 8 bytes of an encoded value, in an order-preserving form.
func word(encoded string) uint64 { return binary.BigEndian.Uint64([]byte(encoded[len(encoded)-8:])) }

func endsWithInteger(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t.NumField() > 0 && endsWithInteger(t.Field(t.NumField()-1).Type)
	case reflect.String, reflect.Bool:
		return false
	default:
		return true
	}
}

// Total is a sum over the rows of a collection for each value of I, kept as the rows change. It cannot drift: it is
// derived, like an index.
type Total[K comparable, V, I any] struct {
	c   *Collection[K, V]
	def *totalDefinition
	val keyOf[I]
}

type totalDefinition struct {
	owner *definition
	name  string
	at    int // position among the owner's totals
	of    func(row any, add func(value string, n int64))
	show  func(value string) string
}

// Sum declares a total. The function adds what a row contributes to each value; it must depend on the row alone.
func Sum[I any, K comparable, V any](c *Collection[K, V], name string, of func(v *V, add func(I, int64))) *Total[K, V, I] {
	c.def.mutable()
	val := compileKey[I]()
	def := &totalDefinition{
		owner: c.def,
		name:  name,
		at:    len(c.def.totals),
		show:  val.show,
		of: func(row any, add func(string, int64)) {
			of(row.(*V), func(i I, n int64) { add(val.encode(i), n) })
		},
	}
	c.def.totals = append(c.def.totals, def)
	return &Total[K, V, I]{c: c, def: def, val: val}
}

// Of returns the sum for a value, 0 when no row contributes to it.
func (t *Total[K, V, I]) Of(r Reader, value I) int64 {
	n, _ := r.table(t.c.def).totals[t.def.at].Get(t.val.encode(value))
	return n
}

// share is what a row contributes to one value of a total.
type share struct {
	value string
	n     int64
}

// shares returns what a row contributes, one share for each value, sorted, none of them zero.
func (def *totalDefinition) shares(row any) []share {
	var all []share
	def.of(row, func(value string, n int64) { all = append(all, share{value, n}) })
	slices.SortFunc(all, func(a, b share) int { return strings.Compare(a.value, b.value) })
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].value == s.value {
			merged[n-1].n += s.n
		} else {
			merged = append(merged, s)
		}
	}
	return slices.DeleteFunc(merged, func(s share) bool { return s.n == 0 })
}
