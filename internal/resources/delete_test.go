// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// remove deletes a replica.
func (r *rig) remove(name, node string) []errs.Notice {
	r.t.Helper()
	notices, err := r.Resources.Delete(r.t.Context(), name, node)
	if err != nil {
		r.t.Fatal(err)
	}
	return notices
}

func TestDeleteTakesTheDeviceAndTheSpace(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	if notices := r.remove("VOL", "N1"); len(notices) > 0 {
		t.Errorf("notices: %+v", notices)
	}
	same(t, "replicas", r.replicas("vol"), "n2 diskful")
	same(t, "hosts", r.hosts("vol"), "n2/0 1 MiB")
	if n := r.promised("n1"); n != 0 {
		t.Errorf("%d bytes are still promised", n)
	}
	_, err := r.Resources.Delete(t.Context(), "vol", "n1")
	refused(t, err, errs.NotFound, "resource vol does not exist on node n1")
}

func TestWhatIsInUseIsNotDeleted(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.Agents["n2"].Use("vol", "qemu", "mount /srv")
	for what, do := range map[string]func() ([]errs.Notice, error){
		"resource":          func() ([]errs.Notice, error) { return r.Resources.Delete(t.Context(), "vol", "n2") },
		"definition":        func() ([]errs.Notice, error) { return r.Resources.DeleteDefinition(t.Context(), "vol") },
		"volume definition": func() ([]errs.Notice, error) { return r.Resources.DeleteVolumeDefinition(t.Context(), "vol", 0) },
	} {
		_, err := do()
		t.Log(what)
		refused(t, err, errs.InUse, "it is in use on node n2", "qemu", "mount /srv")
		same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	}
	r.Agents["n2"].Leave("vol")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
	same(t, "hosts", r.hosts("vol"), "")
}

func TestTheLastReplicaWithDataStaysWhileOthersUseIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client})
	_, err := r.Resources.Delete(t.Context(), "vol", "n1")
	refused(t, err, errs.InUse, "resource vol on node n1 cannot be deleted", "the last replica with data")
	r.remove("vol", "n2")
	r.remove("vol", "n1")
	same(t, "replicas", r.replicas("vol"), "")
}

func TestADeletionIsFinishedWhenTheHostIsBack(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2", "n3")...)
	r.StopAgent("n3")
	notices, err := r.Resources.DeleteDefinition(t.Context(), "vol")
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.NodeNotConnected, "node n3 is not connected: resource vol is deleted there when it is back")
	same(t, "replicas", r.replicas("vol"), "n3 diskful deleting")
	same(t, "hosts", r.hosts("vol"), "n3/0 1 MiB")
	_, err = r.Catalog.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "vol"})
	refused(t, err, errs.Exists)
	r.StartAgent("n3")
	r.Until(func() bool { return r.hosts("vol") == "" && r.replicas("vol") == "" })
	r.definition("vol", mib)
}

func TestARepeatedDeleteMakesTheHostTryAtOnce(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.Agents["n1"].FailApplies("vol", -1, fmt.Errorf("the lock is held"))
	_, err := r.Resources.Delete(t.Context(), "vol", "n1")
	refused(t, err, errs.HostFailed, "resource vol could not be deleted on node n1", "the lock is held", "repeat the delete")
	st, _ := r.Observed.Resource(model.ResourceID{Definition: "vol", Node: "n1"})
	if st.Failure == nil || st.Failure.NextTry.IsZero() || st.Failure.Attempts == 0 {
		t.Errorf("what failed and when it is tried again is not known: %+v", st.Failure)
	}
	r.Agents["n1"].FailApplies("vol", 0, nil)
	r.remove("vol", "n1")
	same(t, "hosts", r.hosts("vol"), "")
}

func TestADeletionAtOneHostDoesNotNeedItsPeers(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.Agents["n2"].FailApplies("vol", -1, nil)
	r.remove("vol", "n1")
	same(t, "hosts", r.hosts("vol"), "n2/0 1 MiB")
	r.Agents["n2"].FailApplies("vol", 0, nil)
}

func TestWhatIsGoneFromTheHostCountsAsDeleted(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.Agents["n1"].LoseVolumes("vol")
	r.remove("vol", "n1")
	same(t, "replicas", r.replicas("vol"), "")
}

func TestCreateOverAPendingDeleteKeepsTheReplica(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.create("vol", resources.NewResource{Node: "n3", Kind: schema.Client})
	r.StopAgent("n2")
	r.StopAgent("n3")
	for _, n := range []string{"n2", "n3"} {
		noted(t, r.remove("vol", n), errs.NodeNotConnected, "node "+n+" is not connected")
	}
	before := r.row("vol", "n2")
	client := resources.NewResource{Node: "n3", Kind: schema.Client}
	made := r.create("vol", append(on("n2"), client)...)
	noted(t, made.Notices, errs.SuccessNote, "resource vol on node n2 was being deleted, and is kept")
	noted(t, made.Notices, errs.NodeNotConnected, "node n3 is not connected")
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 client")
	after := r.row("vol", "n2")
	if *before.NodeID != *after.NodeID || before.Ports[0] != after.Ports[0] || before.UUID != after.UUID {
		t.Errorf("the replica is another one: %+v, was %+v", after, before)
	}
	r.StartAgent("n2")
	r.StartAgent("n3")
	r.Until(func() bool {
		st, _ := r.Observed.Resource(model.ResourceID{Definition: "vol", Node: "n2"})
		return st.Current && st.Generation >= uint64(schema.Resources.Revision(r.Store.Snapshot(), after.ID()))
	})
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB, n2/0 1 MiB")
}

