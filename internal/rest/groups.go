// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) listGroups(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	rows := chosen(view, schema.Groups, q.names("resource_groups"), groupKey)
	rows = matching(rows, q.names("props"), func(g *schema.Group) model.Props { return g.Props })
	return list[schema.Group]{pageOf(p, rows), e.Group}, nil
}

func (s *Server) getGroup(q *request) (body, error) {
	e, view := s.encoder()
	g, err := schema.FindGroup(view, q.PathValue("resource_group"))
	if err != nil {
		return nil, err
	}
	return one[schema.Group]{g, e.Group}, nil
}

func (s *Server) createGroup(q *request) (wire.RcList, error) {
	var b wire.ResourceGroupCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	n := catalog.NewGroup{Name: b.Name, Props: b.Props, Filter: filterOf(b.SelectFilter)}
	if b.Description != nil {
		n.Description = *b.Description
	}
	if b.PeerSlots != nil {
		n.PeerSlots = int32(*b.PeerSlots)
	}
	row, err := s.Catalog.CreateGroup(q.Context(), n)
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, row.UUID, "resource group %s created", row.Name).
		WithRef(wire.RefRscGrp, string(row.Name))}, nil
}

func (s *Server) modifyGroup(q *request) (wire.RcList, error) {
	var b wire.ResourceGroupModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	c := catalog.GroupChange{Description: b.Description, Props: propsChange(b.PropsModify), PeerSlots: (*int32)(b.PeerSlots)}
	if b.SelectFilter != nil {
		f := filterOf(b.SelectFilter)
		c.Filter = &f
	}
	name := q.PathValue("resource_group")
	notices, err := s.Catalog.ModifyGroup(q.Context(), name, c)
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "resource group %s changed", name), notices), nil
}

func (s *Server) deleteGroup(q *request) (wire.RcList, error) {
	name := q.PathValue("resource_group")
	if err := s.Catalog.DeleteGroup(q.Context(), name); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "resource group %s deleted", name)}, nil
}

func (s *Server) listVolumeGroups(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	g, err := schema.FindGroup(view, q.PathValue("resource_group"))
	if err != nil {
		return nil, err
	}
	return list[schema.VolumeGroup]{pageOf(p, schema.VolumeGroupsOf(view, g.Name.Key())), e.VolumeGroup}, nil
}

func (s *Server) getVolumeGroup(q *request) (body, error) {
	nr, err := q.volumeNumber(errs.VolumeGroup)
	if err != nil {
		return nil, err
	}
	e, view := s.encoder()
	v, err := schema.FindVolumeGroup(view, q.PathValue("resource_group"), model.VolumeNumber(nr))
	if err != nil {
		return nil, err
	}
	return one[schema.VolumeGroup]{v, e.VolumeGroup}, nil
}

func (s *Server) createVolumeGroup(q *request) (wire.RcList, error) {
	var b wire.VolumeGroupCreate
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	group := q.PathValue("resource_group")
	row, err := s.Catalog.CreateVolumeGroup(q.Context(), group, catalog.NewVolumeGroup{
		Number: (*int32)(b.VolumeNumber), Props: b.Props, Flags: b.Flags,
	})
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, row.UUID, "volume group %d of resource group %s created", row.Number, group).
		WithRef(wire.RefVlmNr, number(int32(row.Number)))}, nil
}

func (s *Server) modifyVolumeGroup(q *request) (wire.RcList, error) {
	var b wire.VolumeGroupModify
	nr, err := q.volumeNumber(errs.VolumeGroup)
	if err != nil {
		return nil, err
	}
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	group := q.PathValue("resource_group")
	notices, err := s.Catalog.ModifyVolumeGroup(q.Context(), group, nr, propsChange(b.PropsModify), b.Flags)
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "volume group %d of resource group %s changed", nr, group), notices), nil
}

func (s *Server) deleteVolumeGroup(q *request) (wire.RcList, error) {
	nr, err := q.volumeNumber(errs.VolumeGroup)
	if err != nil {
		return nil, err
	}
	group := q.PathValue("resource_group")
	if err := s.Catalog.DeleteVolumeGroup(q.Context(), group, nr); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "volume group %d of resource group %s deleted", nr, group)}, nil
}
