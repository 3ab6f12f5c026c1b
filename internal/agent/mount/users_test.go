// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// page is enough to be mapped.
var page = strings.Repeat("x", os.Getpagesize())

func TestUsersOfABusyMountAreNamed(t *testing.T) {
	cases := []struct {
		name string
		use  mount.Use
		busy bool // Whether the kernel itself refuses to unmount.
		take func(t *testing.T, h *host, target string) (pid int, release func())
	}{
		{"an open file", mount.Open, true, process(mounttest.OpenFile, "file")},
		{"a working directory", mount.WorkDir, true, process(mounttest.WorkIn, "")},
		{"a mapped file", mount.Mapped, true, process(mounttest.MapFile, "file")},
		{"an open file in a namespace cut off from ours", mount.Open, false, process(mounttest.Apart, "file")},
		{"a mount below", mount.Nested, true, func(t *testing.T, _ *host, target string) (int, func()) {
			t.Helper()
			dir := mounttest.Mkdir(t, target, "below")
			tmpfs(t, dir)
			return 0, func() { unmount(t, dir) }
		}},
		{"a loop device", mount.Loop, true, func(t *testing.T, h *host, target string) (int, func()) {
			t.Helper()
			write(t, filepath.Join(target, "disk.img"), strings.Repeat("x", 1<<20))
			_, release := mounttest.Attach(t, filepath.Join(target, "disk.img"))
			return 0, release
		}},
		{"an overlay", mount.Layered, false, func(t *testing.T, h *host, target string) (int, func()) {
			t.Helper()
			at := mounttest.Mkdir(t, h.dir, "overlay")
			options := "lowerdir=" + mounttest.Mkdir(t, h.dir, "lower") + ":" + mounttest.Mkdir(t, target, "lower")
			if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
				t.Skipf("needs overlayfs: %v", err)
			}
			return 0, func() { unmount(t, at) }
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, nil)
			spec := h.folder(t, "a")
			write(t, filepath.Join(spec.Source.Path, "file"), page)
			m := h.up(t, spec)
			pid, release := tc.take(t, h, m.Entry.Target)
			users, err := h.Users(t.Context(), m.Entry)
			if err != nil {
				t.Fatal(err)
			}
			if len(users) != 1 || users[0].Use != tc.use || users[0].PID != pid || users[0].Own || users[0].Foreign != (pid != 0 && !tc.busy) {
				t.Fatalf("users %+v", users)
			}
			if pid != 0 && (users[0].Command == "" || users[0].Start == 0) {
				t.Errorf("user %+v has no name or start", users[0])
			}
			t.Log(users[0])
			if tc.busy {
				wantFault(t, h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain), mount.Busy)
			}
			release()
			if users, err = h.Users(t.Context(), m.Entry); err != nil || len(users) > 0 {
				t.Errorf("users afterwards %v, %v", users, err)
			}
			if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
				t.Error(err)
			}
		})
	}
}

func process(how mounttest.How, name string) func(t *testing.T, h *host, target string) (int, func()) {
	return func(t *testing.T, _ *host, target string) (int, func()) {
		t.Helper()
		p := mounttest.Use(t, how, filepath.Join(target, name))
		return p.PID, p.Stop
	}
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
}

func TestVirtualMachinesAreFoundByTheirDisks(t *testing.T) {
	h := newHost(t, nil)
	m := h.up(t, h.folder(t, "a"))
	disk := filepath.Join(m.Entry.Target, "file")
	p := mounttest.Use(t, mounttest.Machine, disk)
	machines, err := h.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(machines, func(m mount.Machine) bool { return m.Path == disk })
	if at < 0 || machines[at].Name != "test-vm" || machines[at].UUID != "1c5f" || machines[at].PID != p.PID || machines[at].Start == 0 || machines[at].Write {
		t.Errorf("machines %+v", machines)
	}
	users, err := h.Users(t.Context(), m.Entry)
	if err != nil || len(users) != 1 || !strings.HasPrefix(users[0].String(), "VM test-vm (pid ") {
		t.Errorf("users %v, %v", users, err)
	}
	p.Stop()
	if machines, err = h.Machines(t.Context()); err != nil || slices.ContainsFunc(machines, func(m mount.Machine) bool { return m.Path == disk }) {
		t.Errorf("machines afterwards %+v, %v", machines, err)
	}
}

