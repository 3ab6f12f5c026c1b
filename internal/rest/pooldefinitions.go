// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"

	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) listPoolDefinitions(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	return list[schema.PoolDefinition]{pageOf(p, slices.Values(schema.PoolDefinitionsOf(view))), e.PoolDefinition}, nil
}

func (s *Server) getPoolDefinition(q *request) (body, error) {
	e, view := s.encoder()
	d, err := schema.FindPoolDefinition(view, q.PathValue("storagepool"))
	if err != nil {
		return nil, err
	}
	return one[schema.PoolDefinition]{d, e.PoolDefinition}, nil
}

func (s *Server) createPoolDefinition(q *request) (wire.RcList, error) {
	var b wire.StoragePoolDefinition
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	d, err := s.Inventory.CreatePoolDefinition(q.Context(), b.StoragePoolName, b.Props)
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, d.UUID, "storage pool definition %s created", d.Name).
		WithRef(wire.RefStorPoolDfn, string(d.Name))}, nil
}

func (s *Server) modifyPoolDefinition(q *request) (wire.RcList, error) {
	var b wire.StoragePoolDefinitionModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	name := q.PathValue("storagepool")
	notices, err := s.Inventory.ModifyPoolDefinition(q.Context(), name, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "storage pool definition %s changed", name), notices), nil
}

func (s *Server) deletePoolDefinition(q *request) (wire.RcList, error) {
	name := q.PathValue("storagepool")
	if err := s.Inventory.DeletePoolDefinition(q.Context(), name); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "storage pool definition %s deleted", name)}, nil
}
