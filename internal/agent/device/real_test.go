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
)

// TestADeviceIsFreeUntilSomethingLiesOnIt makes a loop device, and looks at it by the real programs of this host.
func TestADeviceIsFreeUntilSomethingLiesOnIt(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	sh := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 2<<30); err != nil {
		t.Fatal(err)
	}
	path := sh("losetup", "--find", "--show", image)
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", path).Run() })

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
	sh("mkfs.ext4", "-q", path)
	if _, is := free(true); is {
		t.Error("a device with a filesystem is free")
	}
	sh("wipefs", "--quiet", "--all", path)
	if _, is := free(true); !is {
		t.Error("a device that was wiped is not free")
	}
}
