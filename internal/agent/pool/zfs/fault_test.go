// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/zfs"
)

const mib = 1 << 20

func db(number int) pool.ID { return pool.ID{Resource: "db", Volume: number} }

func snapshot(name string) pool.SnapshotID { return pool.SnapshotID{Resource: "db", Snapshot: name} }

// dataset makes the zpool tank with the dataset tank/hf, and returns its driver.
func dataset(t *testing.T) *zfs.Pool {
	t.Helper()
	zpool(t, "tank")
	pooltest.Run(t, "zfs", "create", "-o", "mountpoint=none", "tank/hf")
	return open(t, zfs.Config{Dataset: "tank/hf"})
}

// finished makes a finished volume that is open.
func finished(t *testing.T, d pool.Driver, id pool.ID, size int64) pool.Device {
	t.Helper()
	must(t, d.Create(t.Context(), id, size))
	device, err := d.Open(t.Context(), id)
	must(t, err)
	must(t, d.Finish(t.Context(), id))
	return device
}

func wantFault(t *testing.T, err error, reason pool.Reason) {
	t.Helper()
	e, ok := errors.AsType[*pool.FaultyError](err)
	if !ok || e.Reason != reason || e.Correction == "" {
		t.Errorf("got %v, want a fault that it %s", err, reason)
	}
}

// left returns what lies in a dataset.
func left(t *testing.T, dataset string) []string {
	t.Helper()
	return strings.Fields(strings.TrimPrefix(pooltest.Run(t, "zfs", "list", "-H", "-r", "-t", "all", "-o", "name", dataset), dataset))
}

