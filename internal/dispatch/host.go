// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// host is the record of one node. It outlives sessions, so that they can be resumed.
type host struct {
	node model.NodeKey
	sent sent // its lock is taken before mu

	mu        sync.Mutex                  // held for work in memory only
	session   *session                    // nil when there is none
	dropped   bool                        // the node's row is gone; another record serves a later node of the name
	confirmed map[model.DefinitionKey]int // reports whose word is being made durable
}

// current returns the session of the node, or nil.
func (h *host) current() *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}

// mark notes what is to be looked at again for the session of the node, if there is one.
func (h *host) mark(add func(*todo)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session != nil {
		h.session.add(add)
	}
}

// todo names what a session has to look at before it sends the next message.
type todo struct {
	all       bool // everything that the node has
	resources map[model.DefinitionKey]struct{}
	pools     map[model.PoolKey]struct{}
	strangers map[model.DefinitionKey]string // reported, but without a row
	asks      []*agentpb.Ask
}

func (t *todo) resource(k model.DefinitionKey) {
	if t.resources == nil {
		t.resources = make(map[model.DefinitionKey]struct{})
	}
	t.resources[k] = struct{}{}
}

func (t *todo) pool(k model.PoolKey) {
	if t.pools == nil {
		t.pools = make(map[model.PoolKey]struct{})
	}
	t.pools[k] = struct{}{}
}

func (t *todo) stranger(name string) {
	if t.strangers == nil {
		t.strangers = make(map[model.DefinitionKey]string)
	}
	t.strangers[model.DefinitionName(name).Key()] = name
}

// merge adds the resources and pools of another.
func (t *todo) merge(more *todo) {
	for k := range more.resources {
		t.resource(k)
	}
	for k := range more.pools {
		t.pool(k)
	}
}

// sent is what the agent of a node has, or will have when it has read what is on its way.
type sent struct {
	keys Keys

	mu        sync.Mutex
	instance  string // the agent's process that it was sent to
	resultsIn string // of the newest message; empty when nothing was sent
	pools     map[model.PoolKey]*agentpb.Pool
	resources map[model.DefinitionKey]assignment
}

// resumes tells whether the agent that says hello has exactly what was sent. The caller holds
// the lock.
func (s *sent) resumes(hello *agentpb.Hello) bool {
	return s.resultsIn != "" && hello.GetAppliesTo() == s.resultsIn &&
		hello.GetInstance() != "" && hello.GetInstance() == s.instance
}

// reset is for an agent that has nothing of ours. The caller holds the lock.
func (s *sent) reset(instance string) {
	s.instance, s.resultsIn = instance, ""
	s.pools = make(map[model.PoolKey]*agentpb.Pool)
	s.resources = make(map[model.DefinitionKey]assignment)
}

// resource returns what was sent of one resource.
func (s *sent) resource(k model.DefinitionKey) (assignment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.resources[k]
	return a, ok
}

func (s *sent) hasPool(k model.PoolKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools[k] != nil
}

// update puts into m what r has of the named objects and the agent has not, and counts it as
// sent. The caller holds the lock.
func (s *sent) update(m *agentpb.Assignments, r store.Reader, node model.NodeKey, t *todo) {
	if t.all {
		s.updateAll(m, r, node)
	} else {
		for k := range t.pools {
			p, ok := schema.Pools.Get(r, model.PoolID{Node: node, Pool: k})
			s.updatePool(m, k, &p, ok)
		}
		for k := range t.resources {
			s.updateResource(m, r, node, k)
		}
	}
	for k, name := range t.strangers {
		if _, is := s.resources[k]; !is {
			m.GoneResources = append(m.GoneResources, name)
		}
	}
}

// updateAll is update for everything that the node has or was sent.
func (s *sent) updateAll(m *agentpb.Assignments, r store.Reader, node model.NodeKey) {
	pools := make(map[model.PoolKey]struct{})
	for p := range schema.PoolsOf(r, node) {
		pools[p.Name.Key()] = struct{}{}
		s.updatePool(m, p.Name.Key(), &p, true)
	}
	for k := range s.pools {
		if _, is := pools[k]; !is {
			s.updatePool(m, k, nil, false)
		}
	}
	resources := make(map[model.DefinitionKey]struct{})
	for row := range schema.ResourcesByNode.Get(r, node) {
		resources[row.Definition] = struct{}{}
	}
	for part := range schema.SnapshotReplicasByNode.Get(r, node) {
		resources[part.Definition] = struct{}{}
	}
	for k := range s.resources {
		resources[k] = struct{}{}
	}
	for k := range resources {
		s.updateResource(m, r, node, k)
	}
}

func (s *sent) updatePool(m *agentpb.Assignments, k model.PoolKey, p *schema.Pool, is bool) {
	had := s.pools[k]
	if !is || p.Provider == model.Diskless {
		if had != nil {
			delete(s.pools, k)
			m.GonePools = append(m.GonePools, had.GetName())
		}
		return
	}
	if now := assignPool(p); !proto.Equal(had, now) {
		s.pools[k] = now
		m.Pools = append(m.Pools, now)
	}
}

func (s *sent) updateResource(m *agentpb.Assignments, r store.Reader, node model.NodeKey, k model.DefinitionKey) {
	had, known := s.resources[k]
	var row *schema.Resource
	if found, ok := schema.Resources.Get(r, model.ResourceID{Definition: k, Node: node}); ok {
		row = &found
	}
	now, is := assign(r, node, k, row)
	if !is {
		if known {
			delete(s.resources, k)
			m.GoneResources = append(m.GoneResources, had.msg.GetName())
		}
		return
	}
	if row != nil {
		now.addKeys(r, s.keys, row)
	}
	if known { // a row that went, such as a snapshot's, takes its revision with it
		now.own = max(now.own, had.own)
		now.msg.Generation = max(now.msg.GetGeneration(), uint64(now.own))
	}
	if known && had.own == now.own && had.says(now) {
		return
	}
	if known { // so does a shared one
		now.msg.Generation = max(now.msg.GetGeneration(), had.msg.GetGeneration())
	}
	s.resources[k] = now
	m.Resources = append(m.Resources, now.msg)
}
