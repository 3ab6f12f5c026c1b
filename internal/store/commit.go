// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// metaKey is the stored key of the store's own row, {"format":1,"revision":42,"generation":1,"program":"1.0"}. No collection's key is
// like it. Loading, a map that has PartialKey is refused: whoever fills a map in several steps puts that row first and removes it last.
const (
	metaKey    = "@store"
	metaFormat = 1
	PartialKey = "@partial"
)

type meta struct {
	Format   int      `json:"format"`
	Revision Revision `json:"revision"`
	Origin
}

// commits is the committer: it merges what is queued into one engine commit after the other, until the store is closed and the
// queue is empty.
func (s *Store) commits(ctx context.Context) {
	defer close(s.ended)
	for {
		queued, open := s.queued()
		if len(queued) > 0 {
			s.commit(ctx, queued)
			runtime.Gosched() // those who were answered may have more to do: the next commit can take it along
			continue
		}
		if !open {
			return
		}
		if !s.recoverable() {
			<-s.wake
			continue
		}
		retry := time.NewTimer(s.settings.retry)
		select {
		case <-s.wake:
		case <-retry.C:
			s.recover(ctx)
		}
		retry.Stop()
	}
}

// queued returns the updates that wait, and whether more may come.
func (s *Store) queued() ([]*update, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue, !s.closed
}

// encode makes the stored forms of the update's rows, once.
func (u *update) encode() {
	u.encoded.Do(func() {
		for _, w := range u.writes {
			if u.fit = w.encode(); u.fit != nil {
				return
			}
			u.bytes += w.bytes()
		}
		for _, k := range u.discards {
			u.bytes += len(k)
		}
		if u.bytes > maxBytes {
			u.fit = &LimitError{What: "bytes", Have: u.bytes, Max: maxBytes}
		}
	})
}

// group is the updates of one engine commit.
type group struct {
	updates []*update
	batch   kv.Batch
}

// gather takes as many updates from the front of the queue as fit into one commit. Of several writes of one row the last one is kept.
func gather(queued []*update) group {
	g := group{}
	rows := map[string][]byte{} // nil: deleted
	var order []string
	bytes := 0
	for _, u := range queued {
		u.encode()
		fresh := 0
		for _, w := range u.writes {
			if _, known := rows[w.stored]; !known {
				fresh++
			}
		}
		if u.fit != nil || len(rows)+fresh+len(u.discards) > maxRows || bytes+u.bytes > maxBytes {
			break
		}
		bytes += u.bytes
		put := func(key string, raw []byte) {
			if _, known := rows[key]; !known {
				order = append(order, key)
			}
			rows[key] = raw
		}
		for _, w := range u.writes {
			put(w.stored, w.raw)
		}
		for _, key := range u.discards {
			put(key, nil)
		}
		g.updates = append(g.updates, u)
	}
	for _, key := range order {
		if raw := rows[key]; raw != nil {
			g.batch.Put = append(g.batch.Put, kv.Entry{Key: key, Value: raw})
		} else {
			g.batch.Delete = append(g.batch.Delete, key)
		}
	}
	return g
}

// commit makes the front of the queue durable, or fails the whole queue.
func (s *Store) commit(ctx context.Context, queued []*update) {
	g := gather(queued)
	if len(g.updates) == 0 {
		s.failed(1, queued[0].fit)
		return
	}
	last := g.updates[len(g.updates)-1]
	g.batch.Put = append(g.batch.Put, metaEntry(last.state))
	began := time.Now()
	_, err := s.engine.Append(ctx, s.term, g.batch)
	s.count.appending.Add(int64(time.Since(began)))
	if err != nil {
		s.failed(len(g.updates), fmt.Errorf("update not made: %w", err))
		return
	}
	s.mu.Lock()
	s.queue = s.queue[len(g.updates):]
	if len(s.queue) == 0 {
		s.queue = nil
	}
	s.fault = nil
	s.durable.Store(s.view(last.state))
	s.mu.Unlock()
	s.count.committed(len(g.updates), g.batch.Rows())
	s.log.publish(g.updates)
	for _, u := range g.updates {
		close(u.done)
	}
}

func metaEntry(st *state) kv.Entry { return OwnRow(st.revision, st.origin) }

// OwnRow is the stored form of the store's own row: the revision of the newest update, and the origin.
func OwnRow(r Revision, o Origin) kv.Entry {
	text, err := json.Marshal(meta{Format: metaFormat, Revision: r, Origin: o})
	if err != nil {
		panic(fmt.Sprintf("store: the own row cannot be encoded: %v", err)) // numbers and a string always can
	}
	return kv.Entry{Key: metaKey, Value: text}
}

// failed fails the whole queue: its first n updates with err, the others because they were built on those. The head returns to the
// durable state.
func (s *Store) failed(n int, err error) {
	s.mu.Lock()
	all := s.queue
	s.queue = nil
	s.head = s.Snapshot().state
	var unfit *LimitError
	var unfitRow *RowError
	switch {
	case errors.As(err, &unfit), errors.As(err, &unfitRow):
		// The engine is not to blame.
	case errors.Is(err, kv.ErrFenced):
		s.deposed()
	case errors.Is(err, kv.ErrClosed):
		s.refuse = fmt.Errorf("update refused: %w", kv.ErrClosed)
	case errors.Is(err, kv.ErrUnknown):
		s.refuse = fmt.Errorf("update refused: %w: %w", ErrUnavailable, withoutOutcome(err))
	default:
		s.fault = err
	}
	s.mu.Unlock()
	s.count.failed.Add(int64(len(all)))
	for i, u := range all {
		if u.err = err; i >= n {
			u.err = fmt.Errorf("update not made: %w: %w", ErrAborted, withoutOutcome(err))
		}
		close(u.done)
	}
}

// deposed notes that another owner has the map. The caller holds the lock.
func (s *Store) deposed() {
	if !errors.Is(s.refuse, kv.ErrFenced) {
		close(s.fenced)
	}
	s.refuse = fmt.Errorf("update refused: %w", kv.ErrFenced)
}

// recoverable reports whether the store is in a fault that it can get out of.
func (s *Store) recoverable() bool {
	err := s.Err()
	return err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrClosed)
}

// recover tries to get out of a fault: after an unknown outcome it takes the map again and reads it, otherwise it tries whether the
// engine can be written again.
func (s *Store) recover(ctx context.Context) {
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	switch {
	case refuse == nil:
		_, err := s.engine.Append(ctx, s.term, kv.Batch{})
		if errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrUnknown) {
			s.failed(0, err)
			return
		}
		s.mu.Lock()
		s.fault = err
		s.mu.Unlock()
	case errors.Is(refuse, ErrUnavailable):
		loaded, err := s.load(ctx)
		if errors.Is(err, kv.ErrFenced) {
			s.mu.Lock()
			s.deposed()
			s.mu.Unlock()
			return
		}
		if err != nil {
			return
		}
		s.log.reset(loaded.revision)
		s.mu.Lock()
		s.head = loaded
		s.durable.Store(s.view(loaded))
		s.refuse, s.fault = nil, nil
		s.mu.Unlock()
	}
}
