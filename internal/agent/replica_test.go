// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/model"
)

func TestReplicasComeUpEqualAndOneOfThemIsFormatted(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	results := r.settle(r.wants(64 * mib))
	for name, result := range results {
		r.wantVolume(name, result, drbdDevice, "UpToDate", 64*mib)
		v := result.Volumes[0]
		if v.GetInUse() || !strings.HasPrefix(v.GetBackingPath(), "/dev/pool1/") {
			t.Errorf("%s: %v", name, v)
		}
		if result.DRBD.GetRole() != "Secondary" || len(result.DRBD.GetConnections()) != 1 || result.DRBD.GetConnections()[0].GetState() != "Connected" {
			t.Errorf("%s: %v", name, result.DRBD)
		}
		below, ok, err := r.hosts[name].memory.Find(t.Context(), pool.ID{Resource: "r1"})
		if err != nil || !ok || below.New || below.Size < metadata.Backing(64*mib, metadata.DefaultPeers) {
			t.Errorf("%s: below lies %v, %v, %v", name, below, ok, err)
		}
	}
	if got := strings.Join(r.formats, ", "); got != "n1 "+drbdDevice {
		t.Errorf("formatted: %s", got)
	}
	r.settle(r.wants(64 * mib))
	if len(r.formats) != 1 {
		t.Errorf("formatted again: %v", r.formats)
	}
	if ports, minors := r.hosts["n1"].machine.Numbers(); !slices.Equal(ports, []uint32{7000}) || !slices.Equal(minors, []uint32{1000}) {
		t.Errorf("numbers %v, %v", ports, minors)
	}
}

func TestADiskThatDiffersIsStartedHere(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	wants := r.wants(64*mib, func(w *agent.Want) { w.Volumes[0].DRBD.Generation = "" })
	wants["n1"].Volumes[0].DRBD.Start = agentpb.DrbdVolume_HERE
	for name, result := range r.settle(wants) {
		r.wantVolume(name, result, drbdDevice, "UpToDate", 64*mib)
	}
}

func TestAnAgentThatIsKilledAtAnyStepGoesOn(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			reached := false
			t.Run(fmt.Sprintf("step %d, done %v", step, after), func(t *testing.T) {
				r := newReplicas(t, "n1", "n2")
				h := r.hosts["n1"]
				h.after = after
				h.kill = func(n int) error {
					if n == step {
						reached = true
						return errKilled
					}
					return nil
				}
				for name, result := range r.settle(r.wants(64 * mib)) {
					r.wantVolume(name, result, drbdDevice, "UpToDate", 64*mib)
				}
				head := r.contents[drbdDevice].bytes
				if head[1080] != 0x53 || head[1081] != 0xEF || len(r.formats) > 2 {
					t.Errorf("formatted: %v", r.formats)
				}
				gone := r.wants(64*mib, func(w *agent.Want) { w.Destroy = true })
				r.settle(gone)
				r.wantNothing()
			})
			if t.Failed() || !reached {
				break
			}
		}
	}
}

// wantNothing wants nothing to be left on any host.
func (r *replicas) wantNothing() {
	r.Helper()
	for name, h := range r.hosts {
		left, err := h.memory.List(r.Context())
		files, _ := filepath.Glob(filepath.Join(h.node.Folder, "*.res"))
		notes, _ := filepath.Glob(filepath.Join(h.notes, "formatting", "*"))
		_, runs := h.node.Run(r.Context(), command.Command{Program: "drbdsetup", Args: []string{"status", "r1", "--json"}})
		if err != nil || runs == nil || len(left)+len(files)+len(notes) > 0 {
			r.Errorf("%s has the volumes %v, files %v, notes %v, runs: %v (%v)", name, left, files, notes, runs == nil, err)
		}
	}
}

func TestAReplicaInUseIsNotDestroyed(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	r.settle(r.wants(64 * mib))
	h := r.hosts["n1"]
	h.node.Use(drbdDevice, pool.Holder{Kind: pool.Mounted, Name: "/mnt"})
	w := r.want("n1", 64*mib, func(w *agent.Want) { w.Destroy = true })
	_, err := h.machine.Apply(t.Context(), w)
	if used, ok := errors.AsType[*pool.InUseError](err); !ok || len(used.Holders) != 1 {
		t.Fatalf("got %v", err)
	}
	seen, err := h.machine.Inspect(t.Context(), w)
	if err != nil || len(seen.Volumes) != 1 || !seen.Volumes[0].GetInUse() || !slices.Equal(seen.Volumes[0].GetHolders(), []string{"mounted at /mnt"}) {
		t.Errorf("seen %v, %v", seen, err)
	}
	h.node.Free(drbdDevice)
	r.settle(r.wants(64*mib, func(w *agent.Want) { w.Destroy = true }))
	r.wantNothing()
}

