// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// someBatch is the same for the same number: several puts and deletes over few keys.
func someBatch(n int) kv.Batch {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	var b kv.Batch
	for k := range 12 {
		key := fmt.Sprintf("key %02d", k)
		switch r.IntN(3) {
		case 0:
			b.Put = append(b.Put, kv.Entry{Key: key, Value: fmt.Appendf(nil, "%d of %d", k, n)})
		case 1:
			b.Delete = append(b.Delete, key)
		}
	}
	b.Put = append(b.Put, kv.Entry{Key: "newest", Value: fmt.Append(nil, n)})
	return b
}

// foldTo is the rows after the batches 1 to n of someBatch.
func foldTo(n int) map[string]string {
	rows := map[string]string{}
	for i := 1; i <= n; i++ {
		fold(rows, someBatch(i))
	}
	return rows
}

func (s Subject) loadShowsOneRevision(t *testing.T) {
	const batches = 120
	e := s.fresh(t)
	done := make(chan error, 1)
	go func() {
		for i := 1; i <= batches; i++ {
			if _, err := e.Append(context.Background(), e.term, someBatch(i)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for seen := 0; seen < batches; {
		r, rows := e.rows()
		if d := cmp.Diff(foldTo(int(r)), rows); d != "" {
			t.Fatalf("load shows revision %d with other rows (-want +got):\n%s", r, d)
		}
		if int(r) < seen {
			t.Fatalf("load shows revision %d after %d", r, seen)
		}
		seen = int(r)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func (s Subject) loadIsTheFoldOfWatch(t *testing.T) {
	const batches, watchers = 60, 5
	e := s.fresh(t)
	var wg sync.WaitGroup
	seen, failed := make([][]kv.Batch, watchers), make([]error, watchers)
	for w := range watchers {
		if w == watchers/2 { // some watchers come when half of the work is done
			for i := 1; i <= batches/2; i++ {
				e.append(someBatch(i))
			}
		}
		wg.Go(func() { seen[w], failed[w] = collect(t.Context(), e, 0, batches) })
	}
	for i := batches/2 + 1; i <= batches; i++ {
		e.append(someBatch(i))
	}
	wg.Wait()
	for w := range watchers {
		rows := map[string]string{}
		for i, b := range seen[w] {
			if got, want := effect(rows, b), effect(rows, someBatch(i+1)); got != want {
				t.Fatalf("watcher %d sees batch %d as %s, want %s", w, i+1, got, want)
			}
			fold(rows, b)
		}
		if failed[w] != nil {
			t.Fatalf("watcher %d: %v", w, failed[w])
		}
		e.wantRows(batches, rows)
	}
	for after := range batches {
		tail, err := collect(t.Context(), e, kv.Revision(after), batches-after)
		before := foldTo(after)
		if err != nil || effect(before, tail[0]) != effect(before, someBatch(after+1)) {
			t.Fatalf("watch after %d: %v", after, err)
		}
	}
}

func (s Subject) watchEndsWithItsContext(t *testing.T) {
	e := s.fresh(t)
	e.append(batch("a=1"))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("a reason of the caller")
	for b, err := range e.Watch(ctx, 0) {
		if b.Revision == 1 {
			go cancel(reason)
			continue
		}
		wantError(t, "watch", err, reason)
	}
}

func (s Subject) watchEndsWithTheEngine(t *testing.T) {
	e := s.fresh(t)
	e.append(batch("a=1"))
	for b, err := range e.Watch(t.Context(), 0) {
		if b.Revision == 1 {
			go func() { _ = e.Close() }()
			continue
		}
		wantError(t, "watch", err, kv.ErrClosed)
	}
}

func (s Subject) compactedHistory(t *testing.T) {
	e := s.fresh(t)
	wantError(t, "watch after the future", failure(e.Watch(t.Context(), 1)), kv.ErrCompacted)
	if s.Compact == nil {
		t.Skip("the engine cannot be made to forget its history")
	}
	for i := 1; i <= 10; i++ {
		e.append(someBatch(i))
	}
	s.Compact(e.Engine)
	wantError(t, "watch after a forgotten revision", failure(e.Watch(t.Context(), 3)), kv.ErrCompacted)
	e.append(someBatch(11))
	if b, err := collect(t.Context(), e, 10, 1); err != nil || effect(foldTo(10), b[0]) != effect(foldTo(10), someBatch(11)) {
		t.Errorf("watch after the newest revision: %v, %v", b, err)
	}
}

func (s Subject) concurrentAppends(t *testing.T) {
	const writers, each = 8, 10
	e := s.fresh(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[kv.Revision]string{}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				word := fmt.Sprintf("writer %d=%d", w, i)
				r, err := e.Append(t.Context(), e.term, batch(word))
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				mu.Lock()
				got[r] = word
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	seen, err := collect(t.Context(), e, 0, writers*each)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range seen {
		if text(b) != text(batch(got[b.Revision])) {
			t.Errorf("revision %d is %s, but it was answered for %q", b.Revision, text(b), got[b.Revision])
		}
	}
}
