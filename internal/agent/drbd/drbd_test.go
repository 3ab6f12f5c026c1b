// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

func TestNewReplicasAreUpToDateWithoutASync(t *testing.T) {
	r := newRig(t)
	r.apply("alpha")
	if waits := strings.Join(r.waits("alpha"), ";"); !strings.Contains(waits, "Inconsistent") || !strings.Contains(waits, "connects to bravo") {
		t.Errorf("alone: %v", waits)
	}
	r.now = r.now.Add(time.Minute)
	if waits := strings.Join(r.waits("alpha"), ";"); strings.Contains(waits, "connects to") {
		t.Errorf("a peer that does not come is awaited for ever: %s", waits)
	}
	r.up()
	a, b := r.cluster.Node("alpha").Generation(first), r.cluster.Node("bravo").Generation(first)
	if a != b || a == "0000000000000004" {
		t.Errorf("data generations %s and %s", a, b)
	}
	for name := range r.ids {
		if s := r.state(name); s.NodeID != r.ids[name] || len(s.Connections) != 2 || s.Devices[0].Size != 64*mib {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// TestNothingIsRunWhereNothingChanged: a process costs as much as all else together.
func TestNothingIsRunWhereNothingChanged(t *testing.T) {
	r := newRig(t)
	r.up()
	for name := range r.ids {
		r.apply(name)
		if calls := r.cluster.Node(name).Calls(); len(calls) > 0 {
			t.Errorf("%s: %v", name, calls)
		}
	}
}

func TestStartIsMadeOnceHoweverOftenItIsWanted(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("bravo").Write(1000)
	before := r.cluster.Node("alpha").Generation(first)
	for range 3 {
		r.cluster.Node("alpha").Restart()
		r.restart("alpha")
		r.apply("alpha")
	}
	if after := r.cluster.Node("alpha").Generation(first); after != before {
		t.Errorf("data generation %s was %s", after, before)
	}
	if r.called("alpha", "new-current-uuid") {
		t.Error("it was started again")
	}
}

// TestStartWaitsForAllDisksAndSparesContent: a disk that joins later, or has content, is never declared equal.
func TestStartWaitsForAllDisksAndSparesContent(t *testing.T) {
	r := newRig(t)
	r.cluster.Cut("alpha", "bravo")
	r.apply("alpha", "bravo", "charlie", "alpha")
	if r.called("alpha", "new-current-uuid") {
		t.Error("it was started without bravo")
	}
	// Bravo has content, from another life.
	r.cluster.Node("bravo").Write(1000)
	r.cluster.Join("alpha", "bravo")
	r.apply("alpha")
	if r.called("alpha", "new-current-uuid") {
		t.Error("bravo's content was declared equal to alpha's")
	}
	if a, b := r.cluster.Node("alpha").Generation(first), r.cluster.Node("bravo").Generation(first); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

func TestDisksThatDifferGetTheContentOfOne(t *testing.T) {
	r := newRig(t)
	r.change("alpha", func(w *drbd.Want) { w.Volumes[0].Start = drbd.StartHere })
	r.up()
	s := r.state("alpha")
	if s.Role != kernel.Secondary || s.Devices[0].Disk != kernel.UpToDate {
		t.Errorf("%v", s)
	}
	// An explicit role would outlive its users.
	r.change("alpha", func(w *drbd.Want) { w.Volumes[0].Start = drbd.StartHere })
	r.apply("alpha")
	if r.called("alpha", "--force") {
		t.Error("force was used on a volume with content")
	}
}

func TestReplicaAloneIsStarted(t *testing.T) {
	for _, start := range []drbd.Start{drbd.StartEqual, drbd.StartHere} {
		r := newRig(t)
		r.change("alpha", func(w *drbd.Want) { w.Peers, w.Volumes[0].Start = nil, start })
		r.apply("alpha")
		if waits := r.waits("alpha"); len(waits) > 0 {
			t.Errorf("start %d: %v", start, waits)
		}
	}
}

func TestMetadataIsMadeOnUnusedDevicesAndProven(t *testing.T) {
	r := newRig(t)
	n := r.cluster.Node("alpha")
	n.Disk("/dev/mapper/new", 64*mib)
	v := drbd.Volume{Minor: 1009, Disk: "/dev/mapper/new"}
	n.Use("/dev/mapper/new", pool.Holder{Kind: pool.Mounted, Name: "/data"})
	err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: room})
	if used := new(pool.InUseError); !errors.As(err, &used) || used.Holders[0].Name != "/data" {
		t.Errorf("%v", err)
	}
	n.Free("/dev/mapper/new")
	// drbdmeta asks a question that nobody answers, and ends with 0.
	n.Answer("drbdmeta --force 1009 v09 /dev/mapper/new internal create-md 7", 1, "Operation canceled.\n", "", 0)
	if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: room}); err == nil {
		t.Error("metadata that was not made was believed")
	}
	n.Answer("drbdmeta --force 1009 v09 /dev/mapper/new internal create-md 7", 1, "Found ext3 filesystem\nOperation refused.\n", "", 40)
	if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: room}); !errors.As(err, new(*drbd.OccupiedError)) {
		t.Errorf("%v", err)
	}
	if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: 32}); err == nil {
		t.Error("room for 32 peers was made")
	}
	if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: room}); err != nil || n.Generation("/dev/mapper/new") == "" {
		t.Errorf("%v", err)
	}
}

