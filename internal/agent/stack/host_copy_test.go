// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// copyHost is a stack over thin pools on filesystems of this host, which are named after their types.
func copyHost(t *testing.T, fstypes ...string) (*stack.Stack, pools, map[string]string) {
	t.Helper()
	freezer := freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: t.TempDir()})
	p, dirs := pools{}, map[string]string{}
	for _, fstype := range fstypes {
		dir := filepath.Join(pooltest.Mount(t, fstype, 512*mib), "pool")
		must(t, os.Mkdir(dir, 0o700))
		d, err := file.New(file.Config{Name: fstype, Node: "n1", Dir: dir, Thin: true, Freezer: freezer})
		must(t, err)
		p[fstype], dirs[fstype] = d, dir
	}
	s := stack.New(p, &command.Exec{}, stack.Patience(time.Minute))
	t.Cleanup(s.Close)
	return s, p, dirs
}

func oneVolume(resource, poolName string, size int64) stack.Want {
	return stack.Want{Resource: resource, Volumes: []stack.VolumeWant{{Pool: poolName, Size: size}}}
}

// mounted mounts a device until the returned function is called.
func mounted(t *testing.T, device string) (dir string, unmount func()) {
	t.Helper()
	dir = t.TempDir()
	pooltest.Run(t, "mount", device, dir)
	done := false
	unmount = func() {
		if !done {
			done = true
			must(t, pooltest.Unmount(dir))
			mounttest.Gone(t, dir)
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

// names lists what a mounted filesystem has.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, e := range entries {
		if e.Name() != "lost+found" {
			list = append(list, e.Name())
		}
	}
	return list
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return int64(st.Blocks) * st.Bsize
}

// TestMountedFilesystemIsSnapshottedRestoredAndRolledBack has a filesystem in use all the time. What was written before the snapshot is in it, what came after is not.
func TestMountedFilesystemIsSnapshottedRestoredAndRolledBack(t *testing.T) {
	for _, fstype := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fstype, func(t *testing.T) {
			pooltest.NeedHost(t, "mkfs."+fstype, "mkfs.ext4", "mount")
			s, _, dirs := copyHost(t, fstype)
			w := oneVolume("db", fstype, 64*mib)
			w.Volumes[0].Filesystem = &stack.Filesystem{Type: "ext4"}
			dir, unmount := mounted(t, hostApply(t, s, w).Volumes[0].DevicePath)
			must(t, os.WriteFile(filepath.Join(dir, "before"), []byte("x"), 0o600))

			w.Snapshots = []stack.SnapshotWant{{Name: "s", Volumes: []stack.SnapshotVolume{{Pool: fstype}}}}
			if r := hostApply(t, s, w); len(r.Snapshots) != 1 || r.State != stack.Ready {
				t.Fatalf("%+v", r)
			}
			w.Snapshots[0].Existing = true
			must(t, os.WriteFile(filepath.Join(dir, "after"), []byte("x"), 0o600))

			web := oneVolume("web", fstype, 96*mib)
			web.Volumes[0].Source = &stack.Source{Resource: "db", Snapshot: "s"}
			restored, leave := mounted(t, hostApply(t, s, web).Volumes[0].DevicePath)
			if got := names(t, restored); !slices.Equal(got, []string{"before"}) {
				t.Errorf("the restore has %v", got)
			}
			if got := size(t, restored); got > 64*mib {
				t.Errorf("its filesystem has %d bytes before it was to grow", got)
			}
			if growsOnline("ext4") {
				web.Volumes[0].Stretch = true
				hostApply(t, s, web)
				if got := size(t, restored); got < 80*mib {
					t.Errorf("its filesystem has %d bytes and was to grow", got)
				}
			}
			leave()
			hostApply(t, s, destroyed(web))

			w.Volumes[0].RollBack = &stack.RollBack{Snapshot: "s", Token: "t1"}
			_, err := s.Apply(t.Context(), w)
			if e, ok := errors.AsType[*pool.InUseError](err); !ok || e.Holders[0].Kind != pool.Mounted {
				t.Errorf("rolled back while mounted: %v", err)
			}
			unmount()
			back, leave := mounted(t, hostApply(t, s, w).Volumes[0].DevicePath)
			if got := names(t, back); !slices.Equal(got, []string{"before"}) {
				t.Errorf("after the roll-back there is %v", got)
			}
			leave()
			w.Volumes[0].RollBack, w.Snapshots[0].Destroy = nil, true
			if r := hostApply(t, s, destroyed(w)); r.State != stack.Destroyed || len(r.Absent) != 1 {
				t.Errorf("%+v", r)
			}
			if got := names(t, dirs[fstype]); !slices.Equal(got, []string{".holdfast-pool"}) {
				t.Errorf("left in the pool: %v", got)
			}
		})
	}
}

