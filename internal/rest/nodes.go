// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) listNodes(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	rows := chosen(view, schema.Nodes, q.names("nodes"), nodeKey)
	rows = matching(rows, q.names("props"), func(n *schema.Node) model.Props { return n.Props })
	return list[schema.Node]{pageOf(p, rows), e.Node}, nil
}

func (s *Server) getNode(q *request) (body, error) {
	e, view := s.encoder()
	n, err := schema.FindNode(view, q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return one[schema.Node]{n, e.Node}, nil
}

func (s *Server) createNode(q *request) (wire.RcList, error) {
	var b wire.NodeCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	n := inventory.NewNode{Name: b.Name, Type: string(b.Type), Props: b.Props}
	for _, i := range b.NetInterfaces {
		n.Interfaces = append(n.Interfaces, newInterface(i))
	}
	row, err := s.Inventory.CreateNode(q.Context(), n)
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, row.UUID, "node %s registered", row.Name).WithRef(wire.RefNode, string(row.Name))}, nil
}

func (s *Server) modifyNode(q *request) (wire.RcList, error) {
	var b wire.NodeModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	c := inventory.NodeChange{Props: propsChange(b.PropsModify)}
	if b.NodeType != "" {
		c.Type = (*string)(&b.NodeType)
	}
	notices, err := s.Inventory.ModifyNode(q.Context(), q.PathValue("node"), c)
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "node %s changed", q.PathValue("node")), notices), nil
}

func (s *Server) deleteNode(q *request) (wire.RcList, error) {
	if err := s.Inventory.DeleteNode(q.Context(), q.PathValue("node")); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "node %s deleted", q.PathValue("node"))}, nil
}

func newInterface(b wire.NetInterfaceCreate) inventory.NewInterface {
	n := inventory.NewInterface{Name: b.Name, Address: b.Address, Encryption: strings.ToUpper(b.SatelliteEncryptionType)}
	if b.SatellitePort != nil {
		n.Port = int32(*b.SatellitePort)
	}
	n.Active = b.IsActive != nil && *b.IsActive
	return n
}

func (s *Server) listInterfaces(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	n, err := schema.FindNode(view, q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return list[schema.NetInterface]{pageOf(p, schema.InterfacesOf(view, n.Name.Key())), e.NetInterface}, nil
}

func (s *Server) getInterface(q *request) (body, error) {
	e, view := s.encoder()
	n, err := schema.FindNode(view, q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	i, err := schema.FindInterface(view, n.Name.Key(), q.PathValue("netinterface"))
	if err != nil {
		return nil, err
	}
	return one[schema.NetInterface]{i, e.NetInterface}, nil
}

func (s *Server) createInterface(q *request) (wire.RcList, error) {
	var b wire.NetInterfaceCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if err := s.Inventory.CreateInterface(q.Context(), q.PathValue("node"), newInterface(b)); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, "", "network interface %s of node %s created", b.Name, q.PathValue("node")).
		WithRef(wire.RefNetIf, b.Name)}, nil
}

func (s *Server) modifyInterface(q *request) (wire.RcList, error) {
	var b wire.NetInterfaceModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	c := inventory.InterfaceChange{Port: (*int32)(b.SatellitePort), Active: b.IsActive}
	if b.Address != "" {
		c.Address = &b.Address
	}
	if b.SatelliteEncryptionType != "" {
		encryption := strings.ToUpper(b.SatelliteEncryptionType)
		c.Encryption = &encryption
	}
	node, name := q.PathValue("node"), q.PathValue("netinterface")
	if err := s.Inventory.ModifyInterface(q.Context(), node, name, c); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Modified, "", "network interface %s of node %s changed", name, node)}, nil
}

func (s *Server) deleteInterface(q *request) (wire.RcList, error) {
	node, name := q.PathValue("node"), q.PathValue("netinterface")
	if err := s.Inventory.DeleteInterface(q.Context(), node, name); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "network interface %s of node %s deleted", name, node)}, nil
}
