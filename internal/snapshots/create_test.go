// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
)

func TestASnapshotIsTakenKeptAndDeleted(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib, gib}, "n1")
	sn := r.take("VOL", "Snap1")
	r.wantParts("vol", "Snap1 taken: n1 taken")
	if len(sn.Volumes) != 2 || sn.Volumes[0].Size != gib || sn.State != schema.SnapshotTaken {
		t.Errorf("it is %+v", sn)
	}
	for p := range schema.SnapshotReplicasOf(r.Store.Snapshot(), sn.ID()) {
		if p.Taken.IsZero() || len(p.Volumes) != 2 {
			t.Errorf("its part is %+v", p)
		}
	}
	if _, err := r.Snapshots.Delete(t.Context(), "vol", "SNAP1", nil); err != nil {
		t.Fatal(err)
	}
	r.wantParts("vol", "")
}

func TestASnapshotOutlivesItsReplicaAndKeepsItsDefinition(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.take("vol", "s1")
	_, err := r.Resources.DeleteDefinition(t.Context(), "vol")
	r.refused(err, errs.HasChildren, errs.ResourceDefinition)
	if _, err := r.Resources.Delete(t.Context(), "vol", "n1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resources.DeleteVolumeDefinition(t.Context(), "vol", 0); err != nil {
		t.Fatal(err)
	}
	r.wantParts("vol", "s1 taken: n1 taken")
	if _, err := r.Snapshots.Delete(t.Context(), "vol", "s1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotsThatCannotBe(t *testing.T) {
	r := plain(t, 2)
	r.resource("vol", []int64{gib}, "n1")
	r.definition("empty")
	r.definition("unplaced")
	if _, _, err := r.Resources.CreateVolumeDefinition(t.Context(), "unplaced", catalog.NewVolume{Size: gib}); err != nil {
		t.Fatal(err)
	}
	r.take("vol", "s1")
	for name, c := range map[string]struct {
		list  []snapshots.New
		kind  errs.Kind
		about errs.Object
	}{
		"none":                 {nil, errs.Invalid, errs.Snapshot},
		"no name":              {[]snapshots.New{{Definition: "vol"}}, errs.Invalid, errs.Snapshot},
		"a bad name":           {[]snapshots.New{{Definition: "vol", Name: "a/b"}}, errs.Invalid, errs.Snapshot},
		"a name that exists":   {[]snapshots.New{{Definition: "vol", Name: "s1"}}, errs.Exists, errs.Snapshot},
		"only its case":        {[]snapshots.New{{Definition: "vol", Name: "S1"}}, errs.Exists, errs.Snapshot},
		"no volumes":           {[]snapshots.New{{Definition: "empty", Name: "s1"}}, errs.NotFound, errs.VolumeDefinition},
		"no replicas":          {[]snapshots.New{{Definition: "unplaced", Name: "s1"}}, errs.NotFound, errs.Resource},
		"an unknown resource":  {[]snapshots.New{{Definition: "no", Name: "s1"}}, errs.NotFound, errs.ResourceDefinition},
		"an unknown node":      {[]snapshots.New{{Definition: "vol", Name: "s2", Nodes: []string{"n9"}}}, errs.NotFound, errs.Node},
		"a node without it":    {[]snapshots.New{{Definition: "vol", Name: "s2", Nodes: []string{"n2"}}}, errs.NotFound, errs.Resource},
		"one resource twice":   {[]snapshots.New{{Definition: "vol", Name: "s2"}, {Definition: "VOL", Name: "s3"}}, errs.Invalid, errs.Snapshot},
		"one of two is wrong":  {[]snapshots.New{{Definition: "vol", Name: "s2"}, {Definition: "empty", Name: "s2"}}, errs.NotFound, errs.VolumeDefinition},
		"a property of others": {[]snapshots.New{{Definition: "vol", Name: "s2", Props: map[string]string{"StorPoolName": "x"}}}, errs.Invalid, errs.Snapshot},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := r.Snapshots.Create(t.Context(), c.list)
			r.t = t
			r.refused(err, c.kind, c.about)
		})
	}
	r.t = t
	r.wantParts("vol", "s1 taken: n1 taken")
}

func TestASnapshotOfANodeThatIsNotConnectedIsRefused(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.StopAgent("n1")
	_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "vol", Name: "s1"}})
	r.refused(err, errs.NotConnected, errs.Node)
	r.wantParts("vol", "")
}

func TestASnapshotThatTheHostCannotTakeSaysWhyAndIsReplacedByTheNext(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.Agents["n1"].FailCopies("vol", -1, nil)
	_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "vol", Name: "s1"}})
	r.refused(err, errs.HostFailed, errs.Snapshot)
	r.untilParts("vol", "s1 failed")
	sn, err := schema.FindSnapshot(r.Store.Snapshot(), "vol", "s1")
	if err != nil || !strings.Contains(sn.Problem, "n1") {
		t.Errorf("it says %q (%v)", sn.Problem, err)
	}
	r.Agents["n1"].FailCopies("vol", 0, nil)
	r.take("vol", "S1")
	r.wantParts("vol", "S1 taken: n1 taken")
}

