// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// removeVolume marks a volume definition and its volumes for deletion, and waits for the hosts
// that are there. The uuid guards against another volume of the same number. Once it has
// begun to wait, it does so also when its caller goes away.
func (s *Resources) removeVolume(ctx context.Context, definition string, nr model.VolumeNumber, uuid string) ([]errs.Notice, error) {
	var d schema.Definition
	var id model.VolumeDefinitionID
	var ids []model.ResourceID
	rev, err := schema.Update(context.WithoutCancel(ctx), s.Store, func(tx *store.Tx) error {
		ids = nil
		vd, err := schema.FindVolumeDefinition(tx, definition, nr)
		if err != nil {
			return err
		}
		d, _ = schema.Definitions.Get(tx, vd.Definition)
		id = model.VolumeDefinitionID{Definition: vd.Definition, Number: nr}
		if vd.UUID != uuid {
			return errs.New(errs.NotFound, errs.VolumeDefinition, "resource definition %s has no volume %d of that id", d.Name, nr)
		}
		if ids, err = markVolume(tx, id); err != nil {
			return err
		}
		if len(ids) == 0 {
			return schema.VolumeDefinitions.Delete(tx, id)
		}
		vd.Deleting = true
		return schema.VolumeDefinitions.Update(tx, vd)
	})
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	ctx, cancel := s.settling(ctx)
	defer cancel()
	return volumeNotices(d.Name, s.settle(ctx, rev, ids))
}

// markVolume marks the volume of every replica for deletion, and returns the replicas.
func markVolume(tx *store.Tx, id model.VolumeDefinitionID) ([]model.ResourceID, error) {
	var ids []model.ResourceID
	for _, r := range slices.Collect(schema.ResourcesOf(tx, id.Definition)) {
		i := slices.IndexFunc(r.Volumes, func(v schema.Volume) bool { return v.Number == id.Number })
		if i < 0 {
			continue
		}
		r.Volumes = slices.Clone(r.Volumes)
		r.Volumes[i].Deleting = true
		if err := schema.Resources.Update(tx, r); err != nil {
			return nil, err
		}
		ids = append(ids, r.ID())
	}
	return ids, nil
}

func volumeNotices(name model.DefinitionName, outcomes []outcome) ([]errs.Notice, error) {
	var notices []errs.Notice
	for _, o := range outcomes {
		switch {
		case o.offline():
			notices = append(notices, errs.Notice{
				Kind: errs.NodeNotConnected, Object: errs.VolumeDefinition,
				Message: fmt.Sprintf("node %s is not connected: the volume of %s is deleted there when it is back", o.node, name),
			})
		case isGone(o), o.err == nil && o.status.Phase == observed.Ready:
		default:
			return notices, stillThere(name, o)
		}
	}
	return notices, nil
}
