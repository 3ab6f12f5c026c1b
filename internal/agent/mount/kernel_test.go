// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestFolderIsBoundAndUnbound(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	target := h.Target(spec.Source)
	if got := read(t, filepath.Join(target, "file")); got != "a" {
		t.Errorf("the file says %q", got)
	}
	for _, o := range []string{"nosuid", "nodev", "noexec"} {
		if !strings.Contains(m.Entry.Options, o) {
			t.Errorf("options %q lack %s", m.Entry.Options, o)
		}
	}
	again := h.up(t, spec)
	if !again.Entry.Same(m.Entry) || len(h.at(t, target)) != 1 {
		t.Errorf("mounted again: %v, before %v; %d mounts", again.Entry, m.Entry, len(h.at(t, target)))
	}
	if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
		t.Fatal(err)
	}
	if n := len(h.at(t, target)); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
		t.Errorf("unmounted again: %v", err)
	}
}

func TestBareFolderCannotBeWritten(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(h.Target(spec.Source), "image"), []byte("lost"), 0o600)
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("root writes into the bare folder: %v", err)
	}
	h.up(t, spec)
}

func TestReadOnlyFolderIsBound(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	spec.Options = options(t, mount.Bind, "ro,noatime")
	m := h.up(t, spec)
	if !m.Entry.ReadOnly() || !strings.Contains(m.Entry.Options, "noatime") {
		t.Errorf("options %q", m.Entry.Options)
	}
	spec.Identity.Create = true
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.ReadOnly)
}

func TestBlockDeviceIsMounted(t *testing.T) {
	h := newHost(t, nil)
	device := mounttest.Loop(t, h.dir, 16<<20)
	spec := mount.Spec{Source: source(t, mount.Block, device)}
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Failed, "wrong fs type")
	run(t, "mkfs.ext4", "-q", device)
	m := h.up(t, spec)
	if m.Entry.FSType != "ext4" || m.Entry.Source != device {
		t.Errorf("mounted %v", m.Entry)
	}
	if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
		t.Fatal(err)
	}
	spec.Options = options(t, mount.Block, "nonesuch=1")
	_, err = h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Failed)
	spec.Options, spec.FSType = "", "nonesuch"
	_, err = h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Failed, "ext4 instead of nonesuch")
	if n := len(h.at(t, h.Target(spec.Source))); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if _, err := (&command.Exec{}).Run(t.Context(), command.Command{Program: program, Args: args}); err != nil {
		t.Fatal(err)
	}
}

func TestWrongSourcesAreRefused(t *testing.T) {
	h := newHost(t, nil)
	good := h.folder(t, "good").Source.Path
	file := filepath.Join(good, "file")
	link := filepath.Join(h.dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name  string
		kind  mount.Kind
		path  string
		fault mount.Fault
	}{
		{"a folder that is missing", mount.Bind, filepath.Join(h.dir, "none"), mount.Failed},
		{"a file", mount.Bind, file, mount.NotAFolder},
		{"a symbolic link", mount.Bind, link, mount.Linked},
		{"a device that is missing", mount.Block, "/dev/nonesuch", mount.Failed},
		{"a character device", mount.Block, "/dev/null", mount.NotABlock},
		{"a path where the operator mounted nothing", mount.Existing, good, mount.NotMounted},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := source(t, tc.kind, tc.path)
			_, err := h.Mount(t.Context(), mount.Spec{Source: s})
			wantFault(t, err, tc.fault)
			if n := len(h.at(t, h.Target(s))); n != 0 {
				t.Errorf("%d mounts are left", n)
			}
		})
	}
}

func TestMissingMountProgramIsNamed(t *testing.T) {
	h := newHost(t, &command.Exec{Path: t.TempDir()})
	_, err := h.Mount(t.Context(), mount.Spec{Source: source(t, mount.NFS, "127.0.0.1:/none")})
	wantFault(t, err, mount.NoProgram, "mount.nfs is not installed", "install it")
}

func TestTextOfTheMountProgramReachesTheUser(t *testing.T) {
	programs := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" > " + programs + "/args\necho 'mount.nfs: access denied by server while mounting' >&2\nexit 32\n"
	if err := os.WriteFile(filepath.Join(programs, "mount.nfs"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, &command.Exec{Path: programs + ":/usr/bin:/bin"})
	spec := mount.Spec{Source: source(t, mount.NFS, "NAS1:/srv/ex/"), Options: options(t, mount.NFS, "nfsvers=4.2,soft")}
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Failed, "exit code 32", "access denied by server", "nas1:/srv/ex")
	want := "nas1:/srv/ex " + h.Target(spec.Source) + " -n -o soft,vers=4.2,nosuid,nodev,noexec,retry=0\n"
	if got := read(t, filepath.Join(programs, "args")); got != want {
		t.Errorf("mount.nfs got %q, want %q", got, want)
	}
}

func TestNothingIsMountedOverSomethingElse(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	target := h.Target(spec.Source)
	h.Unmount(t.Context(), spec.Source, h.up(t, spec).Entry, mount.Plain) //nolint:errcheck // Only the folder is wanted.
	tmpfs(t, target)
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Taken, "foreign (tmpfs)")
	if n := len(h.at(t, target)); n != 1 {
		t.Errorf("%d mounts are there", n)
	}
}

func TestFilesInTheBareFolderAreNotHidden(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	write(t, filepath.Join(mounttest.Mkdir(t, h.Target(spec.Source)), "image"), "lost")
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Taken, "image")
}

