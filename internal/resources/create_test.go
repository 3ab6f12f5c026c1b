// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func TestCreateOnSeveralNodesIsAllOrNothing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.Agents["n2"].FailApplies("vol", 1, nil)
	_, err := r.Resources.Create(t.Context(), "vol", on("n1", "n2", "n3"))
	refused(t, err, errs.HostFailed, "resource vol could not be created on node n2")
	same(t, "replicas", r.replicas("vol"), "")
	same(t, "hosts", r.hosts("vol"), "")
	_, err = r.Resources.Create(t.Context(), "vol", on("n1", "n7"))
	refused(t, err, errs.NotFound, "node n7 does not exist")
	same(t, "replicas", r.replicas("vol"), "")
}

func TestCreateOfWhatIsThereIsANotice(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	made := r.create("vol", on("N1", "n2")...)
	noted(t, made.Notices, errs.ReplicaExists, "resource vol is on node n1 already")
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
}

func TestCreateOnANodeThatIsNotConnectedIsRefused(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.Register("Later")
	r.definition("vol", mib)
	_, err := r.Resources.Create(t.Context(), "vol", on("later"))
	refused(t, err, errs.NotConnected, "node Later is not connected", "has not connected since the controller started")
	r.StopAgent("n1")
	_, err = r.Resources.Create(t.Context(), "vol", on("n1"))
	refused(t, err, errs.NotConnected, "node n1 is not connected")
	same(t, "replicas", r.replicas("vol"), "")
}

func TestThePoolIsFoundAsTheClientsOfLINSTORExpect(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	for _, name := range []string{"of-resource", "of-volume", "of-definition", "of-group", "of-node", "DfltStorPool"} {
		r.AddPool("n1", name)
	}
	group := catalog.NewGroup{Name: "group"}
	if _, err := r.Catalog.CreateGroup(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Catalog.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "vol", Group: "group"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Resources.CreateVolumeDefinition(t.Context(), "vol", catalog.NewVolume{Size: mib}); err != nil {
		t.Fatal(err)
	}
	set := func(pool string) model.PropsChange {
		return model.PropsChange{Set: map[string]string{"StorPoolName": pool}}
	}
	try := func(want string, props map[string]string) {
		t.Helper()
		made := r.create("vol", resources.NewResource{Node: "n1", Kind: schema.Diskful, Props: props})
		if got := made.Placed[0].Pool; string(got) != want {
			t.Errorf("the replica went to pool %s, want %s", got, want)
		}
		if _, err := r.Resources.Delete(t.Context(), "vol", "n1"); err != nil {
			t.Fatal(err)
		}
	}
	must := func(_ []errs.Notice, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try("DfltStorPool", nil)
	must(r.Inventory.ModifyNode(t.Context(), "n1", inventory.NodeChange{Props: set("of-node")}))
	try("of-node", nil)
	must(r.Catalog.ModifyGroup(t.Context(), "group", catalog.GroupChange{Props: set("of-group")}))
	try("of-group", nil)
	must(r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{Props: set("of-definition")}))
	try("of-definition", nil)
	must(r.Resources.ModifyVolumeDefinition(t.Context(), "vol", 0, resources.VolumeChange{Props: set("of-volume")}))
	try("of-volume", nil)
	try("of-resource", map[string]string{"StorPoolName": "OF-RESOURCE"})
}

func TestCreateInAPoolThatCannotTakeItIsRefused(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, PoolSize: gib, Provider: model.File})
	r.definition("vol", 2*gib)
	_, err := r.Resources.Create(t.Context(), "vol", on("n1"))
	refused(t, err, errs.NoSpace, "storage pool data on node n1 cannot take this", "1 GiB free to promise, 2 GiB needed")
	_, err = r.Resources.Create(t.Context(), "vol", []resources.NewResource{{Node: "n1", Kind: schema.Diskful, Props: map[string]string{"StorPoolName": "nope"}}})
	refused(t, err, errs.NotFound, "storage pool nope does not exist on node n1", "name one of its pools: data")
	r.Agents["n1"].FailPool("data", "the disk is gone")
	r.Until(func() bool {
		p, _ := r.Observed.Pool(model.PoolID{Node: "n1", Pool: "data"})
		return len(p.Faults) > 0
	})
	_, err = r.Resources.Create(t.Context(), "vol", on("n1"))
	refused(t, err, errs.HostFailed, "the disk is gone")
}

