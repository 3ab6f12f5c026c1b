// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// caught runs something that must panic because a row was changed in place.
func caught(t *testing.T, what string, fn func()) {
	t.Helper()
	defer func() {
		p := recover()
		if text, _ := p.(string); !strings.Contains(text, "a row of nodes was changed in place") || !strings.Contains(text, `"zone":"mine"`) {
			t.Errorf("%s: panics with %v", what, p)
		}
	}()
	fn()
}

func TestParanoidStoreFindsRowsChangedInPlace(t *testing.T) {
	labelled := func(t *testing.T) (*store.Store, shop, map[string]string) {
		t.Helper()
		sh := newShop()
		s, err := store.Open(t.Context(), kvtest.NewMemory(), sh.all(), store.Paranoid())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			defer func() { _ = recover() }() // the spoilt row
			_ = s.Close()
		})
		labels := map[string]string{"zone": "a"}
		must(t, s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: "a", Labels: labels}) })
		return s, sh, labels
	}
	spoil := func(n node) { n.Labels["zone"] = "mine" }

	s, sh, _ := labelled(t)
	caught(t, "after a read in a transaction", func() {
		_, _ = s.Update(t.Context(), func(tx *store.Tx) error {
			n, _ := sh.nodes.Get(tx, "a")
			spoil(n)
			return nil
		})
	})

	s, sh, _ = labelled(t)
	caught(t, "in a transaction that fails", func() {
		_, _ = s.Update(t.Context(), func(tx *store.Tx) error {
			for n := range sh.nodes.All(tx) {
				spoil(n)
			}
			return errors.New("no")
		})
	})

	s, sh, _ = labelled(t)
	n, _ := sh.nodes.Get(s.Snapshot(), "a")
	spoil(n)
	caught(t, "when the row is read again", func() { sh.nodes.Get(s.Snapshot(), "a") })
	caught(t, "when the row is iterated over", func() {
		for range sh.nodes.All(s.Snapshot()) {
			break
		}
	})
	if p := store.Verify(s.Snapshot()); len(p) == 0 || !strings.Contains(p[0].What, "changed in place") {
		t.Errorf("verify finds %v", p)
	}

	s, sh, labels := labelled(t)
	labels["zone"] = "mine" // what was given to Insert is the store's now
	caught(t, "after the insertion", func() { sh.nodes.Get(s.Snapshot(), "a") })
	caught(t, "when the store is closed", func() { _ = s.Close() })

	s, sh, _ = labelled(t)
	caught(t, "what was given to an update under way", func() {
		_, _ = s.Update(t.Context(), func(tx *store.Tx) error {
			n := node{Name: "b", Labels: map[string]string{}}
			if err := sh.nodes.Insert(tx, n); err != nil {
				return err
			}
			spoil(n)
			return nil
		})
	})
	if sh.nodes.Len(s.Snapshot()) != 1 {
		t.Error("the spoilt row has come into the state")
	}
}

func TestRowsThatAreReadMayBeChangedAtTheTop(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", aReplica("d", "a", 1)) })
	must(t, s, func(tx *store.Tx) error {
		r, _ := sh.replicas.Get(tx, replicaKey{"d", "a"})
		r.Size, r.Ports = 2, append(r.Ports, 7000)
		return sh.replicas.Update(tx, r)
	})
	for c, err := range s.Watch(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		_, before, after, _ := sh.replicas.Changed(c.Changes[0])
		if before.Size != 1 || after.Size != 2 {
			t.Errorf("changed from %d to %d", before.Size, after.Size)
		}
		before.Size, after.Size = 8, 9
		break
	}
	if r, _ := sh.replicas.Get(s.Snapshot(), replicaKey{"d", "a"}); r.Size != 2 {
		t.Errorf("the row has size %d", r.Size)
	}
	sound(t, s)
}
