// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func TestSpawnMakesDevicesOnAsManyHostsAsTheGroupSays(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.group("grp", count(2))
	made := r.spawn("grp", "Vol", 10*mib)
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	same(t, "hosts", r.hosts("vol"), "n1/0 10 MiB, n2/0 10 MiB")
	same(t, "placed", fmt.Sprint(made.Placed), "[{n1 data diskful} {n2 data diskful}]")
	if made.Definition.Name != "Vol" || made.Definition.Group != "grp" || len(made.Volumes) != 1 {
		t.Errorf("made %+v", made)
	}
}

func TestASpawnThatOneHostCannotDoLeavesNothing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.group("grp", count(2))
	r.Agents["n2"].FailApplies("vol", 1, nil)
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib, 2 * mib}})
	refused(t, err, errs.HostFailed, "resource vol could not be created on node n2", "simulated failure")
	same(t, "replicas", r.replicas("vol"), "")
	same(t, "hosts", r.hosts("vol"), "")
	if _, ok := schema.Definitions.Get(r.Store.Snapshot(), "vol"); ok {
		t.Error("the definition is still there")
	}
	if n := r.promised("n1") + r.promised("n2"); n != 0 {
		t.Errorf("%d bytes are still promised", n)
	}
}

func TestASpawnThatCannotBeTakenBackYetSaysSo(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	r.Agents["n1"].FailApplies("vol", -1, nil)
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}})
	refused(t, err, errs.HostFailed, "what was begun on node n1 is taken back when that node can do it")
	same(t, "replicas", r.replicas("vol"), "n1 diskful deleting")
	r.Agents["n1"].FailApplies("vol", 0, nil)
	r.Until(func() bool { return r.replicas("vol") == "" })
}

func TestASpawnWithoutRoomLeavesNothing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, PoolSize: gib, Provider: model.File})
	r.group("grp", count(2))
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{2 * gib}})
	refused(t, err, errs.NotEnough, "2 pools: not enough space (largest has 1 GiB free to promise, 2 GiB needed; of 1 GiB, 1 GiB are free, 0 B promised, 0 B allocated)")
	if _, ok := schema.Definitions.Get(r.Store.Snapshot(), "vol"); ok {
		t.Error("the definition is there")
	}
}

func TestAHostWithoutRoomIsReportedAsThat(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	r.Agents["n1"].FailApplies("vol", 1, &pool.NoSpaceError{Pool: "data", Asked: 2, Free: 1, Total: 3})
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}})
	refused(t, err, errs.NoSpace, "node n1")
}

func TestSpawnOfDefinitionsOnly(t *testing.T) {
	r := start(t, cluster.Options{})
	r.group("placed", count(2))
	r.group("free", model.Filter{Layers: []string{"storage"}})
	for name, n := range map[string]struct {
		group string
		only  bool
	}{"asked": {"placed", true}, "uncounted": {"free", false}} {
		made, err := r.Resources.Spawn(t.Context(), n.group, resources.NewSpawn{Name: name, Sizes: []int64{mib}, DefinitionsOnly: n.only})
		if err != nil {
			t.Fatal(err)
		}
		noted(t, made.Notices, errs.NothingSpawned, "no resource was spawned")
		same(t, "replicas of "+name, r.replicas(name), "")
		if len(made.Volumes) != 1 || made.Volumes[0].Size != mib {
			t.Errorf("%s: volumes %+v", name, made.Volumes)
		}
	}
	if d, _ := schema.Definitions.Get(r.Store.Snapshot(), "uncounted"); len(d.Layers) != 1 || d.Layers[0] != model.Storage {
		t.Errorf("the layers of the group were not taken: %v", d.Layers)
	}
}

