// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

type node struct {
	Name    string
	Closing bool
	Labels  map[string]string
}

type replicaKey struct {
	Definition string
	Node       string
}

type replica struct {
	Key   replicaKey
	Ports []int
	Size  int64

	Properties map[string]string
}

type nodePort struct {
	Node string
	Port int
}

// shop is a small schema of its own for each test.
type shop struct {
	nodes    *store.Collection[string, node]
	replicas *store.Collection[replicaKey, replica]
	byDef    *store.Index[replicaKey, replica, string]
	byNode   *store.Index[replicaKey, replica, string]
	ports    *store.Index[replicaKey, replica, nodePort]
	promised *store.Total[replicaKey, replica, string]
}

func newShop() shop {
	s := shop{}
	s.nodes = store.Define("nodes", func(n *node) string { return n.Name }, store.Closing(func(n *node) bool { return n.Closing }))
	s.replicas = store.Define("replicas", func(r *replica) replicaKey { return r.Key },
		store.ChildOf(s.nodes, func(r *replica) []string { return []string{r.Key.Node} }))
	s.byDef = store.By(s.replicas, "definition", func(r *replica) []string { return []string{r.Key.Definition} })
	s.byNode = store.By(s.replicas, "node", func(r *replica) []string { return []string{r.Key.Node} })
	s.ports = store.Unique(s.replicas, "port", func(r *replica) []nodePort {
		var ps []nodePort
		for _, p := range r.Ports {
			ps = append(ps, nodePort{r.Key.Node, p})
		}
		return ps
	})
	s.promised = store.Sum(s.replicas, "promised", func(r *replica, add func(string, int64)) { add(r.Key.Node, r.Size) })
	return s
}

func (s shop) all() []store.Registered { return []store.Registered{s.nodes, s.replicas} }

func open(t *testing.T, e *kvtest.Memory, c []store.Registered, opts ...store.Setting) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), e, c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t *testing.T, s *store.Store, fn func(*store.Tx) error) store.Revision {
	t.Helper()
	r, err := s.Update(context.Background(), fn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRowsAreThereAfterReopening(t *testing.T) {
	sh := newShop()
	m := kvtest.NewMemory()
	s := open(t, m, sh.all(), store.Paranoid())
	must(t, s, func(tx *store.Tx) error {
		return errors.Join(
			sh.nodes.Insert(tx, node{Name: "a"}), sh.nodes.Insert(tx, node{Name: "b"}),
			sh.replicas.Insert(tx, replica{Key: replicaKey{"d", "a"}, Ports: []int{7000, 7001}, Size: 10}),
			sh.replicas.Insert(tx, replica{Key: replicaKey{"d", "b"}, Ports: []int{7000}, Size: 5}))
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, m.Peer(), sh.all())
	v := s.Snapshot()
	if v.Revision() != 1 || sh.nodes.Len(v) != 2 || sh.byDef.Len(v, "d") != 2 || sh.promised.Of(v, "a") != 10 {
		t.Fatalf("revision %d, %d nodes", v.Revision(), sh.nodes.Len(v))
	}
	if p := store.Verify(v); len(p) > 0 {
		t.Fatal(p)
	}
	if free, ok := sh.ports.Free(v, nodePort{"a", 7000}, nodePort{"a", 7010}); !ok || free.Port != 7002 {
		t.Fatal(free, ok)
	}
	var names []string
	for n := range sh.nodes.All(v) {
		names = append(names, n.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Fatal(names)
	}
}

func TestDeletionOfAParentIsRefusedWhileItHasChildren(t *testing.T) {
	sh := newShop()
	s := open(t, kvtest.NewMemory(), sh.all(), store.Paranoid())
	must(t, s, func(tx *store.Tx) error {
		return errors.Join(sh.nodes.Insert(tx, node{Name: "a"}), sh.replicas.Insert(tx, replica{Key: replicaKey{"d", "a"}}))
	})
	_, err := s.Update(t.Context(), func(tx *store.Tx) error { return sh.nodes.Delete(tx, "a") })
	var children *store.ChildrenError
	if !errors.As(err, &children) || children.Count != 1 {
		t.Fatal(err)
	}
	t.Log(err)
	_, err = s.Update(t.Context(), func(tx *store.Tx) error { return sh.replicas.Insert(tx, replica{Key: replicaKey{"d", "x"}}) })
	t.Log(err)
}
