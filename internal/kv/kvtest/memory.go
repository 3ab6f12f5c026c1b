// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Memory is an engine whose map lives in memory and outlives it: Peer gives another engine on the same map, as another
// process would have, and Crash ends one engine as a kill would. Everything that is durable on other engines is kept in the
// map; the map itself ends with the last engine.
//
// Own fences at once: the next owner does not wait for the one before.
type Memory struct {
	disk *disk

	append sync.Mutex // held through an append, so that those of this engine run in order

	mu    sync.Mutex
	gates map[Step][]*Gate
	fault error
	dead  error // set by Close and Crash
	ended chan struct{}
}

// disk is the map and its history, shared by all its engines.
type disk struct {
	mu       sync.Mutex
	rows     *btree.Map[string, []byte]
	revision kv.Revision
	term     kv.Term
	over     bool // the term ended with an unknown outcome
	history  []kv.Batch
	keep     int
	grown    chan struct{} // closed and replaced at each new batch
}

var _ kv.Engine = (*Memory)(nil)

// NewMemory returns an engine on a new, empty map. The history for Watch keeps the newest 10,000 batches.
func NewMemory() *Memory {
	return attach(&disk{rows: btree.NewMap[string, []byte](32), keep: 10_000, grown: make(chan struct{})})
}

func attach(d *disk) *Memory {
	return &Memory{disk: d, gates: map[Step][]*Gate{}, ended: make(chan struct{})}
}

// Peer returns another engine on the same map, alive also when m was closed or has crashed.
func (m *Memory) Peer() *Memory { return attach(m.disk) }

// Own implements [kv.Engine].
func (m *Memory) Own(ctx context.Context) (kv.Term, error) {
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.disk.term++
	m.disk.over = false
	return m.disk.term, nil
}

// Load implements [kv.Engine].
func (m *Memory) Load(ctx context.Context) (kv.Revision, iter.Seq2[kv.Entry, error]) {
	m.disk.mu.Lock()
	rows, revision := m.disk.rows.Copy(), m.disk.revision
	m.disk.mu.Unlock()
	return revision, func(yield func(kv.Entry, error) bool) {
		var failed error
		rows.Scan(func(k string, v []byte) bool {
			if failed = m.usable(ctx); failed != nil {
				return false
			}
			return yield(kv.Entry{Key: k, Value: slices.Clone(v)}, nil)
		})
		if failed == nil && rows.Len() == 0 {
			failed = m.usable(ctx)
		}
		if failed != nil {
			yield(kv.Entry{}, failed)
		}
	}
}

// Append implements [kv.Engine].
func (m *Memory) Append(ctx context.Context, t kv.Term, b kv.Batch) (kv.Revision, error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	m.append.Lock()
	defer m.append.Unlock()
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	if err := m.pass(ctx, BeforeAppend); err != nil {
		return 0, m.disk.fail(t, err)
	}
	if err := m.broken(); err != nil {
		return 0, err
	}
	revision, err := m.disk.write(t, b)
	if err != nil {
		return 0, err
	}
	if err := m.pass(ctx, BeforeAnswer); err != nil {
		return 0, m.disk.fail(t, fmt.Errorf("%w: %w", kv.ErrUnknown, err))
	}
	return revision, nil
}

// write applies b when t still owns the map.
func (d *disk) write(t kv.Term, b kv.Batch) (kv.Revision, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t != d.term {
		return 0, fmt.Errorf("append in term %d, the term is %d: %w", t, d.term, kv.ErrFenced)
	}
	if d.over {
		return 0, fmt.Errorf("append in term %d, which ended: %w", t, kv.ErrFenced)
	}
	d.revision++
	own := kv.Batch{Revision: d.revision, Delete: slices.Clone(b.Delete)}
	for _, e := range b.Put {
		own.Put = append(own.Put, kv.Entry{Key: e.Key, Value: slices.Clone(e.Value)})
		d.rows.Set(e.Key, own.Put[len(own.Put)-1].Value)
	}
	for _, k := range b.Delete {
		d.rows.Delete(k)
	}
	d.history = append(d.history, own)
	if len(d.history) > d.keep {
		d.history[0] = kv.Batch{}
		d.history = d.history[1:]
	}
	close(d.grown)
	d.grown = make(chan struct{})
	return d.revision, nil
}

// Watch implements [kv.Engine].
func (m *Memory) Watch(ctx context.Context, after kv.Revision) iter.Seq2[kv.Batch, error] {
	return func(yield func(kv.Batch, error) bool) {
		for {
			if err := m.usable(ctx); err != nil {
				yield(kv.Batch{}, err)
				return
			}
			next, grown, err := m.disk.after(after)
			if err != nil {
				yield(kv.Batch{}, err)
				return
			}
			for _, b := range next {
				if !yield(b, nil) {
					return
				}
				after = b.Revision
			}
			if len(next) > 0 {
				continue
			}
			select {
			case <-grown:
			case <-m.ended:
			case <-ctx.Done():
			}
		}
	}
}

// after returns the batches after a revision, and a channel that is closed when there is one more.
func (d *disk) after(r kv.Revision) ([]kv.Batch, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := d.revision - kv.Revision(len(d.history))
	if r < oldest || r > d.revision {
		return nil, nil, fmt.Errorf("watch after revision %d, the history has %d to %d: %w", r, oldest, d.revision, kv.ErrCompacted)
	}
	return slices.Clone(d.history[r-oldest:]), d.grown, nil
}

// fail ends the term when err leaves the outcome open.
func (d *disk) fail(t kv.Term, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isUnknown(err) && t == d.term {
		d.over = true
	}
	return err
}

// Close implements [kv.Engine].
func (m *Memory) Close() error {
	m.end(kv.ErrClosed)
	return nil
}

// end makes the engine useless, for the reason that is given.
func (m *Memory) end(reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead != nil {
		return
	}
	m.dead = reason
	close(m.ended)
}

// usable returns why nothing can be done on m now.
func (m *Memory) usable(ctx context.Context) error {
	if err := m.gone(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (m *Memory) gone() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}