func TestAVolumeGrowsWhenAllHostsHaveGrown(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	r.settle(r.wants(64 * mib))
	h := r.hosts["n1"]
	result, err := h.machine.Apply(t.Context(), r.want("n1", 96*mib))
	if err != nil || !result.Pending || !result.Waits || len(result.DRBD.GetProblems()) == 0 {
		t.Errorf("alone: %v, %v", result, err)
	}
	for name, result := range r.settle(r.wants(96 * mib)) {
		r.wantVolume(name, result, drbdDevice, "UpToDate", 96*mib)
	}
}

func TestAClientUsesTheDisksOfOthers(t *testing.T) {
	r := newReplicas(t, "n1", "n2", "n3")
	wants := r.wants(64*mib, peersDiskless("n3"))
	wants["n3"] = r.want("n3", 64*mib, diskless)
	results := r.settle(wants)
	r.wantVolume("n3", results["n3"], drbdDevice, "Diskless", 64*mib)
	if v := results["n3"].Volumes[0]; v.GetBackingPath() != "" || v.Allocated != nil {
		t.Errorf("the client has %v", v)
	}
	r.hosts["n3"].node.Use(drbdDevice, pool.Holder{Kind: pool.Opened, Name: "qemu", PID: 7})
	seen, err := r.hosts["n3"].machine.Inspect(t.Context(), wants["n3"])
	if err != nil || !seen.Volumes[0].GetInUse() || seen.DRBD.GetRole() != "Primary" {
		t.Errorf("in use: %v, %v", seen, err)
	}
}

func TestADiskIsGivenUpOnlyForAnother(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	r.settle(r.wants(64 * mib))
	losing := r.want("n2", 64*mib, func(w *agent.Want) { w.DRBD.Diskless, w.Volumes[0].Destroy = true, true })
	r.cluster.Cut("n1", "n2")
	h := r.hosts["n2"]
	if result, err := h.machine.Apply(t.Context(), losing); err == nil && !result.Pending {
		t.Errorf("it was given up: %v", result)
	}
	if _, there, _ := h.memory.Find(t.Context(), pool.ID{Resource: "r1"}); !there {
		t.Fatal("the disk is gone")
	}
	h.node.Restart() // and a host that comes up without its peer has lost it for nobody
	h.restart()
	if result, err := h.machine.Apply(t.Context(), losing); err == nil && !result.Pending {
		t.Errorf("it was given up after a reboot: %v", result)
	}
	if _, there, _ := h.memory.Find(t.Context(), pool.ID{Resource: "r1"}); !there {
		t.Fatal("the disk is gone after a reboot")
	}
	r.cluster.Join("n1", "n2")
	results := r.settle(map[string]agent.Want{"n1": r.want("n1", 64*mib), "n2": losing})
	if _, there, _ := h.memory.Find(t.Context(), pool.ID{Resource: "r1"}); there || len(results["n2"].Volumes) != 0 {
		t.Errorf("the disk is still there: %v", results["n2"])
	}
	results = r.settle(map[string]agent.Want{"n1": r.want("n1", 64*mib, peersDiskless("n2")), "n2": r.want("n2", 64*mib, diskless)})
	r.wantVolume("n2", results["n2"], drbdDevice, "Diskless", 64*mib)
}

func TestAReplicaStaysUpUntilItIsConfirmedWhatBecomesOfItsVolumes(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	r.settle(r.wants(64 * mib))
	r.hosts["n1"].node.Calls()
	w := r.want("n1", 64*mib, func(w *agent.Want) { w.DRBD.Diskless, w.Volumes = true, nil })
	result, err := r.hosts["n1"].machine.Apply(t.Context(), w)
	if calls := r.hosts["n1"].node.Calls(); err != nil || len(calls) > 0 || result.DRBD.GetRole() == "" {
		t.Errorf("got %v, %v, after %v", result, err, calls)
	}
}

