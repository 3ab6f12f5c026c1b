// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inuse_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a made-up host: proc and sys are folders of a test.
type host struct {
	t         *testing.T
	proc, sys string
	device    string // A block device that really exists; nothing opens it.
	rdev      uint64
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, proc: t.TempDir(), sys: t.TempDir()}
	entries, err := os.ReadDir("/dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeDevice == 0 || e.Type()&fs.ModeCharDevice != 0 {
			continue
		}
		h.device = filepath.Join("/dev", e.Name())
		h.rdev = stat(t, h.device).Rdev
		h.mkdir(h.sys, "block")
		h.mkdir(h.sysDevice())
		return h
	}
	t.Skip("needs a block device in /dev")
	return nil
}

func stat(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func (h *host) numbers() string {
	return fmt.Sprintf("%d:%d", unix.Major(h.rdev), unix.Minor(h.rdev))
}

func (h *host) sysDevice() string { return filepath.Join(h.sys, "dev/block", h.numbers()) }

func (h *host) mkdir(parts ...string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(parts...), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) write(text string, parts ...string) {
	h.t.Helper()
	path := filepath.Join(parts...)
	h.mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) link(target string, parts ...string) {
	h.t.Helper()
	path := filepath.Join(parts...)
	h.mkdir(filepath.Dir(path))
	if err := os.Symlink(target, path); err != nil {
		h.t.Fatal(err)
	}
}

// process adds a process that has files open and lives in a mount namespace.
func (h *host) process(pid, name, ns, mountinfo string, open ...string) {
	h.t.Helper()
	h.write(name+"\n", h.proc, pid, "comm")
	h.link("/bin/"+name, h.proc, pid, "exe")
	h.write(mountinfo, h.proc, pid, "mountinfo")
	h.link("mnt:["+ns+"]", h.proc, pid, "ns/mnt")
	h.mkdir(h.proc, pid, "fd")
	for i, file := range open {
		h.link(file, h.proc, pid, "fd", fmt.Sprint(i))
	}
}

func (h *host) scanner() *inuse.Scanner { return &inuse.Scanner{Proc: h.proc, Sys: h.sys} }

func (h *host) holders(s *inuse.Scanner) []string {
	h.t.Helper()
	table, err := s.Scan(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	holders, err := table.Device(h.rdev)
	if err != nil {
		h.t.Fatal(err)
	}
	return shown(holders)
}

func shown(holders []pool.Holder) []string {
	var all []string
	for _, h := range holders {
		all = append(all, h.String())
	}
	return all
}

func TestHoldersAreFoundWhereverTheyAre(t *testing.T) {
	h := newHost(t)
	mount := "36 1 " + h.numbers() + ` / /mnt/with\040space rw - ext4 /dev/x rw` + "\n"
	other := "37 1 " + h.numbers() + " / /elsewhere rw - ext4 /dev/x rw\n"
	btrfs := "38 1 0:44 / /b rw - btrfs " + h.device + " rw\n"
	cases := []struct {
		name string
		set  func(h *host)
		want []string
	}{
		{"nobody", func(h *host) { h.process("7", "idle", "1", "", "/dev/null", "/nonesuch") }, nil},
		{"open twice by one process", func(h *host) { h.process("7", "qemu", "1", "", h.device, "/dev/null", h.device) }, []string{"open by qemu (pid 7)"}},
		{"mounted in the first namespace", func(h *host) { h.process("1", "init", "1", mount) }, []string{"mounted at /mnt/with space (seen by pid 1)"}},
		{"mounted in another namespace", func(h *host) {
			h.process("1", "init", "1", "")
			h.process("8", "ns", "2", other)
		}, []string{"mounted at /elsewhere (seen by pid 8)"}},
		{"the same mount in two namespaces", func(h *host) {
			h.process("8", "a", "2", mount)
			h.process("9", "b", "2", mount)
			h.process("10", "c", "2", mount)
		}, []string{"mounted at /mnt/with space"}},
		{"mounted by a filesystem with a number of its own", func(h *host) { h.process("1", "init", "1", btrfs) }, []string{"mounted at /b (seen by pid 1)"}},
		{"device on top", func(h *host) { h.mkdir(h.sysDevice(), "holders/dm-3") }, []string{"below dm-3"}},
		{"loop device on top", func(h *host) { h.write(h.device+"\n", h.sys, "block/loop77/loop/backing_file") }, []string{"below loop77"}},
		{"swap", func(h *host) {
			h.write("Filename\t\tType\n"+h.device+"   partition\t1\t0\t-2\n", h.proc, "swaps")
		}, []string{"below swap"}},
		{"partition mounted and stacked", func(h *host) {
			h.write("1\n", h.sysDevice(), "p1/partition")
			h.write("259:1234\n", h.sysDevice(), "p1/dev")
			h.mkdir(h.sysDevice(), "p1/holders/md0")
			h.process("1", "init", "1", "40 1 259:1234 / /part rw - xfs /dev/p1 rw\n")
		}, []string{"mounted at /part (seen by pid 1)", "below md0"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t)
			tc.set(h)
			got := h.holders(h.scanner())
			if tc.name == "the same mount in two namespaces" {
				for i := range got { // Which of the processes is named is left open.
					got[i] = got[i][:len(tc.want[0])]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFileIsHeldByItsOpenersAndBySwap(t *testing.T) {
	h := newHost(t)
	file := filepath.Join(t.TempDir(), "a file")
	h.write("x", file)
	h.process("7", "cat", "1", "", file)
	h.write("Filename\tType\n"+filepath.Dir(file)+`/a\040file  file 1 0 -2`+"\n", h.proc, "swaps")
	table, err := h.scanner().Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st := stat(t, file)
	if diff := cmp.Diff([]string{"open by cat (pid 7)", "below swap"}, shown(table.File(inuse.File{Dev: st.Dev, Ino: st.Ino}))); diff != "" {
		t.Error(diff)
	}
}

func TestDeviceThatDoesNotExistHasNoHolders(t *testing.T) {
	h := newHost(t)
	table, err := h.scanner().Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if holders, err := table.Device(unix.Mkdev(4000, 1)); err != nil || len(holders) != 0 {
		t.Errorf("%v, %v", holders, err)
	}
}

func TestUnreadableHostIsAnErrorAndNotNobody(t *testing.T) {
	for _, s := range []*inuse.Scanner{{Proc: "/nonesuch"}, {Sys: "/nonesuch"}} {
		if _, err := s.Scan(t.Context()); err == nil {
			t.Error("a look at a host without proc or sysfs succeeded")
		}
	}
}

// gate makes looks wait in the mounts of a process until its function is called, once for each look.
func gate(h *host) (pass func()) {
	h.t.Helper()
	h.process("50", "gate", "50", "")
	fifo := filepath.Join(h.proc, "50/mountinfo")
	if err := errors.Join(os.Remove(fifo), unix.Mkfifo(fifo, 0o600)); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // Returns when a look has come to the gate.
		if err != nil {
			h.t.Error(err)
			return
		}
		_ = f.Close()
	}
}

func TestCallersShareALookThatBeganAfterTheyCame(t *testing.T) {
	h := newHost(t)
	s := h.scanner()
	pass := gate(h)
	results := make(chan []string, 3)
	scan := func() {
		table, err := s.Scan(t.Context())
		if err != nil {
			t.Error(err)
			results <- nil
			return
		}
		holders, err := table.Device(h.rdev)
		if err != nil {
			t.Error(err)
		}
		results <- shown(holders)
	}
	go scan()
	f, err := os.OpenFile(filepath.Join(h.proc, "50/mountinfo"), os.O_WRONLY, 0) // The first look is at the gate.
	if err != nil {
		t.Fatal(err)
	}
	h.process("60", "late", "60", "", h.device)
	go scan()
	go scan()
	for inuse.Waiting(s) < 2 {
		<-time.After(time.Millisecond)
	}
	_ = f.Close()
	<-results // What the first look found may be either.
	pass()    // One more look for both.
	for range 2 {
		if diff := cmp.Diff([]string{"open by late (pid 60)"}, <-results); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLookIsSharedForAWhile(t *testing.T) {
	h := newHost(t)
	s := h.scanner()
	users := func(ctx context.Context) []string {
		t.Helper()
		table, err := s.Glance(ctx)
		if err != nil {
			t.Fatal(err)
		}
		holders, err := table.Device(h.rdev)
		if err != nil {
			t.Fatal(err)
		}
		return shown(holders)
	}
	ctx := inuse.Sharing(t.Context())
	if got := users(ctx); len(got) != 0 {
		t.Errorf("%v", got)
	}
	h.process("60", "late", "60", "", h.device)
	late := []string{"open by late (pid 60)"}
	if diff := cmp.Diff(late, users(t.Context())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(late, users(inuse.Sharing(ctx))); diff != "" {
		t.Error(diff)
	}
	for limit := time.Now().Add(10 * time.Second); !slices.Equal(users(ctx), late); { // It grows old.
		if time.Now().After(limit) {
			t.Fatal("an old look is still shared")
		}
	}
}

func TestLookThatHangsIsAnErrorInTime(t *testing.T) {
	h := newHost(t)
	pass := gate(h)
	s := h.scanner()
	s.Limit = 50 * time.Millisecond
	if _, err := s.Scan(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Scan(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	pass()
	for inuse.Running(s) { // The look that the second call had asked for.
		if f, err := os.OpenFile(filepath.Join(h.proc, "50/mountinfo"), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = f.Close()
		}
	}
}

func TestThisHostCanBeLookedAt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to see the files of all processes")
	}
	var s inuse.Scanner
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	table, err := s.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st := stat(t, os.Args[0])
	for _, h := range table.File(inuse.File{Dev: st.Dev, Ino: st.Ino}) {
		if h.PID == os.Getpid() {
			return
		}
	}
	t.Error("the open file of this process was not found")
}

func BenchmarkScan(b *testing.B) {
	var s inuse.Scanner
	for b.Loop() {
		if _, err := s.Scan(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
