// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest/encode"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// promotionEvents tells which replicas may be promoted: first, when the reader asks for it, all of them, then what changes.
// A replica of which nothing is known now may not be.
func (s *Server) promotionEvents(q *request) {
	ctx, cancel := context.WithCancel(q.Context())
	p := promotions{server: s, told: map[model.ResourceID]bool{}, silent: !fromCurrent(q)}
	changes, ended := s.changes(ctx, schema.Resources.Name())
	defer ended()
	defer cancel()
	q.events(changes, p.tell)
}

// promotions is what one reader was told.
type promotions struct {
	server *Server
	told   map[model.ResourceID]bool
	silent bool // how things are at first is noted, and not told
}

func (p *promotions) tell(s *stream, c observed.Changes) error {
	view := p.server.Store.Snapshot()
	ids := c.Resources
	for _, node := range c.Nodes {
		for r := range schema.ResourcesByNode.Get(view, node) {
			ids = append(ids, r.ID())
		}
	}
	if len(c.Nodes)+len(c.Resources) == 0 {
		if len(c.Snapshots)+len(c.Pools)+len(c.Jobs)+len(c.Hosts) > 0 {
			return nil
		}
		ids = p.all(view)
	}
	for _, id := range ids {
		if err := p.one(s, view, id); err != nil {
			return err
		}
	}
	p.silent = false
	return nil
}

// all lists the replicas that there are, and those that the reader was told of and that are gone.
func (p *promotions) all(view *store.View) []model.ResourceID {
	ids := slices.Collect(maps.Keys(p.told))
	for r := range schema.Resources.All(view) {
		if _, known := p.told[r.ID()]; !known {
			ids = append(ids, r.ID())
		}
	}
	return ids
}

func (p *promotions) one(s *stream, view *store.View, id model.ResourceID) error {
	r, there := schema.Resources.Get(view, id)
	if there {
		if d, _ := schema.Definitions.Get(view, r.Definition); !model.Replicates(d.Layers) {
			return nil
		}
	}
	st, _ := p.server.Observed.Resource(id)
	may := there && st.Current && st.DRBD != nil && st.DRBD.MayPromote != nil && *st.DRBD.MayPromote
	before, known := p.told[id]
	switch {
	case !there && !known, known && before == may && there:
		return nil
	case !there:
		delete(p.told, id)
		if !before {
			return nil
		}
	default:
		p.told[id] = may
	}
	if p.silent {
		return nil
	}
	return s.send(wire.EventNameMayPromote, wire.EventMayPromoteChange{
		ResourceName: string(schema.NameOfDefinition(view, id.Definition)), NodeName: string(schema.NameOfNode(view, id.Node)), MayPromote: may,
	})
}

// nodeEvents tells of nodes that come, change and go.
func (s *Server) nodeEvents(q *request) {
	ctx, cancel := context.WithCancel(q.Context())
	n := nodeTeller{server: s}
	changes, ended := s.changes(ctx, schema.Nodes.Name())
	defer ended()
	defer cancel()
	q.events(changes, n.tell)
}

// nodeTeller is what one reader was told of nodes.
type nodeTeller struct {
	server *Server
	told   map[model.NodeKey]toldNode // nil before the first look
}

// toldNode is a node as it was told.
type toldNode struct {
	text             json.RawMessage
	evacuating, gone bool // evacuating, evicted
}

func (n *nodeTeller) tell(s *stream, c observed.Changes) error {
	if len(c.Nodes) == 0 && len(c.Resources)+len(c.Snapshots)+len(c.Pools)+len(c.Jobs)+len(c.Hosts) > 0 {
		return nil
	}
	view := n.server.Store.Snapshot()
	e := encode.New(view, n.server.Observed)
	now := make(map[model.NodeKey]toldNode, len(n.told))
	for row := range schema.Nodes.All(view) {
		var b encode.Buffer
		e.Node(&b, &row)
		b.Trim()
		now[row.Name.Key()] = toldNode{text: bytes.Clone(b), evacuating: row.Evacuating, gone: row.Evicted}
	}
	before := n.told
	n.told = now
	if before == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		was, known := before[key]
		if err := tellNode(s, was, now[key], known); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, there := now[key]; !there {
			if err := s.send(wire.EventNameNodeDelete, map[string]json.RawMessage{"node": before[key].text}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellNode sends what is new of one node.
func tellNode(s *stream, was, now toldNode, known bool) error {
	node := map[string]json.RawMessage{"node": now.text}
	var events []string
	switch {
	case !known:
		return s.send(wire.EventNameNodeCreate, node)
	case bytes.Equal(was.text, now.text):
		return nil
	}
	if now.evacuating && !was.evacuating {
		events = append(events, wire.EventNameNodeEvacuate)
	}
	if now.gone && !was.gone {
		events = append(events, wire.EventNameNodeEvicted)
	}
	if (was.evacuating || was.gone) && !now.evacuating && !now.gone {
		events = append(events, wire.EventNameNodeRestored)
	}
	for _, name := range events {
		if err := s.send(name, node); err != nil {
			return err
		}
	}
	return s.send(wire.EventNameNodeModified, map[string]json.RawMessage{"old_node": was.text, "new_node": now.text})
}
