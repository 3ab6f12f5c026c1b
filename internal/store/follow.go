// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// ErrStandby says that the store follows the map of another owner, and takes no updates.
var ErrStandby = errors.New("this is a standby")

// follower is what a store has while it follows.
type follower struct {
	cancel context.CancelFunc
	ended  chan struct{}
	at     kv.Revision   // of the engine; the state shows everything up to it
	grown  chan struct{} // closed and replaced when at changes
}

// Follow opens a store that shows what the owner of the engine's map makes durable, shortly after it was, and takes no updates
// until [Store.Promote]. When Follow succeeds, Close closes the engine too.
//
// Its views are whole states at one revision each, in order. It keeps no history: its watchers are told to look at the state.
func Follow(ctx context.Context, engine kv.Engine, collections []Registered, opts ...Setting) (*Store, error) {
	s, err := prepare(engine, collections, opts)
	if err != nil {
		return nil, err
	}
	loaded, at, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	s.begin(loaded)
	s.refuse = fmt.Errorf("update refused: %w", ErrStandby)
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.follower = &follower{cancel: cancel, ended: make(chan struct{}), at: at, grown: make(chan struct{})}
	s.cancel = cancel
	go s.follows(background, s.follower)
	return s, nil
}

// follows takes over batches until ctx ends.
func (s *Store) follows(ctx context.Context, f *follower) {
	defer close(f.ended)
	for ctx.Err() == nil {
		for b, err := range s.engine.Watch(ctx, f.at) {
			if err == nil {
				err = s.takeOver(f, b)
			}
			if err != nil {
				s.found(err)
				break
			}
		}
		if ctx.Err() != nil {
			return
		}
		loaded, at, err := s.read(ctx)
		if err == nil {
			s.show(f, loaded, at)
			s.found(nil)
			continue
		}
		s.found(err)
		again := time.NewTimer(s.settings.retry)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// found notes why nothing can be followed.
func (s *Store) found(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// show makes a state the newest one.
func (s *Store) show(f *follower, st *state, at kv.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = st
	s.durable.Store(s.view(st))
	f.at = at
	close(f.grown)
	f.grown = make(chan struct{})
	s.log.reset(st.revision)
}

// takeOver applies a batch. Its rows need no checks of parents and unique values: their owner has made them.
func (s *Store) takeOver(f *follower, b kv.Batch) error {
	tx := begin(s.head, false)
	tx.state.revision = s.head.revision
	tx.state.aside = maps.Clone(s.head.aside)
	for _, key := range b.Delete {
		tx.replace(key, nil, s.settings.paranoid)
	}
	for _, e := range b.Put {
		if e.Key != metaKey {
			tx.replace(e.Key, e.Value, s.settings.paranoid)
			continue
		}
		var m meta
		if err := json.Unmarshal(e.Value, &m); err != nil {
			return fmt.Errorf("follow the database: its row %s does not decode: %w", metaKey, err)
		}
		if err := s.settings.suits(m.Origin); err != nil {
			return fmt.Errorf("follow the database: %w", err)
		}
		tx.state.revision, tx.state.origin = m.Revision, m.Origin
	}
	after := tx.state
	tx.over = true
	s.show(f, &after, b.Revision)
	return nil
}

// replace puts the stored form of a row into the state, or takes the row out when there is none.
func (tx *Tx) replace(stored string, value []byte, check bool) {
	delete(tx.state.aside, stored)
	name, key, ok := strings.Cut(stored, "/")
	at, known := tx.state.layout.name[name]
	if !ok || !known {
		if value != nil {
			tx.state.aside[stored] = Aside{
				Stored: stored, Collection: name, Key: strconv.Quote(key), Value: value, Reason: "this program has no such collection",
			}
		}
		return
	}
	d := tx.state.layout.defs[at]
	var fresh *row
	if value != nil {
		var err error
		if fresh, err = d.read(key, value); err != nil {
			tx.state.aside[stored] = Aside{Stored: stored, Collection: d.name, Key: d.showK(key), Value: value, Reason: err.Error()}
			fresh = nil
		}
	}
	if fresh != nil && check {
		fresh.check, _ = d.encode(fresh)
	}
	if !tx.owned[at] {
		tx.state.tables[at], tx.owned[at] = tx.state.tables[at].clone(), true
	}
	t := tx.state.tables[at]
	old, _ := t.rows.Get(key)
	if old != nil || fresh != nil {
		t.set(key, old, fresh)
	}
}

// promoteGrace is how long Promote waits for the last batches of the owner before, until it reads the whole map instead.
const promoteGrace = 2 * time.Second

// Promote takes the map and makes a store that follows one that takes updates, from exactly what is durable. When it fails the store
// goes on following, or is of no more use when the error is [ErrClosed].
func (s *Store) Promote(ctx context.Context) error {
	f := s.follower
	term, err := s.engine.Own(ctx)
	if err != nil {
		return fmt.Errorf("take the database: %w", err)
	}
	newest, entries := s.engine.Load(ctx)
	for _, err := range entries {
		if err != nil {
			return fmt.Errorf("load the database: %w", err)
		}
		break
	}
	reached := s.reach(ctx, f, newest)
	f.cancel()
	<-f.ended
	if !reached {
		loaded, at, err := s.read(ctx)
		if err != nil {
			again, cancel := context.WithCancel(context.WithoutCancel(ctx))
			f.cancel, f.ended = cancel, make(chan struct{})
			s.cancel = cancel
			go s.follows(again, f)
			return err
		}
		s.show(f, loaded, at)
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.term, s.refuse, s.fault, s.follower, s.cancel = term, nil, nil, nil, cancel
	closed := s.closed
	s.mu.Unlock()
	go s.commits(background)
	if closed {
		return fmt.Errorf("promote: %w", ErrClosed)
	}
	return nil
}

// reach waits until the state shows a revision of the engine, for a while.
func (s *Store) reach(ctx context.Context, f *follower, r kv.Revision) bool {
	ctx, cancel := context.WithTimeout(ctx, promoteGrace)
	defer cancel()
	for {
		s.mu.Lock()
		at, grown := f.at, f.grown
		s.mu.Unlock()
		if at >= r {
			return at == r
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return false
		}
	}
}

// Read returns the state that is stored in the engine's map, which need not be owned, and the rows that cannot be used. It changes
// nothing.
func Read(ctx context.Context, engine kv.Engine, collections []Registered, opts ...Setting) (*View, []Aside, error) {
	s, err := prepare(engine, collections, opts)
	if err != nil {
		return nil, nil, err
	}
	loaded, _, err := s.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.durable.Store(s.view(loaded))
	return s.Snapshot(), s.SetAside(), nil
}
