// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Gone is a replica, or some of its volumes, of which an agent said that nothing is left on
// its host.
type Gone struct {
	Resource   model.ResourceID
	Generation uint64               // of the assignment that the agent has carried out
	Volumes    []model.VolumeNumber // none for the replica as a whole
}

// Destroyed takes an agent's word for what is gone: the rows go, and with the last replica a
// definition that is being deleted, with the last volume a volume definition that is. Words
// about rows that are not being deleted, or were written again since, change nothing. It is
// idempotent, and returns when it is durable.
func (s *Resources) Destroyed(ctx context.Context, gone []Gone) error {
	return schema.UpdateEach(ctx, s.Store, gone, s.drop)
}

func (s *Resources) drop(tx *store.Tx, g Gone) error {
	r, ok := schema.Resources.Get(tx, g.Resource)
	if !ok || uint64(schema.Resources.Revision(tx, g.Resource)) > g.Generation {
		return nil
	}
	if len(g.Volumes) > 0 {
		return s.dropVolumes(tx, r, g.Volumes)
	}
	if !r.Deleting {
		return nil
	}
	return s.dropReplica(tx, r)
}

// dropReplica removes the row of a replica, with what depends on it, and keeps its node id
// from being used again while its peers may remember it.
func (s *Resources) dropReplica(tx *store.Tx, r schema.Resource) error {
	if err := dropConnections(tx, r.ID()); err != nil {
		return err
	}
	if err := passOn(tx, r); err != nil {
		return err
	}
	if err := schema.Resources.Delete(tx, r.ID()); err != nil {
		return err
	}
	if err := schema.ReleaseSources(tx, r); err != nil {
		return err
	}
	if err := retireNodeID(tx, r); err != nil {
		return err
	}
	return s.Tidy(tx, r.Definition)
}

// dropVolumes takes volumes that are gone out of a replica that stays.
func (s *Resources) dropVolumes(tx *store.Tx, r schema.Resource, gone []model.VolumeNumber) error {
	left := slices.DeleteFunc(slices.Clone(r.Volumes), func(v schema.Volume) bool {
		return v.Deleting && slices.Contains(gone, v.Number)
	})
	if len(left) == len(r.Volumes) {
		return nil
	}
	was := r
	r.Volumes = left
	if r.Becomes != "" && len(left) == 0 {
		if err := s.becomes(tx, r); err != nil {
			return err
		}
	} else if err := schema.Resources.Update(tx, r); err != nil {
		return err
	}
	if err := schema.ReleaseSources(tx, was); err != nil {
		return err
	}
	return s.Tidy(tx, r.Definition)
}

// Tidy removes what is being deleted of a definition and has nothing left on any host.
func (s *Resources) Tidy(tx *store.Tx, key model.DefinitionKey) error {
	d, ok := schema.Definitions.Get(tx, key)
	if !ok {
		return nil
	}
	replicas := slices.Collect(schema.ResourcesOf(tx, key))
	if d.Deleting && len(replicas) == 0 {
		for range schema.SnapshotsOf(tx, key) {
			return nil // it goes with the last of them
		}
		return s.dropDefinition(tx, key)
	}
	for _, vd := range slices.Collect(schema.VolumesOf(tx, key)) {
		if !vd.Deleting || slices.ContainsFunc(replicas, func(r schema.Resource) bool { return has(r, vd.Number) }) {
			continue
		}
		if err := schema.VolumeDefinitions.Delete(tx, model.VolumeDefinitionID{Definition: key, Number: vd.Number}); err != nil {
			return err
		}
	}
	return nil
}

// has tells whether a replica has a volume of a number.
func has(r schema.Resource, nr model.VolumeNumber) bool {
	return slices.ContainsFunc(r.Volumes, func(v schema.Volume) bool { return v.Number == nr })
}
