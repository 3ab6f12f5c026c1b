// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func (r *rig) clone(source, name string) {
	r.t.Helper()
	if _, _, err := r.Snapshots.Clone(r.t.Context(), source, snapshots.NewClone{Name: name}); err != nil {
		r.t.Fatal(err)
	}
}

// untilClone waits until a clone is in a state.
func (r *rig) untilClone(source, name string, state schema.CloneState) snapshots.Status {
	r.t.Helper()
	var st snapshots.Status
	r.Until(func() bool {
		var err error
		if st, err = r.Snapshots.Status(source, name); err != nil {
			r.t.Fatal(err)
		}
		return st.State == state
	})
	return st
}

func TestACloneHasTheContentOfTheMomentAndLeavesNothingBehind(t *testing.T) {
	r := plain(t, 1)
	if _, err := r.Catalog.CreateGroup(t.Context(), catalog.NewGroup{Name: "others"}); err != nil {
		t.Fatal(err)
	}
	r.resource("vol", []int64{gib}, "n1")
	if _, err := r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{
		Props: model.PropsChange{Set: map[string]string{"Aux/gone": "1", "Aux/kept": "1", "Aux/other": "1"}},
	}); err != nil {
		t.Fatal(err)
	}
	r.put("n1", "vol", "before")
	made, _, err := r.Snapshots.Clone(t.Context(), "vol", snapshots.NewClone{
		Name: "new", Group: "others", Props: model.PropsChange{Set: map[string]string{"Aux/other": "2"}, Delete: []string{"Aux/gone"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	st := r.untilClone("vol", "NEW", schema.CloneDone)
	if st.Done != gib || st.Total != gib {
		t.Errorf("it is at %d of %d", st.Done, st.Total)
	}
	r.put("n1", "vol", "after")
	r.holds("n1", "new", "before")
	r.untilParts("vol", "")
	d, _ := schema.FindDefinition(r.Store.Snapshot(), "new")
	if _, gone := d.Props.Get("Aux/gone"); gone || d.Group != "others" || d.UUID != made.UUID {
		t.Errorf("it is %+v", d)
	}
	if v, _ := d.Props.Get("Aux/other"); v != "2" {
		t.Errorf("its properties are %v", d.Props)
	}
	if _, err := r.Snapshots.Status("new", "vol"); !errs.Is(err, errs.NotFound) {
		t.Errorf("the source passes for a clone: %v", err)
	}
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
	r.holds("n1", "new", "before")
}

func TestClonesOfClonesAreMadeWhileTheirSourceIsDeleted(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "content")
	r.clone("vol", "c1")
	_, err := r.Resources.DeleteDefinition(t.Context(), "vol")
	if err != nil {
		r.refused(err, errs.HasChildren, errs.ResourceDefinition)
	}
	r.untilClone("vol", "c1", schema.CloneDone)
	held := r.Agents["n1"].HoldApplies("vol")
	gone := make(chan error, 1)
	go func() {
		_, err := r.Resources.DeleteDefinition(t.Context(), "vol")
		gone <- err
	}()
	r.Until(func() bool {
		d, err := schema.FindDefinition(r.Store.Snapshot(), "vol")
		return err != nil || d.Deleting
	})
	_, _, err = r.Snapshots.Clone(t.Context(), "vol", snapshots.NewClone{Name: "late"})
	if err == nil {
		t.Error("a definition that is being deleted was cloned")
	}
	r.clone("c1", "c2")
	r.untilClone("c1", "c2", schema.CloneDone)
	held.Release()
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	r.holds("n1", "c2", "content")
}

func TestTheProgressOfACloneIsTrue(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	held := r.Agents["n1"].HoldCopies("new")
	r.clone("vol", "new")
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	held.Progress(gib / 4)
	r.Until(func() bool {
		st, err := r.Snapshots.Status("vol", "new")
		return err == nil && st.State == schema.Cloning && st.Done == gib/4 && st.Total == gib
	})
	d, _ := schema.FindDefinition(r.Store.Snapshot(), "new")
	if d.Clone.State != schema.Cloning {
		t.Errorf("it is %+v", d.Clone)
	}
	_, _, err := r.Snapshots.Create(t.Context(), []snapshots.New{{Definition: "new", Name: "s1"}})
	r.refused(err, errs.Closing, errs.ResourceDefinition)
	held.Release()
	r.untilClone("vol", "new", schema.CloneDone)
}

func TestACloneThatHasNoRoomFailsSaysWhyAndLeavesNothing(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.Agents["n1"].FailCopies("new", -1, &pool.NoSpaceError{Pool: cluster.Pool, Asked: gib, Free: mib})
	r.clone("vol", "new")
	st := r.untilClone("vol", "new", schema.CloneFailed)
	if !strings.Contains(st.Problem, "n1") {
		t.Errorf("it says %q", st.Problem)
	}
	r.untilParts("vol", "")
	r.Until(func() bool {
		for range schema.ResourcesOf(r.Store.Snapshot(), "new") {
			return false
		}
		return true
	})
	r.nothingLeft("n1", "new")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	r.Agents["n1"].FailCopies("new", 0, nil)
	r.Until(func() bool {
		return !schema.JobsRunning.Has(r.Store.Snapshot(), schema.JobTarget{Kind: schema.CloneDefinition, Object: "new"})
	})
	r.clone("vol", "new")
	r.untilClone("vol", "new", schema.CloneDone)
}

func TestACloneThatIsDeletedMeanwhileLeavesNothing(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	held := r.Agents["n1"].HoldCopies("new")
	r.clone("vol", "new")
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resources.DeleteDefinition(t.Context(), "vol")
	r.refused(err, errs.HasChildren, errs.ResourceDefinition)
	if _, err := r.Resources.DeleteDefinition(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	r.untilParts("vol", "")
	r.nothingLeft("n1", "new")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
}

func TestManyClonesAtOnce(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "content")
	const many = 20
	failed := make(chan error, many)
	for i := range many {
		go func() {
			_, _, err := r.Snapshots.Clone(t.Context(), "vol", snapshots.NewClone{Name: fmt.Sprintf("c%d", i)})
			failed <- err
		}()
	}
	for range many {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		r.untilClone("vol", fmt.Sprintf("c%d", i), schema.CloneDone)
		r.holds("n1", fmt.Sprintf("c%d", i), "content")
	}
	r.untilParts("vol", "")
}

func TestClonesThatCannotBe(t *testing.T) {
	r := plain(t, 1)
	r.resource("vol", []int64{gib}, "n1")
	r.definition("empty")
	for name, c := range map[string]struct {
		source string
		n      snapshots.NewClone
		kind   errs.Kind
		about  errs.Object
	}{
		"an unknown source":  {"no", snapshots.NewClone{Name: "new"}, errs.NotFound, errs.ResourceDefinition},
		"no volumes":         {"empty", snapshots.NewClone{Name: "new"}, errs.NotFound, errs.VolumeDefinition},
		"no name":            {"vol", snapshots.NewClone{}, errs.Invalid, errs.ResourceDefinition},
		"a name that exists": {"vol", snapshots.NewClone{Name: "EMPTY"}, errs.Exists, errs.ResourceDefinition},
		"itself":             {"vol", snapshots.NewClone{Name: "vol"}, errs.Exists, errs.ResourceDefinition},
		"an unknown group":   {"vol", snapshots.NewClone{Name: "new", Group: "no"}, errs.NotFound, errs.ResourceGroup},
		"other layers":       {"vol", snapshots.NewClone{Name: "new", Layers: []string{"DRBD", "STORAGE"}}, errs.Unsupported, errs.ResourceDefinition},
		"an unknown layer":   {"vol", snapshots.NewClone{Name: "new", Layers: []string{"NO"}}, errs.Invalid, errs.NoObject},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := r.Snapshots.Clone(t.Context(), c.source, c.n)
			e := errs.As(err)
			if e == nil || e.Kind != c.kind || c.about != errs.NoObject && e.Object != c.about {
				t.Errorf("got %+v", err)
			}
		})
	}
	r.wantParts("vol", "")
	r.StopAgent("n1")
	_, _, err := r.Snapshots.Clone(t.Context(), "vol", snapshots.NewClone{Name: "new"})
	r.refused(err, errs.NotConnected, errs.Node)
}

func TestACloneOfReplicatedDataHasAllReplicas(t *testing.T) {
	r := replicated(t, 2)
	r.resource("vol", []int64{gib}, "n1", "n2")
	r.put("n1", "vol", "content")
	r.put("n2", "vol", "content")
	r.clone("vol", "new")
	r.untilClone("vol", "new", schema.CloneDone)
	r.holds("n1", "new", "content")
	r.holds("n2", "new", "content")
	r.untilParts("vol", "")
}