func TestLayersAreCheckedAgainstTheNodeAndTheDefinition(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Agent: func(a *fakeagent.Agent) {
		if a.Node == "n2" {
			withoutDRBD(a)
		}
	}})
	r.definition("vol", mib)
	ask := func(node string, kind schema.ResourceKind, layers ...string) error {
		_, err := r.Resources.Create(t.Context(), "vol", []resources.NewResource{{
			Node: node, Kind: kind, Layers: layers, Props: map[string]string{"StorPoolName": "data"},
		}})
		return err
	}
	refused(t, ask("n2", schema.Diskful), errs.Unsupported, "node n2 cannot run the layer DRBD")
	refused(t, ask("n1", schema.Client, "storage"), errs.Invalid, "resource vol on node n1 needs a disk")
	refused(t, ask("n1", schema.Diskful, "storage", "drbd"), errs.Invalid, "layer stack")
	if err := ask("n1", schema.Diskful, "storage"); err != nil {
		t.Fatal(err)
	}
	refused(t, ask("n2", schema.Diskful, "storage"), errs.Invalid, "2 replicas of vol are not possible")
}

func TestAReplicaOfAReplicatingStackHasItsNumbers(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("one", mib, mib)
	r.definition("two", mib)
	r.create("one", on("n1", "n2", "n3")...)
	r.create("two", on("n3")...)
	for i, n := range []model.NodeKey{"n1", "n2", "n3"} {
		if x := r.row("one", n); *x.NodeID != int32(i) || len(x.Ports) != 1 || x.Ports[0] != 7000 {
			t.Errorf("one on %s has node id %d and ports %v", n, *x.NodeID, x.Ports)
		}
	}
	if x := r.row("two", "n3"); *x.NodeID != 0 || x.Ports[0] != 7001 {
		t.Errorf("two has node id %d and ports %v", *x.NodeID, x.Ports)
	}
	var minors []int32
	for v := range schema.VolumeDefinitions.All(r.Store.Snapshot()) {
		minors = append(minors, *v.Minor)
	}
	if len(minors) != 3 || minors[0] != 1000 || minors[1] != 1001 || minors[2] != 1002 {
		t.Errorf("minors %v", minors)
	}
}

func TestANumberThatAnotherHasIsRefused(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("one", mib)
	r.definition("two", mib)
	r.create("one", on("n1")...)
	taken := on("n1")
	taken[0].Ports = []int32{7000}
	_, err := r.Resources.Create(t.Context(), "two", taken)
	refused(t, err, errs.Invalid, "resource two on node n1 cannot have the TCP port 7000", "resource one on node n1 has it")
	taken = on("n2")
	taken[0].NodeID = new(int32(0))
	_, err = r.Resources.Create(t.Context(), "one", taken)
	refused(t, err, errs.Invalid, "resource one on node n2 cannot have the node id 0", "resource one on node n1 has it")
}

func TestExhaustedNumbersNameTheRangeAndItsProperty(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.settings(map[string]string{"TcpPortAutoRange": "7000-7001", "MinorNrAutoRange": "5-7"})
	for _, name := range []string{"v1", "v2", "v3", "v4"} {
		r.definition(name, mib)
	}
	r.create("v1", on("n1")...)
	r.create("v2", on("n1")...)
	_, err := r.Resources.Create(t.Context(), "v3", on("n1"))
	refused(t, err, errs.Exhausted, "there is no free TCP port on node n1", "all 2 of the range 7000-7001 are used", "TcpPortAutoRange")
	if errs.As(err).Attr != errs.Port {
		t.Errorf("the error is about attribute %d", errs.As(err).Attr)
	}
	r.create("v3", on("n2")...)
	_, err = r.Resources.Create(t.Context(), "v4", on("n2"))
	refused(t, err, errs.Exhausted, "there is no free minor number", "all 3 of the range 5-7 are used", "MinorNrAutoRange")
	r.settings(map[string]string{"TcpPortAutoRange": "7000-7009", "MinorNrAutoRange": "5-8"})
	r.create("v4", on("n1")...)
}

func TestReplicasInOneSharedSpaceAreOneCopy(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3, Agent: withoutDRBD})
	for _, n := range []string{"n1", "n2"} {
		if _, err := r.Inventory.CreatePool(t.Context(), n, inventory.NewPool{
			Name: "shared", Provider: "LVM", SharedSpace: "san", Props: map[string]string{"StorDriver/StorPoolName": "vg"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.definition("vol", mib)
	in := func(pool string, nodes ...string) []resources.NewResource {
		list := on(nodes...)
		for i := range list {
			list[i].Props = map[string]string{"StorPoolName": pool}
		}
		return list
	}
	r.create("vol", in("shared", "n1", "n2")...)
	_, err := r.Resources.Create(t.Context(), "vol", in("data", "n3"))
	refused(t, err, errs.Invalid, "2 replicas of vol are not possible")

	if _, err := r.Resources.Delete(t.Context(), "vol", "n1"); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n2 diskful")
	if got := r.hosts("vol"); got != "n1/0 1 MiB, n2/0 1 MiB" {
		t.Errorf("the data that the other node uses was destroyed: hosts have %s", got)
	}
	if _, err := r.Resources.Delete(t.Context(), "vol", "n2"); err != nil {
		t.Fatal(err)
	}
	same(t, "the last replica takes the data with it: hosts", r.hosts("vol"), "n1/0 1 MiB")
}
