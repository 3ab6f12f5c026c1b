// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// RestoreVolumes gives a definition without volumes and replicas the volumes of a snapshot: their
// numbers, sizes and properties.
func (s *Snapshots) RestoreVolumes(ctx context.Context, definition, name, to string) ([]schema.VolumeDefinition, error) {
	seeding := s.Resources.Seeding()
	var made []schema.VolumeDefinition
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		made = nil
		sn, err := usable(tx, definition, name)
		if err != nil {
			return err
		}
		d, err := target(tx, to)
		if err != nil {
			return err
		}
		made, err = addVolumes(tx, &d, sn, seeding)
		return err
	})
	return made, err
}

// addVolumes adds the volumes of a snapshot to a definition that has none of their numbers.
func addVolumes(tx *store.Tx, d *schema.Definition, sn schema.Snapshot, seeding resources.Seeding) ([]schema.VolumeDefinition, error) {
	var made []schema.VolumeDefinition
	for i, v := range sn.Volumes {
		vd, err := catalog.AddVolume(tx, d, catalog.NewVolume{
			Number: new(int32(v.Number)), Size: v.Size, Props: v.Props, Flags: v.Flags, Key: v.Key, UUID: seeding.Volume(i),
		})
		if err != nil {
			return nil, err
		}
		made = append(made, vd)
	}
	return made, nil
}

// usable returns a snapshot that something can be made from.
func usable(r store.Reader, definition, name string) (schema.Snapshot, error) {
	sn, err := schema.FindSnapshot(r, definition, name)
	if err != nil {
		return sn, err
	}
	e := errs.New(errs.Closing, errs.Snapshot, "snapshot %s of %s cannot be used", sn.Name, schema.NameOfDefinition(r, sn.Definition))
	switch {
	case sn.Deleting:
		return sn, e.Because("it is being deleted").Fix("use another snapshot")
	case sn.State == schema.SnapshotTaking:
		return sn, e.Because("it is not complete yet").Fix("wait until it is")
	case sn.State != schema.SnapshotTaken:
		return sn, e.Because("it failed: %s", sn.Problem).Fix("take another one")
	}
	return sn, nil
}

// target returns a definition that a snapshot can be restored to: one without replicas.
func target(r store.Reader, name string) (schema.Definition, error) {
	if name == "" {
		return schema.Definition{}, errs.New(errs.Invalid, errs.ResourceDefinition, "there is no resource to restore to").About(errs.Name).
			Fix("give to_resource")
	}
	d, err := schema.FindDefinition(r, name)
	if err != nil {
		return d, err
	}
	if d.Deleting {
		return d, errs.New(errs.Closing, errs.ResourceDefinition, "nothing is restored to resource definition %s", d.Name).Because("it is being deleted")
	}
	for x := range schema.ResourcesOf(r, d.Name.Key()) {
		return d, errs.New(errs.Exists, errs.Resource, "nothing is restored to resource definition %s", d.Name).
			Because("it has a replica on node %s already", schema.NameOfNode(r, x.Node)).
			Fix("restore to a new resource definition, or roll back")
	}
	return d, nil
}

// Restore is where a snapshot is restored to.
type Restore struct {
	To         string
	Nodes      []string          // none: all connected ones that have the snapshot
	PoolRename map[string]string // from the pool of the snapshot to that of the restored one, where it is copied
}

// Restored is what a restore made.
type Restored struct {
	Definition schema.Definition
	Placed     []resources.Placement
	Notices    []errs.Notice
}

// Restore makes replicas from a snapshot for a definition that has its volumes, each as large as
// there or larger, and no replicas yet. The definition gets the properties that the snapshot's
// own one had, where it has none of its own, and its layers. It returns when the devices are
// there; when a host cannot make its part, the replicas are taken back. A host that still
// copies after a while is a notice.
func (s *Snapshots) Restore(ctx context.Context, definition, name string, r Restore) (Restored, error) {
	seeding := s.Resources.Seeding()
	var out Restored
	var ids []model.ResourceID
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		out = Restored{}
		sn, err := usable(tx, definition, name)
		if err != nil {
			return err
		}
		if out.Definition, err = target(tx, r.To); err != nil {
			return err
		}
		if err := covers(tx, sn, out.Definition); err != nil {
			return err
		}
		seeds, notices, err := s.sources(tx, sn, r)
		if err != nil {
			return err
		}
		out.Notices = notices
		if err := inherit(tx, sn, &out.Definition); err != nil {
			return err
		}
		if err := inheritKeys(tx, sn, out.Definition); err != nil {
			return err
		}
		ids, out.Placed, err = seeding.Add(tx, out.Definition, seeds)
		return err
	})
	if err != nil {
		return Restored{}, err
	}
	notices, failed := s.Resources.Await(ctx, "restored", out.Definition.Name, rev, ids)
	if failed != nil {
		return Restored{}, s.Resources.TakeBack(ctx, failed, out.Definition, ids)
	}
	out.Notices = append(out.Notices, notices...)
	return out, s.Resources.Finish(context.WithoutCancel(ctx), ids...)
}

