// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// retire is the wish of a node after a peer went for good.
func (r *rig) retire(name, gone string) {
	id := r.ids[gone]
	r.change(name, func(w *drbd.Want) {
		w.Peers = slices.DeleteFunc(w.Peers, func(p config.Peer) bool { return p.NodeID == id })
		w.Retired = []int{id}
	})
}

func TestPeerThatIsGoneForGoodIsForgottenOnce(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	r.change("bravo", func(w *drbd.Want) { w.Down = true })
	r.apply("bravo")
	r.retire("alpha", "bravo")
	r.apply("alpha")
	calls := r.cluster.Node("alpha").Calls()
	if !slices.Contains(calls, "drbdsetup del-peer r0 1") || !slices.Contains(calls, "drbdsetup forget-peer r0 1") {
		t.Errorf("%v", calls)
	}
	if s := r.state("alpha"); len(s.Connections) != 1 || s.Role != kernel.Primary {
		t.Errorf("%v", s)
	}
	r.apply("alpha")
	if calls := r.cluster.Node("alpha").Calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
}

// TestForgottenPeerReturnsWithNewMetadata: with its old metadata it is refused, on both ends, and that is said.
func TestForgottenPeerReturnsWithNewMetadata(t *testing.T) {
	r := newRig(t)
	r.up()
	back := r.wants["alpha"]
	r.change("bravo", func(w *drbd.Want) { w.Down = true })
	r.apply("bravo")
	r.retire("alpha", "bravo")
	r.apply("alpha")
	r.cluster.Node("alpha").Write(1000)

	r.wants["alpha"] = back
	r.change("bravo", func(w *drbd.Want) { w.Down = false })
	r.apply("alpha", "bravo")
	if waits := r.waits("bravo"); len(waits) != 0 { // It has data, though of another time.
		t.Errorf("%v", waits)
	}
	s := r.state("alpha")
	if c, _ := s.Connection(1); c.State != kernel.StandAlone {
		t.Errorf("it is %s", c.State)
	}
	if problems := drbd.Problems(s); len(problems) != 1 || !strings.Contains(problems[0], "bravo was refused") {
		t.Errorf("%v", problems)
	}
	r.change("bravo", func(w *drbd.Want) { w.Down = true })
	r.apply("bravo")
	r.create("bravo", 0, first, 64*mib)
	r.change("bravo", func(w *drbd.Want) { w.Down = false })
	r.now = r.now.Add(time.Hour)
	r.apply("bravo", "alpha")
	if a, b := r.cluster.Node("alpha").Generation(first), r.cluster.Node("bravo").Generation(first); a != b {
		t.Errorf("alpha has %s, bravo %s", a, b)
	}
}

// TestRefusedConnectionIsNotHammered: each try is refused in a moment, and tells everyone of a change.
func TestRefusedConnectionIsNotHammered(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Cut("alpha", "bravo")
	r.cluster.Node("alpha").Write(1000)
	r.cluster.Node("bravo").Write(1000)
	r.cluster.Join("alpha", "bravo")
	tries := 0
	for range 120 { // Two minutes, looked at each second, on both sides.
		r.apply("alpha", "bravo")
		if r.called("alpha", "drbdadm adjust") {
			tries++
		}
		r.now = r.now.Add(time.Second)
	}
	if tries < 2 || tries > 6 {
		t.Errorf("%d tries in two minutes", tries)
	}
	if a, b := r.cluster.Node("alpha").Generation(first), r.cluster.Node("bravo").Generation(first); a == b {
		t.Error("the data of one side was given up")
	}
}

// TestSplitBrainIsNeverSolved: no command that gives up the data of a side is ever run.
func TestSplitBrainIsNeverSolved(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Cut("alpha", "bravo")
	r.cluster.Node("alpha").Write(1000)
	r.cluster.Node("bravo").Write(1000)
	r.cluster.Join("alpha", "bravo")
	for range 20 {
		r.apply("alpha", "bravo", "charlie")
		r.now = r.now.Add(time.Hour)
	}
	for name := range r.ids {
		for _, c := range r.cluster.Node(name).Calls() {
			for _, word := range []string{"discard-my-data", "invalidate", "force", "create-md", "outdate", "new-current-uuid"} {
				if strings.Contains(c, word) {
					t.Errorf("%s ran %s", name, c)
				}
			}
		}
	}
	s := r.state("alpha")
	s.Connections[0].SplitBrain = true // As the events say.
	if problems := drbd.Problems(s); len(problems) != 1 || !strings.Contains(problems[0], "split brain") {
		t.Errorf("%v", problems)
	}
}

// disk gives charlie a disk in the wishes of all, or takes it.
func (r *rig) disk(path string) {
	for _, name := range []string{"alpha", "bravo"} {
		r.change(name, func(w *drbd.Want) {
			for i := range w.Peers {
				if w.Peers[i].NodeID == 2 {
					w.Peers[i].Diskless = path == ""
				}
			}
		})
	}
	r.change("charlie", func(w *drbd.Want) { w.Volumes[0].Disk = path })
}

func TestClientGetsADiskAndGivesItBack(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("charlie").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	r.create("charlie", 0, first, 64*mib)
	r.disk(first)
	r.apply("alpha", "bravo", "charlie")
	s := r.state("charlie")
	if s.Devices[0].Disk != kernel.UpToDate || s.Role != kernel.Primary {
		t.Errorf("%v", s)
	}
	r.disk("")
	r.apply("charlie", "alpha", "bravo")
	if s := r.state("charlie"); s.Devices[0].Disk != kernel.Diskless || !s.Devices[0].Client {
		t.Errorf("%v", s)
	}
	if waits := r.waits("charlie"); len(waits) > 0 {
		t.Errorf("%v", waits)
	}
}

