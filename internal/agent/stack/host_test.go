// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// newHost returns a stack over a FILE pool "thick" and a FILE_THIN pool "thin" of this host.
func newHost(tb testing.TB, size int64) (*stack.Stack, pools) {
	tb.Helper()
	mount := pooltest.Mount(tb, "ext4", size)
	p := pools{}
	for _, name := range []string{"thick", "thin"} {
		dir := filepath.Join(mount, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			tb.Fatal(err)
		}
		d, err := file.New(file.Config{Name: name, Node: "n1", Dir: dir, Thin: name == "thin"})
		if err != nil {
			tb.Fatal(err)
		}
		p[name] = d
	}
	return stack.New(p, &command.Exec{}), p
}

func hostWish(fs *stack.Filesystem, sizes ...int64) stack.Want {
	w := stack.Want{Resource: "db"}
	for i, size := range sizes {
		w.Volumes = append(w.Volumes, stack.VolumeWant{Number: i, Pool: []string{"thick", "thin"}[i%2], Size: size, Filesystem: fs})
	}
	return w
}

func hostApply(t *testing.T, s *stack.Stack, w stack.Want) stack.Result {
	t.Helper()
	r, err := s.Apply(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFilesystemsAreMadeForReal(t *testing.T) {
	for _, fs := range []stack.Filesystem{
		{Type: "ext4", MkfsParams: "-m 0 -L 'my data' -E stride=16"},
		{Type: "xfs", MkfsParams: "-m reflink=0 -L data"},
		{Type: "btrfs", MkfsParams: "--label data"},
	} {
		t.Run(fs.Type, func(t *testing.T) {
			pooltest.NeedHost(t, "mkfs."+fs.Type, "mount")
			s, _ := newHost(t, 2<<30)
			w := hostWish(&fs, 320*mib, 320*mib)
			r := hostApply(t, s, w)
			for _, v := range r.Volumes {
				dir := t.TempDir()
				pooltest.Run(t, "mount", "-t", fs.Type, v.DevicePath, dir)
				if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
					t.Error(err)
				}
				used, err := s.Inspect(t.Context(), w)
				if err != nil || !used.Volumes[v.Number].InUse || !slices.ContainsFunc(used.Volumes[v.Number].Holders, func(h string) bool { return strings.Contains(h, dir) }) {
					t.Errorf("%+v, %v", used, err)
				}
				pooltest.Run(t, "umount", dir)
			}
			if thick, thin := r.Volumes[0].Allocated, r.Volumes[1].Allocated; thick < 320*mib || thin > 100*mib {
				t.Errorf("%d bytes are allocated of the thick volume, and %d of the thin", thick, thin)
			}
			if r := hostApply(t, s, destroyed(w)); r.State != stack.Destroyed {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestFinishedVolumeKeepsItsContent overwrites a finished volume with zeros, so that it looks like a new one.
func TestFinishedVolumeKeepsItsContent(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.ext4", "wipefs")
	s, p := newHost(t, 256*mib)
	w := hostWish(&stack.Filesystem{Type: "ext4"}, 16*mib)
	device := hostApply(t, s, w).Volumes[0].DevicePath
	if err := os.WriteFile(device, make([]byte, 16*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d, err := os.Open(hostApply(t, s, w).Volumes[0].DevicePath)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(d)
		if err := errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
		if len(content) != 16*mib || slices.ContainsFunc(content, func(b byte) bool { return b != 0 }) {
			t.Error("something was written to a finished volume")
		}
		if err := p["thick"].Close(t.Context(), id); err != nil { // As after a reboot.
			t.Fatal(err)
		}
	}
	hostApply(t, s, destroyed(w))
}

func TestUnformattedNewVolumeIsFormattedAfterACrash(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.ext4")
	s, p := newHost(t, 256*mib)
	// What an agent leaves that ends in the midst of mkfs.
	if err := p["thick"].Create(t.Context(), id, 16*mib); err != nil {
		t.Fatal(err)
	}
	d, err := p["thick"].Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Path, []byte(strings.Repeat("half a file system", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := hostWish(&stack.Filesystem{Type: "ext4"}, 16*mib)
	v := hostApply(t, s, w).Volumes[0]
	pooltest.Run(t, "fsck.ext4", "-fn", v.DevicePath)
	if v.DevicePath != d.Path {
		t.Errorf("%+v, and before it was %+v", v, d)
	}
	hostApply(t, s, destroyed(w))
}

func TestMkfsErrorIsPassedOn(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.ext4")
	s, _ := newHost(t, 256*mib)
	w := hostWish(&stack.Filesystem{Type: "ext4", MkfsParams: "-O nonesuch"}, 16*mib)
	_, err := s.Apply(t.Context(), w)
	failed, ok := errors.AsType[*command.Error](err)
	if !ok || failed.Kind != command.Exited || !strings.Contains(err.Error(), "nonesuch") {
		t.Errorf("got %v", err)
	}
	hostApply(t, s, destroyed(w))
}

func TestReplicaWithAMountedVolumeIsNotDestroyed(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.ext4", "mount")
	s, _ := newHost(t, 256*mib)
	w := hostWish(&stack.Filesystem{Type: "ext4"}, 16*mib, 16*mib)
	r := hostApply(t, s, w)
	dir := t.TempDir()
	pooltest.Run(t, "mount", r.Volumes[1].DevicePath, dir)
	_, err := s.Apply(t.Context(), destroyed(w))
	if e, ok := errors.AsType[*pool.InUseError](err); !ok || e.ID.Volume != 1 || e.Holders[0].Name != dir {
		t.Errorf("got %v", err)
	}
	again, err := s.Inspect(t.Context(), w)
	if err != nil || again.State != stack.Ready || again.Volumes[0].DevicePath != r.Volumes[0].DevicePath {
		t.Errorf("%+v, %v", again, err)
	}
	pooltest.Run(t, "umount", dir)
	if r := hostApply(t, s, destroyed(w)); r.State != stack.Destroyed {
		t.Errorf("%+v", r)
	}
}

// TestVolumeWhoseFileOthersRemovedIsDestroyed also covers the end of a half-done resize: what is absent is done.
func TestVolumeWhoseFileOthersRemovedIsDestroyed(t *testing.T) {
	pooltest.NeedHost(t)
	s, p := newHost(t, 256*mib)
	w := hostWish(nil, 16*mib, 16*mib)
	hostApply(t, s, w)
	volumes, err := p["thick"].List(t.Context())
	if err != nil || len(volumes) != 1 {
		t.Fatal(volumes, err)
	}
	backing, err := os.ReadFile("/sys/block/" + filepath.Base(volumes[0].Device.Path) + "/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(strings.TrimSpace(string(backing))); err != nil {
		t.Fatal(err)
	}
	_, err = s.Apply(t.Context(), w)
	if e, ok := errors.AsType[*pool.LostError](err); !ok || e.Device != volumes[0].Device.Path {
		t.Errorf("a lost volume was made anew: %v", err)
	}
	if r := hostApply(t, s, destroyed(w)); r.State != stack.Destroyed {
		t.Errorf("%+v", r)
	}
}