func TestAReplicaThatIsKeptGetsWhatItsDefinitionGotMeanwhile(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.StopAgent("n2")
	r.remove("vol", "n2")
	size := 4 * mib
	if _, err := r.Resources.ModifyVolumeDefinition(t.Context(), "vol", 0, resources.VolumeChange{Size: &size}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Resources.CreateVolumeDefinition(t.Context(), "vol", catalog.NewVolume{Size: 2 * mib}); err != nil {
		t.Fatal(err)
	}
	r.create("vol", on("n2")...)
	if got := r.promised("n2"); got != 6*mib {
		t.Errorf("%d bytes are promised, want 6 MiB", got)
	}
	r.StartAgent("n2")
	r.Until(func() bool { return r.hosts("vol") == "n1/0 4 MiB, n1/1 2 MiB, n2/0 4 MiB, n2/1 2 MiB" })
}

func TestAPendingDeleteIsNotTurnedIntoSomethingElse(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.AddPool("n2", "other")
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.StopAgent("n2")
	r.remove("vol", "n2")
	_, err := r.Resources.Create(t.Context(), "vol", []resources.NewResource{{Node: "n2", Kind: schema.Client}})
	refused(t, err, errs.Closing, "resource vol on node n2 is still being deleted", "it is one with a disk, and one without a disk was asked for")
	other := on("n2")
	other[0].Props["StorPoolName"] = "other"
	_, err = r.Resources.Create(t.Context(), "vol", other)
	refused(t, err, errs.Closing, "it lies in storage pool data, and other was asked for")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Resources.Create(t.Context(), "vol", on("n2"))
	refused(t, err, errs.Closing, "resource definition vol takes no new replicas")
	same(t, "replicas", r.replicas("vol"), "n2 diskful deleting")
}

func TestADefinitionWithSnapshotsIsNotDeleted(t *testing.T) {
	r := start(t, cluster.Options{})
	r.definition("vol", mib)
	if _, err := schema.Update(t.Context(), r.Store, insertSnapshot); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resources.DeleteDefinition(t.Context(), "vol")
	refused(t, err, errs.HasChildren, "resource definition vol cannot be deleted", "Snap")
}

// deaf is hosts that cannot tell who uses a device.
type deaf struct{}

func (deaf) Holders(_ context.Context, node model.NodeKey, name model.DefinitionName) ([]string, error) {
	return nil, errs.New(errs.HostFailed, errs.Resource, "node %s cannot tell who uses the resource %s", node, name).Because("it does not know it")
}

func TestAHostThatCannotTellKeepsWhatItHasSpokenOf(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	hard := *r.Resources
	hard.Hosts = deaf{}
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	_, err := hard.Delete(t.Context(), "vol", "n1")
	refused(t, err, errs.HostFailed, "resource vol was not touched", "whether it is in use on node n1 could not be learned")
	same(t, "replicas", r.replicas("vol"), "n1 diskful")

	r.definition("new", mib)
	hold := r.Agents["n1"].HoldApplies("new")
	made := make(chan error, 1)
	go func() {
		_, err := r.Resources.Create(t.Context(), "new", on("n1"))
		made <- err
	}()
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		_, err := hard.Delete(t.Context(), "new", "n1")
		gone <- err
	}()
	r.Until(func() bool { return r.replicas("new") == "n1 diskful deleting" })
	hold.Release()
	if err := <-gone; err != nil {
		t.Error(err)
	}
	if err := <-made; err != nil { // nil when the host has made it before it has heard of the deletion
		refused(t, err, errs.Closing, "it was deleted in the meantime")
	}
}

// TestADeletionThatFollowsACreationAtOnceIsNeverInItsWay deletes what its agent may not have
// heard of yet.
func TestADeletionThatFollowsACreationAtOnceIsNeverInItsWay(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("grp", count(1))
	for i := range 30 {
		name := fmt.Sprintf("vol-%d", i)
		spawned := make(chan error, 1)
		go func() {
			_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: name, Sizes: []int64{mib}})
			spawned <- err
		}()
		r.Until(func() bool {
			_, err := r.Resources.DeleteDefinition(t.Context(), name)
			if err != nil && !errs.Is(err, errs.NotFound) {
				t.Fatal(err)
			}
			return err == nil
		})
		if err := <-spawned; err != nil {
			refused(t, err, errs.Closing, "it was deleted in the meantime")
		}
		same(t, "hosts", r.hosts(name), "")
	}
	if n := r.promised("n1"); n != 0 {
		t.Errorf("%d bytes are still promised", n)
	}
}