// TestAttachmentThatDoesNotEndIsLeftToPeople: the end of any connection would end it, too, and DRBD then takes the disk for up to date that it
// has not compared with its peers: stale data was read from it.
func TestAttachmentThatDoesNotEndIsLeftToPeople(t *testing.T) {
	r := newRig(t)
	r.up()
	n := r.cluster.Node("bravo")
	n.Answer("drbdsetup status r0 --json", -1, `[{"name":"r0","node-id":1,"role":"Secondary","devices":[{"volume":0,"minor":1000,"disk-state":"Negotiating","quorum":true,"size":65536}],
		"connections":[{"peer-node-id":0,"name":"alpha","connection-state":"Connected","peer-role":"Primary","peer_devices":[{"volume":0,"replication-state":"Established","peer-disk-state":"UpToDate"}]},
		{"peer-node-id":2,"name":"charlie","connection-state":"Connected","peer-role":"Secondary","peer_devices":[{"volume":0,"replication-state":"Established","peer-disk-state":"Diskless","peer-client":true}]}]}]`, "", 0)
	for range 20 {
		r.apply("bravo")
		r.now = r.now.Add(time.Minute)
	}
	if calls := n.Calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
	if waits := r.waits("bravo"); len(waits) != 1 || !strings.Contains(waits[0], "taking up its disk") {
		t.Errorf("%v", waits)
	}
	if problems := drbd.Problems(r.state("bravo")); len(problems) != 1 || !strings.Contains(problems[0], "when that does not end") {
		t.Errorf("%v", problems)
	}
}

func TestLastCopyIsKept(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Cut("alpha", "bravo")
	r.change("alpha", func(w *drbd.Want) { w.Volumes[0].Disk = "" })
	_, err := r.try("alpha")
	if !errors.As(err, new(*drbd.LastCopyError)) {
		t.Errorf("%v", err)
	}
	if s := r.state("alpha"); s.Devices[0].Disk != kernel.UpToDate {
		t.Errorf("%v", s)
	}
	r.cluster.Join("alpha", "bravo")
	r.apply("alpha")
	if s := r.state("alpha"); s.Devices[0].Disk != kernel.Diskless {
		t.Errorf("%v", s)
	}
}

func TestFailedDiskIsTriedAgainInPeace(t *testing.T) {
	r := newRig(t)
	r.up()
	n := r.cluster.Node("alpha")
	n.Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	n.Fail("r0", 0)
	tries := 0
	for range 60 {
		_, err := r.try("alpha")
		if err != nil && !strings.Contains(err.Error(), "Input/output error") {
			t.Fatal(err)
		}
		if r.called("alpha", "drbdadm adjust") {
			tries++
		}
		r.now = r.now.Add(time.Second)
	}
	if tries < 1 || tries > 4 {
		t.Errorf("%d tries in a minute", tries)
	}
	if problems := drbd.Problems(r.state("alpha")); len(problems) != 1 || !strings.Contains(problems[0], "lost its disk") {
		t.Errorf("%v", problems)
	}
	n.Mend(first)
	r.now = r.now.Add(time.Hour)
	r.apply("alpha")
	if s := r.state("alpha"); s.Devices[0].Disk != kernel.UpToDate || s.Role != kernel.Primary {
		t.Errorf("%v", s)
	}
}

// TestOtherNodeIDIsSetUpAnew: new-resource with another id says 0 and changes nothing.
func TestOtherNodeIDIsSetUpAnew(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("charlie").Use(device, pool.Holder{Kind: pool.Opened, Name: "qemu"})
	r.change("charlie", func(w *drbd.Want) { w.NodeID = 3 })
	if _, err := r.try("charlie"); !errors.As(err, new(*pool.InUseError)) {
		t.Errorf("%v", err)
	}
	r.cluster.Node("charlie").Free(device)
	r.apply("charlie")
	if s := r.state("charlie"); s.NodeID != 3 {
		t.Errorf("%v", s)
	}
}

func TestStateThatCannotBeLearnedStopsEverything(t *testing.T) {
	for what, answer := range map[string]struct {
		out, err string
		code     int
	}{
		"no module":     {"", "Could not connect to 'drbd' generic netlink family\n", 20},
		"8.4":           {"", "drbdsetup: unrecognized option '--json'\n", 20},
		"not JSON":      {"# No currently configured DRBD found.\n", "", 0},
		"half of it":    {`[{"name":"r0"`, "", 0},
		"without an id": {`[{"name":"r0","role":"Secondary"}]`, "", 0},
		"another 10":    {"", "r0: something else\n", 10},
	} {
		r := newRig(t)
		n := r.cluster.Node("alpha")
		n.Calls()
		n.Answer("drbdsetup status r0 --json", -1, answer.out, answer.err, answer.code)
		for _, down := range []bool{false, true} {
			r.change("alpha", func(w *drbd.Want) { w.Down = down })
			if _, err := r.try("alpha"); err == nil {
				t.Errorf("%s: nothing was said", what)
			}
		}
		if calls := n.Calls(); len(calls) > 0 {
			t.Errorf("%s: %v", what, calls)
		}
	}
}
