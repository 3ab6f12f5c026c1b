// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func insertSnapshot(tx *store.Tx) error {
	return schema.Snapshots.Insert(tx, schema.Snapshot{Definition: "vol", Name: "Snap"})
}

// volume adds a volume to a definition.
func (r *rig) volume(name string, size int64) (schema.VolumeDefinition, []errs.Notice, error) {
	return r.Resources.CreateVolumeDefinition(r.t.Context(), name, catalog.NewVolume{Size: size})
}

// grow grows a volume.
func (r *rig) grow(name string, nr int32, size int64) ([]errs.Notice, error) {
	return r.Resources.ModifyVolumeDefinition(r.t.Context(), name, nr, resources.VolumeChange{Size: &size})
}

func TestANewVolumeIsMadeOnEveryReplica(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol")
	r.create("vol", on("n1", "n2")...)
	vd, notices, err := r.volume("vol", 2*mib)
	if err != nil || len(notices) > 0 {
		t.Fatal(err, notices)
	}
	if vd.Minor == nil || *vd.Minor != 1000 {
		t.Errorf("the minor that the volume got is not told: %v", vd.Minor)
	}
	same(t, "hosts", r.hosts("vol"), "n1/0 2 MiB, n2/0 2 MiB")
}

func TestANewVolumeThatAHostCannotMakeIsTakenBack(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.Agents["n2"].FailApplies("vol", -1, nil)
	_, _, err := r.volume("vol", 2*mib)
	refused(t, err, errs.HostFailed, "resource vol could not be given the volume on node n2")
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB, n2/0 1 MiB")
	r.Agents["n2"].FailApplies("vol", 0, nil)
	r.Until(func() bool {
		_, ok := schema.VolumeDefinitions.Get(r.Store.Snapshot(), model.VolumeDefinitionID{Definition: "vol", Number: 1})
		return !ok
	})
	if n := r.promised("n1") + r.promised("n2"); n != 2*mib {
		t.Errorf("%d bytes are promised", n)
	}
}

func TestANewVolumeWithoutRoomIsRefused(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, PoolSize: gib, Provider: model.File})
	r.definition("vol", 512*mib)
	r.create("vol", on("n1")...)
	_, _, err := r.volume("vol", 600*mib)
	refused(t, err, errs.NoSpace, "storage pool data on node n1 cannot take this")
	_, err = r.grow("vol", 0, 2*gib)
	refused(t, err, errs.NoSpace, "storage pool data on node n1 cannot take this")
	if _, err := r.grow("vol", 0, gib); err != nil { // to the last byte
		t.Error(err)
	}
}

func TestANodeThatIsAwayGetsTheVolumeLater(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.StopAgent("n2")
	_, notices, err := r.volume("vol", 2*mib)
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.NodeNotConnected, "node n2 is not connected: resource vol is given the volume there when it is back")
	notices, err = r.grow("vol", 0, 4*mib)
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.NodeNotConnected, "node n2 is not connected: resource vol is grown there when it is back")
	r.StartAgent("n2")
	r.Until(func() bool { return r.hosts("vol") == "n1/0 4 MiB, n1/1 2 MiB, n2/0 4 MiB, n2/1 2 MiB" })
}

func TestNothingIsChangedWhenNoNodeIsThereToDoIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.StopAgent("n1")
	_, err := r.grow("vol", 0, 2*mib)
	refused(t, err, errs.NotConnected, "volume 0 of vol was not grown", "no node with its data is connected: n1")
	if vd, _ := schema.VolumeDefinitions.Get(r.Store.Snapshot(), model.VolumeDefinitionID{Definition: "vol"}); vd.Size != mib {
		t.Errorf("the size is %d", vd.Size)
	}
	_, _, err = r.volume("vol", mib)
	refused(t, err, errs.NotConnected, "resource vol could not be given the volume on node n1")
	r.StartAgent("n1")
	r.Until(func() bool {
		_, there := schema.VolumeDefinitions.Get(r.Store.Snapshot(), model.VolumeDefinitionID{Definition: "vol", Number: 1})
		return !there
	})
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB")
}

