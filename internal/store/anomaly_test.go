// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// updater is a way to update a store: the right one, or one that is known to be wrong.
type updater func(ctx context.Context, fn func(*store.Tx) error) (store.Revision, error)

// pair makes two updates at the same time.
type pair func(s *store.Store) (first, second updater)

// serially is how a store updates.
func serially(s *store.Store) (first, second updater) { return s.Update, s.Update }

// withoutLock runs both updates on the state that is there before either of them.
func withoutLock(s *store.Store) (first, second updater) {
	var both sync.WaitGroup
	both.Add(2)
	meet := func() {
		both.Done()
		both.Wait()
	}
	loose := func(ctx context.Context, fn func(*store.Tx) error) (store.Revision, error) {
		return s.UpdateWithoutLock(ctx, meet, fn)
	}
	return loose, loose
}

// together runs two functions as two updates at the same time and returns what they answer.
func together(s *store.Store, how pair, one, two func(*store.Tx) error) (errOne, errTwo error) {
	first, second := how(s)
	var wg sync.WaitGroup
	wg.Go(func() { _, errOne = first(context.Background(), one) })
	wg.Go(func() { _, errTwo = second(context.Background(), two) })
	wg.Wait()
	return errOne, errTwo
}

// anomaly is something that no serial execution shows. find looks for it once and says what it saw, or nothing.
type anomaly struct {
	name string
	find func(s *store.Store, sh shop, how pair) string
}

func anomalies() []anomaly {
	return []anomaly{
		{"lost update", lostUpdate},
		{"write skew", writeSkew},
		{"phantom", phantom},
		{"orphan", orphan},
		{"number given twice", numberGivenTwice},
		{"overdrawn pool", overdrawnPool},
	}
}

// lostUpdate: two updates each add one to a number; one of them goes missing.
func lostUpdate(s *store.Store, sh shop, how pair) string {
	add := func(tx *store.Tx) error {
		r, _ := sh.replicas.Get(tx, replicaKey{"d", "a"})
		r.Size++
		return sh.replicas.Update(tx, r)
	}
	before, _ := sh.replicas.Get(s.Snapshot(), replicaKey{"d", "a"})
	one, two := together(s, how, add, add)
	after, _ := sh.replicas.Get(s.Snapshot(), replicaKey{"d", "a"})
	if one == nil && two == nil && after.Size != before.Size+2 {
		return fmt.Sprintf("%d became %d after two additions", before.Size, after.Size)
	}
	return ""
}

// writeSkew: one of two nodes must stay open; each update closes one when the other is open.
func writeSkew(s *store.Store, sh shop, how pair) string {
	closeIf := func(mine, other string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			if n, _ := sh.nodes.Get(tx, other); n.Closing {
				return errors.New("the other one is closed")
			}
			return sh.nodes.Update(tx, node{Name: mine, Closing: true})
		}
	}
	if one, two := together(s, how, closeIf("a", "b"), closeIf("b", "a")); one == nil && two == nil {
		return "both nodes were closed"
	}
	return ""
}

// phantom: a definition has three replicas at most; two updates each count two and add one.
func phantom(s *store.Store, sh shop, how pair) string {
	addTo := func(node string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			if n := sh.byDef.Len(tx, "e"); n >= 3 {
				return fmt.Errorf("there are %d", n)
			}
			return sh.replicas.Insert(tx, aReplica("e", node, 1))
		}
	}
	one, two := together(s, how, addTo("c"), addTo("d"))
	if one == nil && two == nil {
		return "both have added the third replica"
	}
	return ""
}

// orphan: a child is inserted while its parent is deleted, and both succeed.
func orphan(s *store.Store, sh shop, how pair) string {
	one, two := together(s, how,
		func(tx *store.Tx) error { return sh.replicas.Insert(tx, aReplica("f", "c", 1)) },
		func(tx *store.Tx) error { return sh.nodes.Delete(tx, "c") })
	if one == nil && two == nil {
		return "a child was inserted under a parent that was deleted"
	}
	return ""
}

// numberGivenTwice: two updates take the lowest free port.
func numberGivenTwice(s *store.Store, sh shop, how pair) string {
	took := make(chan int, 2)
	take := func(definition string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			free, _ := sh.ports.Free(tx, nodePort{"a", 7000}, nodePort{"a", 7999})
			took <- free.Port
			return sh.replicas.Insert(tx, aReplica(definition, "a", 1, free.Port))
		}
	}
	one, two := together(s, how, take("g"), take("h"))
	if x, y := <-took, <-took; one == nil && two == nil && x == y {
		return fmt.Sprintf("both have got port %d", x)
	}
	return ""
}

// overdrawnPool: a node has space for one more; two updates look and take it.
func overdrawnPool(s *store.Store, sh shop, how pair) string {
	take := func(definition string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			if sh.promised.Of(tx, "b")+10 > 15 {
				return errors.New("full")
			}
			return sh.replicas.Insert(tx, aReplica(definition, "b", 10))
		}
	}
	one, two := together(s, how, take("g"), take("h"))
	if one == nil && two == nil {
		return "both have got the last space"
	}
	return ""
}

// ground is what the anomalies start from.
func ground(tx *store.Tx, sh shop) error {
	return sh.insertAll(tx, "a", "b", "c", "d", aReplica("d", "a", 0), aReplica("e", "a", 1), aReplica("e", "b", 1))
}

