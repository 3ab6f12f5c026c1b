// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// rig is a pool with one finished and open volume of 32 MiB on a mounted ext4.
type rig struct {
	*file.Pool
	dir    string
	device string
}

func (r *rig) path() string { return filepath.Join(r.dir, finishedName) }

func newRig(t *testing.T, c file.Config, programs ...string) *rig {
	t.Helper()
	pooltest.NeedHost(t, append(programs, "losetup")...)
	c.Dir = folder(t, pooltest.Mount(t, "ext4", 256*pooltest.MiB))
	r := &rig{Pool: open(t, c), dir: c.Dir}
	must(t, r.Create(t.Context(), db, 32*pooltest.MiB))
	d, err := r.Open(t.Context(), db)
	must(t, err)
	must(t, r.Finish(t.Context(), db))
	r.device = d.Path
	t.Cleanup(func() { // After the uses of the test have ended.
		must(t, open(t, file.Config{Dir: c.Dir, Thin: c.Thin}).Remove(context.Background(), db))
	})
	return r
}

// holder returns the one holder that an error names.
func holder(t *testing.T, err error) pool.Holder {
	t.Helper()
	e, ok := errors.AsType[*pool.InUseError](err)
	if !ok || len(e.Holders) != 1 {
		t.Fatalf("got %v, want one holder", err)
	}
	return e.Holders[0]
}

// intact looks whether the volume still has its file and its device, and whether that will last.
func (r *rig) intact(t *testing.T) {
	t.Helper()
	name := filepath.Base(r.device)
	backing, err := os.ReadFile(filepath.Join("/sys/block", name, "loop/backing_file"))
	if err != nil || strings.TrimSpace(string(backing)) != r.path() {
		t.Errorf("%s lies over %q, %v", name, backing, err)
	}
	auto, err := os.ReadFile(filepath.Join("/sys/block", name, "loop/autoclear"))
	if err != nil || strings.TrimSpace(string(auto)) != "0" {
		t.Errorf("%s will go with its last user: %q, %v", name, auto, err)
	}
}

func TestMountInAnotherNamespaceIsFound(t *testing.T) {
	r := newRig(t, file.Config{}, "unshare", "mkfs.ext4")
	pooltest.Run(t, "mkfs.ext4", "-q", "-F", r.device)
	mnt := t.TempDir()
	stop := pooltest.InShell(t, `exec unshare -m --propagation private sh -c 'mount "$1" `+mnt+` && exec 3<&- && echo ready > "$2" && exec sleep 1000' sh "$1" "$2"`, r.device)
	for what, err := range map[string]error{"close": r.Close(t.Context(), db), "remove": r.Remove(t.Context(), db)} {
		if h := holder(t, err); h.Kind != pool.Mounted || h.Name != mnt || h.PID == 0 {
			t.Errorf("%s: %+v", what, h)
		}
	}
	r.intact(t)
	stop()
	must(t, r.Remove(t.Context(), db))
}

// TestMountThatNobodySeesIsFound has a mount in a namespace that no process lives in: only the kernel knows of it.
func TestMountThatNobodySeesIsFound(t *testing.T) {
	r := newRig(t, file.Config{}, "unshare", "mkfs.ext4", "mount")
	pooltest.Run(t, "mkfs.ext4", "-q", "-F", r.device)
	base := t.TempDir()
	must(t, errors.Join(os.Mkdir(base+"/ns", 0o700), os.Mkdir(base+"/mnt", 0o700)))
	must(t, unix.Mount("tmpfs", base+"/ns", "tmpfs", 0, ""))
	defer func() { must(t, unix.Unmount(base+"/ns", 0)) }()
	must(t, unix.Mount("", base+"/ns", "", unix.MS_PRIVATE, ""))
	must(t, os.WriteFile(base+"/ns/keep", nil, 0o600))
	keepUnseen(t, base+"/ns/keep", r.device, base+"/mnt")
	released := false
	release := func() {
		if !released {
			released = true
			must(t, unix.Unmount(base+"/ns/keep", 0))
		}
	}
	defer release()
	for what, err := range map[string]error{"close": r.Close(t.Context(), db), "remove": r.Remove(t.Context(), db)} {
		if h := holder(t, err); h.Kind != pool.Claimed {
			t.Errorf("%s: %+v", what, h)
		}
	}
	r.intact(t)
	release()
	must(t, r.Remove(t.Context(), db))
}

