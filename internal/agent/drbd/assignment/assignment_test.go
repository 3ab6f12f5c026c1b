// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package assignment_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/assignment"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
)

func assigned() *agentpb.Resource {
	return &agentpb.Resource{
		Name: "db", Layers: []string{"DRBD", "STORAGE"},
		Volumes: []*agentpb.Volume{
			{Number: 0, Pool: "fast", Size: 1 << 30, Drbd: &agentpb.DrbdVolume{Minor: 1000, Start: agentpb.DrbdVolume_HERE, Disk: map[string]string{"al-extents": "67"}}},
			{Number: 1, Pool: "fast", Size: 1 << 20, Destroy: true, Drbd: &agentpb.DrbdVolume{Minor: 1001, Generation: "5A3C6E4F12345678"}},
		},
		Drbd: &agentpb.Drbd{
			NodeId: 3, Secret: "s", PeerSlots: 5, Retired: []int32{9}, Options: map[string]string{"quorum": "majority"}, Net: map[string]string{"protocol": "C"},
			Peers: []*agentpb.DrbdPeer{{Node: "n2", NodeId: 1, Diskless: true, Paths: []*agentpb.DrbdPath{{Local: "10.0.0.1:7000", Remote: "10.0.0.2:7001"}}}},
		},
	}
}

func device(number int32) string { return map[int32]string{0: "/dev/a", 1: "/dev/b"}[number] }

func TestWishIsWhatIsAssigned(t *testing.T) {
	got, err := assignment.Want(assigned(), "host", device)
	if err != nil {
		t.Fatal(err)
	}
	ap := netip.MustParseAddrPort
	want := drbd.Want{
		Name: "db", Host: "host", NodeID: 3, Secret: "s", Retired: []int{9}, Options: config.Options{"quorum": "majority"}, Net: config.Options{"protocol": "C"},
		Volumes: []drbd.Volume{
			{Number: 0, Minor: 1000, Disk: "/dev/a", Size: 1 << 30, Start: drbd.StartHere, Options: config.Options{"al-extents": "67"}},
			{Number: 1, Minor: 1001, Disk: "/dev/b", Size: 1 << 20, Destroy: true},
		},
		Peers: []config.Peer{{Name: "n2", NodeID: 1, Diskless: true, Paths: []config.Path{{Local: ap("10.0.0.1:7000"), Remote: ap("10.0.0.2:7001")}}}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if got := assignment.Metadata(assigned(), assigned().GetVolumes()[1]); got != (drbd.Metadata{Peers: 5, Generation: "5A3C6E4F12345678"}) {
		t.Errorf("%+v", got)
	}
	if got := assignment.Backing(assigned(), assigned().GetVolumes()[0]); metadata.Usable(got, 5) != 1<<30 {
		t.Errorf("%d bytes below", got)
	}
}

func TestReplicaThatBecomesDisklessKeepsItsDevices(t *testing.T) {
	r := assigned()
	r.Drbd.Diskless = true
	r.Volumes[0].Destroy = true
	got, err := assignment.Want(r, "host", device)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got.Volumes {
		if v.Disk != "" || v.Destroy {
			t.Errorf("%+v", v)
		}
	}
}

func TestWhatGoesNeedsNothingElse(t *testing.T) {
	for _, r := range []*agentpb.Resource{{Name: "db", Destroy: true}, {Name: "db", Inactive: true}} {
		if got, err := assignment.Want(r, "host", device); err != nil || !got.Down || got.Name != "db" {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for what, spoil := range map[string]func(*agentpb.Resource){
		"all of DRBD":      func(r *agentpb.Resource) { r.Drbd = nil },
		"a minor":          func(r *agentpb.Resource) { r.Volumes[0].Drbd = nil },
		"an address":       func(r *agentpb.Resource) { r.Drbd.Peers[0].Paths[0].Local = "" },
		"a port":           func(r *agentpb.Resource) { r.Drbd.Peers[0].Paths[0].Remote = "10.0.0.2" },
		"the device below": func(r *agentpb.Resource) { r.Volumes[0].Number = 7 },
	} {
		r := assigned()
		spoil(r)
		if _, err := assignment.Want(r, "host", device); err == nil {
			t.Errorf("without %s: nothing was said", what)
		}
	}
}

func TestStatusJoinsWhatIsObservedAndWhatEventsTell(t *testing.T) {
	s := kernel.Resource{
		Name: "db", Role: kernel.Secondary,
		Devices: []kernel.Device{{Minor: 1000, Disk: kernel.Inconsistent, Quorum: true, Size: 1 << 20}},
		Connections: []kernel.Connection{
			{PeerID: 1, Name: "n2", State: kernel.StandAlone, Role: "Unknown"},
			{PeerID: 2, Name: "n3", State: kernel.Connected, Role: kernel.Primary, PeerDevices: []kernel.PeerDevice{{Disk: kernel.UpToDate, Replication: "SyncTarget", Done: new(41.5)}}},
		},
	}
	before := proto.Clone(assignment.Status(s, nil))
	events := kernel.Resource{MayPromote: new(true), PromotionScore: new(10102), Connections: []kernel.Connection{{PeerID: 1, SplitBrain: true}}}
	got := assignment.Status(s, &events)
	want := &agentpb.DrbdStatus{
		Role: "Secondary", MayPromote: new(true), PromotionScore: new(int32(10102)), Quorum: new(true),
		Connections: []*agentpb.DrbdConnection{
			{Node: "n2", State: "StandAlone", Role: "Unknown"},
			{Node: "n3", State: "Connected", Role: "Primary", DiskStates: map[int32]string{0: "UpToDate"}, Replication: map[int32]string{0: "SyncTarget"}},
		},
		Problems: []string{"split brain: this host and n2 have both changed db; choose the side whose changes are given up"},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, assignment.Status(s, nil), protocmp.Transform()); diff != "" {
		t.Errorf("the state was changed: %s", diff)
	}
	v := &agentpb.VolumeStatus{DevicePath: "/dev/below", Usable: new(int64(1 << 21))}
	assignment.Volume(v, s)
	if diff := cmp.Diff(&agentpb.VolumeStatus{DevicePath: "/dev/drbd1000", Usable: new(int64(1 << 20)), DiskState: "Inconsistent", ResyncDone: new(41.5)}, v, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	gone := &agentpb.VolumeStatus{Number: 4, DevicePath: "/dev/below", Usable: new(int64(1))}
	assignment.Volume(gone, s)
	if gone.GetDevicePath() != "" || gone.Usable != nil {
		t.Errorf("a device that is not there: %v", gone)
	}
}