func TestSizesOfASpawnGoToTheVolumeGroups(t *testing.T) {
	r := start(t, cluster.Options{})
	r.group("grp", model.Filter{})
	for _, nr := range []int32{3, 7} {
		if _, err := r.Catalog.CreateVolumeGroup(t.Context(), "grp", catalog.NewVolumeGroup{
			Number: &nr, Props: map[string]string{"Aux/nr": fmt.Sprint(nr)}, Flags: []string{"gross_size"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "few", Sizes: []int64{mib}})
	refused(t, err, errs.Invalid, "resource group grp cannot be spawned with 1 volume size", "it has 2 volume groups")
	if errs.As(err).Attr != errs.VolumeSizes {
		t.Errorf("the error is about attribute %d", errs.As(err).Attr)
	}
	for _, c := range []struct {
		sizes []int64
		want  string
	}{
		{[]int64{mib, 2 * mib}, "3 1 MiB 3 [GROSS_SIZE], 7 2 MiB 7 [GROSS_SIZE], "},
		{[]int64{mib}, "3 1 MiB 3 [GROSS_SIZE], "},
		{[]int64{mib, 2 * mib, 3 * mib}, "0 3 MiB  [], 3 1 MiB 3 [GROSS_SIZE], 7 2 MiB 7 [GROSS_SIZE], "},
		{nil, ""},
	} {
		name := fmt.Sprintf("sizes-%d", len(c.sizes))
		if _, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: name, Sizes: c.sizes, Partial: true}); err != nil {
			t.Fatal(err)
		}
		var got string
		for v := range schema.VolumesOf(r.Store.Snapshot(), model.DefinitionKey(name)) {
			prop, _ := v.Props.Get("Aux/nr")
			got += fmt.Sprintf("%d %s %s %v, ", v.Number, model.FormatSize(v.Size), prop, v.Flags)
		}
		same(t, name, got, c.want)
	}
}

func TestASpawnOfAGroupWithoutVolumeGroupsIsPartialAndSaysSo(t *testing.T) {
	r := start(t, cluster.Options{})
	r.group("grp", model.Filter{})
	made := r.spawn("grp", "vol", mib)
	noted(t, made.Notices, errs.PartialAssumed, "resource group grp has no volume groups")
}

func TestASpawnIsRefusedForWhatItNames(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("Group", count(1))
	r.spawn("group", "Vol-A", mib)
	for what, c := range map[string]struct {
		group string
		spawn resources.NewSpawn
		kind  errs.Kind
		text  string
	}{
		"a taken name":        {"group", resources.NewSpawn{Name: "VOL-a"}, errs.Exists, "resource definition Vol-A exists already"},
		"no such group":       {"Nope", resources.NewSpawn{Name: "x1"}, errs.NotFound, "resource group Nope does not exist"},
		"a bad name":          {"group", resources.NewSpawn{Name: "1"}, errs.Invalid, "1"},
		"a size of nothing":   {"group", resources.NewSpawn{Name: "x1", Sizes: []int64{0}}, errs.Invalid, "the volume size of 0 KiB is not possible"},
		"a negative count":    {"group", resources.NewSpawn{Name: "x1", Filter: count(-1)}, errs.Invalid, "the place count -1 is not possible"},
		"more than nodes":     {"group", resources.NewSpawn{Name: "x1", Filter: count(2)}, errs.NotEnough, "only 1 can be placed"},
		"a bad expression":    {"group", resources.NewSpawn{Name: "x1", Filter: model.Filter{NotPlaceWithRegex: new("(")}}, errs.Invalid, "not valid"},
		"nodes that are not":  {"group", resources.NewSpawn{Name: "x1", Filter: model.Filter{Nodes: []string{"n7"}}}, errs.NotEnough, `no node is named "n7"`},
		"pools that are not":  {"group", resources.NewSpawn{Name: "x1", Filter: model.Filter{Pools: []string{"rust"}}}, errs.NotEnough, `no pool is named "rust"`},
		"an unknown property": {"group", resources.NewSpawn{Name: "x1", Props: map[string]string{"Nope": "1"}}, errs.Invalid, "Nope"},
		"too many volumes":    {"group", resources.NewSpawn{Name: "x1", Partial: true, Sizes: manySizes(65)}, errs.Exhausted, "takes no more volumes"},
		"contradicting rules": {"group", resources.NewSpawn{Name: "x1", Filter: model.Filter{
			ReplicasOnSame: []string{"Aux/zone"}, ReplicasOnDifferent: []string{"Aux/zone"}, PlaceCount: new(int32(2)),
		}}, errs.NotEnough, "Aux/zone"},
	} {
		t.Run(what, func(t *testing.T) {
			before := r.Store.Snapshot().Revision()
			_, err := r.Resources.Spawn(t.Context(), c.group, c.spawn)
			refused(t, err, c.kind, c.text)
			if after := r.Store.Snapshot().Revision(); after != before {
				t.Errorf("something was written: revision %d after %d", after, before)
			}
		})
	}
}

