// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"iter"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// State is what all agents last said.
type State struct {
	now func() time.Time

	mu    sync.RWMutex // guards the map only; taken before the lock of a node
	nodes map[model.NodeKey]*node

	feeds feeds
}

// New returns a State that knows nothing. Times of statuses are taken from now.
func New(now func() time.Time) *State {
	return &State{now: now, nodes: make(map[model.NodeKey]*node)}
}

// node is all that is known of one node.
type node struct {
	mu        sync.RWMutex
	status    NodeStatus
	session   uint64 // counts the sessions of the node
	base      uint64 // the session that this one resumes, directly or through others; or itself
	resources map[model.DefinitionKey]resource
	pools     map[model.PoolKey]pool
	snapshots map[model.DefinitionKey]snapshots
	jobs      map[string]job
	host      host
	waiters   map[model.DefinitionKey][]*waiter
	graves    graves[model.DefinitionKey, ResourceStatus]
	buried    graves[snapshotKey, SnapshotStatus]
}

// resource is a status with the session in which it was said.
type resource struct {
	status  ResourceStatus
	session uint64
}

type pool struct {
	status  PoolStatus
	session uint64
}

// current tells whether what was said in session is current. The caller holds the lock.
func (n *node) current(session uint64) bool {
	return n.status.Connection != Offline && session == n.session
}

// read returns a status as readers see it. The caller holds the lock.
func (n *node) read(r resource) ResourceStatus {
	if !n.current(r.session) {
		return r.status.masked()
	}
	r.status.Current = true
	return r.status
}

func (n *node) readPool(p pool) PoolStatus {
	if !n.current(p.session) {
		return p.status.masked()
	}
	p.status.Current = true
	return p.status
}

func (s *State) node(key model.NodeKey) *node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.nodes[key]
}

// Node returns the status of a node; a node that never had a session is OFFLINE.
func (s *State) Node(key model.NodeKey) NodeStatus {
	n := s.node(key)
	if n == nil {
		return NodeStatus{Connection: Offline}
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.status
}

// Nodes yields every node that has or had a session, in no order.
func (s *State) Nodes() iter.Seq2[model.NodeKey, NodeStatus] {
	return func(yield func(model.NodeKey, NodeStatus) bool) {
		s.mu.RLock()
		keys := make([]model.NodeKey, 0, len(s.nodes))
		for k := range s.nodes {
			keys = append(keys, k)
		}
		s.mu.RUnlock()
		for _, k := range keys {
			if !yield(k, s.Node(k)) {
				return
			}
		}
	}
}

// Resource returns the status of a replica, and whether its node ever told one.
func (s *State) Resource(id model.ResourceID) (ResourceStatus, bool) {
	n := s.node(id.Node)
	if n == nil {
		return ResourceStatus{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	r, ok := n.resources[id.Definition]
	if !ok {
		return ResourceStatus{}, false
	}
	return n.read(r), true
}

// Resources yields the replicas of a node, as they were when the iteration began, in no
// order.
func (s *State) Resources(key model.NodeKey) iter.Seq2[model.DefinitionKey, ResourceStatus] {
	return func(yield func(model.DefinitionKey, ResourceStatus) bool) {
		n := s.node(key)
		if n == nil {
			return
		}
		n.mu.RLock()
		all := make(map[model.DefinitionKey]ResourceStatus, len(n.resources))
		for k, r := range n.resources {
			all[k] = n.read(r)
		}
		n.mu.RUnlock()
		for k, r := range all {
			if !yield(k, r) {
				return
			}
		}
	}
}

// Pool returns the status of a pool, and whether its node ever told one.
func (s *State) Pool(id model.PoolID) (PoolStatus, bool) {
	n := s.node(id.Node)
	if n == nil {
		return PoolStatus{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	p, ok := n.pools[id.Pool]
	if !ok {
		return PoolStatus{}, false
	}
	return n.readPool(p), true
}

// Pools yields the pools of a node, as they were when the iteration began, in no order.
func (s *State) Pools(key model.NodeKey) iter.Seq2[model.PoolKey, PoolStatus] {
	return func(yield func(model.PoolKey, PoolStatus) bool) {
		n := s.node(key)
		if n == nil {
			return
		}
		n.mu.RLock()
		all := make(map[model.PoolKey]PoolStatus, len(n.pools))
		for k, p := range n.pools {
			all[k] = n.readPool(p)
		}
		n.mu.RUnlock()
		for k, p := range all {
			if !yield(k, p) {
				return
			}
		}
	}
}
