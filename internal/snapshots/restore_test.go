// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
)

// restore restores a snapshot to a new definition.
func (r *rig) restore(definition, snapshot, to string, o snapshots.Restore) (snapshots.Restored, error) {
	r.t.Helper()
	r.definition(to)
	if _, err := r.Snapshots.RestoreVolumes(r.t.Context(), definition, snapshot, to); err != nil {
		r.t.Fatal(err)
	}
	o.To = to
	return r.Snapshots.Restore(r.t.Context(), definition, snapshot, o)
}

// sources counts the volumes of a definition that still name what they are made from.
func (r *rig) sources(definition string) int {
	n := 0
	for x := range schema.ResourcesOf(r.Store.Snapshot(), model.DefinitionName(definition).Key()) {
		for _, v := range x.Volumes {
			if v.Source != nil {
				n++
			}
		}
	}
	return n
}

func TestARestoredResourceHasTheContentOfTheSnapshotAndStandsAlone(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	if _, err := r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{
		Props: model.PropsChange{Set: map[string]string{"Aux/of": "vol", "Aux/both": "vol"}},
	}); err != nil {
		t.Fatal(err)
	}
	r.put("n1", "vol", "before")
	r.take("vol", "s1")
	r.put("n1", "vol", "after")
	if _, err := r.Catalog.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "new", Props: map[string]string{"Aux/both": "new"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Snapshots.RestoreVolumes(t.Context(), "vol", "s1", "new"); err != nil {
		t.Fatal(err)
	}
	made, err := r.Snapshots.Restore(t.Context(), "vol", "s1", snapshots.Restore{To: "new"})
	if err != nil || len(made.Placed) != 1 || made.Placed[0].Pool != "data" {
		t.Fatalf("made %+v, %v", made, err)
	}
	r.holds("n1", "new", "before")
	d, _ := schema.FindDefinition(r.Store.Snapshot(), "new")
	of, _ := d.Props.Get("Aux/of")
	both, _ := d.Props.Get("Aux/both")
	if of != "vol" || both != "new" {
		t.Errorf("its properties are %v", d.Props)
	}
	if n := r.sources("new"); n != 0 {
		t.Errorf("%d of its volumes still name their source", n)
	}
	if _, err := r.Snapshots.Delete(t.Context(), "vol", "s1", nil); err != nil {
		t.Fatal(err)
	}
	r.wantParts("vol", "")
	r.holds("n1", "new", "before")
}

func TestRestoreIntoABiggerVolume(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "before")
	r.take("vol", "s1")
	r.definition("big")
	if _, _, err := r.Resources.CreateVolumeDefinition(t.Context(), "big", catalog.NewVolume{Size: 2 * gib}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Snapshots.Restore(t.Context(), "vol", "s1", snapshots.Restore{To: "big"}); err != nil {
		t.Fatal(err)
	}
	r.holds("n1", "big", "before")
}

func TestRestoreIntoAnotherPool(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "before")
	r.take("vol", "s1")
	r.AddPool("n1", "other")
	made, err := r.restore("vol", "s1", "new", snapshots.Restore{PoolRename: map[string]string{"DATA": "Other"}})
	if err != nil || len(made.Placed) != 1 || made.Placed[0].Pool != "other" {
		t.Fatalf("made %+v, %v", made, err)
	}
	r.holds("n1", "new", "before")
}

