// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/drbdtest"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
)

// recordedJSON returns what was recorded of a command of drbdsetup, whole documents only.
func recordedJSON(tb testing.TB, verb string) []drbdtest.Block {
	tb.Helper()
	var blocks []drbdtest.Block
	for _, b := range drbdtest.Transcripts(tb) {
		if strings.HasPrefix(b.Line, "drbdsetup "+verb) && strings.Contains(b.Line, "--json") && !strings.ContainsAny(b.Line, ";|") {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func streams(tb testing.TB) []drbdtest.Block {
	tb.Helper()
	var blocks []drbdtest.Block
	for _, b := range drbdtest.Transcripts(tb) {
		if strings.HasPrefix(b.Line, "drbdsetup events2") {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func TestTranscriptsAreThere(t *testing.T) {
	if all, json, show, events := len(drbdtest.Transcripts(t)), len(recordedJSON(t, "status")), len(recordedJSON(t, "show")), len(streams(t)); all < 900 || json < 20 || show < 4 || events < 30 {
		t.Errorf("%d commands, %d of status, %d of show, %d streams", all, json, show, events)
	}
}

func TestEveryRecordedStatusIsRead(t *testing.T) {
	for _, b := range recordedJSON(t, "status") {
		resources, err := kernel.ParseStatus([]byte(b.Stdout))
		if err != nil {
			t.Errorf("%s: %s: %v", b.File, b.Line, err)
			continue
		}
		if b.Code == 0 && strings.Contains(b.Line, "r0") && (len(resources) != 1 || resources[0].Name != "r0") {
			t.Errorf("%s: %s: %d resources", b.File, b.Line, len(resources))
		}
		if b.Code == 10 && len(resources) != 0 {
			t.Errorf("%s: %s: a resource that is not there", b.File, b.Line)
		}
	}
}

func TestStatusOfASyncIsReadWhole(t *testing.T) {
	for _, b := range recordedJSON(t, "status") {
		if b.File != "01-create-up-first-sync.txt" || b.Host != "alpha" || !strings.Contains(b.Line, "--statistics") {
			continue
		}
		got, err := kernel.ParseStatus([]byte(b.Stdout))
		if err != nil {
			t.Fatal(err)
		}
		want := []kernel.Resource{{
			Name: "r0", Role: kernel.Primary,
			Devices: []kernel.Device{{Minor: 1000, Disk: kernel.UpToDate, Quorum: true, Size: 65484 << 10}},
			Connections: []kernel.Connection{
				{PeerID: 1, Name: "bravo", State: kernel.Connected, Role: kernel.Secondary, PeerDevices: []kernel.PeerDevice{
					{Replication: "SyncSource", Disk: kernel.Inconsistent, OutOfSync: 18380 << 10, Done: new(71.93)},
				}},
				{PeerID: 2, Name: "charlie", State: kernel.Connected, Role: kernel.Secondary, PeerDevices: []kernel.PeerDevice{
					{Replication: kernel.Established, Disk: kernel.Diskless, Client: true},
				}},
			},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("the transcript has no such status")
}

func TestEveryRecordedConfigurationIsRead(t *testing.T) {
	for _, b := range recordedJSON(t, "show") {
		all, err := kernel.ParseShow([]byte(b.Stdout))
		if err != nil {
			t.Errorf("%s: %s: %v", b.File, b.Line, err)
		}
		if len(all) == 0 {
			continue
		}
		if b.Host == "alpha" && b.Line == "drbdsetup show r0 --json" && b.File == "04-show.txt" {
			ap := netip.MustParseAddrPort
			want := kernel.Configured{
				Name: "r0", Options: map[string]string{"quorum": "majority", "on-no-quorum": "io-error"},
				Volumes: []kernel.ConfiguredVolume{{Minor: 1000, Backing: "/dev/mapper/vg0-r0"}},
				Peers: []kernel.ConfiguredPeer{
					{NodeID: 1, Name: "bravo", Net: map[string]string{"timeout": "30", "connect-int": "3", "ping-int": "3"}, Paths: []kernel.ConfiguredPath{{ap("10.0.0.1:7000"), ap("10.0.0.2:7000")}}},
					{NodeID: 2, Name: "charlie", Net: map[string]string{"timeout": "30", "connect-int": "3", "ping-int": "3"}, Paths: []kernel.ConfiguredPath{{ap("10.0.0.1:7000"), ap("10.0.0.3:7000")}}},
				},
			}
			if diff := cmp.Diff(want, all[0], cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		}
		if b.Host == "charlie" && all[0].Volumes[0].Backing != "" {
			t.Errorf("%s: %s: a client with the disk %s", b.File, b.Line, all[0].Volumes[0].Backing)
		}
	}
}

func TestSecretsOfAConfigurationAreLeftOut(t *testing.T) {
	got, err := kernel.ParseShow([]byte(`[{"resource":"r","_this_host":{"node-id":1},"connections":[{"_peer_node_id":0,"path":[{"_this_host":"ipv6 [fd00::1]:7","_remote_host":"ipv6 [fd00::2]:7"}],"net":{"shared-secret":"marker","_name":"b"}}]}]`))
	if err != nil || len(got[0].Peers[0].Net) != 0 || len(got[0].Peers[0].Paths) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestEveryRecordedStreamIsFollowed folds all streams, through lost nodes, split brains and restarts.
func TestEveryRecordedStreamIsFollowed(t *testing.T) {
	for _, b := range streams(t) {
		if b.Code != 0 {
			continue
		}
		var tracker kernel.Tracker
		for line := range strings.Lines(b.Stdout) {
			e, err := kernel.ParseEvent(line)
			if err == nil {
				_, err = tracker.Apply(e)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", b.File, b.Host, err)
			}
		}
		if b.Stdout != "" && !tracker.Complete() {
			t.Errorf("%s: %s: the beginning never ended", b.File, b.Host)
		}
	}
}

// TestStreamAndStatusAgree compares the end of streams with the last status before it, where nothing happened in between.
func TestStreamAndStatusAgree(t *testing.T) {
	compared := 0
	for _, host := range []string{"alpha", "bravo", "charlie"} {
		var last []kernel.Resource
		for _, b := range drbdtest.Transcripts(t) {
			if b.File != "01-create-up-first-sync.txt" || b.Host != host {
				continue
			}
			if b.Line == "drbdsetup status r0 --json" {
				last, _ = kernel.ParseStatus([]byte(b.Stdout))
			}
			if !b.Stream {
				continue
			}
			var tracker kernel.Tracker
			for line := range strings.Lines(b.Stdout) {
				e, _ := kernel.ParseEvent(line)
				if _, err := tracker.Apply(e); err != nil {
					t.Error(err)
				}
			}
			got, ok := tracker.Resource("r0")
			if !ok || got.MayPromote == nil || !*got.MayPromote || got.PromotionScore == nil {
				t.Errorf("%s: it may not be promoted: %v", host, got)
			}
			// What only one of the two tells.
			got.NodeID, got.MayPromote, got.PromotionScore, got.Devices[0].Backing = last[0].NodeID, nil, nil, ""
			if diff := cmp.Diff(last[0], got); diff != "" {
				t.Errorf("%s: %s", host, diff)
			}
			compared++
		}
	}
	if compared != 3 {
		t.Errorf("%d streams were compared", compared)
	}
}

func TestSplitBrainIsSeenAndForgottenWhenItIsSolved(t *testing.T) {
	for _, b := range streams(t) {
		if b.File != "16-split-brain.txt" || b.Host != "alpha" {
			continue
		}
		var tracker kernel.Tracker
		seen := false
		for line := range strings.Lines(b.Stdout) {
			e, _ := kernel.ParseEvent(line)
			if _, err := tracker.Apply(e); err != nil {
				t.Fatal(err)
			}
			r, _ := tracker.Resource("r0")
			c, _ := r.Connection(1)
			seen = seen || c.SplitBrain && c.State == kernel.StandAlone
		}
		r, _ := tracker.Resource("r0")
		if c, _ := r.Connection(1); !seen || c.SplitBrain || c.State != kernel.Connected {
			t.Errorf("seen: %v, at the end: %v", seen, c)
		}
		return
	}
	t.Error("the transcript has no such stream")
}

func TestVolumeAndPeersThatGoAreForgotten(t *testing.T) {
	var tracker kernel.Tracker
	for _, line := range []string{
		"exists resource name:r role:Secondary suspended:no", "exists connection name:r peer-node-id:3 conn-name:c connection:Connected role:Secondary",
		"exists device name:r volume:0 minor:7 disk:UpToDate client:no quorum:yes size:8", "exists device name:r volume:1 minor:8 disk:UpToDate client:no quorum:no size:8",
		"exists peer-device name:r peer-node-id:3 conn-name:c volume:0 replication:Established peer-disk:UpToDate", "exists -",
	} {
		apply(t, &tracker, line)
	}
	if r, _ := tracker.Resource("r"); r.Quorum() || len(r.Devices) != 2 || len(r.Connections) != 1 {
		t.Errorf("%v", r)
	}
	apply(t, &tracker, "destroy device name:r volume:1")
	apply(t, &tracker, "destroy connection name:r peer-node-id:3 conn-name:c")
	if r, _ := tracker.Resource("r"); !r.Quorum() || len(r.Devices) != 1 || len(r.Connections) != 0 {
		t.Errorf("%v", r)
	}
	apply(t, &tracker, "rename resource name:r new_name:s")
	if _, ok := tracker.Resource("s"); !ok || len(tracker.Names()) != 1 {
		t.Error(tracker.Names())
	}
	apply(t, &tracker, "destroy resource name:s")
	if len(tracker.Names()) != 0 {
		t.Error(tracker.Names())
	}
	e, _ := kernel.ParseEvent("change device name:gone volume:0 disk:UpToDate")
	if _, err := tracker.Apply(e); err == nil {
		t.Error("a change of what was never told of was taken")
	}
}

func apply(t *testing.T, tracker *kernel.Tracker, line string) {
	t.Helper()
	e, err := kernel.ParseEvent(line)
	if err == nil {
		_, err = tracker.Apply(e)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, b := range streams(f) {
		for i, line := range strings.Split(b.Stdout, "\n") {
			if i%40 == 0 {
				f.Add(line)
			}
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := kernel.ParseEvent(line)
		if err != nil {
			return
		}
		var tracker kernel.Tracker
		if _, err := tracker.Apply(e); err != nil {
			return
		}
		for _, name := range tracker.Names() {
			if r, ok := tracker.Resource(name); !ok || r.Name == "" {
				t.Errorf("%q made %v", line, r)
			}
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	for i, b := range recordedJSON(f, "status") {
		if i%5 == 0 {
			f.Add([]byte(b.Stdout))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		resources, err := kernel.ParseStatus(text)
		for _, r := range resources {
			if err != nil || r.Name == "" && r.Role == "" {
				t.Errorf("%v, %v", r, err)
			}
			for _, d := range r.Devices {
				if d.Size < 0 {
					t.Errorf("a size of %d", d.Size)
				}
			}
		}
	})
}

func FuzzParseShow(f *testing.F) {
	for _, b := range recordedJSON(f, "show") {
		f.Add([]byte(b.Stdout))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, err := kernel.ParseShow(text); err != nil && all != nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}
