// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/lvm"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

var db = pool.ID{Resource: "db"}

const mib = 1 << 20

func wantFault(t *testing.T, err error, reason pool.Reason) {
	t.Helper()
	e, ok := errors.AsType[*pool.FaultyError](err)
	if !ok || e.Reason != reason || e.Correction == "" {
		t.Errorf("got %v, want a fault that it %s", err, reason)
	}
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

// dmsetup runs it as the machine wants it: without udev, it makes the nodes of devices itself when it is told so.
func dmsetup(t *testing.T, args ...string) {
	t.Helper()
	if _, without := os.LookupEnv("DM_DISABLE_UDEV"); without {
		pooltest.Run(t, "env", append([]string{"DM_DISABLE_UDEV=1", "dmsetup"}, args...)...)
		return
	}
	pooltest.Run(t, "dmsetup", args...)
}

// mapped puts a linear device of device mapper over a disk, and returns what replaces it by another target.
func mapped(t *testing.T, name, number string) (path string, become func(target string)) {
	t.Helper()
	dev := disk(t, number)
	// Not from the beginning of the disk: LVM would see its label twice.
	const sectors = "1048576"
	dmsetup(t, "create", name, "--table", "0 "+sectors+" linear "+dev+" 2048")
	t.Cleanup(func() {
		settle(t)
		dmsetup(t, "remove", "--retry", name)
	})
	return "/dev/mapper/" + name, func(target string) {
		table := strings.NewReplacer("DEV", dev).Replace(target)
		dmsetup(t, "suspend", "--noflush", "--nolockfs", name)
		dmsetup(t, "load", name, "--table", "0 "+sectors+" "+table)
		dmsetup(t, "resume", name)
	}
}

func TestDiskThatFailsHarmsNoOtherPool(t *testing.T) {
	for _, fault := range []struct {
		name, target string
		reads        bool
	}{
		{"all fails", "error", false},
		{"writes fail", "flakey DEV 2048 0 1 1 error_writes", true},
	} {
		t.Run(fault.name, func(t *testing.T) { testFailingDisk(t, fault.target, fault.reads) })
	}
}

// testFailingDisk has the disk under a pool turn into a target of device mapper and back, with and without a volume that is open. Reads tells whether
// it can be read meanwhile.
func testFailingDisk(t *testing.T, target string, reads bool) {
	t.Helper()
	group(t, "good", "64k", "2")
	path, become := mapped(t, "failing", "1")
	pooltest.Run(t, "pvcreate", "--yes", "-ff", path)
	pooltest.Run(t, "vgcreate", "--physicalextentsize", "64k", "bad", path)
	t.Cleanup(func() { pooltest.Run(t, "vgremove", "--yes", "-ff", "bad") })
	host := lvm.NewHost(tools(t))
	bad, good := onHost(t, host, "bad"), onHost(t, host, "good")
	device := finished(t, bad, db, 4*mib)
	finished(t, good, db, mib)
	other := pool.ID{Resource: "other"}

	become(target)
	if err := writeThrough(device.Path, mib); err == nil {
		t.Error("the user of a volume on a disk that fails is told nothing")
	}
	for what, err := range map[string]error{
		"create": bad.Create(t.Context(), other, mib), "grow": bad.Grow(t.Context(), db, 8*mib), "remove": bad.Remove(t.Context(), db),
	} {
		if err == nil {
			t.Errorf("%s on a disk that fails went well", what)
		}
	}
	if _, err := bad.Space(t.Context()); (err == nil) != reads {
		t.Errorf("the space of a pool on a disk that fails: %v", err)
	}
	must(t, good.Grow(t.Context(), db, 2*mib))
	must(t, good.Remove(t.Context(), db))

	become("linear DEV 2048")
	if v, ok, err := bad.Find(t.Context(), db); err != nil || !ok || v.New || v.Size != 4*mib {
		t.Errorf("after the disk came back: %+v, %t, %v", v, ok, err)
	}
	device, err := bad.Open(t.Context(), db) // The removal that failed may have taken its device down.
	must(t, err)
	must(t, bad.Grow(t.Context(), db, 8*mib))
	must(t, writeThrough(device.Path, mib))
	must(t, bad.Create(t.Context(), other, mib))
	must(t, bad.Remove(t.Context(), other))
	must(t, bad.Remove(t.Context(), db))
}

// onHost is a thick pool on a group of that name.
func onHost(t *testing.T, host *lvm.Host, group string) *lvm.Thick {
	t.Helper()
	d, err := lvm.NewThick(lvm.Config{Name: group, Group: group, Host: host})
	must(t, err)
	return d
}

// writeThrough writes to a device until it is durable.
func writeThrough(path string, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, n))
	return errors.Join(err, f.Sync(), f.Close())
}

