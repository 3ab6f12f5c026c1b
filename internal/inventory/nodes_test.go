// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// refused fails the test unless err is of a kind, about an attribute, and says something.
func refused(t *testing.T, err error, kind errs.Kind, attr errs.Attr, text string) {
	t.Helper()
	e := errs.As(err)
	if e == nil || e.Kind != kind || e.Attr != attr || !strings.Contains(e.Error(), text) {
		t.Errorf("got the error %v, want kind %d about attribute %d that says %q", err, kind, attr, text)
	}
}

func one(address string) []inventory.NewInterface {
	return []inventory.NewInterface{{Name: "default", Address: address}}
}

func TestANodeIsRegisteredWithItsInterfacesAndAPoolForReplicasWithoutDisk(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Settings: []store.Setting{store.Paranoid()}})
	t.Cleanup(c.Check)
	n, err := c.Inventory.CreateNode(t.Context(), inventory.NewNode{Name: "Alpha", Type: "combined", Interfaces: []inventory.NewInterface{
		{Name: "slow", Address: "10.0.0.1"}, {Name: "fast", Address: "fe80::1", Encryption: "SSL", Active: true},
	}})
	if err != nil || n.Type != model.CombinedNode {
		t.Fatal(n, err)
	}
	var got string
	for i := range schema.InterfacesOf(c.Store.Snapshot(), "alpha") {
		got += fmt.Sprintf("%s %s %d %s %t; ", i.Name, i.Address, i.Port, i.Encryption, i.Active)
	}
	if want := "fast fe80::1 3367 SSL true; slow 10.0.0.1 3366 PLAIN false; "; got != want {
		t.Errorf("interfaces %s", got)
	}
	if _, ok := schema.Pools.Get(c.Store.Snapshot(), model.PoolID{Node: "alpha", Pool: schema.DisklessPool.Key()}); !ok {
		t.Error("the node has no pool for replicas without a disk")
	}
	_, err = c.Inventory.CreateNode(t.Context(), inventory.NewNode{Name: "ALPHA", Interfaces: one("10.0.0.2")})
	refused(t, err, errs.Exists, errs.NoAttr, "node Alpha exists already")
}

func TestNodesRefuseWhatCannotBe(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	for _, x := range []struct {
		n    inventory.NewNode
		attr errs.Attr
		text string
	}{
		{inventory.NewNode{Name: "a_b", Interfaces: one("10.0.0.1")}, errs.Name, "a_b"},
		{inventory.NewNode{Name: "node", Type: "Mainframe", Interfaces: one("10.0.0.1")}, errs.NodeType, "Mainframe"},
		{inventory.NewNode{Name: "node"}, errs.Address, "node node has no network interface"},
		{inventory.NewNode{Name: "node", Interfaces: one("host.example")}, errs.Address, "it is not a literal IP address"},
		{inventory.NewNode{Name: "node", Interfaces: one("")}, errs.Address, "it is not a literal IP address"},
		{inventory.NewNode{Name: "node", Interfaces: []inventory.NewInterface{{Name: "default", Address: "::1", Port: 70000}}}, errs.Port, "70000"},
		{inventory.NewNode{Name: "node", Interfaces: []inventory.NewInterface{{Name: "default", Address: "::1", Encryption: "ROT13"}}}, errs.EncryptionType, "ROT13"},
		{inventory.NewNode{Name: "node", Interfaces: []inventory.NewInterface{{Name: "x", Address: "::1"}}}, errs.Name, "3 to 32"},
		{inventory.NewNode{Name: "node", Interfaces: one("::1"), Props: map[string]string{"Nope": "1"}}, errs.Property, "Nope"},
	} {
		_, err := c.Inventory.CreateNode(t.Context(), x.n)
		refused(t, err, errs.Invalid, x.attr, x.text)
	}
	if n := schema.Nodes.Len(c.Store.Snapshot()); n != 0 {
		t.Errorf("%d nodes are there", n)
	}
}

