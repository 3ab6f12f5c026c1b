// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// RollBack gives all volumes of a resource the content that they have in a snapshot, on all nodes
// or on none, and returns when that is so. The snapshot stays. It is refused while the resource
// is in use anywhere, while a node is not connected, and while a replica lacks the snapshot.
// When someone begins to use the resource before it was touched, it is taken back.
func (s *Snapshots) RollBack(ctx context.Context, definition, name string) ([]errs.Notice, error) {
	token := strings.ReplaceAll(s.NewID(), "-", "")
	view := s.Store.Snapshot()
	sn, err := usable(view, definition, name)
	if err != nil {
		return nil, err
	}
	d, _ := schema.Definitions.Get(view, sn.Definition)
	if err := s.Resources.Unused(ctx, d.Name, slices.Collect(schema.ResourcesOf(view, sn.Definition))); err != nil {
		return nil, err
	}
	var ids []model.ResourceID
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		sn, err := usable(tx, definition, name)
		if err != nil {
			return err
		}
		if err := sameKeys(tx, sn); err != nil {
			return err
		}
		ids, err = s.wish(tx, sn, token)
		return err
	})
	if err != nil {
		return nil, err
	}
	notices, failed := s.Resources.Await(ctx, "rolled back", d.Name, rev, ids)
	ctx = context.WithoutCancel(ctx)
	if failed != nil && failed.Kind == errs.InUse {
		return notices, s.withdraw(ctx, failed, ids, token)
	}
	if failed != nil {
		return notices, failed.Fix("the node tries again by itself; look at the state of the resource")
	}
	return notices, s.Resources.Finish(ctx, ids...)
}

// sameKeys refuses a snapshot of volumes that were encrypted under other keys, or not at all: they
// were made anew since.
func sameKeys(r store.Reader, sn schema.Snapshot) error {
	for _, v := range sn.Volumes {
		vd, ok := schema.VolumeDefinitions.Get(r, model.VolumeDefinitionID{Definition: sn.Definition, Number: v.Number})
		if ok && !bytes.Equal(vd.Key, v.Key) {
			return errs.New(errs.Invalid, errs.Snapshot, "resource %s is not rolled back to %s", schema.NameOfDefinition(r, sn.Definition), sn.Name).
				About(errs.LayerStack).Because("volume %d was made anew since the snapshot was taken, and is encrypted with another key", v.Number).
				Fix("restore the snapshot to a new resource definition")
		}
	}
	return nil
}

// wish writes the wish to roll back at every replica with data.
func (s *Snapshots) wish(tx *store.Tx, sn schema.Snapshot, token string) ([]model.ResourceID, error) {
	name := schema.NameOfDefinition(tx, sn.Definition)
	e := errs.New(errs.Closing, errs.Resource, "resource %s is not rolled back to %s", name, sn.Name)
	var ids []model.ResourceID
	for _, x := range slices.Collect(schema.ResourcesOf(tx, sn.Definition)) {
		if x.Kind != schema.Diskful || x.Deleting || x.Becomes != "" {
			continue
		}
		node := schema.NameOfNode(tx, x.Node)
		part, ok := schema.SnapshotReplicas.Get(tx, model.SnapshotReplicaID{Definition: sn.Definition, Snapshot: sn.Name.Key(), Node: x.Node})
		switch {
		case s.Observed.Node(x.Node).Connection == observed.Offline:
			e.Kind, e.Object = errs.NotConnected, errs.Node
			return nil, e.Because("node %s is not connected, and all replicas are rolled back or none", node).Fix("start its agent, or delete the replica there")
		case !ok || part.Deleting:
			e.Kind, e.Object = errs.NotFound, errs.Snapshot
			return nil, e.Because("node %s does not have the snapshot", node).
				Fix("delete the replica there, roll back, and place it again")
		}
		x.Volumes = slices.Clone(x.Volumes)
		for i := range x.Volumes {
			v := &x.Volumes[i]
			if v.Source != nil || v.RollBack != nil && v.RollBack.Snapshot != sn.Name.Key() {
				return nil, e.Because("volume %d on node %s is still being filled", v.Number, node).Fix("wait until it is complete")
			}
			if slices.ContainsFunc(part.Volumes, func(p schema.SnapshotVolume) bool { return p.Number == v.Number && p.Pool == v.Pool }) && !v.Deleting {
				v.RollBack = &schema.RollBack{Snapshot: sn.Name.Key(), Token: token}
			}
		}
		if err := schema.Resources.Update(tx, x); err != nil {
			return nil, err
		}
		ids = append(ids, x.ID())
	}
	if len(ids) == 0 {
		e.Kind = errs.NotFound
		return nil, e.Because("it has no replica with data").Fix("restore the snapshot instead")
	}
	return ids, nil
}

// withdraw takes the wish back where the node has not fulfilled it, and returns why.
func (s *Snapshots) withdraw(ctx context.Context, why *errs.Error, ids []model.ResourceID, token string) error {
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		for _, id := range ids {
			x, ok := schema.Resources.Get(tx, id)
			if !ok {
				continue
			}
			was := x
			x.Volumes = slices.Clone(x.Volumes)
			for i := range x.Volumes {
				if v := &x.Volumes[i]; v.RollBack != nil && v.RollBack.Token == token {
					v.RollBack = nil
				}
			}
			if err := schema.Resources.Update(tx, x); err != nil {
				return err
			}
			if err := schema.ReleaseSources(tx, was); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return why.Detail("the wish could not be taken back, and the node goes on trying: " + err.Error())
	}
	return why
}
