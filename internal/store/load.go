// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Aside is a stored row that could not be used when the state was loaded. It is left in the engine as it is, is not part of any
// state, and cannot be overwritten by accident.
type Aside struct {
	Stored     string // the engine's key
	Collection string
	Key        string // as text
	Value      []byte
	Reason     string
}

// arrange orders collections so that parents come before their children.
func arrange(collections []Registered) (*layout, error) {
	l := &layout{at: map[*definition]int{}, name: map[string]int{}}
	listed := map[*definition]bool{}
	for _, c := range collections {
		d := c.definition()
		if listed[d] {
			return nil, fmt.Errorf("collection %s is listed twice", d.name)
		}
		listed[d] = true
		d.sealed.Store(true)
	}
	var place func(d *definition, by string) error
	place = func(d *definition, by string) error {
		if !listed[d] {
			return fmt.Errorf("collection %s is not listed, but %s is, which is connected with it", d.name, by)
		}
		if _, placed := l.at[d]; placed {
			return nil
		}
		for _, e := range d.parents {
			if err := place(e.parent, d.name); err != nil {
				return err
			}
		}
		if other, taken := l.name[d.name]; taken && l.defs[other] != d {
			return fmt.Errorf("two collections have the name %s", d.name)
		}
		l.at[d], l.name[d.name] = len(l.defs), len(l.defs)
		l.defs = append(l.defs, d)
		return nil
	}
	for _, c := range collections {
		if err := place(c.definition(), ""); err != nil {
			return nil, err
		}
		for _, e := range c.definition().children {
			if !listed[e.child] {
				return nil, fmt.Errorf("collection %s is not listed, but its parent %s is", e.child.name, e.parent.name)
			}
		}
	}
	return l, nil
}

// load takes the map and builds the state that is stored in it.
func (s *Store) load(ctx context.Context) (*state, error) {
	waiting, cancel := ctx, func() {}
	if s.settings.turn > 0 {
		waiting, cancel = context.WithTimeoutCause(ctx, s.settings.turn, fmt.Errorf("it was not given up in %s", s.settings.turn))
	}
	term, err := s.engine.Own(waiting)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("take the database: %w", err)
	}
	loaded, _, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	s.term = term
	return loaded, nil
}

// readTries bounds how often a map is read again because its history was compacted on the way.
const readTries = 5

// read builds the state that is stored in the map, and says at which revision of the engine.
func (s *Store) read(ctx context.Context) (*state, kv.Revision, error) {
	var loaded *state
	var at kv.Revision
	var err error
	for range readTries {
		loaded, at, err = s.readOnce(ctx)
		if !errors.Is(err, kv.ErrCompacted) {
			break
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("load the database: %w", err)
	}
	return loaded, at, nil
}

func (s *Store) readOnce(ctx context.Context) (*state, kv.Revision, error) {
	b := newLoader(s.layout, s.settings.paranoid)
	at, entries := s.engine.Load(ctx)
	for e, err := range entries {
		if err == nil {
			err = b.take(e)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if err := s.settings.suits(b.state.origin); err != nil {
		return nil, 0, err
	}
	return b.finish(), at, nil
}

// loader builds a state from stored entries.
type loader struct {
	state    *state
	found    [][]found // by collection
	paranoid bool
	known    bool // the store's own row was seen
	newest   Revision
}

// found is a stored row that decodes.
type found struct {
	key   string
	row   *row
	entry kv.Entry
}

func newLoader(l *layout, paranoid bool) *loader {
	st := &state{layout: l, aside: map[string]Aside{}}
	for _, d := range l.defs {
		st.tables = append(st.tables, newTable(d))
	}
	return &loader{state: st, found: make([][]found, len(l.defs)), paranoid: paranoid}
}

// take reads one entry. It fails for a map that no store of this program may use; damaged rows are set aside.
func (b *loader) take(e kv.Entry) error {
	if e.Key == metaKey {
		var m meta
		if err := json.Unmarshal(e.Value, &m); err != nil {
			b.setAside(e, "", strconv.Quote(e.Key), err)
			return nil
		}
		if m.Format != metaFormat {
			return fmt.Errorf("it has format %d, this program knows %d", m.Format, metaFormat)
		}
		b.state.revision, b.state.origin, b.known = m.Revision, m.Origin, true
		return nil
	}
	if e.Key == PartialKey {
		return fmt.Errorf("it is incomplete: %s was not finished; do it again", e.Value)
	}
	name, key, ok := strings.Cut(e.Key, "/")
	at, known := b.state.layout.name[name]
	if !ok || !known {
		b.setAside(e, name, strconv.Quote(key), errors.New("this program has no such collection"))
		return nil
	}
	d := b.state.layout.defs[at]
	r, err := d.read(key, e.Value)
	if err != nil {
		b.setAside(e, d.name, d.showK(key), err)
		return nil
	}
	b.newest = max(b.newest, r.revision)
	b.found[at] = append(b.found[at], found{key, r, e})
	return nil
}

func (b *loader) setAside(e kv.Entry, collection, key string, reason error) {
	b.state.aside[e.Key] = Aside{Stored: e.Key, Collection: collection, Key: key, Value: e.Value, Reason: reason.Error()}
}

// finish puts the rows in, parents first. A row without its parent is set aside, and so is the newer one of two that claim a unique
// value.
func (b *loader) finish() *state {
	tx := &Tx{state: *b.state}
	for at, d := range b.state.layout.defs {
		rows := b.found[at]
		slices.SortFunc(rows, func(x, y found) int {
			return cmp.Or(cmp.Compare(x.row.revision, y.row.revision), strings.Compare(x.key, y.key))
		})
		for _, f := range rows {
			if err := tx.admit(d, f); err != nil {
				b.setAside(f.entry, d.name, d.showK(f.key), err)
				continue
			}
			if b.paranoid {
				f.row.check, _ = d.encode(f.row)
			}
			b.state.tables[at].set(f.key, nil, f.row)
		}
	}
	// Without its own row the store goes on after the newest revision that a row has.
	b.state.revision = max(b.state.revision, b.newest)
	return b.state
}

// admit checks what a stored row needs. A closing parent is no reason against a reference that exists.
func (tx *Tx) admit(d *definition, f found) error {
	for _, e := range d.parents {
		for _, entry := range f.row.entries[e.index.at] {
			pk := entry[:len(entry)-len(f.key)]
			if _, there := tx.table(e.parent).rows.Get(pk); !there {
				return fmt.Errorf("%s %s, which it needs, is missing", e.parent.name, e.parent.showK(pk))
			}
		}
	}
	return tx.unique(d, f.key, f.row)
}
