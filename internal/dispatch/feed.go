// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Run takes sessions and feeds them with what the store's commits change, until ctx ends or
// another controller has taken the database. It returns nil in the first case, when all
// sessions have ended. It runs once at a time.
func (s *Server) Run(ctx context.Context) error {
	stopping := make(chan struct{})
	s.mu.Lock()
	again := s.stopping != nil
	if !again {
		s.stopping = stopping
	}
	s.mu.Unlock()
	if again {
		return errors.New("the agent sessions are served already")
	}
	defer func() {
		s.mu.Lock()
		s.stopping = nil
		s.mu.Unlock()
		close(stopping)
		s.live.Wait()
	}()
	watch, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.cfg.Store.Fenced():
			cancel(store.ErrFenced)
		case <-watch.Done():
		}
	}()
	for {
		view := s.cfg.Store.Snapshot()
		s.resync(view)
		err := s.follow(watch, view.Revision())
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, store.ErrCompacted):
			return fmt.Errorf("watch the database for the agents: %w", err)
		}
		s.count.resyncs.Add(1)
		s.cfg.Log.Warn("commits were missed, all assignments are compared", "err", err)
	}
}

// follow takes the commits after a revision until the watch ends, and returns why it ended.
func (s *Server) follow(ctx context.Context, after store.Revision) error {
	for c, err := range s.cfg.Store.Watch(ctx, after) {
		if err != nil {
			return err
		}
		s.take(c)
	}
	return errors.New("the watch ended without a reason")
}

// resync compares everything, for when commits were or may have been missed.
func (s *Server) resync(view *store.View) {
	for _, h := range s.all() {
		if _, ok := schema.Nodes.Get(view, h.node); !ok {
			s.drop(h.node, view.Revision())
			continue
		}
		h.mark(func(t *todo) { t.all = true })
		s.cfg.Observed.Prune(h.node, uint64(view.Revision()), func(d model.DefinitionKey) bool {
			_, ok := schema.Resources.Get(view, model.ResourceID{Definition: d, Node: h.node})
			return ok || h.confirms(d)
		})
		s.cfg.Observed.PruneSnapshots(h.node, func(d model.DefinitionKey, k model.SnapshotKey) bool {
			_, ok := schema.SnapshotReplicas.Get(view, model.SnapshotReplicaID{Definition: d, Snapshot: k, Node: h.node})
			return ok
		})
		for p, st := range s.cfg.Observed.Pools(h.node) {
			id := model.PoolID{Node: h.node, Pool: p}
			if _, ok := schema.Pools.Get(view, id); !ok && len(st.Unknown) == 0 {
				s.cfg.Observed.ForgetPool(id)
			}
		}
	}
}

// concern is what a commit concerns: by node, and all replicas of some definitions.
type concern struct {
	nodes       map[model.NodeKey]*todo
	definitions map[model.DefinitionKey]struct{}
	all         bool
}

func (c *concern) of(node model.NodeKey) *todo {
	t, ok := c.nodes[node]
	if !ok {
		t = new(todo)
		c.nodes[node] = t
	}
	return t
}

// take passes on what one commit concerns: to each session all of it at once.
func (s *Server) take(commit store.Commit) {
	c := concern{nodes: make(map[model.NodeKey]*todo), definitions: make(map[model.DefinitionKey]struct{})}
	for _, ch := range commit.Changes {
		switch ch.Collection {
		case schema.Resources.Name():
			s.takeResource(&c, ch)
		case schema.SnapshotReplicas.Name():
			s.takeSnapshot(&c, ch)
		case schema.Definitions.Name():
			// New and deleted ones have no replicas but those in the same commit.
			if k, was, is, ok := schema.Definitions.Changed(ch); ok && was != nil && is != nil {
				c.definitions[k] = struct{}{}
			}
		case schema.VolumeDefinitions.Name():
			if id, was, is, ok := schema.VolumeDefinitions.Changed(ch); ok && was != nil && is != nil {
				c.definitions[id.Definition] = struct{}{}
			}
		case schema.Groups.Name():
			s.takeGroup(&c, ch)
		case schema.Settings.Name():
			takeSettings(&c, ch)
		case schema.Pools.Name():
			s.takePool(&c, ch)
		case schema.Nodes.Name():
			s.takeNode(&c, ch)
		default:
			s.takeNet(&c, ch)
		}
	}
	s.mark(&c)
}

