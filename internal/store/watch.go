// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
)

// Commit is one update that has become durable: what it changed, whole.
type Commit struct {
	Revision Revision
	Changes  []Change
}

// Change is one row before and after a commit. [Collection.Changed] reads it.
type Change struct {
	Collection string
	Key        string // encoded
	Revision   Revision

	def      *definition
	old, new *row
}

// Text is the collection and the key for messages.
func (c Change) Text() string { return c.def.name + " " + c.def.showK(c.Key) }

// Watch yields each commit after a revision once, whole, in order: those that the store still remembers first, then new ones as they
// become durable. It ends by yielding an error: [ErrCompacted] when the store no longer remembers all commits after that revision,
// so that the watcher has to look at the whole state; [ErrClosed]; or the cause of ctx.
//
// A View taken before the call, watched from its revision, misses nothing.
func (s *Store) Watch(ctx context.Context, after Revision) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		s.count.watchers.Add(1)
		defer s.count.watchers.Add(-1)
		for {
			commits, more, err := s.log.after(after)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(Commit{}, err)
				return
			}
			for _, c := range commits {
				if !yield(c, nil) {
					return
				}
				after = c.Revision
			}
			if len(commits) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
			}
		}
	}
}

// history is the newest commits.
type history struct {
	mu      sync.Mutex
	limit   int      // changes kept at most, but for the newest commit
	oldest  Revision // commits holds all after this one
	newest  Revision
	commits []Commit
	changes int
	more    chan struct{}
	closed  bool
}

func newHistory(r Revision, limit int) *history {
	return &history{limit: limit, oldest: r, newest: r, more: make(chan struct{})}
}

// publish adds the commits of updates that have become durable.
func (h *history) publish(updates []*update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range updates {
		c := Commit{Revision: u.state.revision, Changes: make([]Change, len(u.writes))}
		for i, w := range u.writes {
			c.Changes[i] = Change{Collection: w.def.name, Key: w.key, Revision: c.Revision, def: w.def, old: w.old, new: w.new}
		}
		h.commits = append(h.commits, c)
		h.changes += len(c.Changes) + 1
		h.newest = c.Revision
	}
	drop := 0
	for h.changes > h.limit && drop < len(h.commits)-1 {
		h.changes -= len(h.commits[drop].Changes) + 1
		h.oldest = h.commits[drop].Revision
		h.commits[drop] = Commit{}
		drop++
	}
	h.commits = h.commits[drop:]
	h.signal()
}

// reset forgets everything: the state was read again and is at r. A watcher that has seen all up to r has lost nothing.
func (h *history) reset(r Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.oldest, h.newest, h.commits, h.changes = r, r, nil, 0
	h.signal()
}

func (h *history) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.signal()
}

func (h *history) signal() {
	close(h.more)
	h.more = make(chan struct{})
}

// chunk is how many commits a watcher takes at a time.
const chunk = 64

// after returns some commits after r, and a channel that is closed when there are more.
func (h *history) after(r Revision) ([]Commit, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r < h.oldest || r > h.newest {
		return nil, nil, fmt.Errorf("watch after revision %d: the commits after %d up to %d are known: %w", r, h.oldest, h.newest, ErrCompacted)
	}
	i := int(r - h.oldest)
	part := h.commits[i:min(i+chunk, len(h.commits))]
	if len(part) == 0 && h.closed {
		return nil, nil, fmt.Errorf("watch: %w", ErrClosed)
	}
	return slices.Clone(part), h.more, nil // a copy, because what is dropped is cleared
}
