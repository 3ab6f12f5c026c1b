// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// unequal is a cluster of four nodes with pools of 10, 20, 30 and 40 GiB, and one without.
func unequal(t *testing.T) *rig {
	t.Helper()
	r := start(t, cluster.Options{Nodes: 4, Provider: model.File, Agent: func(a *fakeagent.Agent) {
		a.Resize(cluster.Pool, map[string]int64{"n1": 10, "n2": 20, "n3": 30, "n4": 40}[a.Node]*gib)
	}})
	r.Register("Bare")
	r.StartAgent("Bare")
	return r
}

// verdicts is an explanation in one text.
func verdicts(x resources.Explanation) string {
	var b strings.Builder
	for _, v := range x.Pools {
		what := "no: " + v.Reason
		switch {
		case v.Picked:
			what = fmt.Sprintf("picked with %.2f", v.Score)
		case v.Accepted:
			what = fmt.Sprintf("yes with %.2f", v.Score)
		}
		fmt.Fprintf(&b, "%s/%s %s\n", v.Node, v.Pool, what)
	}
	return b.String()
}

func TestExplainTellsOfEveryPoolWhetherItCouldTakeAReplica(t *testing.T) {
	r := unequal(t)
	r.AddPool("n4", "other")
	r.StopAgent("n2")
	r.group("Grp", count(2))
	x, err := r.Resources.Explain("grp", []int64{15 * gib}, model.Filter{Pools: []string{"data"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "verdicts", verdicts(x), `Bare/ no: node has no pool of that kind
n1/data no: not enough space (10 GiB free to promise, 15 GiB needed; of 10 GiB, 10 GiB are free, 0 B promised, 0 B allocated)
n2/data no: node is offline
n3/data picked with 0.75
n4/data picked with 1.00
n4/other no: pool is not in the pool list
`)
	if x.Problem != nil || x.Group != "Grp" || x.Replicas != 2 || fmt.Sprint(x.Picks) != "[{n4 data diskful} {n3 data diskful}]" {
		t.Errorf("explanation: %+v", x)
	}
	x, err = r.Resources.Explain("grp", []int64{35 * gib}, model.Filter{Pools: []string{"data"}})
	if err != nil || len(x.Picks) > 0 {
		t.Fatal(x.Picks, err)
	}
	refused(t, x.Problem, errs.NotEnough, "2 replicas wanted in addition to 0, and only 1 can be placed")
	if !strings.Contains(verdicts(x), "n3/data no: not enough space") || !strings.Contains(verdicts(x), "n4/data yes with 1.00") {
		t.Errorf("verdicts: %s", verdicts(x))
	}
	before := r.Store.Snapshot().Revision()
	r.evacuate("n3", resources.Evacuation{})
	x, err = r.Resources.Explain("grp", []int64{gib}, model.Filter{})
	if err != nil || !strings.Contains(verdicts(x), "n3/data no: node is being evacuated") {
		t.Errorf("%s %v", verdicts(x), err)
	}
	if after := r.Store.Snapshot().Revision(); after != before+1 {
		t.Errorf("an explanation changed something: revision %d after %d", after, before)
	}
}

func TestExplainRefusesWhatMakesNoSense(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	for what, c := range map[string]struct {
		group  string
		sizes  []int64
		filter model.Filter
		kind   errs.Kind
	}{
		"a group that is not": {"nope", []int64{mib}, model.Filter{}, errs.NotFound},
		"a size of nothing":   {"grp", []int64{0}, model.Filter{}, errs.Invalid},
		"a size beyond all":   {"grp", []int64{1 << 62}, model.Filter{}, errs.Invalid},
		"no replicas":         {"grp", []int64{mib}, count(0), errs.Invalid},
		"a negative count":    {"grp", []int64{mib}, count(-3), errs.Invalid},
		"a bad expression":    {"grp", []int64{mib}, model.Filter{NotPlaceWithRegex: new("(")}, errs.Invalid},
		"an unknown layer":    {"grp", []int64{mib}, model.Filter{Layers: []string{"FLOPPY"}}, errs.Invalid},
		"an unknown provider": {"grp", []int64{mib}, model.Filter{Providers: []string{"TAPE"}}, errs.Invalid},
		"a bad rule":          {"grp", []int64{mib}, model.Filter{ReplicasOnSame: []string{"=x"}}, errs.Invalid},
		"too many on one":     {"grp", []int64{mib}, model.Filter{XReplicasOnDifferent: map[string]int32{"Aux/z": 0}}, errs.Invalid},
		"a stack upside down": {"grp", []int64{mib}, model.Filter{Layers: []string{"STORAGE", "DRBD"}}, errs.Invalid},
		"a diskless stranger": {"grp", []int64{mib}, model.Filter{DisklessType: new("NVME")}, errs.Unsupported},
	} {
		_, err := r.Resources.Explain(c.group, c.sizes, c.filter)
		t.Log(what)
		refused(t, err, c.kind)
	}
}

func TestSizesOfAllGroupsAreToldOnOneState(t *testing.T) {
	r := unequal(t)
	r.group("one", count(1))
	r.group("three", count(3))
	r.group("seven", count(7))
	var got string
	for _, g := range r.Resources.QueryAllSizes(model.Filter{}) {
		got += fmt.Sprintf("%s %s %t; ", g.Group, model.FormatSize(g.Info.MaxVolume), g.Err == nil)
	}
	same(t, "sizes", got, "DfltRscGrp 30 GiB true; one 40 GiB true; seven 0 B false; three 20 GiB true; ")
}

func TestTheLargestVolumeInPoolsOfEachName(t *testing.T) {
	r := unequal(t)
	for _, n := range []string{"n1", "n2"} {
		if _, err := r.Inventory.CreatePool(t.Context(), n, inventory.NewPool{
			Name: "Thin", Provider: "FILE_THIN", Props: map[string]string{"StorDriver/StorPoolName": "/srv/thin"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.AddPool("n3", "alone")
	for _, a := range r.Agents {
		a.Resize("thin", gib)
	}
	r.Until(func() bool {
		p, _ := r.Observed.Pool(model.PoolID{Node: "n2", Pool: "thin"})
		q, _ := r.Observed.Pool(model.PoolID{Node: "n1", Pool: "thin"})
		return p.Total != nil && *p.Total == gib && q.Total != nil && *q.Total == gib
	})
	sizes, err := r.Resources.MaxVolumeSizes("DfltRscGrp", model.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "sizes", fmt.Sprint(sizes), fmt.Sprintf("[{data %d [n4 n3] false} {Thin %d [n1 n2] true}]", 30*gib, 20*gib))
	sizes, err = r.Resources.MaxVolumeSizesFor(model.Filter{PlaceCount: new(int32(1)), Pools: []string{"THIN"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "sizes", fmt.Sprint(sizes), fmt.Sprintf("[{Thin %d [n1] true}]", 20*gib))
	_, err = r.Resources.MaxVolumeSizesFor(model.Filter{})
	refused(t, err, errs.Invalid, "there is nothing to place")
}

func TestPendingDeletesTellWhatHoldsThemUp(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("Vol", mib)
	r.create("vol", on("n1", "n2", "n3")...)
	r.StopAgent("n1")
	r.remove("vol", "n1")
	r.Agents["n2"].FailApplies("vol", -1, fmt.Errorf("the lock is held"))
	if _, err := r.Resources.Delete(t.Context(), "vol", "n2"); err == nil {
		t.Error("a deletion that failed was answered well")
	}
	list := r.Resources.PendingDeletes()
	if len(list) != 2 || list[0].Definition != "Vol" || list[0].Node != "n1" || list[0].Connected || list[1].Node != "n2" || !list[1].Connected {
		t.Fatalf("pending: %+v", list)
	}
	if f := list[1].Failure; f == nil || !strings.Contains(f.Message, "the lock is held") || f.NextTry.IsZero() {
		t.Errorf("failure: %+v", f)
	}
	r.Agents["n2"].FailApplies("vol", 0, nil)
	r.StartAgent("n1")
	r.Until(func() bool { return len(r.Resources.PendingDeletes()) == 0 })
}
