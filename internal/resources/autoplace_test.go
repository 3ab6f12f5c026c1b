// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// autoplace places what is missing to n replicas.
func (r *rig) autoplace(name string, f model.Filter) (resources.Placed, error) {
	return r.Resources.Autoplace(r.t.Context(), name, resources.PlaceRequest{Filter: f})
}

func TestAutoplaceAddsWhatIsMissingAndSaysSoWhenNothingIs(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	for _, c := range []struct {
		count   int32
		placed  int
		want    string
		already string
	}{
		{1, 1, "n1 diskful", ""},
		{1, 0, "n1 diskful", "resource vol has 1 replica already; 1 asked for"},
		{2, 1, "n1 diskful, n2 diskful", ""},
		{2, 0, "n1 diskful, n2 diskful", "resource vol has 2 replicas already; 2 asked for"},
		{1, 0, "n1 diskful, n2 diskful", "resource vol has 2 replicas already; 1 asked for"},
	} {
		made, err := r.autoplace("vol", count(c.count))
		if err != nil {
			t.Fatal(err)
		}
		if len(made.Placed) != c.placed {
			t.Errorf("%d placed, want %d", len(made.Placed), c.placed)
		}
		if c.already != "" {
			noted(t, made.Notices, errs.AlreadyDeployed, c.already)
		} else if len(made.Notices) > 0 {
			t.Errorf("notices: %+v", made.Notices)
		}
		same(t, fmt.Sprintf("place count %d", c.count), r.replicas("vol"), c.want)
	}
}

func TestAutoplaceTakesTheCountOfTheGroupWhenNoneIsGiven(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib) // of the default group, whose place count is 2
	if _, err := r.autoplace("vol", model.Filter{}); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	if _, err := r.autoplace("vol", model.Filter{AdditionalPlaceCount: new(int32(1))}); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
}

func TestAutoplaceIsAllOrNothing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	_, err := r.autoplace("vol", count(3))
	refused(t, err, errs.NotEnough, "2 replicas wanted in addition to 1, and only 1 can be placed")
	same(t, "replicas", r.replicas("vol"), "n1 diskful")
}

func TestAutoplaceThatAHostCannotDoTakesBackOnlyWhatItAdded(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.Agents["n3"].FailApplies("vol", 1, nil)
	_, err := r.autoplace("vol", count(3))
	refused(t, err, errs.HostFailed, "resource vol could not be created on node n3")
	same(t, "replicas", r.replicas("vol"), "n1 diskful")
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB")
}

func TestOnlyReplicasWithDataCount(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client}, resources.NewResource{Node: "n3", Kind: schema.TieBreaker})
	if _, err := r.autoplace("vol", count(2)); err != nil {
		t.Fatal(err)
	}
	if got := r.replicas("vol"); got != "n1 diskful, n2 client, n3 diskful" && got != "n1 diskful, n2 client, n3 tie-breaker, n4 diskful" {
		t.Errorf("replicas: %s", got)
	}
}

func TestAReplicaThatIsBeingDeletedDoesNotCount(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.StopAgent("n2")
	if _, err := r.Resources.Delete(t.Context(), "vol", "n2"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.autoplace("vol", count(2)); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful deleting, n3 diskful")
}

func TestAnOfflineNodeIsNoCandidate(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.StopAgent("n1")
	r.definition("vol", mib)
	if _, err := r.autoplace("vol", count(2)); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n2 diskful, n3 diskful")
	_, err := r.autoplace("vol", count(3))
	refused(t, err, errs.NotEnough, "1 node: node is offline")
}

func TestClientsOnAllRemainingNodes(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.definition("vol", mib)
	f := count(2)
	f.DisklessOnRemaining = new(true)
	for range 2 { // the second changes nothing
		if _, err := r.autoplace("vol", f); err != nil {
			t.Fatal(err)
		}
		same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 client, n4 client")
	}
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB, n2/0 1 MiB")
}

func TestPlacementOfReplicasWithoutADisk(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	f := count(2)
	f.DisklessType = new("DRBD_DISKLESS")
	made, err := r.autoplace("vol", f)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 client, n3 client")
	if len(made.Placed) != 2 || made.Placed[0].Kind != schema.Client {
		t.Errorf("placed %+v", made.Placed)
	}
}

func TestAClientThatGetsADiskIsNotTakenBack(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client})
	r.Agents["n2"].FailApplies("vol", -1, nil)
	_, err := r.autoplace("vol", count(2))
	refused(t, err, errs.HostFailed, "node n2")
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	r.Agents["n2"].FailApplies("vol", 0, nil)
	r.Until(func() bool { return r.hosts("vol") == "n1/0 1 MiB, n2/0 1 MiB" })
}

func TestRulesAboutNodesHoldAgainstChangesMeanwhile(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	for n, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "b"} {
		r.nodeProps(n, map[string]string{"Aux/zone": zone})
	}
	r.definition("vol", mib)
	f := count(2)
	f.ReplicasOnDifferent = []string{"Aux/zone"}
	if _, err := r.autoplace("vol", f); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n3 diskful")
	_, err := r.autoplace("vol", model.Filter{PlaceCount: new(int32(3)), ReplicasOnDifferent: []string{"Aux/zone"}})
	refused(t, err, errs.NotEnough, "Aux/zone")
}

func TestAutoplaceOfADefinitionThatGoesIsRefused(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.StopAgent("n1")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
	_, err := r.autoplace("vol", count(1))
	refused(t, err, errs.Closing, "resource definition vol takes no new replicas", "being deleted")
	_, err = r.autoplace("nope", count(1))
	refused(t, err, errs.NotFound, "resource definition nope does not exist")
}

func TestAutoplaceWithoutACountIsRefused(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.group("free", model.Filter{})
	if _, err := r.Resources.Spawn(t.Context(), "free", resources.NewSpawn{Name: "vol", Sizes: []int64{mib}}); err != nil {
		t.Fatal(err)
	}
	_, err := r.autoplace("vol", model.Filter{})
	refused(t, err, errs.Invalid, "neither the request nor the group has a place count")
	_, err = r.autoplace("vol", count(0))
	refused(t, err, errs.Invalid, "there is nothing to place", "the place count is 0", "1 or more")
}
