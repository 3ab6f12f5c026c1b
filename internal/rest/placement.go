// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) spawn(q *request) (wire.RcList, error) {
	var b wire.ResourceGroupSpawn
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if len(b.VolumePassphrases) > 0 {
		return nil, noOwnPassphrase(errs.ResourceGroup)
	}
	n := resources.NewSpawn{
		Name: b.ResourceDefinitionName, ExternalName: b.ResourceDefinitionExternalName, Filter: filterOf(b.SelectFilter),
		Partial: b.Partial != nil && *b.Partial, DefinitionsOnly: b.DefinitionsOnly != nil && *b.DefinitionsOnly,
		Props: b.ResourceDefinitionProps,
	}
	for _, size := range b.VolumeSizes {
		bytes, err := sizeOf(&size)
		if err != nil {
			return nil, err
		}
		n.Sizes = append(n.Sizes, bytes)
	}
	if b.PeerSlots != nil {
		n.PeerSlots = int32(*b.PeerSlots)
	}
	group := q.PathValue("resource_group")
	made, err := s.Resources.Spawn(q.Context(), group, n)
	if err != nil {
		return q.notices(made.Notices), err
	}
	name := string(made.Definition.Name)
	l := wire.RcList{done(wire.Created, made.Definition.UUID, "resource definition %s with %s spawned from resource group %s",
		name, counted(len(made.Volumes), "volume"), group).WithRef(wire.RefRscDfn, name)}
	if len(made.Placed) > 0 {
		l = append(l, placed(made.Definition, made.Placed))
	}
	return append(l, q.notices(made.Notices)...), nil
}

func (s *Server) autoplace(q *request) (wire.RcList, error) {
	var b wire.AutoPlaceRequest
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	f := filterOf(b.SelectFilter)
	if f.DisklessOnRemaining == nil {
		f.DisklessOnRemaining = b.DisklessOnRemaining
	}
	made, err := s.Resources.Autoplace(q.Context(), q.PathValue("resource"), resources.PlaceRequest{
		Filter: f, Layers: upper(b.LayerList),
	})
	if err != nil {
		return q.notices(made.Notices), err
	}
	var l wire.RcList
	if len(made.Placed) > 0 {
		l = append(l, placed(made.Definition, made.Placed))
	}
	return append(l, q.notices(made.Notices)...), nil
}

// placed is the entry of replicas that found their places. Its references number the nodes and pools.
func placed(d schema.Definition, list []resources.Placement) wire.Rc {
	texts := make([]string, len(list))
	rc := wire.NewRc(wire.Created|wire.ObjRsc, "").WithRef(wire.RefRscDfn, string(d.Name))
	for i, p := range list {
		texts[i] = fmt.Sprintf("%s (%s)", p.Node, p.Pool)
		rc = rc.WithRef(fmt.Sprintf("%s/%d", wire.RefNode, i), string(p.Node)).
			WithRef(fmt.Sprintf("StoragePool/%d/0", i), string(p.Pool))
	}
	rc.Message = fmt.Sprintf("resource %s placed on %s", d.Name, counted(len(list), "node"))
	return rc.WithDetails("Nodes (storage pools): " + strings.Join(texts, ", "))
}
