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
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// available makes a definition available on a node.
func (r *rig) available(name, node string, a resources.Availability) resources.Created {
	r.t.Helper()
	made, err := r.Resources.MakeAvailable(r.t.Context(), name, node, a)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

func TestMakeAvailableDoesWhatIsMissing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", gib)

	r.available("vol", "n1", resources.Availability{})
	same(t, "the first has the data itself", r.replicas("vol"), "n1 diskful")

	r.available("VOL", "N2", resources.Availability{Ports: []int32{7100}})
	same(t, "the second uses it over the network", r.replicas("vol"), "n1 diskful, n2 client")
	if ports := r.row("vol", "n2").Ports; len(ports) != 1 || ports[0] != 7100 {
		t.Errorf("the ports of the second are %v", ports)
	}

	r.available("vol", "n3", resources.Availability{Diskful: true})
	same(t, "the third was asked for with a disk", r.replicas("vol"), "n1 diskful, n2 client, n3 diskful")
	same(t, "the hosts", r.hosts("vol"), "n1/0 1 GiB, n3/0 1 GiB")

	made := r.available("vol", "n1", resources.Availability{Diskful: true})
	noted(t, made.Notices, errs.ReplicaExists, "resource vol is on node n1 already, as one with a disk")
	made = r.available("vol", "n2", resources.Availability{})
	noted(t, made.Notices, errs.ReplicaExists, "as one without a disk")

	r.available("vol", "n2", resources.Availability{Diskful: true})
	same(t, "a client gets a disk", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
}

func TestMakeAvailableWithADiskTakesThePortsThatAreAskedFor(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.AddPool("n1", "second")
	r.group("grp", model.Filter{Pools: []string{"second"}})
	r.definition("vol", gib)
	if _, err := r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{Group: new("grp")}); err != nil {
		t.Fatal(err)
	}
	r.available("vol", "n1", resources.Availability{Diskful: true, Ports: []int32{7100}})
	same(t, "replicas", r.replicas("vol"), "n1 diskful")
	if row := r.row("vol", "n1"); len(row.Ports) != 1 || row.Ports[0] != 7100 || row.Volumes[0].Pool != "second" {
		t.Errorf("it has the ports %v and lies in %s", row.Ports, row.Volumes[0].Pool)
	}
	_, err := r.Resources.MakeAvailable(t.Context(), "vol", "n2", resources.Availability{Diskful: true, Ports: []int32{7100}})
	refused(t, err, errs.NotEnough, "")
	r.definition("other", gib)
	_, err = r.Resources.MakeAvailable(t.Context(), "other", "n1", resources.Availability{Diskful: true, Ports: []int32{7100}})
	refused(t, err, errs.Invalid, "resource other on node n1 cannot have the TCP port 7100", "resource vol on node n1 has it")
}

func TestMakeAvailableTakesATieBreakerIntoUse(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.TieBreaker})
	r.available("vol", "n2", resources.Availability{})
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 client")

	if err := r.Resources.SetPart(t.Context(), "vol", "n2", schema.TieBreaker); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 tie-breaker")
	refused(t, r.Resources.SetPart(t.Context(), "vol", "n1", schema.Client), errs.Unsupported, "it is one with a disk")
}

func TestMakeAvailableKeepsWhatIsBeingDeleted(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	r.StopAgent("n2")
	if _, err := r.Resources.Delete(t.Context(), "vol", "n2"); err != nil {
		t.Fatal(err)
	}
	same(t, "it cannot be deleted now", r.replicas("vol"), "n1 diskful, n2 diskful deleting")

	made := r.available("vol", "n2", resources.Availability{})
	noted(t, made.Notices, errs.SuccessNote, "was being deleted, and is kept")
	noted(t, made.Notices, errs.NodeNotConnected, "is ready there when it is back")
	r.StartAgent("n2")
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	same(t, "hosts", r.hosts("vol"), "n1/0 1 GiB, n2/0 1 GiB")
}

func TestMakeAvailableRefuses(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Agent: withoutDRBD})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.definition("huge", tib*1000)
	r.Register("off")
	for _, c := range []struct {
		what, name, node string
		asked            resources.Availability
		kind             errs.Kind
		says             string
	}{
		{"a definition that is not there", "none", "n1", resources.Availability{}, errs.NotFound, "resource definition none"},
		{"a node that is not there", "vol", "none", resources.Availability{}, errs.NotFound, "node none"},
		{"other layers", "vol", "n1", resources.Availability{Layers: []string{"DRBD", "STORAGE"}}, errs.Invalid, "cannot have the layers DRBD,STORAGE"},
		{"no layers at all", "vol", "n1", resources.Availability{Layers: []string{"CHEESE"}}, errs.Invalid, "CHEESE"},
		{"a copy that nothing would keep equal", "vol", "n2", resources.Availability{}, errs.Invalid, "no layer of the stack STORAGE replicates"},
		{"one that fits nowhere", "huge", "n1", resources.Availability{}, errs.NotEnough, "1000 TiB needed"},
		{"a node that is not connected", "huge", "off", resources.Availability{}, errs.NotConnected, "node off is not connected"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := r.Resources.MakeAvailable(t.Context(), c.name, c.node, c.asked)
			refused(t, err, c.kind, c.says)
		})
	}
	same(t, "nothing was made", r.replicas("vol")+r.replicas("huge"), "n1 diskful")
}

func TestMakeAvailableTellsWhatIsNotKnown(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.StopAgent("n1")
	made := r.available("vol", "n1", resources.Availability{})
	noted(t, made.Notices, errs.NodeNotConnected, "whether resource vol can be used there now is not known")
}

func TestMakeAvailableWaitsForADeviceOnItsWay(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.definition("vol", gib)
	held := r.Agents["n1"].HoldApplies("vol")
	created := make(chan error, 1)
	go func() {
		_, err := r.Resources.Create(t.Context(), "vol", on("n1"))
		created <- err
	}()
	r.Until(func() bool { return r.replicas("vol") != "" })
	ready := make(chan error, 1)
	go func() {
		_, err := r.Resources.MakeAvailable(t.Context(), "vol", "n1", resources.Availability{})
		ready <- err
	}()
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ready:
		t.Errorf("it was available before its device was there: %v", err)
	default:
	}
	held.Release()
	for _, ended := range []chan error{created, ready} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if st, _ := r.Observed.Resource(model.ResourceID{Definition: "vol", Node: "n1"}); len(st.Volumes) != 1 || st.Volumes[0].DevicePath == "" {
		t.Errorf("the state is %+v", st)
	}
}