func TestSnapshotsOfOthersAreNamedAndKeepTheVolume(t *testing.T) {
	d := dataset(t)
	finished(t, d, db(0), mib)
	must(t, d.TakeSnapshot(t.Context(), snapshot("ours"), nil))
	must(t, d.FinishSnapshot(t.Context(), snapshot("ours")))
	pooltest.Run(t, "zfs", "snapshot", "tank/hf/db_00000@theirs")
	for what, err := range map[string]error{
		"remove": d.Remove(t.Context(), db(0)), "roll back": d.RollBack(t.Context(), snapshot("ours"), "token", nil),
	} {
		e, ok := errors.AsType[*pool.InUseError](err)
		if !ok || !slices.Equal(e.Holders, []pool.Holder{{Kind: pool.Kept, Name: "tank/hf/db_00000@theirs"}}) || !strings.Contains(err.Error(), "zfs destroy") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := d.Snapshots(t.Context(), "db"); err != nil || len(list) != 1 || list[0].ID != snapshot("ours") {
		t.Errorf("the snapshots are %v, %v", list, err)
	}
	if v, ok, err := d.Find(t.Context(), db(0)); err != nil || !ok || v.New || v.Device.Path == "" {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	pooltest.Run(t, "zfs", "destroy", "tank/hf/db_00000@theirs")
	must(t, d.Remove(t.Context(), db(0)))
	must(t, d.RemoveSnapshot(t.Context(), snapshot("ours")))
	if got := left(t, "tank/hf"); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

func TestWhatACloneNeedsIsHiddenAndGoesWithIt(t *testing.T) {
	d := dataset(t)
	device := finished(t, d, db(0), mib)
	must(t, os.WriteFile(device.Path, []byte("content"), 0))
	must(t, d.TakeSnapshot(t.Context(), snapshot("s"), nil))
	must(t, d.FinishSnapshot(t.Context(), snapshot("s")))
	must(t, d.Clone(t.Context(), db(1), mib, snapshot("s"), nil))
	must(t, d.Finish(t.Context(), db(1)))
	must(t, d.RemoveSnapshot(t.Context(), snapshot("s")))
	must(t, d.Remove(t.Context(), db(0)))
	list, err := d.List(t.Context())
	snapshots, serr := d.Snapshots(t.Context(), "db")
	if err != nil || serr != nil || len(list) != 1 || list[0].ID != db(1) || len(snapshots) != 0 {
		t.Errorf("there are %v, %v, and %v, %v", list, err, snapshots, serr)
	}
	// Both names are free for others.
	finished(t, d, db(0), mib)
	must(t, d.TakeSnapshot(t.Context(), snapshot("s"), nil))
	must(t, d.RemoveSnapshot(t.Context(), snapshot("s")))
	must(t, d.Remove(t.Context(), db(0)))
	device, err = d.Open(t.Context(), db(1))
	must(t, err)
	f, err := os.Open(device.Path)
	must(t, err)
	b := make([]byte, 7)
	_, err = f.ReadAt(b, 0)
	if must(t, errors.Join(err, f.Close())); string(b) != "content" {
		t.Errorf("the clone has %q", b)
	}
	must(t, d.Remove(t.Context(), db(1)))
	if got := left(t, "tank/hf"); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

func TestZpoolThatIsAwayOrRenamedIsMissingAndAnotherIsNotTaken(t *testing.T) {
	d := dataset(t)
	finished(t, d, db(0), mib)
	must(t, d.Close(t.Context(), db(0)))
	guid, err := d.Identity(t.Context())
	must(t, err)
	missing := func() {
		t.Helper()
		_, err := d.Space(t.Context())
		wantFault(t, err, pool.Missing)
		wantFault(t, d.Create(t.Context(), db(1), mib), pool.Missing)
		wantFault(t, d.Remove(t.Context(), db(0)), pool.Missing)
	}
	pooltest.Run(t, "zpool", "export", "tank")
	missing()
	pooltest.Run(t, "zpool", "import", "-N", "tank", "other")
	missing()
	// The name is that of another dataset: of one that is younger, in the same zpool.
	pooltest.Run(t, "zpool", "export", "other")
	pooltest.Run(t, "zpool", "import", "-N", "other", "tank")
	pooltest.Run(t, "zfs", "rename", "tank/hf", "tank/old")
	pooltest.Run(t, "zfs", "create", "-o", "mountpoint=none", "tank/hf")
	again := open(t, zfs.Config{Dataset: "tank/hf", Identity: guid}) // As after a restart.
	for _, d := range []*zfs.Pool{d, again} {
		_, err = d.List(t.Context())
		wantFault(t, err, pool.WrongIdentity)
		wantFault(t, d.Create(t.Context(), db(0), mib), pool.WrongIdentity)
	}
	if got := left(t, "tank/hf"); len(got) > 0 {
		t.Errorf("something was made in another dataset: %v", got)
	}
	pooltest.Run(t, "zfs", "destroy", "tank/hf")
	pooltest.Run(t, "zfs", "rename", "tank/old", "tank/hf")
	if v, ok, err := again.Find(t.Context(), db(0)); err != nil || !ok || v.New {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	must(t, again.Remove(t.Context(), db(0)))
}

func TestDatasetThatIsReadOnlyIsFaultyAndItsVolumesCanBeRead(t *testing.T) {
	d := dataset(t)
	device := finished(t, d, db(0), mib)
	pooltest.Run(t, "zfs", "set", "readonly=on", "tank/hf")
	_, err := d.Space(t.Context())
	wantFault(t, err, pool.ReadOnly)
	wantFault(t, d.Create(t.Context(), db(1), mib), pool.ReadOnly)
	if v, ok, err := d.Find(t.Context(), db(0)); err != nil || !ok || v.Device != device {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	pooltest.Run(t, "zfs", "set", "readonly=off", "tank/hf")
	must(t, d.Remove(t.Context(), db(0)))
}

func TestVolumeThatOthersDestroyedIsGone(t *testing.T) {
	d := dataset(t)
	finished(t, d, db(0), mib)
	must(t, d.Close(t.Context(), db(0)))
	pooltest.Run(t, "zfs", "destroy", "tank/hf/db_00000")
	if _, ok, err := d.Find(t.Context(), db(0)); ok || err != nil {
		t.Errorf("it is found: %t, %v", ok, err)
	}
	_, err := d.Open(t.Context(), db(0))
	if _, ok := errors.AsType[*pool.NotFoundError](err); !ok {
		t.Errorf("open: %v", err)
	}
	must(t, d.Close(t.Context(), db(0)))
	must(t, d.Remove(t.Context(), db(0)))
}

// TestDiskThatFailsHarmsNoOtherPool has the only disk of a zpool return errors: ZFS suspends it, and programs hang in the kernel.
func TestDiskThatFailsHarmsNoOtherPool(t *testing.T) {
	dev := os.Getenv("HOLDFAST_LAB_ZFS_DISK2")
	if dev == "" {
		t.Skip("needs a second empty disk: set HOLDFAST_LAB_ZFS_DISK2, as in the lab")
	}
	zpool(t, "tank")
	const sectors = "1048576"
	become := func(target string) {
		t.Helper()
		pooltest.Run(t, "dmsetup", "suspend", "--noflush", "--nolockfs", "failing")
		pooltest.Run(t, "dmsetup", "load", "failing", "--table", "0 "+sectors+" "+target)
		pooltest.Run(t, "dmsetup", "resume", "failing")
	}
	pooltest.Run(t, "dmsetup", "create", "failing", "--table", "0 "+sectors+" linear "+dev+" 0")
	t.Cleanup(func() { pooltest.Run(t, "dmsetup", "remove", "--retry", "failing") })
	pooltest.Run(t, "zpool", "create", "-f", "-m", "none", "bad", "/dev/mapper/failing")
	t.Cleanup(func() { pooltest.Run(t, "zpool", "destroy", "-f", "bad") })

	host := zfs.NewHost(tools(t))
	host.Limit = 20 * time.Second
	bad, err := zfs.New(zfs.Config{Name: "bad", Dataset: "bad", Host: host})
	must(t, err)
	good, err := zfs.New(zfs.Config{Name: "good", Dataset: "tank", Host: host})
	must(t, err)
	finished(t, bad, db(0), mib)
	must(t, bad.Close(t.Context(), db(0)))
	finished(t, good, db(0), mib)

	become("error")
	t.Cleanup(func() { become("linear " + dev + " 0") })
	began := time.Now()
	err = bad.Create(t.Context(), db(1), mib)
	if err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("create on a disk that fails: %v", err)
	}
	t.Logf("after %s: %v", time.Since(began).Round(time.Second), err)
	must(t, good.Grow(t.Context(), db(0), 2*mib))
	must(t, good.Remove(t.Context(), db(0)))

	become("linear " + dev + " 0")
	pooltest.Run(t, "zpool", "clear", "bad")
	if v, ok, err := bad.Find(t.Context(), db(0)); err != nil || !ok || v.New || v.Size != mib {
		t.Errorf("after the disk came back: %+v, %t, %v", v, ok, err)
	}
	// Whether the program that hung has made it or not; while it does, the volume has no mark for a moment.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	err = bad.Create(t.Context(), db(1), mib)
	for range 100 {
		if err == nil {
			break
		}
		<-tick.C
		err = bad.Create(t.Context(), db(1), mib)
	}
	must(t, err)
	must(t, bad.Remove(t.Context(), db(1)))
	must(t, bad.Remove(t.Context(), db(0)))
}
