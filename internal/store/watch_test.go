// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func TestWatchersSeeEachCommitOnceWholeAndInOrder(t *testing.T) {
	const updates = 200
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", "b") })
	var wg sync.WaitGroup
	for w := range 4 {
		from := s.Snapshot()
		wg.Go(func() {
			count := map[string]int{}
			last := from.Revision()
			for c, err := range s.Watch(t.Context(), last) {
				if err != nil {
					t.Errorf("watcher %d: %v", w, err)
					return
				}
				if last++; c.Revision != last || len(c.Changes) != 2 {
					t.Errorf("watcher %d: revision %d with %d changes comes after %d", w, c.Revision, len(c.Changes), last-1)
					return
				}
				for _, ch := range c.Changes {
					if _, _, n, ok := sh.nodes.Changed(ch); ok && ch.Revision == c.Revision {
						count[n.Name] = len(n.Labels)
					}
					if _, _, _, ok := sh.replicas.Changed(ch); ok {
						t.Error("a change of a node passes for one of a replica")
					}
				}
				if count["a"] != count["b"] {
					t.Errorf("watcher %d sees half of an update: %v", w, count)
				}
				if last == updates+1 {
					return
				}
			}
		})
	}
	labels := map[string]string{}
	for i := range updates {
		more := map[string]string{nodeName(i): ""}
		maps.Copy(more, labels)
		labels = more
		must(t, s, func(tx *store.Tx) error {
			return errors.Join(sh.nodes.Update(tx, node{Name: "a", Labels: more}), sh.nodes.Update(tx, node{Name: "b", Labels: more}))
		})
	}
	wg.Wait()
}

func TestSlowWatcherIsToldToLookAgain(t *testing.T) {
	sh := newShop()
	s := open(t, kvtest.NewMemory(), sh.all(), store.History(20))
	must(t, s, sh.insertNode("first"))
	var failed error
	seen := 0
	for c, err := range s.Watch(t.Context(), 0) {
		if err != nil {
			failed = err
			break
		}
		if seen++; c.Revision != store.Revision(seen) {
			t.Fatalf("revision %d is number %d", c.Revision, seen)
		}
		for i := range 50 { // many more while it looks at the first one
			must(t, s, sh.insertNode(nodeName(1000*seen+i)))
		}
		if seen > 1 {
			t.Fatal("it goes on though commits are missing")
		}
	}
	if !errors.Is(failed, store.ErrCompacted) {
		t.Errorf("the watch ends with %v", failed)
	}
	for c, err := range s.Watch(t.Context(), s.Snapshot().Revision()-3) {
		if err != nil || c.Revision != s.Snapshot().Revision()-2 {
			t.Errorf("watching the newest commits: %d, %v", c.Revision, err)
		}
		break
	}
}

func TestWatchEndsWithItsContextOrTheStore(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh := in.t, in.s, in.sh
		must(t, s, sh.insertNode("a"))
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("done")
		ends := make(chan error, 2)
		watch := func(ctx context.Context) {
			for c, err := range s.Watch(ctx, 0) {
				if c.Revision != 1 {
					ends <- err
				}
			}
		}
		go watch(ctx)
		synctest.Wait()
		if n := s.Stats().Watchers; n != 1 {
			t.Errorf("%d watchers", n)
		}
		cancel(reason)
		if err := <-ends; !errors.Is(err, reason) {
			t.Errorf("the watch ends with %v", err)
		}
		go watch(t.Context())
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ends; !errors.Is(err, store.ErrClosed) {
			t.Errorf("the watch ends with %v", err)
		}
	})
}

func TestWatchersLookAgainAfterTheStateWasReadAgain(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		must(t, s, sh.insertNode("a"))
		end := make(chan error, 1)
		go func() {
			for _, err := range s.Watch(t.Context(), 1) {
				end <- err
			}
		}()
		synctest.Wait()
		m.Hold(kvtest.BeforeAnswer).Open(kv.ErrUnknown)
		if a := <-start(s, sh.insertNode("b")); !errors.Is(a.err, store.ErrUnknown) {
			t.Error(a.err)
		}
		time.Sleep(2 * time.Second)
		if err := <-end; !errors.Is(err, store.ErrCompacted) {
			t.Errorf("the watch ends with %v", err)
		}
	})
}

func TestWatchOfTheFutureIsRefused(t *testing.T) {
	s, _, _ := openShop(t)
	for _, err := range s.Watch(t.Context(), 1) {
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("the watch ends with %v", err)
		}
	}
}
