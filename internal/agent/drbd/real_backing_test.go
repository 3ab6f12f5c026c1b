// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// two makes two nodes of the rig, alpha and bravo, without quorum.
func two(t *testing.T) *real {
	t.Helper()
	r := newReal(t)
	delete(r.nodes, "charlie")
	for _, n := range r.nodes {
		n.want.Peers = slices.DeleteFunc(n.want.Peers, func(p config.Peer) bool { return p.Name == "charlie" })
		n.want.Options = config.Options{"quorum": "off"}
	}
	return r
}

// disk puts a device of a node into its wish, as a new volume.
func (r *real) disk(n *realNode, device, generation string, usable int64) {
	r.t.Helper()
	v := drbd.Volume{Minor: n.minor(0), Disk: device, Size: usable}
	if err := n.d.CreateMetadata(r.t.Context(), n.want.Name, v, drbd.Metadata{Peers: room, Generation: generation}); err != nil {
		r.t.Fatal(err)
	}
	r.wish(n, v)
}

// takeDown takes both nodes down, and proves that nothing is left.
func (r *real) takeDown() {
	r.t.Helper()
	for _, n := range r.nodes {
		n.want.Down = true
		if err := r.try(n.name); err != nil {
			r.t.Errorf("%s: %v", n.name, err)
		}
		if _, err := os.Stat(n.device(0)); err == nil {
			r.t.Errorf("%s is left", n.device(0))
		}
	}
}

// TestRealTwoNodesOverThinVolumes is the life of a volume: written, failed over, grown, snapshotted, restored, and one replica removed.
func TestRealTwoNodesOverThinVolumes(t *testing.T) {
	r := two(t)
	r.run("lvcreate", "-y", "--type", "thin-pool", "-L", "600M", "-n", "thin", r.group)
	size := func(usable int64) string { return strconv.FormatInt(metadata.Backing(usable, room), 10) + "b" }
	for _, n := range r.nodes {
		r.run("lvcreate", "-y", "-V", size(64*mib), "--thinpool", r.group+"/thin", "-n", n.name)
		r.disk(n, "/dev/mapper/"+r.group+"-"+n.name, "5A3C6E4F12345678", 64*mib)
	}
	r.apply("alpha", "bravo")
	if err := r.write("alpha", 0, "1"); err != nil {
		t.Fatal(err)
	}
	if got := r.read("bravo", 0); got != "1" {
		t.Errorf("bravo reads %s", got)
	}

	held, err := r.nodes["alpha"].d.Suspend(t.Context(), r.state("alpha"), 3*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.nodes {
		// LVM would read the devices of DRBD while it looks for its own, and wait there for ever.
		r.run("lvcreate", "--config", `devices/filter=["r|/dev/drbd|"]`, "-y", "-s", "-n", n.name+"-snap", r.group+"/"+n.name)
	}
	if whole, err := held.Resume(t.Context()); !whole || err != nil {
		t.Errorf("%v, %v", whole, err)
	}
	if err := r.write("bravo", 0, "2"); err != nil {
		t.Fatal(err)
	}

	for _, n := range r.nodes {
		r.run("lvextend", "-L", size(128*mib), r.group+"/"+n.name)
		n.want.Volumes[0].Size = 128 * mib
	}
	r.apply("alpha", "bravo")
	if got := r.read("alpha", 0); got != "2" {
		t.Errorf("after it grew, alpha reads %s", got)
	}
	r.takeDown()

	// The snapshots become volumes of another resource: they have the metadata of the first one on them.
	for _, n := range r.nodes {
		r.run("lvchange", "-kn", "-ay", r.group+"/"+n.name+"-snap")
		n.want.Down, n.want.Name, n.want.Volumes = false, "restored-"+n.name, nil
		r.disk(n, "/dev/mapper/"+r.group+"-"+n.name+"--snap", "77AC6E4F12345670", 64*mib)
	}
	r.apply("alpha", "bravo")
	for _, name := range []string{"alpha", "bravo"} {
		if got := r.read(name, 0); got != "1" {
			t.Errorf("restored, %s reads %s", name, got)
		}
		if s := r.state(name); s.Connections[0].PeerDevices[0].OutOfSync != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}

	// One replica is removed, the other goes on.
	bravo := r.nodes["bravo"]
	bravo.want.Down = true
	if err := r.try("bravo"); err != nil {
		t.Error(err)
	}
	r.run("lvremove", "-fy", r.group+"/bravo-snap")
	r.nodes["alpha"].want.Peers, r.nodes["alpha"].want.Retired = nil, []int{bravo.id}
	r.apply("alpha")
	if err := r.write("alpha", 0, "3"); err != nil {
		t.Error(err)
	}
	r.takeDown()
	r.run("lvremove", "-fy", r.group+"/alpha-snap")
}

func TestRealTwoNodesOverLUKS(t *testing.T) {
	r := two(t)
	const header = 16 * mib
	key := func(args ...string) {
		t.Helper()
		c := command.Command{Program: "cryptsetup", Args: append([]string{"--batch-mode", "--key-file", "-"}, args...), Stdin: []byte("passphrase")}
		if _, err := r.exec.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range r.nodes {
		name := "luks-" + n.name
		t.Cleanup(func() {
			_, _ = r.exec.Run(t.Context(), command.Command{Program: "cryptsetup", Args: []string{"close", name}})
		})
		r.run("lvcreate", "-y", "-Wy", "-L", strconv.FormatInt(header+metadata.Backing(64*mib, room), 10)+"b", "-n", n.name, r.group)
		lv := "/dev/mapper/" + r.group + "-" + n.name
		key("luksFormat", "--type", "luks2", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", lv)
		key("open", lv, name)
		// What reads as zeros below does not through encryption: the disks differ.
		r.disk(n, "/dev/mapper/"+name, "", 64*mib)
	}
	r.nodes["alpha"].want.Volumes[0].Start = drbd.StartHere
	r.apply("alpha", "bravo")
	r.until("bravo", "up to date", upToDate(0))
	if err := r.write("alpha", 0, "l"); err != nil {
		t.Fatal(err)
	}
	if got := r.read("bravo", 0); got != "l" {
		t.Errorf("bravo reads %s", got)
	}
	for _, n := range r.nodes {
		r.run("lvextend", "-L", strconv.FormatInt(header+metadata.Backing(128*mib, room), 10)+"b", r.group+"/"+n.name)
		key("resize", "luks-"+n.name)
		n.want.Volumes[0].Size = 128 * mib
	}
	r.apply("alpha", "bravo")
	r.takeDown()
	for _, n := range r.nodes {
		r.run("cryptsetup", "close", "luks-"+n.name)
	}
}