func TestANodeThatReplicasLieOnIsNotDeleted(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	t.Cleanup(c.Check)
	for i := range 7 {
		if _, err := c.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
			Name: fmt.Sprintf("Vol-%d", i), Sizes: []int64{mib}, Filter: model.Filter{PlaceCount: new(int32(1))},
		}); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Inventory.DeleteNode(t.Context(), "N1")
	refused(t, err, errs.HasChildren, errs.NoAttr,
		"node n1 cannot be deleted: 7 replicas and snapshots lie on it: resource Vol-0, resource Vol-1, resource Vol-2, resource Vol-3, resource Vol-4, ...")
	_, err = c.Inventory.ModifyNode(t.Context(), "n1", inventory.NodeChange{Type: new("Auxiliary")})
	refused(t, err, errs.HasChildren, errs.NoAttr, "node n1 cannot become a node of the type Auxiliary")
	err = c.Inventory.DeletePool(t.Context(), "N1", "DATA")
	refused(t, err, errs.HasChildren, errs.NoAttr, "storage pool data on node n1 cannot be deleted: 7 of its resources still exist: Vol-0 on node n1")
	for i := range 7 {
		if _, err := c.Resources.DeleteDefinition(t.Context(), fmt.Sprintf("vol-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Inventory.ModifyNode(t.Context(), "n1", inventory.NodeChange{Type: new("Controller")})
	refused(t, err, errs.HasChildren, errs.NoAttr, "node n1 cannot become a node of the type Controller: it has the storage pool data")
	if err := c.Inventory.DeletePool(t.Context(), "n1", "data"); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"Auxiliary", "Satellite"} {
		if _, err := c.Inventory.ModifyNode(t.Context(), "n1", inventory.NodeChange{Type: &typ}); err != nil {
			t.Fatal(err)
		}
	}
	err = c.Inventory.DeletePool(t.Context(), "n1", string(schema.DisklessPool))
	refused(t, err, errs.Protected, errs.NoAttr, "every node has this pool")
	if err := c.Inventory.DeleteNode(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	refused(t, c.Inventory.DeleteNode(t.Context(), "n1"), errs.NotFound, errs.NoAttr, "node n1 does not exist")
}

func TestANodeThatRunsNoAgentTakesNothing(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	t.Cleanup(c.Check)
	for _, typ := range []string{"Controller", "AUXILIARY"} {
		name := strings.ToLower(typ)
		_, err := c.Inventory.CreateNode(t.Context(), inventory.NewNode{
			Name: name, Type: typ, Interfaces: []inventory.NewInterface{{Name: "default", Address: "10.0.0.1"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Inventory.CreatePool(t.Context(), name, inventory.NewPool{Name: "data", Provider: "FILE"})
		refused(t, err, errs.Invalid, errs.NodeType, "node "+name+" takes no storage pools: its type is "+strings.ToUpper(name[:1])+name[1:])
		_, err = c.Inventory.CreatePool(t.Context(), name, inventory.NewPool{Name: "none", Provider: "DISKLESS"})
		refused(t, err, errs.Invalid, errs.NodeType, "no agent is expected")
	}
	if _, err := c.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{PlaceCount: new(int32(1)), DisklessOnRemaining: new(true)},
	}); err != nil {
		t.Fatal(err)
	}
	for r := range schema.Resources.All(c.Store.Snapshot()) {
		if r.Node != "n1" {
			t.Errorf("a replica was put on node %s", r.Node)
		}
	}
	if _, err := c.Inventory.ModifyNode(t.Context(), "controller", inventory.NodeChange{Type: new("Combined")}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Inventory.CreatePool(t.Context(), "controller", inventory.NewPool{Name: "data", Provider: "FILE"})
	refused(t, err, errs.NotConnected, errs.NoAttr, "node controller is not connected")
}

func TestExactlyOneInterfaceOfANodeIsActive(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	t.Cleanup(c.Check)
	c.Register("alpha")
	active := func() string {
		t.Helper()
		c.Check()
		for i := range schema.InterfacesOf(c.Store.Snapshot(), "alpha") {
			if i.Active {
				return string(i.Name)
			}
		}
		return ""
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Inventory.CreateInterface(t.Context(), "alpha", inventory.NewInterface{Name: "second", Address: "10.0.0.2"}))
	if got := active(); got != "default" {
		t.Errorf("active: %s", got)
	}
	must(c.Inventory.CreateInterface(t.Context(), "alpha", inventory.NewInterface{Name: "third", Address: "10.0.0.3", Active: true}))
	if got := active(); got != "third" {
		t.Errorf("active: %s", got)
	}
	must(c.Inventory.ModifyInterface(t.Context(), "alpha", "second", inventory.InterfaceChange{Active: new(true), Address: new("10.0.0.9")}))
	if got := active(); got != "second" {
		t.Errorf("active: %s", got)
	}
	refused(t, c.Inventory.DeleteInterface(t.Context(), "alpha", "SECOND"), errs.Protected, errs.NoAttr, "interface second of node alpha cannot be deleted")
	must(c.Inventory.DeleteInterface(t.Context(), "alpha", "third"))
	refused(t, c.Inventory.DeleteInterface(t.Context(), "alpha", "third"), errs.NotFound, errs.NoAttr, "network interface third does not exist on node alpha")
	err := c.Inventory.CreateInterface(t.Context(), "alpha", inventory.NewInterface{Name: "SECOND", Address: "10.0.0.4"})
	refused(t, err, errs.Exists, errs.NoAttr, "network interface second of node alpha exists already")
	err = c.Inventory.ModifyInterface(t.Context(), "alpha", "second", inventory.InterfaceChange{Address: new("name")})
	refused(t, err, errs.Invalid, errs.Address, "not a literal IP address")
}

func TestAPoolIsMadeKnownWhenItsNodeSaysThatItWorks(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	t.Cleanup(c.Check)
	pool := func(node, name, provider string) error {
		_, err := c.Inventory.CreatePool(t.Context(), node, inventory.NewPool{
			Name: name, Provider: provider, Props: map[string]string{"StorDriver/StorPoolName": "/srv/" + name},
		})
		return err
	}
	c.Agents["n1"].FailPool("broken", "no such directory")
	refused(t, pool("n1", "broken", "FILE"), errs.HostFailed, errs.NoAttr, "no such directory")
	refused(t, pool("n1", "Data", "FILE"), errs.Exists, errs.NoAttr, "storage pool data exists on node n1 already")
	refused(t, pool("n9", "more", "FILE"), errs.NotFound, errs.NoAttr, "node n9 does not exist")
	refused(t, pool("n1", "more", "TAPE"), errs.Invalid, errs.Provider, "TAPE")
	refused(t, pool("n1", "x", "FILE"), errs.Invalid, errs.Name, "3 to 48")
	c.Register("away")
	refused(t, pool("away", "more", "FILE"), errs.NotConnected, errs.NoAttr, "node away is not connected")
	if err := pool("N1", "more", "FILE"); err != nil {
		t.Fatal(err)
	}
	if p, ok := c.Observed.Pool(model.PoolID{Node: "n1", Pool: "more"}); !ok || p.Total == nil {
		t.Error("the room of a new pool is not known")
	}
	_, err := c.Inventory.ModifyPool(t.Context(), "n1", "more", model.PropsChange{Set: map[string]string{"StorDriver/StorPoolName": "/other"}})
	refused(t, err, errs.Protected, errs.NoAttr, `its volumes lie in "/srv/more"`)
	if _, err := c.Inventory.ModifyPool(t.Context(), "n1", "more", model.PropsChange{Set: map[string]string{"MaxOversubscriptionRatio": "3"}}); err != nil {
		t.Error(err)
	}
	_, err = c.Inventory.ModifyPool(t.Context(), "n1", "more", model.PropsChange{Set: map[string]string{"MaxOversubscriptionRatio": "much"}})
	refused(t, err, errs.Invalid, errs.Property, "MaxOversubscriptionRatio")
}

func TestSettingsOfTheClusterAreCheckedAsAWhole(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	_, err := c.Inventory.ModifySettings(t.Context(), model.PropsChange{Set: map[string]string{"TcpPortAutoRange": "7000-7009", "MinorNrAutoRange": "many"}})
	refused(t, err, errs.Invalid, errs.Property, "MinorNrAutoRange")
	if _, set := schema.SettingsOf(c.Store.Snapshot()).Get("TcpPortAutoRange"); set {
		t.Error("the right part of a wrong change was made")
	}
	notices, err := c.Inventory.ModifySettings(t.Context(), model.PropsChange{Set: map[string]string{"TcpPortAutoRange": "7000-7009"}, Delete: []string{"Aux/none"}})
	if err != nil || len(notices) != 2 {
		t.Errorf("notices %+v, %v", notices, err)
	}
}
