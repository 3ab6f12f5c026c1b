// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// disks is the devices of a host, of which it makes what is asked for.
type disks struct {
	free []*agentpb.Device
	made chan string
	fail error
}

func (d *disks) List(context.Context) ([]*agentpb.Device, error) { return d.free, d.fail }

func (d *disks) CreateBackend(_ context.Context, b *agentpb.CreateBackend) error {
	if d.fail == nil {
		d.made <- fmt.Sprint(b.GetProvider(), " ", b.GetName(), " ", b.GetDevices(), " ", b.GetRaidLevel())
	}
	return d.fail
}

func TestDevicesOfAllConnectedNodesAreListedByName(t *testing.T) {
	hosts := map[string]*disks{
		"n1": {free: []*agentpb.Device{{Path: "/dev/sda", Size: 2 << 30, Rotational: true, Model: "M", Serial: "S", Wwn: "W"}}},
		"n2": {fail: errs.New(errs.HostFailed, errs.Node, "lsblk hangs")},
		"n3": {free: []*agentpb.Device{{Path: "/dev/sdb", Size: 3 << 30}}},
		"n4": {},
		"n5": {free: []*agentpb.Device{{Path: "/dev/sdz", Size: 3 << 30}}},
	}
	c := cluster.Start(t, cluster.Options{Nodes: 5, Agent: func(a *fakeagent.Agent) { a.Devices = hosts[a.Node] }})
	c.StopAgent("n5")
	want := "[{n1 [{/dev/sda 2147483648 true M S W}]} {n3 [{/dev/sdb 3221225472 false   }]}]"
	if got := fmt.Sprint(c.Inventory.Devices(t.Context())); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if list, err := c.Inventory.DevicesOf(t.Context(), "N3"); err != nil || len(list) != 1 {
		t.Errorf("node n3 has %v, %v", list, err)
	}
	_, err := c.Inventory.DevicesOf(t.Context(), "n2")
	refused(t, err, errs.HostFailed, errs.NoAttr, "lsblk hangs")
	_, err = c.Inventory.DevicesOf(t.Context(), "n5")
	refused(t, err, errs.NotConnected, errs.NoAttr, "node n5")
	_, err = c.Inventory.DevicesOf(t.Context(), "n9")
	refused(t, err, errs.NotFound, errs.NoAttr, "node n9 does not exist")
}

func TestABackendIsMadeAndThenItsPool(t *testing.T) {
	d := &disks{made: make(chan string, 1)}
	c := cluster.Start(t, cluster.Options{Nodes: 1, Agent: func(a *fakeagent.Agent) { a.Devices = d }})
	t.Cleanup(c.Check)
	name, pool, err := c.Inventory.CreateBackend(t.Context(), "N1", inventory.NewBackend{
		Provider: "zfsthin", Devices: []string{"/dev/sda", "/dev/disk/by-id/x:1"}, RAIDLevel: "jbod",
		Pool: &inventory.NewPool{Name: "Tank", Props: map[string]string{"Aux/a": "b", "StorDriver/StorPoolName": "ignored"}},
	})
	if err != nil || name != "linstor_sda" || pool.Name != "Tank" || pool.Provider != "ZFS_THIN" {
		t.Errorf("made %s, %+v, %v", name, pool, err)
	}
	if v, _ := pool.Props.Get("StorDriver/StorPoolName"); v != "linstor_sda" {
		t.Errorf("the pool lies in %q", v)
	}
	if got := <-d.made; got != "ZFS_THIN linstor_sda [/dev/sda /dev/disk/by-id/x:1] JBOD" {
		t.Errorf("the host made %q", got)
	}
	// What was made stays when the pool on it does not work, and the error says so.
	c.Agents["n1"].FailPool("next", "no such group")
	_, _, err = c.Inventory.CreateBackend(t.Context(), "n1", inventory.NewBackend{
		Provider: "LVM", Name: "vg", Devices: []string{"/dev/sdb"}, Pool: &inventory.NewPool{Name: "next"},
	})
	refused(t, err, errs.HostFailed, errs.NoAttr, "no such group")
	if e := errs.As(err); e == nil || e.Details != "What it was to lie on, vg, was made on node n1 and stays." {
		t.Errorf("the error is %+v", e)
	}
	<-d.made
	d.fail = errs.New(errs.Unsupported, errs.Node, "no LVM here")
	_, _, err = c.Inventory.CreateBackend(t.Context(), "n1", inventory.NewBackend{Provider: "LVM", Name: "vg", Devices: []string{"/dev/sdb"}})
	refused(t, err, errs.Unsupported, errs.NoAttr, "no LVM here")
}

func TestLogLevelsAreThoseOfTheirNodes(t *testing.T) {
	given := make(chan string, 1)
	c := cluster.Start(t, cluster.Options{Nodes: 1, Agent: func(a *fakeagent.Agent) {
		a.SetLogLevel = func(level string) error { given <- level; return nil }
	}})
	if err := c.Inventory.SetLogLevel(t.Context(), "N1", "DEBUG"); err != nil || <-given != "DEBUG" {
		t.Errorf("%v", err)
	}
	refused(t, c.Inventory.SetLogLevel(t.Context(), "n9", "DEBUG"), errs.NotFound, errs.NoAttr, "node n9 does not exist")
}