func TestUsersOfOtherMountsOfTheSameFileSystemAreNotNamed(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	mounttest.Use(t, mounttest.OpenFile, filepath.Join(spec.Source.Path, "file"))
	mounttest.Use(t, mounttest.Apart, filepath.Join(spec.Source.Path, "file"))
	other := h.up(t, h.folder(t, "b"))
	mounttest.Use(t, mounttest.OpenFile, filepath.Join(other.Entry.Target, "file"))
	if users, err := h.Users(t.Context(), m.Entry); err != nil || len(users) > 0 {
		t.Errorf("users %v, %v", users, err)
	}
}

func TestUsersAreFoundAfterTheMountWasDetached(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	p := mounttest.Use(t, mounttest.OpenFile, filepath.Join(m.Entry.Target, "file"))
	if err := unix.Unmount(m.Entry.Target, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if users, err := h.Users(t.Context(), m.Entry); err != nil || len(users) != 1 || users[0].PID != p.PID {
		t.Errorf("users %v, %v", users, err)
	}
	p.Stop()
	if users, err := h.Users(t.Context(), m.Entry); err != nil || len(users) > 0 {
		t.Errorf("users afterwards %v, %v", users, err)
	}
}

func TestDetachTakesTheMountFromItsPlace(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	m := h.up(t, spec)
	mounttest.Use(t, mounttest.OpenFile, filepath.Join(m.Entry.Target, "file"))
	wantFault(t, h.Unmount(t.Context(), spec.Source, m.Entry, mount.Abort), mount.Busy)
	if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Detach); err != nil {
		t.Error(err)
	}
}

func TestProgramsRunInsideTheVerifiedMount(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	mounttest.Mkdir(t, spec.Source.Path, "sub")
	if err := os.Symlink("/", filepath.Join(spec.Source.Path, "out")); err != nil {
		t.Fatal(err)
	}
	m := h.up(t, spec)
	var exec command.Exec
	enter := func(subpath, script string) (string, error) {
		c, err := h.Enter(m.Entry, subpath, command.Command{Program: "sh", Args: []string{"-c", script, "sh", "key"}, Secret: []int{3}, Stdin: []byte("input")})
		if err != nil {
			return "", err
		}
		if shown := strings.Join(c.Shown(), " "); strings.Contains(shown, "key") {
			t.Errorf("arguments show a secret: %s", shown)
		}
		res, err := exec.Run(t.Context(), c)
		return string(res.Stdout), err
	}
	if out, err := enter("", `cat; echo "$1"; echo more > new`); err != nil || out != "inputkey\n" {
		t.Errorf("output %q, %v", out, err)
	}
	if got := read(t, filepath.Join(spec.Source.Path, "new")); got != "more\n" {
		t.Errorf("the file says %q", got)
	}
	if _, err := enter("sub", `echo deep > new`); err != nil || read(t, filepath.Join(spec.Source.Path, "sub/new")) != "deep\n" {
		t.Errorf("in a folder below: %v", err)
	}
	for _, sub := range []string{"..", "/", "a/../..", "."} {
		if _, err := enter(sub, "true"); err == nil {
			t.Errorf("folder %q was entered", sub)
		}
	}
	if _, err := enter("out", "true"); err == nil || !strings.Contains(err.Error(), "exit code 97") {
		t.Errorf("a symbolic link was followed: %v", err)
	}
	// Unmounted behind our back, with something else at the place.
	if err := unix.Unmount(m.Entry.Target, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if _, err := enter("", "echo lost > new2"); err == nil {
		t.Error("a program ran in the bare folder")
	}
	tmpfs(t, m.Entry.Target)
	if _, err := enter("", "echo lost > new2"); err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Errorf("a program ran in another mount: %v", err)
	}
}