// takeNet passes on what concerns the way in which replicas are connected, and the options of
// their volumes.
func (s *Server) takeNet(c *concern, ch store.Change) {
	switch ch.Collection {
	case schema.NetInterfaces.Name():
		if id, _, _, ok := schema.NetInterfaces.Changed(ch); ok {
			s.allOn(c, id.Node)
		}
	case schema.NodeConnections.Name():
		if pair, _, _, ok := schema.NodeConnections.Changed(ch); ok {
			s.allOn(c, pair.A)
		}
	case schema.ResourceConnections.Name():
		if id, _, _, ok := schema.ResourceConnections.Changed(ch); ok {
			c.definitions[id.Definition] = struct{}{}
		}
	case schema.Beginnings.Name():
		if id, _, _, ok := schema.Beginnings.Changed(ch); ok {
			c.of(id.Node).resource(id.Definition)
		}
	case schema.VolumeGroups.Name():
		if id, _, _, ok := schema.VolumeGroups.Changed(ch); ok {
			s.allIn(c, id.Group)
		}
	}
}

// allOn concerns all definitions that have a replica on a node.
func (s *Server) allOn(c *concern, node model.NodeKey) {
	for r := range schema.ResourcesByNode.Get(s.cfg.Store.Snapshot(), node) {
		c.definitions[r.Definition] = struct{}{}
	}
}

// allIn concerns all definitions of a group.
func (s *Server) allIn(c *concern, group model.GroupKey) {
	for d := range schema.DefinitionsByGroup.Get(s.cfg.Store.Snapshot(), group) {
		c.definitions[d.Name.Key()] = struct{}{}
	}
}

func (s *Server) takeNode(c *concern, ch store.Change) {
	k, was, is, ok := schema.Nodes.Changed(ch)
	switch {
	case !ok:
	case is == nil:
		s.drop(k, ch.Revision)
	case was != nil && matters(was.Props, is.Props):
		s.allOn(c, k)
	}
}

// mark hands a concern to the sessions.
func (s *Server) mark(c *concern) {
	if c.all {
		for _, h := range s.all() {
			h.mark(func(t *todo) { t.all = true })
		}
	}
	if len(c.definitions) > 0 {
		view := s.cfg.Store.Snapshot()
		for d := range c.definitions {
			for r := range schema.ResourcesOf(view, d) {
				c.of(r.Node).resource(d)
			}
		}
	}
	for node, more := range c.nodes {
		if h := s.host(node); h != nil {
			h.mark(func(t *todo) { t.merge(more) })
		}
	}
}

func (s *Server) takeResource(c *concern, ch store.Change) {
	id, was, is, ok := schema.Resources.Changed(ch)
	if !ok {
		return
	}
	c.of(id.Node).resource(id.Definition)
	if is != nil && is.NodeID != nil || was != nil && was.NodeID != nil {
		c.definitions[id.Definition] = struct{}{} // its peers are told of it
	}
	if is == nil {
		s.forget(id, ch.Revision)
	}
}

func (s *Server) takeSnapshot(c *concern, ch store.Change) {
	id, _, is, ok := schema.SnapshotReplicas.Changed(ch)
	if !ok {
		return
	}
	c.of(id.Node).resource(id.Definition)
	if is == nil {
		s.cfg.Observed.ForgetSnapshot(id)
	}
}

func (s *Server) takeGroup(c *concern, ch store.Change) {
	k, was, is, ok := schema.Groups.Changed(ch)
	if !ok || was == nil || is == nil || !matters(was.Props, is.Props) {
		return
	}
	s.allIn(c, k)
}

func takeSettings(c *concern, ch store.Change) {
	_, was, is, ok := schema.Settings.Changed(ch)
	if !ok {
		return
	}
	var before, after model.Props
	if was != nil {
		before = was.Props
	}
	if is != nil {
		after = is.Props
	}
	c.all = c.all || matters(before, after)
}

func (s *Server) takePool(c *concern, ch store.Change) {
	id, was, is, ok := schema.Pools.Changed(ch)
	if !ok {
		return
	}
	c.of(id.Node).pool(id.Pool)
	if was != nil && is != nil && matters(was.Props, is.Props) {
		for r := range schema.ResourcesByPool.Get(s.cfg.Store.Snapshot(), id) {
			c.definitions[r.Definition] = struct{}{}
		}
	}
	if is == nil {
		s.cfg.Observed.ForgetPool(id)
	}
}

// forget drops what was said of a replica whose row went at a revision. While the host's own
// word on that is being made durable, the report that brought it does this.
func (s *Server) forget(id model.ResourceID, gone store.Revision) {
	if h := s.host(id.Node); h != nil && h.confirms(id.Definition) {
		return
	}
	s.cfg.Observed.Forget(id, uint64(gone))
}

// drop ends the session of a node whose row went at a revision, unless the session began
// later, for a node of the same name.
func (s *Server) drop(node model.NodeKey, gone store.Revision) {
	s.cfg.Log.Info("node removed", "node", node)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.hosts[node]
	if !ok {
		s.cfg.Observed.ForgetNode(node)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.session; x != nil {
		if x.since >= gone {
			return
		}
		x.end(codes.NotFound, "node %s is no longer registered", node)
		h.session = nil
	}
	h.dropped = true
	delete(s.hosts, node)
	s.cfg.Observed.ForgetNode(node)
}
