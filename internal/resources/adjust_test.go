// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// regroup changes the filter of a group.
func (r *rig) regroup(name string, f model.Filter) []errs.Notice {
	r.t.Helper()
	notices, err := r.Catalog.ModifyGroup(r.t.Context(), name, catalog.GroupChange{Filter: &f})
	if err != nil {
		r.t.Fatal(err)
	}
	return notices
}

func TestAdjustPlacesWhatIsMissingInAGroup(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	r.group("grp", count(1))
	for _, name := range []string{"v1", "v2"} {
		r.spawn("grp", name, mib)
	}
	if _, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "v3", Sizes: []int64{mib}, DefinitionsOnly: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter model.Filter
		want   map[string]int
	}{
		{model.Filter{}, map[string]int{"v1": 1, "v2": 1, "v3": 1}},
		{count(2), map[string]int{"v1": 2, "v2": 2, "v3": 2}},
		{count(2), map[string]int{"v1": 2, "v2": 2, "v3": 2}},
		{model.Filter{AdditionalPlaceCount: new(int32(1))}, map[string]int{"v1": 2, "v2": 2, "v3": 2}},
	} {
		j, notices, err := r.Resources.Adjust(t.Context(), "GRP", c.filter)
		if err != nil || len(notices) > 0 {
			t.Fatal(err, notices)
		}
		if j.State != schema.JobDone || j.Total != 3 || j.Done != 3 {
			t.Errorf("the job is %+v", j)
		}
		for name, n := range c.want {
			if got := len(schemaReplicas(r, name)); got != n {
				t.Errorf("%s has %d replicas, want %d", name, got, n)
			}
		}
	}
}

func schemaReplicas(r *rig, name string) (list []schema.Resource) {
	for x := range schema.ResourcesOf(r.Store.Snapshot(), model.DefinitionName(name).Key()) {
		list = append(list, x)
	}
	return list
}

func TestAdjustNamesWhatItCouldNotPlace(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.lead()
	r.group("Grp", count(1))
	for _, name := range []string{"Good", "Bad"} {
		r.spawn("grp", name, mib)
	}
	change := model.PropsChange{Set: map[string]string{"Aux/x": "y"}}
	if _, err := r.Catalog.ModifyDefinition(t.Context(), "bad", catalog.DefinitionChange{Props: change}); err != nil {
		t.Fatal(err)
	}
	r.Agents["n1"].FailApplies("bad", -1, nil)
	r.Agents["n2"].FailApplies("bad", -1, nil)
	j, _, err := r.Resources.Adjust(t.Context(), "grp", count(2))
	refused(t, err, errs.NotEnough, "resource group Grp could not be adjusted: 1 of 2 definitions stay as they are", "resource Bad", "simulated failure")
	if j.State != schema.JobFailed || j.Done != 1 || j.Failed != 1 {
		t.Errorf("the job is %+v", j)
	}
	same(t, "replicas", r.replicas("good"), "n1 diskful, n2 diskful")
	_, _, err = r.Resources.Adjust(t.Context(), "grp", count(5))
	refused(t, err, errs.NotEnough, "2 of 2 definitions stay as they are", "resource Good: not enough nodes")
	_, _, err = r.Resources.Adjust(t.Context(), "nope", count(5))
	refused(t, err, errs.NotFound, "resource group nope does not exist")
	_, _, err = r.Resources.Adjust(t.Context(), "grp", count(-5))
	refused(t, err, errs.Invalid, "the place count -5 is not possible")
	r.Agents["n1"].FailApplies("bad", 0, nil)
	r.Agents["n2"].FailApplies("bad", 0, nil)
}

func TestAdjustAllAdjustsEveryGroup(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.lead()
	for i := range 5 {
		r.group(fmt.Sprintf("grp-%d", i), count(1))
		if i > 0 {
			r.spawn(fmt.Sprintf("grp-%d", i), fmt.Sprintf("vol-%d", i), mib)
		}
	}
	jobs, notices, err := r.Resources.AdjustAll(t.Context(), count(2))
	if err != nil || len(notices) > 0 || len(jobs) != 4 {
		t.Fatal(jobs, notices, err)
	}
	for i := range 4 {
		same(t, "replicas", r.replicas(fmt.Sprintf("vol-%d", i+1)), "n1 diskful, n2 diskful")
	}
}

