// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// conclude ends a request that no call of this process takes, as far as it can be told now. One
// for which writers had to be held back was cut off with the controller that did.
func (s *Snapshots) conclude(ctx context.Context, id string) error {
	if s.isLive(id) {
		return nil
	}
	view := s.Store.Snapshot()
	var parts []schema.SnapshotReplica
	taking := false
	for sn := range schema.SnapshotsByRequest.Get(view, id) {
		taking = taking || sn.State == schema.SnapshotTaking
		parts = slices.AppendSeq(parts, schema.SnapshotReplicasOf(view, sn.ID()))
	}
	switch {
	case !taking:
		return nil
	case len(parts) == 0:
		return s.end(ctx, id, "its nodes were removed meanwhile", schema.SnapshotCutOff)
	case len(parts) > 1:
		return s.end(ctx, id, "the controller ended while it was taken", schema.SnapshotCutOff)
	}
	part := parts[0]
	if s.Observed.Node(part.Node).Connection == observed.Offline {
		return nil // Its agent goes on with it, and says so when it is back.
	}
	st, _ := s.Observed.Snapshot(part.ID())
	if !st.Current || !st.Phase.Settled() || st.Generation < uint64(schema.SnapshotReplicas.Revision(view, part.ID())) {
		return nil
	}
	if err := s.faultOf(part.ID(), st); err != nil {
		return s.end(ctx, id, err.Error(), schema.SnapshotFailed)
	}
	return s.end(ctx, id, "", schema.SnapshotTaken)
}

// Gone is a part of which its node has said that nothing is left there.
type Gone struct {
	Snapshot   model.SnapshotReplicaID
	Generation uint64 // of the assignment that the agent has carried out
}

// Destroyed takes an agent's word for what is gone: the rows go, and with the last part its
// snapshot. Words about rows that are not being deleted, or were written again since, change
// nothing. It is idempotent, and returns when it is durable.
func (s *Snapshots) Destroyed(ctx context.Context, gone []Gone) error {
	return schema.UpdateEach(ctx, s.Store, gone, func(tx *store.Tx, g Gone) error {
		part, ok := schema.SnapshotReplicas.Get(tx, g.Snapshot)
		if !ok || !part.Deleting || uint64(schema.SnapshotReplicas.Revision(tx, g.Snapshot)) > g.Generation {
			return nil
		}
		return s.Resources.DropSnapshot(tx, g.Snapshot)
	})
}

// concluded takes note of what nodes have said of the parts of snapshots that are being taken.
func (s *Snapshots) concluded(ctx context.Context, ids ...model.SnapshotReplicaID) error {
	view := s.Store.Snapshot()
	var failed []error
	for _, id := range ids {
		if sn, ok := schema.Snapshots.Get(view, model.SnapshotID{Definition: id.Definition, Snapshot: id.Snapshot}); ok && sn.State == schema.SnapshotTaking {
			failed = append(failed, s.conclude(ctx, sn.Request))
		}
	}
	return errors.Join(failed...)
}
