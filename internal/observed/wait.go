// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Errors that a waiter tells apart with errors.Is.
var (
	// ErrNodeOffline: the node is, or went, OFFLINE, so that nothing is heard of its replicas.
	ErrNodeOffline = errors.New("the node is offline")
	// ErrForgotten: the row of the replica went without the host having confirmed anything.
	ErrForgotten = errors.New("it is no longer registered, and its host has confirmed nothing")
)

// waiter is one call of Wait. Whoever takes it out of the node's list sends its outcome, so
// it gets exactly one.
type waiter struct {
	generation uint64
	outcome    chan outcome // holds one
}

type outcome struct {
	status ResourceStatus
	err    error
}

// Wait returns the status of a replica as soon as it has settled (Ready, Failed or
// Destroyed) at generation or later, and is current. It waits through CONNECTED.
//
// Errors: [ErrNodeOffline] when the node is or goes OFFLINE, [ErrForgotten] when the row of
// the replica went, and that of ctx. With an error the status is the last one known.
func (s *State) Wait(ctx context.Context, id model.ResourceID, generation uint64) (ResourceStatus, error) {
	n := s.node(id.Node)
	if n == nil {
		return ResourceStatus{}, offline(id.Node, NodeStatus{})
	}
	w, now := n.enlist(id, generation)
	if w == nil {
		return now.status, now.err
	}
	select {
	case o := <-w.outcome:
		return o.status, o.err
	case <-ctx.Done():
	}
	if n.leave(id.Definition, w) {
		st, _ := s.Resource(id)
		return st, fmt.Errorf("wait for resource %s: %w", id, ctx.Err())
	}
	o := <-w.outcome
	return o.status, o.err
}

// enlist adds a waiter, or returns nil and the outcome when there is nothing to wait for.
func (n *node) enlist(id model.ResourceID, generation uint64) (*waiter, outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.resources[id.Definition]
	var st ResourceStatus
	if ok {
		st = n.read(r)
	}
	if settled(st, generation) {
		return nil, outcome{status: st}
	}
	if grave, ok := n.graves.find(id.Definition); ok && grave.Generation >= generation {
		return nil, outcome{status: grave}
	}
	if n.status.Connection == Offline {
		return nil, outcome{status: st, err: offline(id.Node, n.status)}
	}
	w := &waiter{generation: generation, outcome: make(chan outcome, 1)}
	n.waiters[id.Definition] = append(n.waiters[id.Definition], w)
	return w, outcome{}
}

// leave takes w out of the list; false means that its outcome was sent.
func (n *node) leave(k model.DefinitionKey, w *waiter) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.waiters[k], w)
	if i < 0 {
		return false
	}
	n.keep(k, slices.Delete(n.waiters[k], i, i+1))
	return true
}

func (n *node) keep(k model.DefinitionKey, list []*waiter) {
	if len(list) == 0 {
		delete(n.waiters, k)
		return
	}
	n.waiters[k] = list
}

// settle ends the waits that st satisfies. The caller holds the lock.
func (n *node) settle(k model.DefinitionKey, st ResourceStatus) {
	n.keep(k, slices.DeleteFunc(n.waiters[k], func(w *waiter) bool {
		if !settled(st, w.generation) {
			return false
		}
		w.outcome <- outcome{status: st}
		return true
	}))
}

// fail ends the waits for generations of one replica below a bound. The caller holds the
// lock.
func (n *node) fail(k model.DefinitionKey, below uint64, err error) {
	var st ResourceStatus
	if r, ok := n.resources[k]; ok {
		st = n.read(r)
	}
	n.keep(k, slices.DeleteFunc(n.waiters[k], func(w *waiter) bool {
		if w.generation >= below {
			return false
		}
		w.outcome <- outcome{status: st, err: err}
		return true
	}))
}

func (n *node) failAll(err error) {
	for k := range n.waiters {
		n.fail(k, math.MaxUint64, err)
	}
}

func settled(st ResourceStatus, generation uint64) bool {
	return st.Current && st.Phase.Settled() && st.Generation >= generation
}

func offline(key model.NodeKey, st NodeStatus) error {
	if st.Reason != "" {
		return fmt.Errorf("node %s: %w: %s", key, ErrNodeOffline, st.Reason)
	}
	return fmt.Errorf("node %s: %w", key, ErrNodeOffline)
}

// How long, and how many for a node, destroyed replicas and snapshots are remembered after their rows
// went. Who marks a replica for deletion begins to wait at once after the commit, so a
// minute is ample.
const (
	graveAge  = time.Minute
	maxGraves = 4096
)

// graves remembers what was destroyed, the oldest first. The zero value is empty.
type graves[K comparable, S any] struct {
	order  []grave[K]
	latest map[K]buried[S]
}

type grave[K comparable] struct {
	key        K
	generation uint64
	at         time.Time
}

type buried[S any] struct {
	status     S
	generation uint64
}

func (g *graves[K, S]) add(k K, st S, generation uint64, now time.Time) {
	if g.latest == nil {
		g.latest = make(map[K]buried[S])
	}
	drop := 0
	for drop < len(g.order) && (now.Sub(g.order[drop].at) > graveAge || len(g.order)-drop >= maxGraves) {
		if old := g.order[drop]; g.latest[old.key].generation == old.generation {
			delete(g.latest, old.key)
		}
		drop++
	}
	g.order = append(g.order[drop:], grave[K]{key: k, generation: generation, at: now})
	g.latest[k] = buried[S]{status: st, generation: generation}
}

func (g *graves[K, S]) find(k K) (S, bool) {
	b, ok := g.latest[k]
	return b.status, ok
}
