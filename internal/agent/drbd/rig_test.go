// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/drbdtest"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mib    = 1 << 20
	room   = 7
	device = "/dev/drbd1000"
	first  = "/dev/mapper/vg0-r0"
	second = "/dev/mapper/vg0-r0v1"
)

// rig is three nodes with the resource r0: alpha (0) and bravo (1) have disks, charlie (2) has none.
type rig struct {
	t       *testing.T
	cluster *drbdtest.Cluster
	now     time.Time
	nodes   map[string]*drbd.DRBD
	wants   map[string]drbd.Want
	ids     map[string]int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, cluster: drbdtest.NewCluster(t, "alpha", "bravo", "charlie"), now: time.Unix(1000, 0), nodes: map[string]*drbd.DRBD{},
		wants: map[string]drbd.Want{}, ids: map[string]int{"alpha": 0, "bravo": 1, "charlie": 2},
	}
	for name := range r.ids {
		r.restart(name)
		r.wants[name] = r.want(name, drbd.Volume{Minor: 1000, Disk: first, Size: 64 * mib})
	}
	for _, name := range []string{"alpha", "bravo"} {
		r.create(name, 0, first, 64*mib)
	}
	t.Cleanup(func() {
		for _, d := range r.cluster.Disasters() {
			t.Errorf("disaster: %s", d)
		}
	})
	return r
}

// restart begins a new agent on a node.
func (r *rig) restart(name string) {
	n := r.cluster.Node(name)
	r.nodes[name] = drbd.New(drbd.Settings{
		Runner: n, Users: n.Users, Folder: n.Folder, Notes: r.t.TempDir(), Now: func() time.Time { return r.now },
	})
}

// create makes a backing device with metadata, of a size that leaves so much.
func (r *rig) create(name string, volume int, disk string, usable int64) {
	r.t.Helper()
	r.cluster.Node(name).Disk(disk, metadata.Backing(usable, room))
	v := drbd.Volume{Number: volume, Minor: 1000 + volume, Disk: disk}
	if err := r.nodes[name].CreateMetadata(r.t.Context(), "r0", v, drbd.Metadata{Peers: room}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) path(from, to string) []config.Path {
	address := func(name string) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.ids[name] + 1)}), 7000)
	}
	return []config.Path{{Local: address(from), Remote: address(to)}}
}

// want is the wish for a node: charlie has no disks, and the first of all nodes starts the volumes.
func (r *rig) want(name string, volumes ...drbd.Volume) drbd.Want {
	w := drbd.Want{
		Name: "r0", Host: name, NodeID: r.ids[name], Secret: "marker", Net: config.Options{"protocol": "C"},
		Options: config.Options{"quorum": "majority"},
	}
	for _, v := range volumes {
		if name == "charlie" {
			v.Disk = ""
		}
		if name == "alpha" {
			v.Start = drbd.StartEqual
		}
		w.Volumes = append(w.Volumes, v)
	}
	for _, peer := range []string{"alpha", "bravo", "charlie"} {
		if peer != name {
			w.Peers = append(w.Peers, config.Peer{Name: peer, NodeID: r.ids[peer], Diskless: peer == "charlie", Paths: r.path(name, peer)})
		}
	}
	return w
}

// change changes the wish of a node.
func (r *rig) change(name string, f func(*drbd.Want)) {
	w := r.wants[name]
	w.Volumes = append([]drbd.Volume(nil), w.Volumes...)
	w.Peers = append([]config.Peer(nil), w.Peers...)
	f(&w)
	r.wants[name] = w
}

// try brings the wish of a node about.
func (r *rig) try(name string) (drbd.Have, error) {
	r.t.Helper()
	return stack.Converge(r.t.Context(), r.nodes[name], r.wants[name])
}

// apply is try for a wish that can be brought about.
func (r *rig) apply(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, err := r.try(name); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
}

// up brings the resource up on all nodes, started.
func (r *rig) up() {
	r.t.Helper()
	r.apply("alpha", "bravo", "charlie", "alpha")
	for name := range r.ids {
		if waits := r.waits(name); len(waits) > 0 {
			r.t.Fatalf("%s waits: %v", name, waits)
		}
		r.cluster.Node(name).Calls()
	}
}

func (r *rig) have(name string) drbd.Have {
	r.t.Helper()
	h, err := r.nodes[name].Observe(r.t.Context(), r.wants[name])
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return h
}

func (r *rig) waits(name string) []string {
	r.t.Helper()
	return drbd.Waiting(r.wants[name], r.have(name))
}

// state returns the state of a resource that runs.
func (r *rig) state(name string) kernel.Resource {
	r.t.Helper()
	h := r.have(name)
	if h.State == nil {
		r.t.Fatalf("%s: it does not run", name)
	}
	return *h.State
}

// called tells whether a command was run on a node since the last question; the calls are forgotten.
func (r *rig) called(name, part string) bool {
	for _, c := range r.cluster.Node(name).Calls() {
		if strings.Contains(c, part) {
			return true
		}
	}
	return false
}

func addPort(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), a.Port()+10) }
