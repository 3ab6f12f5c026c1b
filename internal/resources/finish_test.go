// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// A row that is written makes its node speak again, and that is what Finish is called for.
func TestFinishWritesNothingThatItDoesNotChange(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, Agent: withoutDRBD})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	id := model.ResourceID{Definition: "vol", Node: "n1"}
	r.Agents["n1"].Silence() // The test speaks for it.
	rev, err := schema.Update(t.Context(), r.Store, func(tx *store.Tx) error {
		if err := schema.Snapshots.Insert(tx, schema.Snapshot{Definition: "vol", Name: "s1", UUID: "1", State: schema.SnapshotTaken}); err != nil {
			return err
		}
		if err := schema.SnapshotReplicas.Insert(tx, schema.SnapshotReplica{
			Definition: "vol", Snapshot: "s1", Node: "n1", UUID: "2", State: schema.SnapshotTaken, Volumes: []schema.SnapshotVolume{{UUID: "3", Pool: "data"}},
		}); err != nil {
			return err
		}
		x, _ := schema.Resources.Get(tx, id)
		x.Volumes = []schema.Volume{x.Volumes[0]}
		x.Volumes[0].RollBack = &schema.RollBack{Snapshot: "s1", Token: "asked"}
		return schema.Resources.Update(tx, x)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Observed.Report("n1", observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{
		"vol": {Generation: uint64(rev), Phase: observed.Ready, Volumes: []observed.VolumeStatus{{RolledBack: "another"}}},
	}})
	if err := r.Resources.Finish(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if now := schema.Resources.Revision(r.Store.Snapshot(), id); now != rev {
		t.Errorf("the row was written at %d, after %d", now, rev)
	}
}