func TestUnmountLeavesTheMountsOfOthersAlone(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	tmpfs(t, m.Entry.Target)
	wantFault(t, h.Unmount(t.Context(), spec.Source, m.Entry, mount.Detach), mount.Taken, "foreign (tmpfs)")
	if n := len(h.at(t, m.Entry.Target)); n != 2 {
		t.Errorf("%d mounts are there", n)
	}
}

func TestIdentityIsVerifiedBeforeAMountCounts(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	spec.Identity.UUID = "11111111-1111-4111-8111-111111111111"
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.WrongIdentity, "none instead of 11111111")
	if n := len(h.at(t, h.Target(spec.Source))); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	spec.Identity.Create = true
	m := h.up(t, spec)
	if m.Identity != spec.Identity.UUID {
		t.Errorf("identity %q", m.Identity)
	}
	if err := h.Probe(t.Context(), spec, m.Entry); err != nil {
		t.Error(err)
	}
	spec.Identity = mount.Identity{UUID: "22222222-2222-4222-8222-222222222222", Create: true}
	_, err = h.Mount(t.Context(), spec)
	wantFault(t, err, mount.WrongIdentity, "11111111")
	if n := len(h.at(t, h.Target(spec.Source))); n != 1 {
		t.Error("a mount that was there before is gone")
	}
	wantFault(t, h.Probe(t.Context(), spec, m.Entry), mount.WrongIdentity)
	if m := h.up(t, mount.Spec{Source: spec.Source}); m.Identity != "11111111-1111-4111-8111-111111111111" {
		t.Errorf("identity %q", m.Identity)
	}
}

func TestMountOfTheOperatorIsLookedAt(t *testing.T) {
	h := newHost(t, nil)
	dir := mounttest.Mkdir(t, h.dir, "operator")
	tmpfs(t, dir)
	spec := mount.Spec{Source: source(t, mount.Existing, dir)}
	m := h.up(t, spec)
	if m.Entry.Target != dir || m.Entry.Source != "foreign" {
		t.Errorf("found %v", m.Entry)
	}
	for _, other := range []mount.Spec{{Source: spec.Source, FSType: "nfs4"}, {Source: spec.Source, Device: "nas1:/a"}} {
		_, err := h.Mount(t.Context(), other)
		wantFault(t, err, mount.Taken, "foreign (tmpfs)")
	}
}

// lying reports something else than what happened.
func lying(does bool, says error) command.Runner {
	real := &command.Exec{}
	return command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		verb := c.Args[1]
		if verb != "mount" && verb != "unmount" {
			return real.Run(ctx, c)
		}
		if does {
			if res, err := real.Run(ctx, c); err != nil {
				return res, err
			}
		}
		return command.Result{Stdout: []byte(`{"complete":true}`)}, says
	})
}

func TestReportsAreNotBelieved(t *testing.T) {
	refused := &command.Error{Kind: command.Exited, Code: 32, Stderr: "so it says"}
	t.Run("mounted, but it is not", func(t *testing.T) {
		h := newHost(t, lying(false, nil))
		_, err := h.Mount(t.Context(), h.folder(t, "a"))
		wantFault(t, err, mount.NotMounted, "reported as done")
	})
	t.Run("not mounted, but it is", func(t *testing.T) {
		h := newHost(t, lying(true, refused))
		spec := h.folder(t, "a")
		_, err := h.Mount(t.Context(), spec)
		wantFault(t, err, mount.Failed, "so it says")
		if n := len(h.at(t, h.Target(spec.Source))); n != 0 {
			t.Errorf("%d mounts are left", n)
		}
	})
	t.Run("unmounted, but it is not", func(t *testing.T) {
		h := newHost(t, nil)
		spec := h.folder(t, "a")
		m := h.up(t, spec)
		liar := &host{dir: h.dir, base: h.base}
		var err error
		if liar.Kernel, err = mount.New(mount.Config{Base: h.base, Run: filepath.Join(h.dir, "run"), Runner: lying(false, nil)}); err != nil {
			t.Fatal(err)
		}
		wantFault(t, liar.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain), mount.Failed, "still mounted")
		if liar.Kernel, err = mount.New(mount.Config{Base: h.base, Run: filepath.Join(h.dir, "run"), Runner: lying(true, refused)}); err != nil {
			t.Fatal(err)
		}
		if err := liar.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
			t.Errorf("unmounted all the same: %v", err)
		}
	})
}

func TestBaseIsSharedWithOtherNamespaces(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	if !m.Entry.Shared() {
		t.Errorf("mount is not shared: %q", m.Entry.Group)
	}
	// Who follows our mounts keeps them from being unmounted, although he lives in another namespace.
	p := mounttest.Use(t, mounttest.Follow, filepath.Join(m.Entry.Target, "file"))
	wantFault(t, h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain), mount.Busy)
	users, err := h.Users(t.Context(), m.Entry)
	if err != nil || len(users) != 1 || users[0].PID != p.PID || !users[0].Foreign {
		t.Errorf("users %v, %v", users, err)
	}
	p.Stop()
	if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
		t.Error(err)
	}
	if err := h.Prepare(t.Context()); err != nil {
		t.Errorf("prepared again: %v", err)
	}
	if n := len(h.at(t, h.base)); n != 1 {
		t.Errorf("%d mounts at the base folder", n)
	}
}

func TestThatABaseHasBecomeSharedIsSeenAlthoughTheKernelCallsItNoChange(t *testing.T) {
	dir := mounttest.Scratch(t)
	base := mounttest.Mkdir(t, dir, "mnt")
	if err := unix.Mount(base, base, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", base, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	k, err := mount.New(mount.Config{Base: base, Run: filepath.Join(dir, "run"), Runner: &command.Exec{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if _, err := k.Table(); err != nil { // Is kept.
		t.Fatal(err)
	}
	if err := k.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
}