func TestSlowDiskIsWaitedFor(t *testing.T) {
	path, become := mapped(t, "slow", "1")
	pooltest.Run(t, "pvcreate", "--yes", "-ff", path)
	pooltest.Run(t, "vgcreate", "vg", path)
	t.Cleanup(func() { pooltest.Run(t, "vgremove", "--yes", "-ff", "vg") })
	become("delay DEV 2048 30")
	d := open(t, lvm.Config{Name: "p", Group: "vg"})
	finished(t, d, db, 4*mib)
	must(t, d.Remove(t.Context(), db))
	become("linear DEV 2048")
}

func TestFullThinPoolRefusesAndIsToldOf(t *testing.T) {
	group(t, "vg", "64k", "1")
	pooltest.Run(t, "lvcreate", "--yes", "--size", "16m", "--poolmetadatasize", "2m", "--errorwhenfull", "y", "--thinpool", "tp", "vg")
	c := lvm.Config{Name: "p", Group: "vg", ThinPool: "tp"}
	d := open(t, c)
	device := finished(t, d, db, 128*mib)
	err := writeThrough(device.Path, 20*mib)
	if err == nil {
		t.Fatal("more was written than the pool has")
	}
	thick := open(t, lvm.Config{Name: "thick", Group: "vg"}) // Another pool, though of the same group, goes on.
	finished(t, thick, pool.ID{Resource: "other"}, mib)
	must(t, thick.Remove(t.Context(), pool.ID{Resource: "other"}))
	space, err := d.Space(t.Context())
	if err != nil || space.Free != 0 || space.Total != 16*mib {
		t.Errorf("a full pool has the space %+v, %v", space, err)
	}
	if v, ok, err := pool.Find(t.Context(), d, db); err != nil || !ok || v.Allocated != 16*mib {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	pooltest.Run(t, "lvextend", "--size", "32m", "vg/tp")
	if space, err = d.Space(t.Context()); err != nil || space.Free != 16*mib {
		t.Errorf("an enlarged pool has the space %+v, %v", space, err)
	}
	must(t, writeThrough(device.Path, mib))
	must(t, d.Remove(t.Context(), db))
}

func TestVolumeThatOthersRemovedIsGone(t *testing.T) {
	group(t, "vg", "64k", "1")
	pooltest.Run(t, "lvcreate", "--yes", "--size", "32m", "--poolmetadatasize", "2m", "--thinpool", "tp", "vg")
	for _, c := range []lvm.Config{{Name: "p", Group: "vg"}, {Name: "p", Group: "vg", ThinPool: "tp"}} {
		d := open(t, c)
		finished(t, d, db, mib)
		if s, ok := d.(pool.Snapshotter); ok {
			id := pool.SnapshotID{Resource: "db", Snapshot: "s"}
			must(t, s.TakeSnapshot(t.Context(), id, nil))
			pooltest.Run(t, "lvremove", "--yes", "vg/db_00000.s")
			must(t, s.RemoveSnapshot(t.Context(), id))
			if list, err := s.Snapshots(t.Context(), ""); err != nil || len(list) != 0 {
				t.Errorf("snapshots %+v, %v", list, err)
			}
		}
		pooltest.Run(t, "lvremove", "--yes", "vg/db_00000")
		if _, ok, err := pool.Find(t.Context(), d, db); ok || err != nil {
			t.Errorf("it is found: %t, %v", ok, err)
		}
		_, err := d.Open(t.Context(), db)
		grown := d.Grow(t.Context(), db, 2*mib)
		for what, err := range map[string]error{"open": err, "grow": grown, "finish": d.Finish(t.Context(), db)} {
			if _, ok := errors.AsType[*pool.NotFoundError](err); !ok {
				t.Errorf("%s: %v", what, err)
			}
		}
		must(t, d.Close(t.Context(), db))
		must(t, d.Remove(t.Context(), db))
	}
}

func TestGroupThatWasRenamedIsMissingAndAnotherIsNotTaken(t *testing.T) {
	group(t, "vg", "64k", "1")
	host := lvm.NewHost(tools(t))
	d, err := lvm.NewThick(lvm.Config{Name: "p", Group: "vg", Host: host})
	must(t, err)
	finished(t, d, db, mib)
	must(t, d.Close(t.Context(), db))
	uuid, err := d.Identity(t.Context())
	must(t, err)
	t.Cleanup(func() { pooltest.Run(t, "vgrename", "other", "vg") })
	pooltest.Run(t, "vgrename", "vg", "other")
	_, err = d.Space(t.Context())
	wantFault(t, err, pool.Missing)
	wantFault(t, d.Create(t.Context(), db, mib), pool.Missing)
	group(t, "vg", "64k", "2")
	_, err = d.List(t.Context())
	wantFault(t, err, pool.WrongIdentity)
	again, err := lvm.NewThick(lvm.Config{Name: "p", Group: "vg", Host: host, Identity: uuid}) // As after a restart.
	must(t, err)
	wantFault(t, again.Create(t.Context(), db, mib), pool.WrongIdentity)
	pooltest.Run(t, "vgrename", "vg", "second")
	pooltest.Run(t, "vgrename", "other", "vg")
	if v, ok, err := again.Find(t.Context(), db); err != nil || !ok || v.New {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	must(t, again.Remove(t.Context(), db))
	pooltest.Run(t, "vgrename", "vg", "other")
	pooltest.Run(t, "vgrename", "second", "vg")
}

func TestGroupWithoutADiskIsIncompleteAndItsVolumesGo(t *testing.T) {
	group(t, "vg", "64k", "1", "2")
	d := open(t, lvm.Config{Name: "p", Group: "vg"})
	finished(t, d, db, mib) // On the first disk.
	d = openWith(t, lvm.Config{Name: "p", Group: "vg"}, command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		for i, arg := range c.Args {
			c.Args[i] = strings.Replace(arg, `global_filter=[`, `global_filter=["r|^`+disk(t, "2")+`$|",`, 1)
		}
		return tools(t).Run(ctx, c)
	}))
	_, err := d.Space(t.Context())
	wantFault(t, err, pool.Incomplete)
	wantFault(t, d.Create(t.Context(), pool.ID{Resource: "x"}, mib), pool.Incomplete)
	if v, ok, err := pool.Find(t.Context(), d, db); err != nil || !ok || v.Device.Size != mib {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
}

func TestHeldLockIsNamedAndHoldsUpNoOtherPool(t *testing.T) {
	group(t, "held", "64k", "1")
	group(t, "free", "64k", "2")
	host := lvm.NewHost(tools(t))
	host.Limit = 15 * time.Second
	held, err := lvm.NewThick(lvm.Config{Name: "held", Group: "held", Host: host})
	must(t, err)
	free, err := lvm.NewThick(lvm.Config{Name: "free", Group: "free", Host: host})
	must(t, err)
	release := pooltest.InShell(t, `exec 3<>"$1"; flock -x 3; echo ready > "$2"; exec sleep 1000`, "/run/lock/lvm/V_held")
	ended := make(chan error, 1)
	go func() { ended <- held.Create(t.Context(), db, mib) }()
	finished(t, free, db, mib)
	must(t, free.Remove(t.Context(), db))
	err = <-ended
	if hung, ok := errors.AsType[*lvm.HungError](err); !ok || !strings.Contains(hung.Holder, "pid") || hung.Group != "held" {
		t.Errorf("got %v, want an error that names the holder of the lock", err)
	}
	release()
	finished(t, held, db, mib)
	must(t, held.Remove(t.Context(), db))
}

func TestStripedVolumesAreRoundedToAllTheirStripes(t *testing.T) {
	group(t, "vg", "4m", "1", "2", "3")
	d := open(t, lvm.Config{Name: "p", Group: "vg", Stripes: 3})
	finished(t, d, db, 10*mib)
	must(t, d.Grow(t.Context(), db, 18*mib))
	device, err := d.Open(t.Context(), db)
	must(t, err)
	v, _, err := pool.Find(t.Context(), d, db)
	if err != nil || v.Size != 24*mib || v.Granularity != 12*mib || device.Size != v.Size {
		t.Errorf("%+v, %+v, %v", v, device, err)
	}
	must(t, d.Create(t.Context(), pool.ID{Resource: "snapshot-1_tmeta"}, 1)) // A name that LVM has for itself.
	must(t, d.Remove(t.Context(), pool.ID{Resource: "snapshot-1_tmeta"}))
	must(t, d.Remove(t.Context(), db))
}

func TestGroupsInsideOfVolumesAreNotSeen(t *testing.T) {
	group(t, "vg", "64k", "1")
	d := open(t, lvm.Config{Name: "p", Group: "vg"})
	device := finished(t, d, db, 16*mib)
	inside := `devices{scan_lvs=1}`
	pooltest.Run(t, "pvcreate", "--config", inside, "--yes", device.Path)
	pooltest.Run(t, "vgcreate", "--config", inside, "guest", device.Path)
	guest := open(t, lvm.Config{Name: "g", Group: "guest"})
	_, err := guest.Space(t.Context())
	wantFault(t, err, pool.Missing)
	must(t, d.Remove(t.Context(), db))
}

func TestNewVolumesHaveNoSignaturesAndRemovedOnesAreOverwritten(t *testing.T) {
	group(t, "vg", "64k", "1")
	d := open(t, lvm.Config{Name: "p", Group: "vg", Wipe: lvm.ZeroContent})
	device := finished(t, d, db, 16*mib)
	pooltest.Run(t, "mkfs.ext4", "-q", device.Path)
	must(t, d.Remove(t.Context(), db))
	plain := open(t, lvm.Config{Name: "p", Group: "vg"})
	device = finished(t, plain, db, 16*mib)
	content, err := os.ReadFile(device.Path)
	must(t, err)
	if strings.Trim(string(content), "\x00") != "" {
		t.Error("the content of a volume that was overwritten is still there")
	}
	pooltest.Run(t, "mkfs.ext4", "-q", device.Path)
	must(t, plain.Remove(t.Context(), db))
	device = finished(t, plain, db, 16*mib)
	if text, err := (&command.Exec{}).Run(t.Context(), command.Command{Program: "blkid", Args: []string{"-p", device.Path}}); err == nil {
		t.Errorf("a new volume has a signature: %s", text.Stdout)
	}
	must(t, plain.Remove(t.Context(), db))
}

func TestFiftyVolumesAtOnce(t *testing.T) {
	const n, size = 50, 64 * mib
	group(t, "vg", "4m", "1", "2")
	bare := bareCommands(t, 5)
	var running, most, ran atomic.Int32
	d := openWith(t, lvm.Config{Name: "p", Group: "vg"}, command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		now := running.Add(1)
		defer running.Add(-1)
		ran.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		return tools(t).Run(ctx, c)
	}))
	began := time.Now()
	g, ctx := errgroup.WithContext(t.Context())
	for i := range n {
		g.Go(func() error {
			id := pool.ID{Resource: "db", Volume: i}
			if err := d.Create(ctx, id, size); err != nil {
				return err
			}
			if _, err := d.Open(ctx, id); err != nil {
				return err
			}
			return d.Finish(ctx, id)
		})
	}
	must(t, g.Wait())
	made := time.Since(began)
	list, err := d.List(t.Context())
	if err != nil || len(list) != n {
		t.Errorf("%d volumes are listed, %v", len(list), err)
	}
	for _, v := range list {
		if v.New || v.Size != size || v.Device.Size != size {
			t.Errorf("%+v is not ready", v)
		}
	}
	g, ctx = errgroup.WithContext(t.Context())
	for i := range n {
		g.Go(func() error { return d.Remove(ctx, pool.ID{Resource: "db", Volume: i}) })
	}
	must(t, g.Wait())
	all := time.Since(began)
	if most.Load() > lvm.MaxCommands {
		t.Errorf("%d programs ran at once", most.Load())
	}
	t.Logf("figures: %d volumes of 64 MiB at once: made, opened and finished in %s, with removal %s: %s each, by %d programs, at most %d at once; the bare commands take %s each, one after the other",
		n, made, all, all/n, ran.Load(), most.Load(), bare)
}

