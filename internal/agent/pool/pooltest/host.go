// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// NeedHost skips a test that works on real block devices where that is not possible.
func NeedHost(tb testing.TB, programs ...string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root for loop devices and mounts")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		tb.Skipf("needs loop devices: %v", err)
	}
	for _, program := range programs {
		if _, err := (&command.Exec{}).Run(tb.Context(), command.Command{Program: "sh", Args: []string{"-c", `command -v "$1"`, "sh", program}}); err != nil {
			tb.Skipf("needs %s", program)
		}
	}
}

// runLimit is how long a program of Run may take: a virtual machine of the lab on a busy host is slow.
const runLimit = 5 * time.Minute

// Run runs a program on the host and fails the test when it fails. It may be called while the test is cleaned up.
func Run(tb testing.TB, program string, args ...string) string {
	tb.Helper()
	res, err := (&command.Exec{}).Run(context.WithoutCancel(tb.Context()), command.Command{Program: program, Args: args, Limit: runLimit})
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(res.Stdout))
}

// Mount makes a filesystem of a type in a sparse file and mounts it for the test. It looks in the end that nothing is left of it.
func Mount(tb testing.TB, fstype string, size int64) (dir string) {
	tb.Helper()
	// Short and without symbolic links, unlike some temporary directories.
	base, err := os.MkdirTemp("/tmp", "holdfast-") //nolint:usetesting // Removed only when it was unmounted.
	if err != nil {
		tb.Fatal(err)
	}
	dir = filepath.Join(base, "mnt")
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	if fstype == "tmpfs" {
		if err := unix.Mount("tmpfs", dir, fstype, 0, ""); err != nil {
			tb.Fatal(err)
		}
	} else {
		mountImage(tb, filepath.Join(base, "image"), dir, fstype, size)
	}
	tb.Cleanup(func() {
		left := loopsOver(tb, dir)
		if len(left) > 0 {
			tb.Errorf("loop devices are left: %v", left)
		}
		for device := range left {
			_, _ = (&command.Exec{}).Run(context.Background(), command.Command{Program: "losetup", Args: []string{"-d", device}})
		}
		if err := Unmount(dir); err != nil {
			tb.Errorf("unmount %s, which is left behind: %v", dir, err)
			return
		}
		if err := os.RemoveAll(base); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// Unmount unmounts a folder. It is patient for a while with one that is busy: a program that another test has just started has all descriptors of this
// process open for a moment.
func Unmount(dir string) error {
	const tries, between = 100, 20 * time.Millisecond
	for try := 1; ; try++ {
		err := unix.Unmount(dir, 0)
		if !errors.Is(err, unix.EBUSY) || try == tries {
			return err
		}
		<-time.After(between)
	}
}

func mountImage(tb testing.TB, image, dir, fstype string, size int64) {
	tb.Helper()
	f, err := os.Create(image)
	if err != nil {
		tb.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	mkfs := map[string][]string{
		"ext2":  {"mkfs.ext2", "-q", "-F", "-m", "0"},
		"ext4":  {"mkfs.ext4", "-q", "-F", "-m", "0"},
		"xfs":   {"mkfs.xfs", "-q"},
		"btrfs": {"mkfs.btrfs", "-q"},
	}[fstype]
	Run(tb, mkfs[0], append(mkfs[1:], image)...)
	Run(tb, "mount", "-t", fstype, "-o", "loop", image, dir)
}

// loopsOver returns the loop devices that are bound to files in a folder, with the files.
func loopsOver(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	loops, err := inuse.Loops("/proc", "/sys")
	if err != nil {
		tb.Fatal(err)
	}
	found := map[string]string{}
	for _, loop := range loops {
		if strings.HasPrefix(loop.Backing, dir+"/") {
			found["/dev/"+loop.Name] = loop.Backing
		}
	}
	return found
}

// DeviceUses are the uses of a Fixture whose devices are real.
func DeviceUses() map[pool.HolderKind]func(*testing.T, pool.ID, string) func() {
	return map[pool.HolderKind]func(*testing.T, pool.ID, string) func(){
		pool.Opened: func(t *testing.T, _ pool.ID, device string) func() {
			t.Helper()
			return OpenElsewhere(t, device)
		},
		pool.Mounted: func(t *testing.T, _ pool.ID, device string) func() {
			t.Helper()
			Run(t, "mkfs.ext4", "-q", "-F", device)
			dir := t.TempDir()
			Run(t, "mount", device, dir)
			return once(t, func() { Run(t, "umount", dir) })
		},
		pool.Stacked: func(t *testing.T, _ pool.ID, device string) func() {
			t.Helper()
			above := Run(t, "losetup", "-f", "--show", device)
			return once(t, func() { Run(t, "losetup", "-d", above) })
		},
	}
}

// once returns a function that does its work once, at the latest when the test ends.
func once(t *testing.T, release func()) func() {
	t.Helper()
	done := false
	f := func() {
		if !done {
			done = true
			release()
		}
	}
	t.Cleanup(f)
	return f
}

// OpenElsewhere has a process that holds a file or device open for reading, until the returned function is called.
func OpenElsewhere(t *testing.T, path string) (release func()) {
	t.Helper()
	return InShell(t, `exec 3<"$1"; echo ready > "$2"; exec sleep 1000`, path)
}

// InShell runs a script in the background until the returned function is called. The script gets path as $1 and must write a line to $2 when it
// is ready; InShell returns after that.
func InShell(t *testing.T, script, path string) (stop func()) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	if err := unix.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := (&command.Exec{}).Run(ctx, command.Command{Program: "sh", Args: []string{"-c", script, "sh", path, ready}})
		if ctx.Err() == nil {
			t.Errorf("the script ended by itself: %v", err)
			// Whoever waits at the pipe shall not wait for ever.
			if f, err := os.OpenFile(ready, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				_ = f.Close()
			}
		}
	}()
	if text, err := os.ReadFile(ready); err != nil || len(text) == 0 {
		t.Fatalf("the script did not become ready: %v", err)
	}
	return once(t, func() {
		cancel()
		<-ended
	})
}