func TestGrowing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	if _, err := r.grow("vol", 0, 3*mib+1); err != nil {
		t.Fatal(err)
	}
	same(t, "hosts", r.hosts("vol"), "n1/0 3.00 MiB, n2/0 3.00 MiB")
	if got := r.promised("n1"); got != 3*mib+4096 {
		t.Errorf("%d bytes are promised", got)
	}
	notices, err := r.grow("vol", 0, 3*mib+1)
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.SameSize, "has that size already")
	_, err = r.grow("vol", 0, mib)
	refused(t, err, errs.Invalid, "volume 0 of vol cannot be made smaller")
	_, err = r.grow("vol", 7, mib)
	refused(t, err, errs.NotFound, "resource definition vol has no volume 7")
	r.Agents["n1"].FailApplies("vol", -1, nil)
	_, err = r.grow("vol", 0, 4*mib)
	refused(t, err, errs.HostFailed, "resource vol could not be grown on node n1", "the node tries again by itself")
	r.Agents["n1"].FailApplies("vol", 0, nil)
	r.Until(func() bool { return r.hosts("vol") == "n1/0 4 MiB, n2/0 4 MiB" })
}

func TestDeletingAVolumeTakesItFromEveryReplica(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib, 2*mib)
	r.create("vol", on("n1", "n2")...)
	r.StopAgent("n2")
	notices, err := r.Resources.DeleteVolumeDefinition(t.Context(), "vol", 1)
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.NodeNotConnected, "node n2 is not connected: the volume of vol is deleted there when it is back")
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB, n2/0 1 MiB, n2/1 2 MiB")
	_, err = r.grow("vol", 1, 4*mib)
	refused(t, err, errs.Closing, "volume 1 of vol cannot be grown")
	r.create("vol", on("n3")...) // without the volume that goes
	r.StartAgent("n2")
	r.Until(func() bool { return r.hosts("vol") == "n1/0 1 MiB, n2/0 1 MiB, n3/0 1 MiB" })
	r.Until(func() bool {
		_, there := schema.VolumeDefinitions.Get(r.Store.Snapshot(), model.VolumeDefinitionID{Definition: "vol", Number: 1})
		return !there
	})
}

func TestAVolumeThatNoReplicaHasGoesAtOnce(t *testing.T) {
	r := start(t, cluster.Options{})
	r.definition("vol", mib)
	if _, err := r.Resources.DeleteVolumeDefinition(t.Context(), "vol", 0); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resources.DeleteVolumeDefinition(t.Context(), "vol", 0)
	refused(t, err, errs.NotFound, "resource definition vol has no volume 0")
}

func TestPropertiesOfReplicasAndVolumes(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	change := model.PropsChange{Set: map[string]string{"Aux/a": "1"}, Delete: []string{"Aux/b"}}
	notices, err := r.Resources.ModifyResource(t.Context(), "vol", "n1", change)
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.PropertySet, "Aux/a")
	noted(t, notices, errs.PropertyWasUnset, "Aux/b")
	if _, err := r.Resources.ModifyVolume(t.Context(), "vol", "n1", 0, change); err != nil {
		t.Fatal(err)
	}
	x := r.row("vol", "n1")
	if v, _ := x.Props.Get("Aux/a"); v != "1" {
		t.Errorf("the replica has %q", v)
	}
	if v, _ := x.Volumes[0].Props.Get("Aux/a"); v != "1" {
		t.Errorf("the volume has %q", v)
	}
	_, err = r.Resources.ModifyVolume(t.Context(), "vol", "n1", 3, change)
	refused(t, err, errs.NotFound, "has no volume 3")
	_, err = r.Resources.ModifyResource(t.Context(), "vol", "n1", model.PropsChange{Set: map[string]string{"Nope": "1"}})
	refused(t, err, errs.Invalid, "Nope")
}
