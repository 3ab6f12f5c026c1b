// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// FindSnapshot returns a snapshot that users see, or a NotFound error about it or its
// definition.
func FindSnapshot(r store.Reader, definition, name string) (Snapshot, error) {
	d, err := FindDefinition(r, definition)
	if err != nil {
		return Snapshot{}, err
	}
	s, ok := Snapshots.Get(r, model.SnapshotID{Definition: d.Name.Key(), Snapshot: model.SnapshotName(name).Key()})
	if !ok || s.Hidden {
		return s, errs.New(errs.NotFound, errs.Snapshot, "resource definition %s has no snapshot %s", d.Name, name)
	}
	return s, nil
}

// CloseSnapshot marks a snapshot for deletion, and its parts that nothing is being made from. A
// part that no node was told of goes at once, and without parts the snapshot does. It tells
// whether the row stays.
func CloseSnapshot(tx *store.Tx, s Snapshot) (stays bool, err error) {
	s.Deleting = true
	if err := Snapshots.Update(tx, s); err != nil {
		return true, err
	}
	for _, part := range slices.Collect(SnapshotReplicasOf(tx, s.ID())) {
		if err := ClosePart(tx, part); err != nil {
			return true, err
		}
	}
	for range SnapshotReplicasOf(tx, s.ID()) {
		return true, nil
	}
	return false, Snapshots.Delete(tx, s.ID())
}

// ClosePart marks a part of a snapshot for deletion, also one that is marked: its node then
// tries at once. One that something is being made from stays as it is until that has ended, and
// one that its node was not told of goes.
func ClosePart(tx *store.Tx, part SnapshotReplica) error {
	switch {
	case part.State == SnapshotPlanned:
		return SnapshotReplicas.Delete(tx, part.ID())
	case ResourcesBySource.Len(tx, part.ID()) > 0:
		return nil
	}
	part.Deleting = true
	return SnapshotReplicas.Update(tx, part)
}

// ReleaseSources goes on with the deletion of the snapshots that a replica was being made from,
// or rolled back to, once nothing more is. The replica is given as it was.
func ReleaseSources(tx *store.Tx, was Resource) error {
	for _, id := range sourcesOf(&was) {
		part, ok := SnapshotReplicas.Get(tx, id)
		if !ok || part.Deleting {
			continue
		}
		s, _ := Snapshots.Get(tx, model.SnapshotID{Definition: id.Definition, Snapshot: id.Snapshot})
		if !s.Deleting {
			continue
		}
		if err := ClosePart(tx, part); err != nil {
			return err
		}
	}
	return nil
}
