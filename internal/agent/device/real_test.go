// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

func sh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// loop makes a device of 2 GiB that begins with some bytes.
func loop(t *testing.T, content []byte) (path string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 2<<30); err != nil {
		t.Fatal(err)
	}
	path = sh(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", path).Run() })
	return path
}

// TestAnEmptyPartitionIsFreeAndItsDeviceIsNot has a device with one partition, of which blkid tells what the table says.
func TestAnEmptyPartitionIsFreeAndItsDeviceIsNot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	table := make([]byte, 512)
	copy(table[446:], "\x00\x00\x00\x00\x83\x00\x00\x00\x00\x08\x00\x00\x00\x50\x20\x00") // From 1 MiB on, 1034 MiB.
	copy(table[510:], "\x55\xaa")
	path := loop(t, table)
	if out, err := exec.CommandContext(t.Context(), "partx", "--add", path).CombinedOutput(); err != nil {
		t.Skipf("this kernel makes no partitions of loop devices: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("partx", "--delete", path).Run() })
	part := path + "p1"
	f := device.Finder{Run: &command.Exec{}, Loops: true}
	list, err := f.Free(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(d device.Device) bool { return d.Path == part && d.Size == 1034<<20 }) {
		t.Errorf("an empty partition is not free: %v, %v", list, err)
	}
	if slices.ContainsFunc(list, func(d device.Device) bool { return d.Path == path }) {
		t.Error("a device with a partition is free")
	}
	if _, err := f.Check(t.Context(), []string{path}); !errs.Is(err, errs.InUse) || !strings.Contains(err.Error(), part) {
		t.Errorf("a device with a partition: %v", err)
	}
	if found, err := f.Check(t.Context(), []string{part}); err != nil || found[0].Path != part {
		t.Errorf("an empty partition: %v, %v", found, err)
	}
	sh(t, "mkfs.ext4", "-q", part)
	if _, err := f.Check(t.Context(), []string{part}); !errs.Is(err, errs.InUse) || !strings.Contains(err.Error(), "ext4") {
		t.Errorf("a partition with a filesystem: %v", err)
	}
}

// TestADeviceIsFreeUntilSomethingLiesOnIt makes a loop device, and looks at it by the real programs of this host.
func TestADeviceIsFreeUntilSomethingLiesOnIt(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	path := loop(t, nil)

	free := func(loops bool) (d device.Device, is bool) {
		t.Helper()
		list, err := (&device.Finder{Run: &command.Exec{}, Loops: loops}).Free(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(d device.Device) bool { return d.Path == path })
		if i < 0 {
			return d, false
		}
		return list[i], true
	}
	if _, is := free(false); is {
		t.Error("a loop device is offered, which may be a volume of ours")
	}
	if d, is := free(true); !is || d.Size != 2<<30 {
		t.Errorf("an empty device is not free: %+v", d)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, is := free(true)
	_ = unix.Close(fd)
	if is {
		t.Error("a device that someone has claimed is free")
	}
	sh(t, "mkfs.ext4", "-q", path)
	if _, is := free(true); is {
		t.Error("a device with a filesystem is free")
	}
	sh(t, "wipefs", "--quiet", "--all", path)
	if _, is := free(true); !is {
		t.Error("a device that was wiped is not free")
	}
}