// keepUnseen mounts a device in a mount namespace that nothing but a file keeps. Linux keeps none whose number is below that of
// this process's own, and each processor gives out numbers of its own: so it is tried on one after the other.
func keepUnseen(t *testing.T, file, device, dir string) {
	t.Helper()
	const tries = 100
	var err error
	for range tries {
		_, err = (&command.Exec{}).Run(t.Context(), command.Command{
			Program: "unshare", Args: []string{"--mount=" + file, "--propagation", "private", "mount", device, dir},
		})
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}

// TestOpenerThatNobodySeesIsFound looks at a host whose processes cannot be seen: only the kernel knows of them.
func TestOpenerThatNobodySeesIsFound(t *testing.T) {
	r := newRig(t, file.Config{Users: &inuse.Scanner{Proc: t.TempDir()}})
	release := pooltest.OpenElsewhere(t, r.device)
	for what, err := range map[string]error{"close": r.Close(t.Context(), db), "remove": r.Remove(t.Context(), db)} {
		if h := holder(t, err); h.Kind != pool.Opened || h.PID != 0 {
			t.Errorf("%s: %+v", what, h)
		}
		r.intact(t)
	}
	release()
	r.intact(t) // The device must not go with its last user.
	must(t, r.Remove(t.Context(), db))
}

func TestSwapIsFound(t *testing.T) {
	r := newRig(t, file.Config{}, "mkswap", "swapon", "swapoff")
	pooltest.Run(t, "mkswap", r.device)
	pooltest.Run(t, "swapon", r.device)
	err := r.Remove(t.Context(), db)
	pooltest.Run(t, "swapoff", r.device)
	e, ok := errors.AsType[*pool.InUseError](err)
	if !ok || !slices.Contains(e.Holders, pool.Holder{Kind: pool.Stacked, Name: "swap"}) {
		t.Errorf("got %v", err)
	}
	r.intact(t)
}

func TestOpenBackingFileForbidsRemoveOnly(t *testing.T) {
	r := newRig(t, file.Config{})
	release := pooltest.OpenElsewhere(t, r.path())
	if h := holder(t, r.Remove(t.Context(), db)); h.Kind != pool.Opened || h.PID == 0 {
		t.Errorf("%+v", h)
	}
	r.intact(t)
	must(t, r.Close(t.Context(), db))
	if _, ok := errors.AsType[*pool.InUseError](r.Remove(t.Context(), db)); !ok {
		t.Error("the file was removed under its reader")
	}
	release()
	must(t, r.Remove(t.Context(), db))
}

func TestForeignLoopDeviceIsAUser(t *testing.T) {
	r := newRig(t, file.Config{})
	must(t, r.Close(t.Context(), db))
	for _, args := range [][]string{{}, {"-r"}, {"-o", "4096"}} {
		foreign := pooltest.Run(t, "losetup", append(args, "-f", "--show", r.path())...)
		d, err := r.Open(t.Context(), db)
		must(t, err)
		if d.Path == foreign || d.Size != 32*pooltest.MiB {
			t.Errorf("%+v is not ours", d)
		}
		if h := holder(t, r.Remove(t.Context(), db)); h != (pool.Holder{Kind: pool.Stacked, Name: filepath.Base(foreign)}) {
			t.Errorf("%+v", h)
		}
		must(t, r.Close(t.Context(), db)) // Ours goes, theirs stays.
		if v, _, err := r.Find(t.Context(), db); err != nil || v.Device.Path != "" {
			t.Errorf("%+v, %v", v, err)
		}
		pooltest.Run(t, "losetup", "-d", foreign)
	}
}

func TestDeviceThatOthersTookDownIsMadeAgain(t *testing.T) {
	r := newRig(t, file.Config{})
	for range 2 {
		pooltest.Run(t, "losetup", "-d", r.device)
		if v, _, err := r.Find(t.Context(), db); err != nil || v.Device.Path != "" {
			t.Errorf("%+v, %v", v, err)
		}
		// Someone else's file gets the device that was ours.
		other := filepath.Join(r.dir, "other")
		must(t, os.WriteFile(other, make([]byte, pooltest.MiB), 0o600))
		pooltest.Run(t, "losetup", r.device, other)
		d, err := r.Open(t.Context(), db)
		must(t, err)
		if d.Path == r.device {
			t.Errorf("%s is someone else's", d.Path)
		}
		must(t, r.Close(t.Context(), db))
		if backing, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(r.device), "loop/backing_file")); err != nil || strings.TrimSpace(string(backing)) != other {
			t.Errorf("%q, %v", backing, err)
		}
		pooltest.Run(t, "losetup", "-d", r.device)
		d, err = r.Open(t.Context(), db)
		must(t, err)
		r.device = d.Path
	}
}