func TestAdjustThatTakesLongGoesOnByItself(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Patience: 200 * time.Millisecond})
	r.lead()
	r.group("grp", count(1))
	r.spawn("grp", "vol", mib)
	holds := []interface{ Release() }{r.Agents["n1"].HoldApplies("vol"), r.Agents["n2"].HoldApplies("vol")}
	_, notices, err := r.Resources.Adjust(t.Context(), "grp", count(2))
	if err == nil {
		noted(t, notices, errs.GoesOn, "the adjustment of resource group grp goes on: 0 of 1 done")
	} else {
		refused(t, err, errs.NotEnough, "the node has not answered in time")
	}
	for _, h := range holds {
		h.Release()
	}
	r.Until(func() bool { return r.job(schema.AdjustGroup, "grp").State != schema.JobRunning })
}

func TestARaisedPlaceCountReachesWhatIsDeployed(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	stop := r.lead()
	r.group("grp", count(2))
	const many = 40
	for i := range many {
		r.spawn("grp", fmt.Sprintf("vol-%d", i), mib)
	}
	if _, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "bare", Sizes: []int64{mib}, DefinitionsOnly: true}); err != nil {
		t.Fatal(err)
	}
	stop() // so that the answer cannot depend on the work
	noted(t, r.regroup("grp", count(3)), errs.GoesOn, "what the definitions of resource group grp lack to 3 replicas is being placed")
	if j := r.job(schema.CompleteGroup, "grp"); j.State != schema.JobRunning {
		t.Errorf("the job is %+v", j)
	}
	stop = r.lead()
	r.Until(func() bool { return len(schemaReplicas(r, "vol-3")) == 3 })
	stop() // in the midst of it
	r.lead()
	j := r.ended(schema.CompleteGroup, "grp", schema.JobDone)
	if j.Total != many || j.Done != many {
		t.Errorf("the job is %+v", j)
	}
	for i := range many {
		if n := len(schemaReplicas(r, fmt.Sprintf("vol-%d", i))); n != 3 {
			t.Errorf("vol-%d has %d replicas", i, n)
		}
	}
	same(t, "what is not deployed stays so:", r.replicas("bare"), "")
	for what, f := range map[string]model.Filter{"lowered": count(1), "same": count(1), "other": {Pools: []string{"data"}}} {
		if notices := r.regroup("grp", f); len(notices) > 0 {
			t.Errorf("%s: %+v", what, notices)
		}
	}
}

func TestWhatCannotBePlacedYetIsPlacedLater(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.lead()
	r.group("grp", count(1))
	r.spawn("grp", "vol", mib)
	r.regroup("grp", count(3))
	r.Until(func() bool { return r.job(schema.CompleteGroup, "grp").Attempts > 2 })
	j := r.job(schema.CompleteGroup, "grp")
	if j.State != schema.JobRunning || j.Failed != 1 || j.NextTry.IsZero() {
		t.Errorf("the job is %+v", j)
	}
	r.Register("n3")
	r.StartAgent("n3")
	r.AddPool("n3", cluster.Pool)
	r.ended(schema.CompleteGroup, "grp", schema.JobDone)
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
}

func TestWhatCanNeverBePlacedEndsTheJob(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Agent: withoutDRBD})
	r.lead()
	r.group("grp", count(1))
	r.spawn("grp", "vol", mib)
	r.regroup("grp", count(2))
	if j := r.ended(schema.CompleteGroup, "grp", schema.JobFailed); j.Failed != 1 {
		t.Errorf("the job is %+v", j)
	}
}

func TestADefinitionThatIsMovedGetsWhatItsNewGroupWants(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	r.group("one", count(1))
	r.group("Two", count(2))
	r.spawn("one", "vol", mib)
	move := func(group string) []errs.Notice {
		t.Helper()
		notices, err := r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{Group: &group})
		if err != nil {
			t.Fatal(err)
		}
		return notices
	}
	noted(t, move("two"), errs.GoesOn, "what resource definition vol lacks in resource group Two is being placed")
	r.ended(schema.CompleteDefinition, "vol", schema.JobDone)
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	if notices := move("one"); len(notices) > 0 {
		t.Errorf("moved to a group that wants less: %+v", notices)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
}

func TestAGroupThatIsDeletedTakesItsJobWithIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	r.spawn("grp", "vol", mib)
	r.regroup("grp", count(2))
	group := ""
	if _, err := r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{Group: &group}); err != nil {
		t.Fatal(err)
	}
	if err := r.Catalog.DeleteGroup(t.Context(), "grp"); err != nil {
		t.Fatal(err)
	}
	if j := r.job(schema.CompleteGroup, "grp"); j.State != schema.JobCancelled {
		t.Errorf("the job is %+v", j)
	}
}
