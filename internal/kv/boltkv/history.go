// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// The history that is kept for watchers.
const (
	historyBatches = 1024
	historyBytes   = 4 << 20
)

// history is the newest batches, in memory.
type history struct {
	mu     sync.Mutex
	oldest kv.Revision // batches holds all after this one
	batch  []kv.Batch
	bytes  int
	closed bool
	more   chan struct{} // closed and replaced at each change
}

func newHistory() *history { return &history{more: make(chan struct{})} }

// reset forgets everything up to a revision.
func (h *history) reset(r kv.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.oldest, h.batch, h.bytes = r, nil, 0
	h.signal()
}

// add appends a copy of b.
func (h *history) add(r kv.Revision, b kv.Batch) {
	own := kv.Batch{Revision: r, Put: make([]kv.Entry, len(b.Put)), Delete: slices.Clone(b.Delete)}
	for i, e := range b.Put {
		own.Put[i] = kv.Entry{Key: e.Key, Value: slices.Clone(e.Value)}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batch = append(h.batch, own)
	h.bytes += own.Bytes()
	for len(h.batch) > historyBatches || len(h.batch) > 1 && h.bytes > historyBytes {
		h.bytes -= h.batch[0].Bytes()
		h.oldest = h.batch[0].Revision
		h.batch[0] = kv.Batch{}
		h.batch = h.batch[1:]
	}
	h.signal()
}

func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.signal()
}

func (h *history) signal() {
	close(h.more)
	h.more = make(chan struct{})
}

// after returns the batches after a revision, and a channel that is closed when something has changed.
func (h *history) after(r kv.Revision) ([]kv.Batch, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := h.oldest + kv.Revision(len(h.batch))
	switch {
	case h.closed:
		return nil, nil, kv.ErrClosed
	case r < h.oldest || r > newest:
		return nil, nil, fmt.Errorf("after revision %d, but those after %d up to %d are known: %w", r, h.oldest, newest, kv.ErrCompacted)
	}
	return slices.Clone(h.batch[r-h.oldest:]), h.more, nil
}
