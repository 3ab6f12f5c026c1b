// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) listDefinitions(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	rows := chosen(view, schema.Definitions, q.names("resource_definitions"), definitionKey)
	rows = matching(rows, q.names("props"), func(d *schema.Definition) model.Props { return d.Props })
	show := e.Definition
	if q.flag("with_volume_definitions") {
		show = e.DefinitionWithVolumes
	}
	return list[schema.Definition]{pageOf(p, rows), show}, nil
}

func (s *Server) getDefinition(q *request) (body, error) {
	e, view := s.encoder()
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	return one[schema.Definition]{d, e.Definition}, nil
}

func (s *Server) createDefinition(q *request) (wire.RcList, error) {
	var b wire.ResourceDefinitionCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	d := b.ResourceDefinition
	n := catalog.NewDefinition{
		Name: d.Name, ExternalName: d.ExternalName, Group: d.ResourceGroupName, Props: d.Props,
		Secret: string(b.DrbdSecret), Transport: b.DrbdTransportType,
	}
	for _, l := range d.LayerData {
		n.Layers = append(n.Layers, string(l.Type))
	}
	if b.DrbdPeerSlots != nil {
		n.PeerSlots = int32(*b.DrbdPeerSlots)
	}
	if b.DrbdPort != nil {
		n.Port = int32(*b.DrbdPort)
	}
	row, err := s.Catalog.CreateDefinition(q.Context(), n)
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, row.UUID, "resource definition %s created", row.Name).
		WithRef(wire.RefRscDfn, string(row.Name))}, nil
}

func (s *Server) modifyDefinition(q *request) (wire.RcList, error) {
	var b wire.ResourceDefinitionModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	c := catalog.DefinitionChange{
		Props: propsChange(b.PropsModify), Port: (*int32)(b.DrbdPort), PeerSlots: (*int32)(b.DrbdPeerSlots),
		Layers: upper(b.LayerStack),
	}
	if b.ResourceGroup != "" {
		c.Group = &b.ResourceGroup
	}
	name := q.PathValue("resource")
	notices, err := s.Catalog.ModifyDefinition(q.Context(), name, c)
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "resource definition %s changed", name), notices), nil
}

func (s *Server) deleteDefinition(q *request) (wire.RcList, error) {
	name := q.PathValue("resource")
	notices, err := s.Resources.DeleteDefinition(q.Context(), name)
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(deleted(notices, "resource definition "+name), notices), nil
}

// deleted is the outcome of a deletion: done, or on its way where notices say that a node could not be reached.
func deleted(notices []errs.Notice, what string) wire.Rc {
	for _, n := range notices {
		if n.Kind == errs.NodeNotConnected {
			return done(wire.Deleted, "", "%s marked for deletion", what)
		}
	}
	return done(wire.Deleted, "", "%s deleted", what)
}

func (s *Server) listVolumeDefinitions(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	return list[schema.VolumeDefinition]{pageOf(p, schema.VolumesOf(view, d.Name.Key())), e.VolumeDefinition(&d)}, nil
}

func (s *Server) getVolumeDefinition(q *request) (body, error) {
	nr, err := q.volumeNumber(errs.VolumeDefinition)
	if err != nil {
		return nil, err
	}
	e, view := s.encoder()
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	v, err := schema.FindVolumeDefinition(view, string(d.Name), model.VolumeNumber(nr))
	if err != nil {
		return nil, err
	}
	return one[schema.VolumeDefinition]{v, e.VolumeDefinition(&d)}, nil
}

func (s *Server) createVolumeDefinition(q *request) (wire.RcList, error) {
	var b wire.VolumeDefinitionCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if b.Passphrase != "" {
		return nil, noOwnPassphrase(errs.VolumeDefinition)
	}
	v := b.VolumeDefinition
	size, err := sizeOf(v.Size)
	if err != nil {
		return nil, err
	}
	name := q.PathValue("resource")
	row, notices, err := s.Resources.CreateVolumeDefinition(q.Context(), name, catalog.NewVolume{
		Number: (*int32)(v.VolumeNumber), Size: size, Props: model.PropsOf(v.Props), Flags: v.Flags, Minor: (*int32)(b.DrbdMinorNumber),
	})
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Created, row.UUID, "volume %d of resource definition %s created with %s",
		row.Number, name, model.FormatSize(row.Size)).WithRef(wire.RefVlmNr, number(int32(row.Number))), notices), nil
}

// noOwnPassphrase refuses a passphrase for one volume: whoever gives one must not take it for what protects the volume.
func noOwnPassphrase(object errs.Object) error {
	return errs.New(errs.Unsupported, object, "volumes have no passphrases of their own").About(errs.LayerKind).
		Because("each has a random key, and the passphrase of the cluster protects all of them").
		Fix("leave the passphrase out, and ask for the layer %s", model.LUKS)
}

// sizeOf reads the size of a volume in bytes.
func sizeOf(size *wire.SizeKiB) (int64, error) {
	if size == nil {
		return 0, errs.New(errs.Invalid, errs.VolumeDefinition, "the volume has no size").About(errs.VolumeSize).
			Fix("give size_kib")
	}
	n, err := size.Bytes()
	if err != nil {
		return 0, errs.New(errs.Invalid, errs.VolumeDefinition, "the volume size of %d KiB is not possible", *size).
			About(errs.VolumeSize).Because("a volume has at least %s and at most %s",
			model.FormatSize(model.MinVolumeSize), model.FormatSize(model.MaxVolumeSize))
	}
	return n, nil
}

func (s *Server) modifyVolumeDefinition(q *request) (wire.RcList, error) {
	nr, err := q.volumeNumber(errs.VolumeDefinition)
	if err != nil {
		return nil, err
	}
	var b wire.VolumeDefinitionModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	c := resources.VolumeChange{Props: propsChange(b.PropsModify), Flags: b.Flags}
	if b.Size != nil {
		size, err := sizeOf(b.Size)
		if err != nil {
			return nil, err
		}
		c.Size = &size
	}
	name := q.PathValue("resource")
	notices, err := s.Resources.ModifyVolumeDefinition(q.Context(), name, nr, c)
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(done(wire.Modified, "", "volume %d of resource definition %s changed", nr, name), notices), nil
}

func (s *Server) deleteVolumeDefinition(q *request) (wire.RcList, error) {
	nr, err := q.volumeNumber(errs.VolumeDefinition)
	if err != nil {
		return nil, err
	}
	name := q.PathValue("resource")
	notices, err := s.Resources.DeleteVolumeDefinition(q.Context(), name, nr)
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(deleted(notices, "volume "+number(nr)+" of resource definition "+name), notices), nil
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// syncStatus tells whether all replicas that have a disk hold the same data.
func (s *Server) syncStatus(q *request) (body, error) {
	e, view := s.encoder()
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	synced := true
	for r := range schema.ResourcesOf(view, d.Name.Key()) {
		synced = synced && e.Synced(&r)
	}
	return value{wire.ResourceDefinitionSyncStatus{SyncedOnAll: synced}}, nil
}