// covers refuses a definition that has other volumes than a snapshot, or smaller ones.
func covers(r store.Reader, sn schema.Snapshot, d schema.Definition) error {
	e := errs.New(errs.Invalid, errs.VolumeDefinition, "snapshot %s is not restored to resource definition %s", sn.Name, d.Name)
	found := 0
	for vd := range schema.VolumesOf(r, d.Name.Key()) {
		if vd.Deleting {
			continue
		}
		i := slices.IndexFunc(sn.Volumes, func(v schema.SnapshotVolumeDefinition) bool { return v.Number == vd.Number })
		switch {
		case i < 0:
			return e.About(errs.VolumeNumber).Because("the snapshot has no volume %d", vd.Number).Fix("add that volume after the restore")
		case vd.Size < sn.Volumes[i].Size:
			return e.About(errs.VolumeSize).Because("volume %d has %s, and in the snapshot it has %s",
				vd.Number, model.FormatSize(vd.Size), model.FormatSize(sn.Volumes[i].Size)).Fix("give it at least the size of the snapshot")
		}
		found++
	}
	if found == 0 {
		return errs.New(errs.NotFound, errs.VolumeDefinition, "snapshot %s is not restored to resource definition %s", sn.Name, d.Name).
			Because("that has no volumes").Fix("restore the volume definitions first: snapshot volume-definition restore")
	}
	return nil
}

// sources returns the replicas to make.
func (s *Snapshots) sources(tx *store.Tx, sn schema.Snapshot, r Restore) ([]resources.Seed, []errs.Notice, error) {
	parts, err := partsOn(tx, sn, r.Nodes)
	if err != nil {
		return nil, nil, err
	}
	var seeds []resources.Seed
	var notices []errs.Notice
	var refused error
	for _, part := range parts {
		if s.Observed.Node(part.Node).Connection != observed.Offline {
			seeds = append(seeds, resources.Seed{Node: part.Node, Snapshot: sn.ID(), Pool: renamed(part, r.PoolRename)})
			continue
		}
		node := schema.NameOfNode(tx, part.Node)
		refused = errs.New(errs.NotConnected, errs.Node, "snapshot %s cannot be restored on node %s", sn.Name, node).
			Because("the node is not connected").Fix("start the agent of node %s", node)
		notices = append(notices, errs.Notice{
			Kind: errs.NodeNotConnected, Object: errs.Snapshot, Message: fmt.Sprintf("node %s is not connected: nothing is restored there", node),
		})
	}
	if len(seeds) == 0 || refused != nil && len(r.Nodes) > 0 {
		return nil, nil, refused
	}
	return seeds, notices, nil
}

// partsOn returns the parts of a snapshot on the nodes named, or all.
func partsOn(r store.Reader, sn schema.Snapshot, nodes []string) ([]schema.SnapshotReplica, error) {
	var all []schema.SnapshotReplica
	var have []string
	for part := range schema.SnapshotReplicasOf(r, sn.ID()) {
		if !part.Deleting {
			all, have = append(all, part), append(have, string(schema.NameOfNode(r, part.Node)))
		}
	}
	if len(nodes) == 0 {
		return all, nil
	}
	var list []schema.SnapshotReplica
	for _, name := range nodes {
		n, err := schema.FindNode(r, name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(p schema.SnapshotReplica) bool { return p.Node == n.Name.Key() })
		if i < 0 {
			return nil, errs.New(errs.NotFound, errs.Snapshot, "snapshot %s is not on node %s", sn.Name, n.Name).
				Because("it is on %s", strings.Join(have, ", ")).Fix("name one of these nodes, or none")
		}
		if !slices.ContainsFunc(list, func(p schema.SnapshotReplica) bool { return p.Node == all[i].Node }) {
			list = append(list, all[i])
		}
	}
	return list, nil
}

// renamed is the pool that a part is restored to, when it is another than its own.
func renamed(part schema.SnapshotReplica, rename map[string]string) model.PoolKey {
	for from, to := range rename {
		if len(part.Volumes) > 0 && model.PoolName(from).Key() == part.Volumes[0].Pool {
			return model.PoolName(to).Key()
		}
	}
	return ""
}

// inherit gives a definition what the one of a snapshot had: its layers, and the properties
// that it does not have itself.
func inherit(tx *store.Tx, sn schema.Snapshot, d *schema.Definition) error {
	if len(d.Layers) > 0 && len(sn.Layers) > 0 && !slices.Equal(d.Layers, sn.Layers) {
		return differentLayers(sn, d.Name, d.Layers)
	}
	set := map[string]string{}
	for k, v := range sn.Inherited.All() {
		if _, has := d.Props.Get(k); !has {
			set[k] = v
		}
	}
	d.Props = d.Props.Change(model.PropsChange{Set: set})
	if len(d.Layers) == 0 {
		d.Layers = sn.Layers
	}
	return schema.Definitions.Update(tx, *d)
}

// inheritKeys gives the volumes of a definition the keys of those of a snapshot: what is made of
// one that is encrypted has its header. The definition has no replicas, so nothing is encrypted
// under other keys.
func inheritKeys(tx *store.Tx, sn schema.Snapshot, d schema.Definition) error {
	for _, v := range sn.Volumes {
		vd, ok := schema.VolumeDefinitions.Get(tx, model.VolumeDefinitionID{Definition: d.Name.Key(), Number: v.Number})
		if !ok || v.Key == nil || bytes.Equal(vd.Key, v.Key) {
			continue
		}
		vd.Key = v.Key
		if err := schema.VolumeDefinitions.Update(tx, vd); err != nil {
			return err
		}
	}
	return nil
}

func differentLayers(sn schema.Snapshot, name model.DefinitionName, layers []model.Layer) error {
	return errs.New(errs.Unsupported, errs.ResourceDefinition, "resource definition %s cannot be made of a snapshot with the layers %s",
		name, layerText(sn.Layers)).About(errs.LayerStack).
		Because("it is to have the layers %s, and each keeps its own data in the volume", layerText(layers)).
		Fix("leave the layers out, and it gets those of the snapshot")
}

func layerText(layers []model.Layer) string {
	parts := make([]string, len(layers))
	for i, l := range layers {
		parts[i] = string(l)
	}
	return strings.Join(parts, ",")
}