func TestRestoresThatCannotBe(t *testing.T) {
	r := plain(t, 2)
	r.resource("vol", []int64{gib}, "n1")
	r.take("vol", "s1")
	r.AddPool("n1", "other")
	r.definition("none")
	for name, size := range map[string]int64{"fits": gib, "small": gib / 2} {
		r.definition(name)
		if _, _, err := r.Resources.CreateVolumeDefinition(t.Context(), name, catalog.NewVolume{Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		snapshot string
		o        snapshots.Restore
		kind     errs.Kind
		about    errs.Object
	}{
		"no target":                {"s1", snapshots.Restore{}, errs.Invalid, errs.ResourceDefinition},
		"an unknown target":        {"s1", snapshots.Restore{To: "no"}, errs.NotFound, errs.ResourceDefinition},
		"an unknown snapshot":      {"s9", snapshots.Restore{To: "fits"}, errs.NotFound, errs.Snapshot},
		"a target with replicas":   {"s1", snapshots.Restore{To: "vol"}, errs.Exists, errs.Resource},
		"a target without volumes": {"s1", snapshots.Restore{To: "none"}, errs.NotFound, errs.VolumeDefinition},
		"a smaller volume":         {"s1", snapshots.Restore{To: "small"}, errs.Invalid, errs.VolumeDefinition},
		"a node without it":        {"s1", snapshots.Restore{To: "fits", Nodes: []string{"n2"}}, errs.NotFound, errs.Snapshot},
		"an unknown node":          {"s1", snapshots.Restore{To: "fits", Nodes: []string{"n9"}}, errs.NotFound, errs.Node},
		"a pool that is not there": {"s1", snapshots.Restore{To: "fits", PoolRename: map[string]string{"data": "no"}}, errs.NotFound, errs.StoragePool},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Snapshots.Restore(t.Context(), "vol", c.snapshot, c.o)
			r.t = t
			r.refused(err, c.kind, c.about)
		})
	}
	r.t = t
	_, err := r.Snapshots.RestoreVolumes(t.Context(), "vol", "s1", "fits")
	r.refused(err, errs.Exists, errs.VolumeDefinition)
	r.StopAgent("n1")
	_, err = r.Snapshots.Restore(t.Context(), "vol", "s1", snapshots.Restore{To: "fits"})
	r.refused(err, errs.NotConnected, errs.Node)
}

func TestARestoreThatTheHostCannotMakeIsTakenBack(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.take("vol", "s1")
	r.Agents["n1"].FailCopies("new", -1, nil)
	_, err := r.restore("vol", "s1", "new", snapshots.Restore{})
	r.refused(err, errs.HostFailed, errs.Resource)
	r.nothingLeft("n1", "new")
	r.wantParts("vol", "s1 taken: n1 taken")
}

func TestADeletionWaitsForWhatIsBeingMadeFromTheSnapshot(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "before")
	r.take("vol", "s1")
	held := r.Agents["n1"].HoldCopies("new")
	done := make(chan error, 1)
	go func() {
		_, err := r.restore("vol", "s1", "new", snapshots.Restore{})
		done <- err
	}()
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	notices, err := r.Snapshots.Delete(t.Context(), "vol", "s1", nil)
	if err != nil || len(notices) != 1 || notices[0].Kind != errs.GoesOn {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.wantParts("vol", "s1 deleting: n1 taken")
	r.definition("late")
	_, err = r.Snapshots.RestoreVolumes(t.Context(), "vol", "s1", "late")
	r.refused(err, errs.Closing, errs.Snapshot)
	held.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.untilParts("vol", "")
	r.holds("n1", "new", "before")
}

func TestADeletionGoesOnWhenWhatWasBeingMadeIsDeleted(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.take("vol", "s1")
	held := r.Agents["n1"].HoldCopies("new")
	done := make(chan error, 1)
	go func() {
		_, err := r.restore("vol", "s1", "new", snapshots.Restore{})
		done <- err
	}()
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Snapshots.Delete(t.Context(), "vol", "s1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resources.DeleteDefinition(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the restore of what was deleted succeeded")
	}
	r.untilParts("vol", "")
	r.nothingLeft("n1", "new")
}