func TestHangingServerIsLeftToItsHelper(t *testing.T) {
	leftBehind := make(chan struct{}, 1) // The command was given up although its process is still there.
	h := newHost(t, command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		res, err := (&command.Exec{}).Run(ctx, c)
		if errors.Is(err, context.Canceled) {
			leftBehind <- struct{}{}
		}
		return res, err
	}))
	dir := mounttest.Mkdir(t, h.dir, "fuse")
	server := mounttest.Serve(t, dir)
	spec := mount.Spec{Source: source(t, mount.Existing, dir)}
	m := h.up(t, spec)
	if err := h.Probe(t.Context(), spec, m.Entry); err != nil {
		t.Fatal(err)
	}
	server.Hang()
	ctx, cancel := context.WithCancel(t.Context())
	probed := make(chan error)
	go func() { probed <- h.Probe(ctx, spec, m.Entry) }()
	server.AwaitCaller()
	// The table and the users are known all the same, and the helper that hangs is one of them.
	if n := len(h.at(t, dir)); n != 1 {
		t.Errorf("%d mounts", n)
	}
	if users, err := h.Users(soon(t), m.Entry); err != nil || len(mount.Others(users)) != 0 {
		t.Errorf("users %+v, %v", users, err)
	}
	wantFault(t, h.Probe(t.Context(), spec, m.Entry), mount.Occupied)
	other := h.folder(t, "other")
	if err := h.Unmount(t.Context(), other.Source, h.up(t, other).Entry, mount.Plain); err != nil {
		t.Errorf("another source: %v", err)
	}
	cancel()
	select {
	case err := <-probed:
		t.Fatalf("the probe returned while its helper hangs in the kernel: %v", err)
	case <-leftBehind:
	}
	wantFault(t, h.Probe(t.Context(), spec, m.Entry), mount.Occupied)
	server.Resume()
	var failed *mount.Error
	if err := <-probed; !errors.As(err, &failed) || !failed.Hung || !errors.Is(err, context.Canceled) {
		t.Errorf("the probe ended with %v", err)
	}
	if err := h.Probe(t.Context(), spec, m.Entry); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

func TestHelperOfAnEarlierProcessIsWaitedFor(t *testing.T) {
	h := newHost(t, nil)
	spec := h.folder(t, "a")
	earlier := mounttest.Use(t, mounttest.OpenFile, filepath.Join(spec.Source.Path, "file"))
	start, err := mount.StartTime(earlier.PID)
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(h.dir, "run", spec.Source.Key()+".change")
	write(t, note, strconv.Itoa(earlier.PID)+" "+strconv.FormatUint(start, 10)+"\n")
	_, err = h.Mount(t.Context(), spec)
	wantFault(t, err, mount.Occupied, strconv.Itoa(earlier.PID))
	settled := make(chan error)
	go func() { settled <- h.Settle(soon(t), spec.Source) }()
	select {
	case err := <-settled:
		t.Fatalf("settled while a helper is at work: %v", err)
	default:
	}
	earlier.Stop()
	if err := <-settled; err != nil {
		t.Error(err)
	}
	h.up(t, spec)
	write(t, note, strconv.Itoa(os.Getpid())+" 1\n") // Another process had this number.
	if err := h.Settle(t.Context(), spec.Source); err != nil {
		t.Error(err)
	}
}

func TestHelperWhoseParentHasEndedDoesNothing(t *testing.T) {
	orphan := command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		if c.Args[1] == "mount" {
			c.Stdin = []byte(strings.Replace(string(c.Stdin), `"parent":`, `"parent":1`, 1))
		}
		return (&command.Exec{}).Run(ctx, c)
	})
	h := newHost(t, orphan)
	spec := h.folder(t, "a")
	_, err := h.Mount(t.Context(), spec)
	wantFault(t, err, mount.NoHelper, "whoever started this helper has ended")
	if _, err := os.Stat(h.Target(spec.Source)); err == nil {
		t.Error("the helper has begun to work")
	}
}
