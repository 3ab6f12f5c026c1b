// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
)

// MaxQueue is how many updates may wait.
const MaxQueue = maxQueue

// UpdateWithoutLock is Update as it must not be: the transaction runs on the newest state, but not alone. meet is called between the
// moment when it has taken that state and the moment when it runs.
func (s *Store) UpdateWithoutLock(ctx context.Context, meet func(), fn func(*Tx) error) (Revision, error) {
	s.mu.Lock()
	tx := begin(s.head, false)
	for i := range tx.owned {
		tx.state.tables[i], tx.owned[i] = tx.state.tables[i].clone(), true
	}
	s.mu.Unlock()
	meet()
	if err := fn(tx); err != nil {
		return 0, err
	}
	writes, err := tx.finish()
	if err != nil {
		return 0, err
	}
	after := tx.state
	u := &update{state: &after, writes: writes, done: make(chan struct{})}
	s.mu.Lock()
	s.head = u.state
	s.queue = append(s.queue, u)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	select {
	case <-u.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("update: %w", ErrUnknown)
	}
	return u.state.revision, u.err
}

// UpdateWithoutWaiting is Update as it must not be: what it answers may not be durable.
func (s *Store) UpdateWithoutWaiting(_ context.Context, fn func(*Tx) error) (Revision, error) {
	u, r, err := s.stage(fn)
	if u != nil {
		return u.state.revision, nil
	}
	return r.revision, err
}

// Damage changes the newest state behind the store's back, so that Verify has something to find.
func (s *Store) Damage(collection string, how func(rows map[string]any, drop func(key string), index, total func(at int, key string))) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := begin(s.head, false)
	at := s.layout.name[collection]
	t := tx.state.tables[at].clone()
	tx.state.tables[at] = t
	rows := map[string]any{}
	t.rows.Scan(func(key string, r *row) bool {
		rows[s.layout.defs[at].showK(key)] = r.value
		return true
	})
	how(rows,
		func(key string) { t.rows.Delete(key) },
		func(at int, key string) {
			if _, there := t.indexes[at].Delete(key); !there {
				t.indexes[at].Set(key, struct{}{})
			}
		},
		func(at int, key string) { t.totals[at].Set(key, 12345) })
	s.durable.Store(s.view(&tx.state))
}