func TestADeletionOnANodeThatIsAwayIsAnIntent(t *testing.T) {
	r := replicated(t, 2)
	r.resource("vol", []int64{gib}, "n1", "n2")
	r.take("vol", "s1")
	r.take("vol", "s2")
	if notices, err := r.Snapshots.Delete(t.Context(), "vol", "s2", []string{"n2", "n2"}); err != nil || len(notices) > 0 {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.wantParts("vol", "s1 taken: n1 taken, n2 taken; s2 taken: n1 taken")
	notices, err := r.Snapshots.Delete(t.Context(), "vol", "s2", []string{"n2"})
	if err != nil || len(notices) != 1 || notices[0].Kind != errs.WasNotThere {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.StopAgent("n2")
	notices, err = r.Snapshots.Delete(t.Context(), "vol", "s1", nil)
	if err != nil || len(notices) != 1 || notices[0].Kind != errs.NodeNotConnected {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.wantParts("vol", "s1 deleting: n2 deleting; s2 taken: n1 taken")
	_, _, err = r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "vol", Name: "s1"}})
	r.refused(err, errs.Exists, errs.Snapshot)
	r.StartAgent("n2")
	r.untilParts("vol", "s2 taken: n1 taken")
	if _, err := r.Snapshots.Delete(t.Context(), "vol", "s2", []string{"n1"}); err != nil {
		t.Fatal(err)
	}
	r.wantParts("vol", "")
}

func TestASnapshotThatIsDeletedNodeByNodeIsOfNoUseAnyMore(t *testing.T) {
	r := replicated(t, 2)
	r.resource("vol", []int64{gib}, "n1", "n2")
	r.take("vol", "s1")
	r.definition("copy")
	if _, err := r.Snapshots.RestoreVolumes(t.Context(), "vol", "s1", "copy"); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		r.StopAgent(node)
		if _, err := r.Snapshots.Delete(t.Context(), "vol", "s1", []string{node}); err != nil {
			t.Fatal(err)
		}
	}
	r.wantParts("vol", "s1 deleting: n1 deleting, n2 deleting")
	_, err := r.Snapshots.Restore(t.Context(), "vol", "s1", snapshots.Restore{To: "copy"})
	r.refused(err, errs.Closing, errs.Snapshot)
	r.StartAgent("n1")
	r.StartAgent("n2")
	r.untilParts("vol", "")
}

func TestRollBack(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "before")
	r.take("vol", "s1")
	r.put("n1", "vol", "after")
	r.take("vol", "s2")
	r.Agents["n1"].Use("vol", "qemu")
	_, err := r.Snapshots.RollBack(t.Context(), "vol", "s1")
	r.refused(err, errs.InUse, errs.Resource)
	r.holds("n1", "vol", "after")
	r.Agents["n1"].Leave("vol")
	for _, c := range []struct{ to, content string }{{"s1", "before"}, {"s2", "after"}, {"s1", "before"}} {
		if _, err := r.Snapshots.RollBack(t.Context(), "vol", c.to); err != nil {
			t.Fatal(err)
		}
		r.holds("n1", "vol", c.content)
	}
	r.put("n1", "vol", "again")
	for _, name := range []string{"s1", "s2"} {
		if _, err := r.Snapshots.Delete(t.Context(), "vol", name, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.holds("n1", "vol", "again")
	_, err = r.Snapshots.RollBack(t.Context(), "vol", "s1")
	r.refused(err, errs.NotFound, errs.Snapshot)
}

func TestRollBackIsOfAllNodesOrNone(t *testing.T) {
	r := replicated(t, 2)
	r.resource("vol", []int64{gib}, "n1", "n2")
	r.put("n1", "vol", "before")
	r.put("n2", "vol", "before")
	r.take("vol", "both")
	r.take("vol", "one", "n1")
	r.put("n1", "vol", "after")
	r.put("n2", "vol", "after")
	_, err := r.Snapshots.RollBack(t.Context(), "vol", "one")
	r.refused(err, errs.NotFound, errs.Snapshot)
	r.StopAgent("n2")
	_, err = r.Snapshots.RollBack(t.Context(), "vol", "both")
	r.refused(err, errs.NotConnected, errs.Node)
	r.holds("n1", "vol", "after")
	r.StartAgent("n2")
	if _, err := r.Snapshots.RollBack(t.Context(), "vol", "both"); err != nil {
		t.Fatal(err)
	}
	r.holds("n1", "vol", "before")
	r.holds("n2", "vol", "before")
}