func TestVolumeWhoseFileIsGoneIsListedAndRemoved(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		r := newRig(t, file.Config{})
		must(t, os.Remove(r.path()))
		if restarted {
			r.Pool = open(t, file.Config{Dir: r.dir})
		}
		want := pool.Volume{
			ID: db, Size: 32 * pooltest.MiB, Granularity: file.Granularity, Lost: true, Device: pool.Device{Path: r.device, Size: 32 * pooltest.MiB},
		}
		if v, ok, err := r.Find(t.Context(), db); v != want || !ok || err != nil {
			t.Errorf("found %+v, %t, %v", v, ok, err)
		}
		if v, err := r.List(t.Context()); err != nil || len(v) != 1 || v[0] != want {
			t.Errorf("listed %+v, %v", v, err)
		}
		release := pooltest.OpenElsewhere(t, r.device)
		if h := holder(t, r.Remove(t.Context(), db)); h.Kind != pool.Opened {
			t.Errorf("%+v", h)
		}
		release()
		if _, ok := errors.AsType[*pool.NotFoundError](r.Grow(t.Context(), db, pooltest.MiB)); !ok {
			t.Error("a volume without a file was grown")
		}
		must(t, r.Remove(t.Context(), db))
		if _, err := os.Stat(filepath.Join("/sys/block", filepath.Base(r.device), "loop")); err == nil {
			t.Errorf("%s is left", r.device)
		}
	}
}

func TestHalfDoneGrowIsCompleted(t *testing.T) {
	for name, again := range map[string]func(*rig) error{
		"open": func(r *rig) error { _, err := r.Open(t.Context(), db); return err },
		"grow": func(r *rig) error { return r.Grow(t.Context(), db, 64*pooltest.MiB) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, file.Config{Thin: true})
			must(t, os.Truncate(r.path(), 64*pooltest.MiB)) // What is there when the agent ends before the device is told.
			must(t, again(r))
			d, err := r.Open(t.Context(), db)
			if err != nil || d.Path != r.device || d.Size != 64*pooltest.MiB {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestDiscardsGiveBackBlocksOnlyOfThinVolumes(t *testing.T) {
	thick, thin := newRig(t, file.Config{}, "blkdiscard"), newRig(t, file.Config{Thin: true}, "blkdiscard")
	for range 2 { // The second time with devices that the other pool had.
		for _, r := range []*rig{thick, thin} {
			must(t, os.WriteFile(r.device, []byte(strings.Repeat("x", 16*pooltest.MiB)), 0o600))
			must(t, flush(r.device))
		}
		pooltest.Run(t, "blkdiscard", thin.device)
		if v, _, err := thin.Find(t.Context(), db); err != nil || v.Allocated > pooltest.MiB {
			t.Errorf("thin: %+v, %v", v, err)
		}
		pooltest.Run(t, "sh", "-c", `! blkdiscard "$1" 2>/dev/null`, "sh", thick.device)
		if v, _, err := thick.Find(t.Context(), db); err != nil || v.Allocated < v.Size {
			t.Errorf("thick: %+v, %v", v, err)
		}
		for _, r := range []*rig{thick, thin} {
			must(t, r.Close(t.Context(), db))
		}
		for _, r := range []*rig{thin, thick} {
			d, err := r.Open(t.Context(), db)
			must(t, err)
			r.device = d.Path
		}
	}
}

func flush(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func TestDeviceUsesDirectIOWhereItCan(t *testing.T) {
	r := newRig(t, file.Config{})
	dio, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(r.device), "loop/dio"))
	if err != nil || strings.TrimSpace(string(dio)) != "1" {
		t.Errorf("dio is %q, %v", dio, err)
	}
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	r := newRig(t, file.Config{})
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for range 3 {
		calls(t, r.Pool)
		must(t, r.Create(t.Context(), db, 32*pooltest.MiB))
		_, err := r.Open(t.Context(), db)
		must(t, err)
	}
	after, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	if len(after) != len(fds) {
		t.Errorf("%d descriptors, and then %d", len(fds), len(after))
	}
}

// BenchmarkFind looks volumes up while many are open.
func BenchmarkFind(b *testing.B) {
	pooltest.NeedHost(b)
	dir := filepath.Join(pooltest.Mount(b, "ext4", 1<<30), "pool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	p, err := file.New(file.Config{Name: "p", Node: "n", Dir: dir, Thin: true})
	if err != nil {
		b.Fatal(err)
	}
	const n = 200
	id := func(i int) pool.ID { return pool.ID{Resource: fmt.Sprintf("r%d", i%n)} }
	for i := range n {
		if err := p.Create(b.Context(), id(i), pooltest.MiB); err != nil {
			b.Fatal(err)
		}
		if _, err := p.Open(b.Context(), id(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("find", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if v, ok, err := p.Find(b.Context(), id(i)); err != nil || !ok || v.Device.Path == "" {
				b.Fatal(v, ok, err)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if v, err := p.List(b.Context()); err != nil || len(v) != n {
				b.Fatal(len(v), err)
			}
		}
	})
	b.Run("holders", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := p.Holders(b.Context(), id(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
	for i := range n {
		if err := p.Remove(b.Context(), id(i)); err != nil {
			b.Fatal(err)
		}
	}
}
