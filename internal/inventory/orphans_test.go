// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

const mib = int64(1) << 20

func TestOrphansAreListedAndRemovedOnlyByName(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 2, Settings: []store.Setting{store.Paranoid()}})
	if _, err := c.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"left", "over"} {
		c.Agents["n1"].PutVolume(cluster.Pool, name, 3, mib)
	}
	want := "[{n1 data left_00003} {n1 data over_00003}]"
	c.Until(func() bool { return fmt.Sprint(c.Inventory.Orphans()) == want })

	_, err := c.Inventory.RemoveOrphans(t.Context(), "n1", "data", []string{"left_00003", "vol_00000"})
	if !errs.Is(err, errs.NotFound) {
		t.Errorf("a volume that is known could be named: %v", err)
	}
	if got := fmt.Sprint(c.Inventory.Orphans()); got != want {
		t.Errorf("after a refusal: %s", got)
	}
	removed, err := c.Inventory.RemoveOrphans(t.Context(), "N1", "DATA", []string{"left_00003"})
	if err != nil || fmt.Sprint(removed) != "[left_00003]" {
		t.Errorf("removed %v, %v", removed, err)
	}
	c.Until(func() bool { return fmt.Sprint(c.Inventory.Orphans()) == "[{n1 data over_00003}]" })
	c.Agents["n1"].Use("over", "dd")
	_, err = c.Inventory.RemoveOrphans(t.Context(), "n1", "data", []string{"over_00003"})
	if !errs.Is(err, errs.HostFailed) {
		t.Errorf("a volume in use: %v", err)
	}
	c.StopAgent("n1")
	if got := c.Inventory.Orphans(); len(got) > 0 {
		t.Errorf("orphans of a node that is away: %v", got)
	}
	if n := len(c.Agents["n2"].Volumes()); n != 1 {
		t.Errorf("node n2 has %d volumes", n)
	}
}

func TestAVolumeOfAnotherNodeInTheSameSpaceIsNoOrphan(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 2})
	for _, n := range []string{"n1", "n2"} {
		if _, err := c.Inventory.CreatePool(t.Context(), n, inventory.NewPool{
			Name: "shared", Provider: "LVM", SharedSpace: "san", Props: map[string]string{"StorDriver/StorPoolName": "vg"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{PlaceCount: new(int32(1)), Nodes: []string{"n1"}, Pools: []string{"shared"}},
	}); err != nil {
		t.Fatal(err)
	}
	c.Agents["n2"].PutVolume("shared", "vol", 0, mib) // as it sees the volume of n1
	c.Agents["n2"].PutVolume("shared", "vol", 1, mib)
	c.Until(func() bool { return fmt.Sprint(c.Inventory.Orphans()) == "[{n2 shared vol_00001}]" })
	for _, p := range schema.Check(c.Store.Snapshot()) {
		t.Error(p)
	}
}