// TestLostMetadataIsNotMadeAnew: new metadata would make the data of a finished volume worthless.
// TestLooksIntoANewDeviceAreWaitedFor: udev opens each one that comes.
func TestLooksIntoANewDeviceAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := r.cluster.Node("alpha")
		n.Disk("/dev/mapper/new", 64*mib)
		v := drbd.Volume{Minor: 1009, Disk: "/dev/mapper/new"}
		n.Use("/dev/mapper/new", pool.Holder{Kind: pool.Opened, Name: "(udev-worker)", PID: 1193})
		looked := time.AfterFunc(4*time.Second, func() { n.Free("/dev/mapper/new") })
		if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: room}); err != nil {
			t.Error(err)
		}
		looked.Stop()
		n.Use("/dev/mapper/new", pool.Holder{Kind: pool.Opened, Name: "dd", PID: 1194})
		began := time.Now()
		err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, drbd.Metadata{Peers: room})
		if used := new(pool.InUseError); !errors.As(err, &used) || used.Holders[0].PID != 1194 || time.Since(began) > 15*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestLostMetadataIsNotMadeAnew(t *testing.T) {
	r := newRig(t)
	r.change("bravo", func(w *drbd.Want) { w.Volumes[0].Disk = "/dev/mapper/other" })
	r.cluster.Node("bravo").Disk("/dev/mapper/other", 65*mib)
	r.cluster.Node("bravo").Calls()
	_, err := r.try("bravo")
	var e *drbd.KernelError
	if !errors.As(err, &e) || e.Code != 119 || !strings.Contains(err.Error(), "no metadata of DRBD") {
		t.Errorf("%v", err)
	}
	if r.called("bravo", "create-md") {
		t.Error("it was made anew")
	}
}

func TestUsedResourceStaysUp(t *testing.T) {
	r := newRig(t)
	r.up()
	n := r.cluster.Node("alpha")
	n.Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv", PID: 7})
	r.change("alpha", func(w *drbd.Want) { w.Down = true })
	_, err := r.try("alpha")
	if used := new(pool.InUseError); !errors.As(err, &used) || used.ID.Resource != "r0" || used.Holders[0].Name != "/srv" {
		t.Errorf("%v", err)
	}
	if s := r.state("alpha"); s.Role != kernel.Primary || s.Devices[0].Disk != kernel.UpToDate {
		t.Errorf("%v", s)
	}
	if calls := n.Calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
	n.Free(device)
	r.apply("alpha")
	if h := r.have("alpha"); h.State != nil || h.File {
		t.Errorf("left: %v", h)
	}
	r.apply("alpha") // And again, when nothing is there.
}

// TestUserWhomOnlyTheKernelKnowsIsNamed: a process that could not be seen has the device open.
func TestUserWhomOnlyTheKernelKnowsIsNamed(t *testing.T) {
	r := newRig(t)
	r.up()
	text := "r0: State change failed: (-12) Device is held open by someone\nadditional info from kernel:\ndrbd1000 opened by mount (pid 572) at 2026-11-30 11:59:22.035\n"
	r.cluster.Node("alpha").Answer("drbdsetup down r0", -1, "", text, 11)
	r.change("alpha", func(w *drbd.Want) { w.Down = true })
	_, err := r.try("alpha")
	want := []pool.Holder{{Kind: pool.Opened, Name: "mount", PID: 572}}
	if used := new(pool.InUseError); !errors.As(err, &used) || !slices.Equal(used.Holders, want) {
		t.Errorf("%v", err)
	}
}

func TestDownThatDidNothingIsNotBelieved(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Answer("drbdsetup down r0", -1, "", "", 0)
	r.change("alpha", func(w *drbd.Want) { w.Down = true })
	if _, err := r.try("alpha"); err == nil {
		t.Error("it still runs")
	}
	if h := r.have("alpha"); !h.File {
		t.Error("its configuration was removed")
	}
}

