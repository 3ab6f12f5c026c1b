// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"slices"
)

// Problem is something in a state that must not be.
type Problem struct {
	Collection string
	Key        string // as text; empty when it is about no single row
	What       string
}

func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Collection, p.Key, p.What) }

// Verify checks a state against its declarations: every parent is there, unique values are unique, indexes and totals are what a
// rebuild from the rows gives, keys are those of their rows, and each row reads back from its stored form as it is. It costs about as much
// as opening the store. A sound state has no problems.
func Verify(v *View) []Problem {
	var all []Problem
	for at, d := range v.state.layout.defs {
		c := checker{view: v, def: d, table: v.state.tables[at], fresh: newTable(d)}
		c.rows()
		c.derived()
		all = append(all, c.problems...)
	}
	return all
}

type checker struct {
	view     *View
	def      *definition
	table    *table
	fresh    *table // rebuilt from the rows
	problems []Problem
}

func (c *checker) problem(key, format string, args ...any) {
	c.problems = append(c.problems, Problem{Collection: c.def.name, Key: key, What: fmt.Sprintf(format, args...)})
}

func (c *checker) rows() {
	c.table.rows.Scan(func(key string, r *row) bool {
		text := c.def.showK(key)
		if have := c.def.encodeK(r.value); have != key {
			c.problem(text, "holds the row %s", c.def.showK(have))
			return true
		}
		if r.revision > c.view.state.revision {
			c.problem(text, "has revision %d, the state has %d", r.revision, c.view.state.revision)
		}
		c.readsBack(text, key, r)
		again := c.def.row(r.revision, r.value, key)
		c.references(text, key, again)
		c.fresh.set(key, nil, again)
		return true
	})
}

func (c *checker) readsBack(text, key string, r *row) {
	if _, err := c.def.size(key, r.value); err != nil {
		c.problem(text, "is a row that cannot be stored: %v", err)
		return
	}
	stored, err := c.def.encode(r)
	if err != nil {
		c.problem(text, "cannot be stored: %v", err)
		return
	}
	back, err := c.def.read(key, stored)
	if err != nil {
		c.problem(text, "does not read back: %v", err)
		return
	}
	if again, err := c.def.encode(back); err != nil || !bytes.Equal(stored, again) {
		c.problem(text, "reads back as another row: %s, was %s", again, stored)
	}
	if r.check != nil && !bytes.Equal(r.check, stored) {
		c.problem(text, "was changed in place: %s, was %s", stored, r.check)
	}
}

func (c *checker) references(text, key string, r *row) {
	for _, e := range c.def.parents {
		for _, entry := range r.entries[e.index.at] {
			pk := entry[:len(entry)-len(key)]
			if _, there := c.view.table(e.parent).rows.Get(pk); !there {
				c.problem(text, "refers to %s %s, which is missing", e.parent.name, e.parent.showK(pk))
			}
		}
	}
	for _, ix := range c.def.indexes {
		if !ix.unique {
			continue
		}
		for _, entry := range r.entries[ix.at] {
			value := entry[:len(entry)-len(key)]
			if other, held := c.fresh.holder(ix, value, key); held {
				c.problem(text, "shares %s %s with %s", ix.name, ix.show(value), c.def.showK(other))
			}
		}
	}
}

// derived compares indexes and totals with those rebuilt from the rows.
func (c *checker) derived() {
	for i, ix := range c.def.indexes {
		differences(c.table.indexes[i].Keys(), c.fresh.indexes[i].Keys(),
			func(extra string) { c.problem("", "index %s has an entry of no row: %s", ix.name, ix.show(extra)) },
			func(lost string) { c.problem("", "index %s lacks the entry %s", ix.name, ix.show(lost)) })
	}
	for i, sum := range c.def.totals {
		have, want := c.table.totals[i], c.fresh.totals[i]
		values := slices.Concat(have.Keys(), want.Keys())
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			h, _ := have.Get(value)
			if w, _ := want.Get(value); h != w {
				c.problem("", "total %s of %s is %d, a recount gives %d", sum.name, sum.show(value), h, w)
			}
		}
	}
}

// unchanged panics when a row of a paranoid store was changed in place.
func (v *View) unchanged() {
	for at, d := range v.state.layout.defs {
		v.state.tables[at].rows.Scan(func(_ string, r *row) bool {
			r.unchanged(d)
			return true
		})
	}
}
