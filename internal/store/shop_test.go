// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
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
	Key        replicaKey
	Ports      []int
	Size       int64
	Properties map[string]string
}

type nodePort struct {
	Node string
	Port int
}

// shop is a schema: replicas are children of nodes, have ports that are unique on their node, and take space there.
type shop struct {
	nodes    *store.Collection[string, node]
	replicas *store.Collection[replicaKey, replica]
	byDef    *store.Index[replicaKey, replica, string]
	byNode   *store.Index[replicaKey, replica, string]
	ports    *store.Index[replicaKey, replica, nodePort]
	promised *store.Total[replicaKey, replica, string]
}

func newShop() shop {
	nodes := defineNodes()
	return newShopWith(nodes, store.ChildOf(nodes, nodeOf))
}

func defineNodes() *store.Collection[string, node] {
	return store.Define("nodes", func(n *node) string { return n.Name }, store.Closing(func(n *node) bool { return n.Closing }))
}

func nodeOf(r *replica) []string { return []string{r.Key.Node} }

func newShopWith(nodes *store.Collection[string, node], opts ...store.Option[replica]) shop {
	s := shop{nodes: nodes}
	s.replicas = store.Define("replicas", func(r *replica) replicaKey { return r.Key }, opts...)
	s.byDef = store.By(s.replicas, "definition", func(r *replica) []string { return []string{r.Key.Definition} })
	s.byNode = store.By(s.replicas, "node", nodeOf)
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

func open(t *testing.T, e kv.Engine, c []store.Registered, opts ...store.Setting) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), e, c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openShop opens a new paranoid store in memory.
func openShop(t *testing.T) (*store.Store, shop, *kvtest.Memory) {
	t.Helper()
	sh, m := newShop(), kvtest.NewMemory()
	return open(t, m, sh.all(), store.Paranoid()), sh, m
}

// must makes an update that has to succeed.
func must(t *testing.T, s *store.Store, fn func(*store.Tx) error) store.Revision {
	t.Helper()
	r, err := s.Update(context.Background(), fn)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return r
}

// refused makes an update that has to fail with an error of a type.
func refused[E error](t *testing.T, s *store.Store, fn func(*store.Tx) error) E {
	t.Helper()
	before := s.Snapshot().Revision()
	_, err := s.Update(context.Background(), fn)
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("update answers %v, want %T", err, e)
	}
	if after := s.Snapshot().Revision(); after != before {
		t.Errorf("a refused update has moved the state from revision %d to %d", before, after)
	}
	return e
}

// sound checks the state against its declarations.
func sound(t *testing.T, s *store.Store) {
	t.Helper()
	for _, p := range store.Verify(s.Snapshot()) {
		t.Errorf("the state is not sound: %s", p)
	}
}

func aReplica(definition, node string, size int64, ports ...int) replica {
	return replica{Key: replicaKey{definition, node}, Size: size, Ports: ports}
}

// insertAll inserts nodes and replicas.
func (s shop) insertAll(tx *store.Tx, rows ...any) error {
	for _, r := range rows {
		var err error
		switch r := r.(type) {
		case string:
			err = s.nodes.Insert(tx, node{Name: r})
		case replica:
			err = s.replicas.Insert(tx, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
