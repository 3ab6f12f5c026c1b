// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// lose gives a node up.
func (r *rig) lose(node string) {
	r.t.Helper()
	notices, err := r.Resources.LoseNode(r.t.Context(), node)
	if err != nil || len(notices) > 0 {
		r.t.Fatal(err, notices)
	}
	if _, ok := schema.Nodes.Get(r.Store.Snapshot(), model.NodeName(node).Key()); ok {
		r.t.Errorf("node %s is still there", node)
	}
}

func TestALostNodeTakesAllThatItHadWithIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	r.definition("whole", mib)
	r.create("whole", on("n1", "n2", "n3")...)
	r.definition("gone", mib, mib)
	r.create("gone", on("n1", "n3")...)
	r.definition("single", mib)
	r.create("single", on("n3")...)
	connect := func(tx *store.Tx) error {
		if err := schema.NodeConnections.Insert(tx, schema.NodeConnection{Pair: model.PairOf("n3", "n1")}); err != nil {
			return err
		}
		return schema.ResourceConnections.Insert(tx, schema.ResourceConnection{Definition: "whole", Pair: model.PairOf("n1", "n3")})
	}
	snapshot := func(tx *store.Tx) error {
		for _, node := range []model.NodeKey{"n1", "n3"} {
			name := model.SnapshotName("on-" + node)
			if err := schema.Snapshots.Insert(tx, schema.Snapshot{Definition: "whole", Name: name, State: schema.SnapshotTaken}); err != nil {
				return err
			}
			if err := schema.SnapshotReplicas.Insert(tx, schema.SnapshotReplica{
				Definition: "whole", Snapshot: name.Key(), Node: node, State: schema.SnapshotTaken, Volumes: []schema.SnapshotVolume{{Pool: "data"}},
			}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, fn := range []func(*store.Tx) error{connect, snapshot} {
		if _, err := schema.Update(t.Context(), r.Store, fn); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Resources.LoseNode(t.Context(), "n3")
	refused(t, err, errs.InUse, "node n3 cannot be given up as lost", "it is connected")

	r.StopAgent("n3")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	same(t, "a deletion that waits", r.replicas("gone"), "n3 diskful deleting")
	r.lose("N3")
	same(t, "replicas", r.replicas("whole"), "n1 diskful, n2 diskful")
	same(t, "replicas", r.replicas("single"), "")
	view := r.Store.Snapshot()
	if _, ok := schema.Definitions.Get(view, "gone"); ok {
		t.Error("the deletion that waited for the node has not ended")
	}
	if d, ok := schema.Definitions.Get(view, "single"); !ok || d.Deleting {
		t.Error("a definition without replicas is not there any more")
	}
	if n := schema.Snapshots.Len(view); n != 1 {
		t.Errorf("%d snapshots are left, want the one of n1", n)
	}
	if n := schema.NodeConnections.Len(view) + schema.ResourceConnections.Len(view); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	_, err = r.Resources.LoseNode(t.Context(), "n3")
	refused(t, err, errs.NotFound, "node n3 does not exist")
	r.definition("gone", mib) // the name is free
	r.again("n3")
}

// again registers a node anew whose host is as it was, and uses it.
func (r *rig) again(name string) {
	r.t.Helper()
	old := r.Agents[name]
	a := r.Register(name)
	for _, v := range old.Volumes() {
		a.PutVolume(v.Pool, v.Resource, v.Number, v.Size)
	}
	r.StartAgent(name)
	r.AddPool(name, cluster.Pool)
	r.definition("after", mib)
	r.create("after", on(name)...)
	if n := len(a.Volumes()); n != 5 {
		r.t.Errorf("the node has %d volumes: the four old ones were to stay as they are", n)
	}
	r.Until(func() bool { return len(r.Inventory.Orphans()) == 4 })
}

func TestALostNodeTakesNothingNew(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Patience: time.Millisecond})
	r.definition("vol", mib)
	r.StopAgent("n2")
	r.evacuate("n2", resources.Evacuation{})
	notices, err := r.Resources.LoseNode(t.Context(), "n2") // nobody works on it
	if err != nil {
		t.Fatal(err)
	}
	noted(t, notices, errs.GoesOn, "the removal of node n2 goes on")
	if j := r.job(schema.EvacuateNode, "n2"); j.State != schema.JobCancelled {
		t.Errorf("the evacuation of the lost node is %s", j.State)
	}
	for what, err := range map[string]error{
		"replica":   func() error { _, err := r.Resources.Create(t.Context(), "vol", on("n2")); return err }(),
		"interface": r.Inventory.CreateInterface(t.Context(), "n2", inventory.NewInterface{Name: "more", Address: "10.0.0.9"}),
		"evacuation": func() error {
			_, _, err := r.Resources.EvacuateNode(t.Context(), "n2", resources.Evacuation{})
			return err
		}(),
		"restore": func() error {
			_, err := r.Resources.RestoreNode(t.Context(), "n2", resources.Restoration{})
			return err
		}(),
	} {
		t.Log(what)
		refused(t, err, errs.Closing)
	}
	r.lead()
	r.Until(func() bool {
		_, ok := schema.Nodes.Get(r.Store.Snapshot(), "n2")
		return !ok
	})
}

func TestALostNodeIsForgottenOverARestart(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Patience: time.Second})
	const many = 300
	r.StopAgent("n2")
	for i := range many {
		name := model.DefinitionName(fmt.Sprintf("vol-%d", i))
		if _, err := schema.Update(t.Context(), r.Store, func(tx *store.Tx) error {
			if err := schema.Definitions.Insert(tx, schema.Definition{Name: name, Group: schema.DefaultGroup.Key()}); err != nil {
				return err
			}
			return schema.Resources.Insert(tx, schema.Resource{Definition: name.Key(), Node: "n2", Kind: schema.Diskful, Deleting: i%2 == 0})
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 150 { // more than one transaction takes
		if _, err := schema.Update(t.Context(), r.Store, func(tx *store.Tx) error {
			other := schema.Node{Name: model.NodeName(fmt.Sprintf("far-%d", i)), Type: model.AuxiliaryNode}
			if err := schema.Nodes.Insert(tx, other); err != nil {
				return err
			}
			if err := schema.Pools.Insert(tx, schema.Pool{Node: other.Name.Key(), Name: schema.DisklessPool, Provider: model.Diskless}); err != nil {
				return err
			}
			return schema.NodeConnections.Insert(tx, schema.NodeConnection{Pair: model.PairOf("n2", other.Name.Key())})
		}); err != nil {
			t.Fatal(err)
		}
	}
	lost := make(chan error, 1)
	go func() {
		_, err := r.Resources.LoseNode(t.Context(), "n2")
		lost <- err
	}()
	stop := r.lead()
	r.Until(func() bool { return schema.Resources.Len(r.Store.Snapshot()) < many-10 })
	stop()
	r.Check()
	r.lead()
	if err := <-lost; err != nil {
		t.Fatal(err)
	}
	r.Until(func() bool {
		_, ok := schema.Nodes.Get(r.Store.Snapshot(), "n2")
		return !ok
	})
	if n := schema.Resources.Len(r.Store.Snapshot()); n != 0 {
		t.Errorf("%d replicas are left", n)
	}
	if n := schema.Definitions.Len(r.Store.Snapshot()); n != many {
		t.Errorf("%d definitions are left", n)
	}
}

func TestANodeWithVeryManyConnectionsIsDeleted(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1})
	r.lead()
	for i := range 120 {
		if _, err := r.Inventory.CreateNode(t.Context(), inventory.NewNode{
			Name: fmt.Sprintf("far-%d", i), Type: "Auxiliary", Interfaces: []inventory.NewInterface{{Name: "default", Address: "10.0.0.1"}},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Update(t.Context(), r.Store, func(tx *store.Tx) error {
			return schema.NodeConnections.Insert(tx, schema.NodeConnection{Pair: model.PairOf("n1", model.NodeKey(fmt.Sprintf("far-%d", i)))})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Inventory.DeleteNode(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if _, ok := schema.Nodes.Get(r.Store.Snapshot(), "n1"); ok {
		t.Error("the node is still there")
	}
	if err := r.Inventory.DeleteNode(t.Context(), "far-3"); err != nil {
		t.Fatal(err)
	}
}