func manySizes(n int) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = mib
	}
	return sizes
}

func TestTheLargestSpawnFitsIntoOneTransaction(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 8})
	r.group("grp", count(8))
	made, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: manySizes(catalog.MaxVolumes)})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Placed) != 8 || len(made.Volumes) != catalog.MaxVolumes {
		t.Errorf("%d replicas of %d volumes", len(made.Placed), len(made.Volumes))
	}
}

func TestASpawnByExternalNameFindsAFreeName(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	for i, want := range []model.DefinitionName{"pvc_1", "pvc_1_1"} {
		made, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{ExternalName: "pvc" + string("/ "[i]) + "1", Sizes: []int64{mib}})
		if err != nil {
			t.Fatal(err)
		}
		if made.Definition.Name != want {
			t.Errorf("named %s, want %s", made.Definition.Name, want)
		}
	}
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{ExternalName: "pvc/1", Sizes: []int64{mib}})
	refused(t, err, errs.Exists, "external name pvc/1", "resource definition pvc_1 has it")
}

// TestASpawnFollowsAGroupThatChangedMeanwhile plans on a view in which the group asks for one
// replica, and commits on a state in which it asks for two.
func TestASpawnFollowsAGroupThatChangedMeanwhile(t *testing.T) {
	m := kvtest.NewMemory()
	r := start(t, cluster.Options{Engine: m, Nodes: 2})
	r.group("grp", count(1))
	gate := m.Hold(kvtest.BeforeAppend)
	changed := make(chan error, 1)
	go func() {
		f := count(2)
		_, err := r.Catalog.ModifyGroup(t.Context(), "grp", catalog.GroupChange{Filter: &f})
		changed <- err
	}()
	<-gate.Reached
	spawned := make(chan error, 1)
	queued := r.Store.Stats().Queued
	go func() {
		_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}})
		spawned <- err
	}()
	r.Until(func() bool { return r.Store.Stats().Queued > queued })
	gate.Open(nil)
	if err := errors.Join(<-changed, <-spawned); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
}

func TestASpawnGoesOnWhenItsCallerGoesAway(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	hold := r.Agents["n1"].HoldApplies("vol")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.Resources.Spawn(ctx, "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}})
		ended <- err
	}()
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	hold.Release()
	if err := <-ended; err != nil {
		t.Errorf("the spawn ended with %v", err)
	}
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB")
}

func TestSeveralReplicasNeedALayerThatReplicates(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Agent: withoutDRBD})
	r.group("grp", count(2))
	_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}})
	refused(t, err, errs.Invalid, "2 replicas of vol are not possible", "no layer of the stack STORAGE replicates")
	if errs.As(err).Attr != errs.LayerStack {
		t.Errorf("the error is about attribute %d", errs.As(err).Attr)
	}
}

func TestParallelSpawnsSpread(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.group("grp", count(2))
	const spawns = 64
	failed := make(chan error, spawns)
	for i := range spawns {
		go func() {
			_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: fmt.Sprintf("vol-%d", i), Sizes: []int64{gib}})
			failed <- err
		}()
	}
	for range spawns {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for n := range schema.Nodes.All(r.Store.Snapshot()) {
		if got := r.promised(n.Name.Key()) / gib; got < 31 || got > 33 {
			t.Errorf("node %s has %d volumes, want a quarter of %d", n.Name, got, 2*spawns)
		}
	}
}