// search looks for an anomaly on a new store each time.
func search(t *testing.T, sh shop, a anomaly, how pair, rounds int) string {
	t.Helper()
	for range rounds {
		s, err := store.Open(t.Context(), kvtest.NewMemory(), sh.all())
		if err != nil {
			t.Fatal(err)
		}
		must(t, s, func(tx *store.Tx) error { return ground(tx, sh) })
		seen := a.find(s, sh, how)
		_ = s.Close()
		if seen != "" {
			return seen
		}
	}
	return ""
}

func TestThereAreNoAnomalies(t *testing.T) {
	sh := newShop()
	for _, a := range anomalies() {
		if seen := search(t, sh, a, serially, 100); seen != "" {
			t.Errorf("%s: %s", a.name, seen)
		}
	}
}

// TestSearchFindsAnomaliesWithoutTheLock is a test of the test above: each anomaly shows when updates do not run alone.
func TestSearchFindsAnomaliesWithoutTheLock(t *testing.T) {
	sh := newShop()
	for _, a := range anomalies() {
		if search(t, sh, a, withoutLock, 1) == "" {
			t.Errorf("%s: not seen in a store that updates without its lock", a.name)
		}
	}
}

// TestSearchFindsOrphansWithoutChildOf is a test of the test too: without the declaration, nothing stops an orphan.
func TestSearchFindsOrphansWithoutChildOf(t *testing.T) {
	if search(t, newShopWith(defineNodes()), anomaly{"orphan", orphan}, serially, 1) == "" {
		t.Error("orphan: not seen in a schema without ChildOf")
	}
}

// readOfTheUndurable: an update that the disk refuses is seen by another one, or by a view.
func readOfTheUndurable(t *testing.T, how func(*store.Store) updater) (seen string) {
	t.Helper()
	within(t, func(in bubble) {
		s, sh := in.s, in.sh
		gate := in.m.Hold(kvtest.BeforeAppend)
		first := start(s, sh.insertNode("a"))
		<-gate.Reached
		taken := errors.New("it is taken")
		var wg sync.WaitGroup
		var there, found, refused bool
		wg.Go(func() {
			_, err := how(s)(context.Background(), func(tx *store.Tx) error {
				_, there = sh.nodes.Get(tx, "a")
				return nil
			})
			found = err == nil && there
		})
		wg.Go(func() {
			_, err := how(s)(context.Background(), func(tx *store.Tx) error {
				if _, there := sh.nodes.Get(tx, "a"); there {
					return taken
				}
				return nil
			})
			refused = errors.Is(err, taken)
		})
		synctest.Wait()
		if sh.nodes.Len(s.Snapshot()) > 0 {
			seen = "a view shows the row; "
		}
		gate.Open(kv.ErrFull)
		<-first
		wg.Wait()
		if found {
			seen += "an update has read the row; "
		}
		if refused {
			seen += "an update was refused because of the row; "
		}
	})
	return seen
}

func TestNothingIsReadThatWasNeverDurable(t *testing.T) {
	if seen := readOfTheUndurable(t, func(s *store.Store) updater { return s.Update }); seen != "" {
		t.Error(seen)
	}
}

// TestSearchFindsReadsOfTheUndurableWithoutWaiting is a test of the test above.
func TestSearchFindsReadsOfTheUndurableWithoutWaiting(t *testing.T) {
	seen := readOfTheUndurable(t, func(s *store.Store) updater { return s.UpdateWithoutWaiting })
	if seen != "an update has read the row; an update was refused because of the row; " {
		t.Errorf("seen in a store that does not wait for durability: %q", seen)
	}
}

// TestViewsShowWholeUpdates lets readers look for half of an update while pairs of rows change, through crashes.
func TestViewsShowWholeUpdates(t *testing.T) {
	sh := newShop()
	m := kvtest.NewMemory()
	for range 5 {
		s := open(t, m, sh.all())
		_, _ = s.Update(t.Context(), func(tx *store.Tx) error {
			return sh.insertAll(tx, "a", "b", aReplica("d", "a", 0), aReplica("d", "b", 0))
		})
		stop := make(chan struct{})
		var readers, writers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for last := store.Revision(0); ; {
					v := s.Snapshot()
					a, _ := sh.replicas.Get(v, replicaKey{"d", "a"})
					b, _ := sh.replicas.Get(v, replicaKey{"d", "b"})
					if a.Size != b.Size || sh.promised.Of(v, "a") != sh.promised.Of(v, "b") || v.Revision() < last {
						t.Errorf("revision %d after %d shows %d and %d", v.Revision(), last, a.Size, b.Size)
						return
					}
					last = v.Revision()
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for w := range 4 {
			writers.Go(func() {
				for i := range 50 {
					if w == 0 && i == 40 {
						m.Crash()
					}
					_, _ = s.Update(context.Background(), func(tx *store.Tx) error {
						a, _ := sh.replicas.Get(tx, replicaKey{"d", "a"})
						return errors.Join(sh.replicas.Update(tx, aReplica("d", "a", a.Size+1)), sh.replicas.Update(tx, aReplica("d", "b", a.Size+1)))
					})
				}
			})
		}
		writers.Wait()
		close(stop)
		readers.Wait()
		_ = s.Close()
		m = m.Peer()
	}
}
