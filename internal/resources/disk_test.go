// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// noticed tells whether there is a notice of a kind.
func noticed(notices []errs.Notice, kind errs.NoticeKind) bool {
	for _, n := range notices {
		if n.Kind == kind {
			return true
		}
	}
	return false
}

func TestADiskIsAddedAndRemoved(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client})
	_, err := r.Resources.RemoveDisk(t.Context(), "vol", "n1", schema.Client)
	if !errs.Is(err, errs.NotEnough) {
		t.Errorf("the last disk was removed: %v", err)
	}
	if notices, err := r.Resources.RemoveDisk(t.Context(), "vol", "n2", schema.Client); err != nil || !noticed(notices, errs.DisklessAlready) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	if _, err := r.Resources.AddDisk(t.Context(), "vol", "n2", resources.DiskChange{Pool: "none"}); !errs.Is(err, errs.NotFound) {
		t.Errorf("a disk in a pool that does not exist: %v", err)
	}
	if _, err := r.Resources.AddDisk(t.Context(), "vol", "n2", resources.DiskChange{Pool: cluster.Pool}); err != nil {
		t.Fatal(err)
	}
	if got := r.replicas("vol"); got != "n1 diskful, n2 diskful" {
		t.Errorf("it has %s", got)
	}
	if notices, err := r.Resources.AddDisk(t.Context(), "vol", "n2", resources.DiskChange{}); err != nil || !noticed(notices, errs.HasDiskAlready) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	if _, err := r.Resources.RemoveDisk(t.Context(), "vol", "n1", schema.Client); err != nil {
		t.Fatal(err)
	}
	if got := r.replicas("vol"); got != "n1 client, n2 diskful" {
		t.Errorf("it has %s", got)
	}
	if v := r.Agents["n1"].Volumes(); len(v) > 0 {
		t.Errorf("node n1 has %v left", v)
	}
}

func TestADiskMovesToAnotherNode(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.lead()
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	if _, err := r.Resources.MigrateDisk(t.Context(), "vol", "n1", "n2", resources.DiskChange{Pool: cluster.Pool}); err != nil {
		t.Fatal(err)
	}
	r.ended(schema.MigrateDisk, "vol/n2", schema.JobDone)
	if got := r.replicas("vol"); got != "n2 diskful" {
		t.Errorf("it has %s", got)
	}
	if v := r.Agents["n1"].Volumes(); len(v) > 0 {
		t.Errorf("node n1 has %v left", v)
	}
}

func TestTheSourceOfAMoveStaysWhileItIsUsed(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Patience: time.Second})
	r.lead()
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.Agents["n1"].Use("vol", "qemu")
	notices, err := r.Resources.MigrateDisk(t.Context(), "vol", "n1", "n2", resources.DiskChange{Pool: cluster.Pool})
	if err != nil || !noticed(notices, errs.GoesOn) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.Until(func() bool { return r.job(schema.MigrateDisk, "vol/n2").LastError() != "" })
	if got := r.replicas("vol"); got != "n1 diskful, n2 diskful" {
		t.Errorf("it has %s", got)
	}
	r.Agents["n1"].Leave("vol")
	r.ended(schema.MigrateDisk, "vol/n2", schema.JobDone)
	if got := r.replicas("vol"); got != "n2 diskful" {
		t.Errorf("it has %s", got)
	}
}

func TestAMoveWhoseTargetFailsLeavesTheSourceAlone(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n3", Kind: schema.Client})
	for _, node := range []string{"n2", "n3"} {
		r.Agents[node].FailApplies("vol", -1, &pool.NoSpaceError{Pool: cluster.Pool, Asked: gib})
		if _, err := r.Resources.MigrateDisk(t.Context(), "vol", "n1", node, resources.DiskChange{Pool: cluster.Pool}); !errs.Is(err, errs.NoSpace) {
			t.Errorf("the move to node %s ended with %v", node, err)
		}
		r.Agents[node].FailApplies("vol", 0, nil)
		r.ended(schema.MigrateDisk, "vol/"+node, schema.JobCancelled)
	}
	r.Until(func() bool { return r.replicas("vol") == "n1 diskful, n3 client" })
}

func TestMovesThatCannotBe(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client})
	local := start(t, cluster.Options{Nodes: 2, Agent: withoutDRBD})
	local.definition("vol", gib)
	local.create("vol", on("n1")...)
	for name, c := range map[string]struct {
		rig      *rig
		from, to string
		pool     string
		kind     errs.Kind
	}{
		"to the same node":            {r, "n1", "n1", "", errs.Invalid},
		"from a node without a disk":  {r, "n2", "n3", "", errs.Invalid},
		"from a node without it":      {r, "n3", "n2", "", errs.NotFound},
		"to an unknown node":          {r, "n1", "n9", "", errs.NotFound},
		"to an unknown pool":          {r, "n1", "n2", "none", errs.NotFound},
		"of data that no layer moves": {local, "n1", "n2", cluster.Pool, errs.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.rig.Resources.MigrateDisk(t.Context(), "vol", c.from, c.to, resources.DiskChange{Pool: c.pool})
			if !errs.Is(err, c.kind) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := local.Resources.RemoveDisk(t.Context(), "vol", "n1", schema.Client); !errs.Is(err, errs.Invalid) {
		t.Errorf("local data lost its disk: %v", err)
	}
	r.StopAgent("n3")
	if _, err := r.Resources.MigrateDisk(t.Context(), "vol", "n1", "n3", resources.DiskChange{Pool: cluster.Pool}); !errs.Is(err, errs.NotConnected) {
		t.Errorf("to a node that is not connected: %v", err)
	}
	if got := r.replicas("vol"); got != "n1 diskful, n2 client" {
		t.Errorf("it has %s", got)
	}
}

func TestAReplicaIsDeactivatedAndActivated(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, Agent: withoutDRBD})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.Agents["n1"].Use("vol", "qemu")
	if _, err := r.Resources.Deactivate(t.Context(), "vol", "n1"); !errs.Is(err, errs.InUse) {
		t.Errorf("a device in use was taken away: %v", err)
	}
	r.Agents["n1"].Leave("vol")
	for range 2 {
		if _, err := r.Resources.Deactivate(t.Context(), "vol", "n1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Resources.MakeAvailable(t.Context(), "vol", "n1", resources.Availability{}); err != nil {
		t.Fatal(err)
	}
	if x, _ := schema.FindResource(r.Store.Snapshot(), "vol", "n1"); x.Inactive {
		t.Error("it was made available and is inactive")
	}
	if _, err := r.Resources.Activate(t.Context(), "vol", "n1"); err != nil {
		t.Fatal(err)
	}
}