// secondVolume adds volume 1 to the resource.
func (r *rig) secondVolume() {
	r.t.Helper()
	for _, name := range []string{"alpha", "bravo"} {
		r.create(name, 1, second, 16*mib)
	}
	v := drbd.Volume{Minor: 1000, Disk: first, Size: 64 * mib}
	w := drbd.Volume{Number: 1, Minor: 1001, Disk: second, Size: 16 * mib}
	for name := range r.ids {
		r.wants[name] = r.want(name, v, w)
	}
	r.apply("bravo", "charlie", "alpha")
}

func TestVolumeIsAddedToARunningResource(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	r.secondVolume()
	r.cluster.Node("alpha").Free(device)
	for name := range r.ids {
		if waits := r.waits(name); len(waits) > 0 || len(r.state(name).Devices) != 2 {
			t.Errorf("%s: %v", name, waits)
		}
	}
}

func TestVolumeWithAGenerationIsUpToDateAtOnce(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	v := drbd.Volume{Number: 1, Minor: 1001, Disk: second, Size: 16 * mib}
	m := drbd.Metadata{Peers: room, Generation: "5A3C6E4F12345678"}
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		if name != "charlie" {
			r.cluster.Node(name).Disk(second, metadata.Backing(16*mib, room))
			if err := r.nodes[name].CreateMetadata(t.Context(), "r0", v, m); err != nil {
				t.Fatal(err)
			}
		}
		r.change(name, func(w *drbd.Want) {
			own := v
			if name == "charlie" {
				own.Disk = ""
			}
			w.Volumes = append(w.Volumes, own)
		})
		r.apply(name)
	}
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		r.apply(name)
		if waits := r.waits(name); name != "alpha" && len(waits) > 0 || len(r.cluster.Node("alpha").Generation(second)) != 16 {
			t.Errorf("%s: %v", name, waits)
		}
	}
	for _, bad := range []string{"0000000000000004", "0000000000000000", "5A3C6E4F12345679", "5a3c6e4f12345678", "5A3C", "x"} {
		if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r1", drbd.Volume{Minor: 3, Disk: "/dev/x"}, drbd.Metadata{Peers: room, Generation: bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestVolumeThatIsInUseIsNotRemoved: the kernel would delete a mounted device, and hang for ever in that.
func TestVolumeThatIsInUseIsNotRemoved(t *testing.T) {
	for user, used := range map[string]string{"itself": "/dev/drbd1001", "the other volume": device} {
		r := newRig(t)
		r.up()
		r.secondVolume()
		n := r.cluster.Node("alpha")
		n.Calls()
		n.Use(used, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
		r.change("alpha", func(w *drbd.Want) { w.Volumes[1].Destroy = true })
		_, err := r.try("alpha")
		if !errors.As(err, new(*pool.InUseError)) {
			t.Errorf("%s: %v", user, err)
		}
		if calls := n.Calls(); slices.ContainsFunc(calls, takes) {
			t.Errorf("%s: %v", user, calls)
		}
		if len(r.state("alpha").Devices) != 2 {
			t.Errorf("%s: it is gone", user)
		}
		n.Free(used)
		r.apply("alpha")
		if s := r.state("alpha"); len(s.Devices) != 1 {
			t.Errorf("%s: %v", user, s)
		}
	}
}

// TestUseThatCannotBeLearnedCountsAsUse: nothing is even asked of the kernel.
func TestUseThatCannotBeLearnedCountsAsUse(t *testing.T) {
	for what, change := range map[string]func(*drbd.Want){
		"down":     func(w *drbd.Want) { w.Down = true },
		"a volume": func(w *drbd.Want) { w.Volumes[1].Destroy = true },
	} {
		r := newRig(t)
		r.up()
		r.secondVolume()
		n := r.cluster.Node("alpha")
		blind := drbd.New(drbd.Settings{
			Runner: n, Folder: n.Folder, Notes: t.TempDir(),
			Users: func(context.Context, string) ([]pool.Holder, error) { return nil, errors.New("the look hangs") },
		})
		n.Calls()
		r.change("alpha", change)
		if _, err := stack.Converge(t.Context(), blind, r.wants["alpha"]); err == nil || !strings.Contains(err.Error(), "the look hangs") {
			t.Errorf("%s: %v", what, err)
		}
		for _, c := range n.Calls() {
			if strings.HasPrefix(c, "drbdsetup") {
				t.Errorf("%s: %s", what, c)
			}
		}
	}
}

// takes tells whether a command takes something away.
func takes(call string) bool {
	return strings.Contains(call, "del-minor") || strings.Contains(call, "detach") || strings.Contains(call, "del-peer") || strings.Contains(call, "adjust")
}

// TestUnseenUserKeepsTheVolume: only the kernel's refusal to become Secondary tells of it.
func TestUnseenUserKeepsTheVolume(t *testing.T) {
	r := newRig(t)
	r.up()
	r.secondVolume()
	n := r.cluster.Node("alpha")
	n.Calls()
	text := "r0: State change failed: (-12) Device is held open by someone\nadditional info from kernel:\ndrbd1001 opened by bash (pid 240) at 2026-11-30 12:01:31.996\n"
	n.Answer("drbdsetup secondary r0", -1, "", text, 11)
	r.change("alpha", func(w *drbd.Want) { w.Volumes[1].Destroy = true })
	_, err := r.try("alpha")
	if used := new(pool.InUseError); !errors.As(err, &used) || used.ID.Volume != 1 || used.Holders[0].PID != 240 {
		t.Errorf("%v", err)
	}
	calls := n.Calls()
	want := []string{"drbdsetup resource-options r0 --auto-promote=no", "drbdsetup secondary r0", "drbdsetup resource-options r0 --auto-promote=yes"}
	if i := slices.Index(calls, want[0]); i < 0 || cmp.Diff(want, calls[i:]) != "" {
		t.Errorf("%v", calls)
	}
}

// TestWhatNobodyNamedIsLeftAlone: a wish that lacks a volume or a peer is a mistake, not an order.
func TestWhatNobodyNamedIsLeftAlone(t *testing.T) {
	for what, lack := range map[string]func(*drbd.Want){
		"a volume": func(w *drbd.Want) { w.Volumes = w.Volumes[:1] },
		"a peer":   func(w *drbd.Want) { w.Peers = w.Peers[:1] },
		"a minor":  func(w *drbd.Want) { w.Volumes[0].Minor = 1005 },
	} {
		r := newRig(t)
		r.up()
		r.secondVolume()
		n := r.cluster.Node("alpha")
		n.Calls()
		before, _ := os.ReadFile(filepath.Join(n.Folder, "r0.res"))
		r.change("alpha", lack)
		if _, err := r.try("alpha"); err == nil {
			t.Errorf("%s: nothing was said", what)
		}
		after, _ := os.ReadFile(filepath.Join(n.Folder, "r0.res"))
		if calls := n.Calls(); len(calls) > 0 || string(before) != string(after) {
			t.Errorf("%s: %v, and the file is %s", what, calls, after)
		}
	}
}

// TestDryRunIsReviewed: something that drbdadm would take away for a reason that we do not know.
func TestDryRunIsReviewed(t *testing.T) {
	for _, line := range []string{
		"drbdsetup del-peer r0 1", "drbdsetup del-minor 1000", "drbdsetup detach --diskless 1000", "drbdsetup down r0", "drbdsetup resize 1000 --size=1G",
		"drbdsetup disconnect r0 1", "drbdsetup del-path r0 1 ipv4:10.0.0.1:7000 ipv4:10.0.0.2:7000", "drbdsetup new-minor r0 77 0", "drbdsetup new-current-uuid 1000",
		"rm -rf /", "drbdsetup", "drbdmeta 1000", "drbdsetup net-options r0 1 'x",
	} {
		r := newRig(t)
		r.up()
		n := r.cluster.Node("alpha")
		n.Answer("drbdadm --dry-run adjust r0", -1, line+"\n", "", 0)
		r.change("alpha", func(w *drbd.Want) { w.Options = config.Options{"quorum": "off"} })
		if _, err := r.try("alpha"); err == nil {
			t.Errorf("%s: nothing was said", line)
		}
		if r.called("alpha", "drbdadm adjust") {
			t.Errorf("%s: it was adjusted", line)
		}
	}
}

func TestErrorsDoNotShowSecrets(t *testing.T) {
	r := newRig(t)
	r.up()
	n := r.cluster.Node("alpha")
	n.Answer("drbdadm --dry-run adjust r0", -1, "drbdsetup del-peer r0 1 --shared-secret=marker\n", "", 0)
	r.change("alpha", func(w *drbd.Want) { w.Options = nil })
	_, first := r.try("alpha")
	n.Answer("drbdadm --dry-run adjust r0", -1, "drbdsetup net-options r0 1 --shared-secret=marker\n", "", 0)
	n.Answer("drbdadm adjust r0", -1, "", "r0: Failure: (164) Can not\nCommand 'drbdsetup net-options r0 1 --shared-secret=marker' terminated with exit code 10\n", 1)
	_, second := r.try("alpha")
	for _, err := range []error{first, second} {
		if err == nil || strings.Contains(err.Error(), "marker") {
			t.Errorf("%v", err)
		}
	}
	if !strings.Contains(second.Error(), "end one of the uses first") {
		t.Errorf("%v", second)
	}
}
