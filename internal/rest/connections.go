// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// listNodeConnections lists the pairs of nodes for which something was set: all, or those of one node, which then comes
// first in each. Of two nodes it is always the one that is asked for, also when nothing is set.
func (s *Server) listNodeConnections(q *request) (body, error) {
	e, view := s.encoder()
	a, b := q.URL.Query().Get("node_a"), q.URL.Query().Get("node_b")
	if a == "" && b == "" {
		return list[schema.NodeConnection]{schema.NodeConnections.All(view), e.NodeConnection("")}, nil
	}
	if a != "" && b != "" {
		pair, err := inventory.Pair(view, errs.NodeConnection, a, b)
		if err != nil {
			return nil, err
		}
		row, ok := schema.NodeConnections.Get(view, pair)
		if !ok {
			row.Pair = pair
		}
		return list[schema.NodeConnection]{slices.Values([]schema.NodeConnection{row}), e.NodeConnection(nodeKey(a))}, nil
	}
	n, err := schema.FindNode(view, a+b)
	if err != nil {
		return nil, err
	}
	key := n.Name.Key()
	return list[schema.NodeConnection]{schema.NodeConnectionsByNode.Get(view, key), e.NodeConnection(key)}, nil
}

func (s *Server) modifyNodeConnection(q *request) (wire.RcList, error) {
	var b wire.NodeConnectionModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	first, second := q.PathValue("node_a"), q.PathValue("node_b")
	notices, err := s.Inventory.ModifyNodeConnection(q.Context(), first, second, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "connection of the nodes %s and %s changed", first, second), notices), nil
}

// listResourceConnections lists the connections of all replicas with each other, also those that nothing is set for.
func (s *Server) listResourceConnections(q *request) (body, error) {
	e, view := s.encoder()
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	replicas := slices.Collect(schema.ResourcesOf(view, d.Name.Key()))
	return list[schema.ResourceConnection]{func(yield func(schema.ResourceConnection) bool) {
		for i, a := range replicas {
			for _, b := range replicas[i+1:] {
				if !yield(resourceConnection(view, a.Definition, model.PairOf(a.Node, b.Node))) {
					return
				}
			}
		}
	}, e.ResourceConnection("")}, nil
}

// resourceConnection is what is set for the connection of two replicas.
func resourceConnection(r store.Reader, d model.DefinitionKey, pair model.NodePairID) schema.ResourceConnection {
	row, ok := schema.ResourceConnections.Get(r, model.ResourceConnectionID{Definition: d, Pair: pair})
	if !ok {
		row = schema.ResourceConnection{Definition: d, Pair: pair}
	}
	return row
}

func (s *Server) getResourceConnection(q *request) (body, error) {
	e, view := s.encoder()
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	a, b := q.PathValue("node_a"), q.PathValue("node_b")
	pair := model.PairOf(nodeKey(a), nodeKey(b))
	for _, node := range []model.NodeKey{pair.A, pair.B} {
		if _, ok := schema.Resources.Get(view, model.ResourceID{Definition: d.Name.Key(), Node: node}); !ok || pair.A == pair.B {
			return nil, errs.New(errs.NotFound, errs.ResourceConnection, "resource %s has no connection between the nodes %s and %s", d.Name, a, b).
				Because("a connection is between two nodes that both have the resource")
		}
	}
	return one[schema.ResourceConnection]{resourceConnection(view, d.Name.Key(), pair), e.ResourceConnection(nodeKey(a))}, nil
}

func (s *Server) modifyResourceConnection(q *request) (wire.RcList, error) {
	var b wire.ResourceConnectionModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	name, first, second := q.PathValue("resource"), q.PathValue("node_a"), q.PathValue("node_b")
	notices, err := s.Resources.ModifyConnection(q.Context(), name, first, second, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "connection of resource %s between the nodes %s and %s changed", name, first, second), notices), nil
}