func TestWhatLiesOnADeviceIsNeverFormatted(t *testing.T) {
	for _, c := range []struct {
		name    string
		content func([]byte)
		note    bool
		ready   bool // it was ready here before
		formats int
		refused string
	}{
		{name: "nothing", content: func([]byte) {}, formats: 1},
		{name: "nothing, but it was ready", content: func([]byte) {}, ready: true},
		{name: "ext4", content: func(b []byte) { b[1080], b[1081] = 0x53, 0xEF }},
		{name: "ext4 that was being made", content: func(b []byte) { b[1080], b[1081] = 0x53, 0xEF }, note: true},
		{name: "XFS", content: func(b []byte) { copy(b, "XFSB") }},
		{name: "half an XFS of ours", content: func(b []byte) { copy(b, "XFSB"); b[126] = 1 }, note: true, formats: 1},
		{name: "half an XFS", content: func(b []byte) { copy(b, "XFSB"); b[126] = 1 }, refused: "something lies on"},
		{name: "Btrfs", content: func(b []byte) { copy(b[64<<10+64:], "_BHRfS_M") }},
		{name: "a database", content: func(b []byte) { b[5000] = 1 }, refused: "something lies on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReplicas(t, "n1", "n2")
			bare := func(w *agent.Want) { w.Volumes[0].Filesystem = nil }
			r.settle(r.wants(64*mib, bare))
			h := r.hosts["n1"]
			c.content(h.disk(drbdDevice).bytes)
			if c.note {
				h.kill = func(int) error { return errKilled }
				saved := h.disk(drbdDevice).bytes
				r.contents[drbdDevice] = nil // it began on an empty device
				_, _ = h.machine.Apply(t.Context(), r.want("n1", 64*mib))
				r.contents[drbdDevice] = &memoryDisk{bytes: saved}
				h.kill = nil
			}
			before := len(r.formats)
			_, err := h.machine.Apply(t.Context(), r.want("n1", 64*mib, func(w *agent.Want) { w.Volumes[0].Existing = c.ready }))
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("got %v", err)
			}
			if got := len(r.formats) - before; got != c.formats {
				t.Errorf("formatted %d times, want %d", got, c.formats)
			}
		})
	}
}

func TestWritersAreHeldBackWhereTheReplicaIsUsed(t *testing.T) {
	r := newReplicas(t, "n1", "n2")
	wants := r.wants(64 * mib)
	r.settle(wants)
	r.hosts["n1"].node.Use(drbdDevice, pool.Holder{Kind: pool.Opened, Name: "qemu", PID: 7})
	suspended := func(name string) bool {
		seen, err := r.hosts[name].machine.Inspect(t.Context(), wants[name])
		if err != nil {
			t.Fatal(err)
		}
		return seen.DRBD.GetSuspended()
	}
	var held []agent.Suspension
	for _, name := range []string{"n1", "n2"} {
		s, err := r.hosts[name].machine.Suspend(t.Context(), []agent.Want{wants[name]}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, s)
	}
	if !suspended("n1") || suspended("n2") {
		t.Errorf("suspended: %v, %v", suspended("n1"), suspended("n2"))
	}
	for _, s := range held {
		if written, err := s.Resume(); err != nil || len(written) > 0 {
			t.Errorf("written %v, %v", written, err)
		}
	}
	if suspended("n1") {
		t.Error("it is held back still")
	}
}

func TestReplicasAreRolledBackWhateverStepTheAgentIsKilledAt(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			reached := false
			t.Run(fmt.Sprintf("step %d, done %v", step, after), func(t *testing.T) {
				r := newReplicas(t, "n1", "n2")
				part := agent.SnapshotPart{Pool: agent.Pool{Name: "pool1", Provider: model.File}}
				snapshot := func(w *agent.Want) {
					w.Snapshots = []agent.SnapshotWant{{Name: "s1", Parts: []agent.SnapshotPart{part}}}
				}
				r.settle(r.wants(64*mib, snapshot))
				id := pool.ID{Resource: "r1"}
				for _, h := range r.hosts {
					if err := h.memory.Put(id, "after"); err != nil {
						t.Fatal(err)
					}
				}
				r.hosts["n1"].node.Write(1000)
				before := map[string]string{}
				for _, name := range []string{"n1", "n2"} {
					h := r.hosts[name]
					h.steps, h.after = 0, after
					below, _, err := h.memory.Find(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					before[name] = h.node.Generation(below.Device.Path)
					h.kill = func(n int) error {
						if n == step {
							reached = true
							return errKilled
						}
						return nil
					}
				}
				results := r.settle(r.wants(64*mib, snapshot, func(w *agent.Want) {
					w.Volumes[0].Existing, w.Snapshots[0].Existing = true, true
					w.Volumes[0].RollBack = &agentpb.RollBack{Snapshot: "s1", Token: "0123456789abcdef0123456789abcdef"}
				}))
				for name, result := range results {
					r.wantVolume(name, result, drbdDevice, "UpToDate", 64*mib)
					if got := r.hosts[name].memory.Content(id); got == "after" || result.Volumes[0].GetRolledBack() == "" {
						t.Errorf("%s has %q, %v", name, got, result)
					}
					if state := result.DRBD.GetConnections()[0].GetState(); state != "Connected" {
						t.Errorf("%s is %s", name, state)
					}
					if now := r.hosts[name].node.Generation(result.Volumes[0].GetBackingPath()); now == before[name] || now < "8" {
						t.Errorf("the data of %s has the generation %s, and had %s", name, now, before[name])
					}
				}
				r.settle(r.wants(64*mib, func(w *agent.Want) { w.Destroy = true }, snapshot, func(w *agent.Want) { w.Snapshots[0].Destroy = true }))
				r.wantNothing()
			})
			if t.Failed() || !reached {
				break
			}
		}
	}
}