// bareCommands measures how long the programs take that a volume needs at least, run without a driver.
func bareCommands(t *testing.T, volumes int) time.Duration {
	t.Helper()
	began := time.Now()
	for i := range volumes {
		name := fmt.Sprint("bare", i)
		pooltest.Run(t, "lvcreate", "--yes", "-ay", "--wipesignatures", "y", "--zero", "y", "--size", "64m", "--name", name, "vg")
		pooltest.Run(t, "lvchange", "-an", "vg/"+name)
		pooltest.Run(t, "lvchange", "-ay", "vg/"+name)
		pooltest.Run(t, "lvchange", "--deltag", "x", "vg/"+name)
		pooltest.Run(t, "lvremove", "--yes", "vg/"+name)
	}
	return time.Since(began) / time.Duration(volumes)
}

func TestSnapshotOfOthersKeepsItsVolume(t *testing.T) {
	group(t, "vg", "64k", "1")
	d := open(t, lvm.Config{Name: "p", Group: "vg"})
	finished(t, d, db, 4*mib)
	pooltest.Run(t, "lvcreate", "--yes", "--snapshot", "--size", "2m", "--name", "manual", "vg/db_00000")
	err := d.Remove(t.Context(), db)
	if e, ok := errors.AsType[*pool.InUseError](err); !ok || len(e.Holders) != 1 || !strings.Contains(e.Holders[0].Name, "vg/manual") {
		t.Errorf("remove: %v", err)
	}
	pooltest.Run(t, "lvremove", "--yes", "vg/manual")
	must(t, d.Remove(t.Context(), db))
}