// growsOnline tells whether this process may grow a mounted filesystem: for ext4 the kernel wants an own capability, which containers lack.
func growsOnline(fstype string) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return fstype != "ext4" || unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func TestFilesystemsGrowWhereTheyAreMounted(t *testing.T) {
	for fstype, from := range map[string]int64{"ext4": 64 * mib, "xfs": 320 * mib, "btrfs": 320 * mib} {
		t.Run(fstype, func(t *testing.T) {
			pooltest.NeedHost(t, "mkfs."+fstype, "mount")
			if !growsOnline(fstype) {
				t.Skip("needs CAP_SYS_RESOURCE to grow a mounted ext4")
			}
			s, _, _ := copyHost(t, "ext4")
			w := oneVolume("db", "ext4", from)
			w.Volumes[0].Filesystem = &stack.Filesystem{Type: fstype}
			dir, unmount := mounted(t, hostApply(t, s, w).Volumes[0].DevicePath)
			before := size(t, dir)
			w.Volumes[0].Size += 64 * mib
			hostApply(t, s, w)
			if got := size(t, dir); got != before {
				t.Errorf("it grew from %d to %d bytes though nobody asked", before, got)
			}
			w.Volumes[0].Stretch = true
			hostApply(t, s, w)
			if got := size(t, dir); got < before+56*mib {
				t.Errorf("it has %d bytes, and had %d", got, before)
			}
			w.Volumes[0].Size += 64 * mib
			hostApply(t, s, w)
			hostApply(t, s, w) // which changes nothing
			if got := size(t, dir); got < before+112*mib {
				t.Errorf("it has %d bytes, and had %d", got, before)
			}
			unmount()
			hostApply(t, s, destroyed(w))
		})
	}
}

// TestAFilesystemThatIsRolledBackGrowsAgain rolls back to a snapshot that was taken before the volume grew.
func TestAFilesystemThatIsRolledBackGrowsAgain(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.xfs", "mount")
	s, _, _ := copyHost(t, "xfs")
	w := oneVolume("db", "xfs", 320*mib)
	w.Volumes[0].Filesystem = &stack.Filesystem{Type: "xfs"}
	w.Volumes[0].Stretch = true
	w.Snapshots = []stack.SnapshotWant{{Name: "s", Volumes: []stack.SnapshotVolume{{Pool: "xfs"}}}}
	dir, unmount := mounted(t, hostApply(t, s, w).Volumes[0].DevicePath)
	w.Volumes[0].Size += 64 * mib
	hostApply(t, s, w)
	grown := size(t, dir)
	unmount()

	w.Volumes[0].RollBack = &stack.RollBack{Snapshot: "s", Token: "t1"}
	dir, unmount = mounted(t, hostApply(t, s, w).Volumes[0].DevicePath)
	if got := size(t, dir); got >= grown {
		t.Fatalf("after the roll-back it has %d bytes, and had %d", got, grown)
	}
	hostApply(t, s, w)
	if got := size(t, dir); got != grown {
		t.Errorf("it has %d bytes and was to grow to %d", got, grown)
	}
	unmount()
	w.Volumes[0].RollBack, w.Snapshots[0].Destroy = nil, true
	hostApply(t, s, destroyed(w))
}

// checksum reads a device or file up to a size.
func checksum(t *testing.T, path string, bytes int64) [32]byte {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if n, err := io.CopyN(h, f, bytes); err != nil {
		t.Fatalf("%s has %d bytes: %v", path, n, err)
	}
	return [32]byte(h.Sum(nil))
}

// TestVolumeIsMadeFromASnapshotInAnotherPool copies between filesystems, to a larger volume.
func TestVolumeIsMadeFromASnapshotInAnotherPool(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.xfs")
	s, p, dirs := copyHost(t, "ext4", "xfs")
	w := oneVolume("db", "xfs", 24*mib)
	device := hostApply(t, s, w).Volumes[0].DevicePath
	content := make([]byte, 3*mib+4096)
	_, _ = rand.Read(content)
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(content, 5*mib)
	must(t, err)
	must(t, f.Close())
	want := checksum(t, device, 24*mib)
	w.Snapshots = []stack.SnapshotWant{{Name: "s", Volumes: []stack.SnapshotVolume{{Pool: "xfs"}}}}
	hostApply(t, s, w)

	for _, snapshot := range []string{"s", ""} {
		web := oneVolume("web", "ext4", 32*mib)
		web.Volumes[0].Source = &stack.Source{Resource: "db", Snapshot: snapshot, Pool: "xfs"}
		r := hostApply(t, s, web)
		if r.State != stack.Ready || r.Volumes[0].Allocated > 8*mib {
			t.Errorf("%+v", r)
		}
		if checksum(t, r.Volumes[0].DevicePath, 24*mib) != want {
			t.Errorf("what was made from snapshot %q has another content", snapshot)
		}
		if loan, ok, err := pool.Find(t.Context(), p["xfs"], pool.ID{Resource: "web"}); ok || err != nil {
			t.Errorf("left in the pool of the source: %+v, %v", loan, err)
		}
		hostApply(t, s, destroyed(web))
	}
	w.Snapshots[0].Destroy = true
	hostApply(t, s, destroyed(w))
	for name, dir := range dirs {
		if got := names(t, dir); !slices.Equal(got, []string{".holdfast-pool"}) {
			t.Errorf("left in pool %s: %v", name, got)
		}
	}
}