func TestSeveralSnapshotsAreTakenWhileWritersAreHeldBack(t *testing.T) {
	r := plain(t, 2)
	r.resource("a1", []int64{gib}, "n1")
	r.resource("b1", []int64{gib}, "n2")
	r.put("n1", "a1", "one")
	r.put("n2", "b1", "two")
	held := r.Agents["n2"].HoldCopies("b1")
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "a1", Name: "s1"}, {Definition: "b1", Name: "s1"}})
		done <- err
	}()
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for node, name := range map[string]string{"n1": "a1", "n2": "b1"} {
		if got := r.Agents[node].Suspended(); len(got) != 1 || got[0] != name {
			t.Errorf("writers are held back on node %s to %v", node, got)
		}
	}
	held.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		if got := r.Agents[node].Suspended(); len(got) > 0 {
			t.Errorf("writers are still held back on node %s to %v", node, got)
		}
	}
	r.wantParts("a1", "s1 taken: n1 taken")
	r.wantParts("b1", "s1 taken: n2 taken")
}

func TestAllSnapshotsOfARequestFailWhenOneDoes(t *testing.T) {
	for name, spoil := range map[string]func(r *rig){
		"a host cannot take its own":       func(r *rig) { r.Agents["n2"].FailCopies("b1", -1, nil) },
		"a host cannot hold writers back":  func(r *rig) { r.Agents["n2"].FailSuspensions("b1", -1, nil) },
		"more than one volume was written": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := plain(t, 2)
			r.resource("a1", []int64{gib}, "n1")
			r.resource("b1", []int64{gib}, "n2")
			if spoil != nil {
				spoil(r)
			}
			held := r.Agents["n2"].HoldCopies("b1")
			if spoil != nil {
				held.Release()
			}
			done := make(chan error, 1)
			go func() {
				_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "a1", Name: "s1"}, {Definition: "b1", Name: "s1"}})
				done <- err
			}()
			if spoil == nil {
				if err := held.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.put("n1", "a1", "late")
				r.put("n2", "b1", "late")
				held.Release()
			}
			r.refused(<-done, errs.HostFailed, errs.Snapshot)
			r.untilParts("a1", "s1 failed")
			r.untilParts("b1", "s1 failed")
			for _, node := range []string{"n1", "n2"} {
				if got := r.Agents[node].Suspended(); len(got) > 0 {
					t.Errorf("writers are still held back on node %s to %v", node, got)
				}
			}
		})
	}
}

func TestOneWrittenVolumeIsOfOneMoment(t *testing.T) {
	r := plain(t, 2)
	r.resource("a1", []int64{gib}, "n1")
	r.resource("b1", []int64{gib}, "n2")
	held := r.Agents["n2"].HoldCopies("b1")
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "a1", Name: "s1"}, {Definition: "b1", Name: "s1"}})
		done <- err
	}()
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.put("n1", "a1", "late")
	held.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestANodeThatGoesAwayCutsAllSnapshotsOfARequestOff(t *testing.T) {
	r := plain(t, 2)
	r.resource("a1", []int64{gib}, "n1")
	r.resource("b1", []int64{gib}, "n2")
	held := r.Agents["n2"].HoldCopies("b1")
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "a1", Name: "s1"}, {Definition: "b1", Name: "s1"}})
		done <- err
	}()
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.StopAgent("n2")
	r.refused(<-done, errs.NotConnected, errs.Snapshot)
	r.untilParts("a1", "s1 cut off")
	r.wantParts("b1", "s1 cut off: n2 deleting")
	held.Release()
	r.StartAgent("n2")
	r.untilParts("b1", "s1 cut off")
}

func TestReplicasThatAreReplicatedAreTakenTogether(t *testing.T) {
	r := replicated(t, 3)
	r.resource("vol", []int64{gib}, "n1", "n2")
	r.take("vol", "s1")
	r.wantParts("vol", "s1 taken: n1 taken, n2 taken")
	r.take("vol", "s2", "N2")
	r.wantParts("vol", "s1 taken: n1 taken, n2 taken; s2 taken: n2 taken")
	r.StopAgent("n2")
	_, notices, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "vol", Name: "s3"}})
	if err != nil || len(notices) != 1 || notices[0].Kind != errs.NodeNotConnected {
		t.Errorf("notices %v, error %v", notices, err)
	}
	_, _, err = r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "vol", Name: "s4", Nodes: []string{"n2"}}})
	r.refused(err, errs.NotConnected, errs.Node)
	r.wantParts("vol", "s1 taken: n1 taken, n2 taken; s2 taken: n2 taken; s3 taken: n1 taken")
}

func TestADiskThatIsBeingRemovedGetsNoSnapshot(t *testing.T) {
	r := replicated(t, 2)
	r.resource("vol", []int64{gib}, "n1", "n2")
	r.Agents["n2"].FailApplies("vol", -1, nil)
	if _, err := r.Resources.RemoveDisk(t.Context(), "vol", "n2", schema.Client); err == nil {
		t.Fatal("the disk was removed")
	}
	_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "vol", Name: "s1", Nodes: []string{"n2"}}})
	r.refused(err, errs.Invalid, errs.Snapshot)
	r.wantParts("vol", "")
}

func TestPropertiesOfASnapshotChange(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.take("vol", "s1")
	set := func(k, v string) error {
		_, err := r.Snapshots.Modify(t.Context(), "vol", "s1", model.PropsChange{Set: map[string]string{k: v}})
		return err
	}
	if err := set("Aux/why", "upgrade"); err != nil {
		t.Fatal(err)
	}
	if err := set("DrbdOptions/Net/protocol", "C"); err == nil {
		t.Error("a property of resources was taken")
	}
	sn, _ := schema.FindSnapshot(r.Store.Snapshot(), "vol", "s1")
	if v, _ := sn.Props.Get("Aux/why"); v != "upgrade" {
		t.Errorf("it has %v", sn.Props)
	}
}
