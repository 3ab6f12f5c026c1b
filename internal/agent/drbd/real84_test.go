// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// realOld names two block devices that the tests on Linux's own DRBD 8.4 may use, with a space between.
const realOld = "HOLDFAST_LAB_DRBD84"

// TestRealEventsOfEightFourAreFollowed has both ends of a connection in one kernel. The events of 8.4 have the form of those of 9.
func TestRealEventsOfEightFourAreFollowed(t *testing.T) {
	disks := strings.Fields(os.Getenv(realOld))
	if len(disks) != 2 {
		t.Skipf("no DRBD 8.4 here: %s names no two devices; the family drbd of the lab sets it", realOld)
	}
	exec := &command.Exec{}
	run := func(program string, args ...string) {
		t.Helper()
		if _, err := exec.Run(t.Context(), command.Command{Program: program, Args: args}); err != nil {
			t.Fatal(err)
		}
	}
	const setup = "/lib/drbd/drbdsetup-84"
	w := &drbd.Watcher{Runner: exec}
	names := watch(t, w)
	for i, name := range []string{"a", "b"} {
		minor := string(rune('0' + i))
		run("drbdmeta", "--force", minor, "v08", disks[i], "internal", "create-md")
		run(setup, "new-resource", name)
		run(setup, "new-minor", name, minor, "0")
		run(setup, "attach", minor, disks[i], disks[i], "internal")
		t.Cleanup(func() { _, _ = exec.Run(t.Context(), command.Command{Program: setup, Args: []string{"down", name}}) })
	}
	run(setup, "connect", "a", "ipv4:127.0.0.1:7001", "ipv4:127.0.0.1:7002", "--protocol=C")
	run(setup, "connect", "b", "ipv4:127.0.0.1:7002", "ipv4:127.0.0.1:7001", "--protocol=C")
	run(setup, "primary", "0", "--force")
	until(t, w, names, func(r kernel.Resource) bool {
		if r.Name != "b" || len(r.Devices) != 1 || len(r.Connections) != 1 || len(r.Connections[0].PeerDevices) != 1 {
			return false
		}
		c := r.Connections[0]
		return r.Role == kernel.Secondary && c.State == kernel.Connected && c.Role == kernel.Primary && c.PeerDevices[0].Disk == kernel.UpToDate &&
			(c.PeerDevices[0].Replication == "SyncTarget" || r.Devices[0].Disk == kernel.UpToDate)
	})
	d := drbd.New(drbd.Settings{Runner: exec, Folder: t.TempDir(), Notes: t.TempDir()})
	if _, err := d.Observe(t.Context(), drbd.Want{Name: "a"}); err == nil || !strings.Contains(err.Error(), "8.4, and 9 is needed") {
		t.Errorf("a layer on DRBD 8.4: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		run(setup, "down", name)
	}
}
