// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// agentEnv is set in a process that freezes and then waits to be killed.
const agentEnv = "HOLDFAST_TEST_FREEZE_AGENT"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == freeze.HelperName {
		syscall.Exit(freeze.HelperMain(os.Args[2:])) // Without the second that the race detector waits at the end.
	}
	if text := os.Getenv(agentEnv); text != "" {
		syscall.Exit(beAgent(text))
	}
	os.Exit(mounttest.Main(m))
}

// work is what the other process is to freeze.
type work struct {
	Device uint64
	Mounts []freeze.Mount
	Notes  string
	Ready  string
}

func beAgent(text string) int {
	var w work
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return 1
	}
	z := freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: w.Notes})
	if _, err := z.Freeze(context.Background(), w.Device, w.Mounts, time.Hour); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.WriteFile(w.Ready, []byte("frozen\n"), 0o600); err != nil {
		return 1
	}
	select {}
}

// target is a mounted filesystem on a loop device.
type target struct {
	device string
	number uint64
	dir    string
	notes  string
	mounts []freeze.Mount
}

func newTarget(t *testing.T, fstype string) *target {
	t.Helper()
	pooltest.NeedHost(t, "mkfs."+fstype, "losetup", "mount", "umount")
	dir := t.TempDir()
	x := &target{dir: filepath.Join(dir, "mnt"), notes: filepath.Join(dir, "notes")}
	image := filepath.Join(dir, "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 320*pooltest.MiB))
	must(t, os.Mkdir(x.dir, 0o700))
	pooltest.Run(t, "mkfs."+fstype, "-q", image)
	x.device = pooltest.Run(t, "losetup", "-f", "--show", image)
	t.Cleanup(func() { pooltest.Run(&background{t}, "losetup", "-d", x.device) })
	var st unix.Stat_t
	must(t, unix.Stat(x.device, &st))
	x.number = st.Rdev
	x.mounts = []freeze.Mount{{PID: os.Getpid(), Point: x.dir}}
	x.mount(t)
	t.Cleanup(func() {
		x.thawForce(t)
		_ = unix.Unmount(x.dir, unix.MNT_DETACH) // A program that is just being started by another test may have it open.
	})
	return x
}

// background lets a program run after the context of a test has ended.
type background struct{ *testing.T }

func (background) Context() context.Context { return context.Background() }

func (x *target) mount(t *testing.T) {
	t.Helper()
	pooltest.Run(&background{t}, "mount", x.device, x.dir)
}

func (x *target) freezer() *freeze.Freezer {
	return freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: x.notes})
}

// end returns what waits for the end of a process.
func end(t *testing.T, pid int) (wait func()) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	return func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				must(t, err)
				return
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ioctl freezes or thaws by hand.
func (x *target) ioctl(t *testing.T, request uint) error {
	t.Helper()
	f, err := os.Open(x.dir)
	must(t, err)
	defer func() { _ = f.Close() }()
	return unix.IoctlSetInt(int(f.Fd()), request, 0)
}

func wantErr(got, want error) error {
	if !errors.Is(got, want) {
		return fmt.Errorf("got %w, want %w", got, want)
	}
	return nil
}

const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// thawForce takes care that nothing hangs after a test that failed.
func (x *target) thawForce(t *testing.T) {
	t.Helper()
	if err := x.ioctl(t, fiThaw); err == nil && !t.Failed() {
		t.Error("the filesystem was left frozen")
	}
}

// wantFrozen looks whether the filesystem is frozen: then it cannot be frozen again.
func (x *target) wantFrozen(t *testing.T, want bool) {
	t.Helper()
	err := x.ioctl(t, fiFreeze)
	if err == nil {
		must(t, x.ioctl(t, fiThaw))
	} else if !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	if got := err != nil; got != want {
		t.Errorf("frozen is %t, want %t", got, want)
	}
	if notes, err := os.ReadDir(x.notes); err == nil && len(notes) > 0 != want {
		t.Errorf("frozen is %t, and there are the notes %v", want, notes)
	}
}

func TestFilesystemIsFrozenAndThawed(t *testing.T) {
	t.Parallel()
	for _, fstype := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fstype, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, fstype)
			must(t, os.WriteFile(x.dir+"/file", []byte("unflushed"), 0o600))
			for range 2 {
				f, err := x.freezer().Freeze(t.Context(), x.number, append([]freeze.Mount{{PID: 1, Point: "/nonesuch"}, {PID: 1, Point: "/"}}, x.mounts...), time.Minute)
				must(t, err)
				x.wantFrozen(t, true)
				for range 2 {
					if held, err := f.Thaw(); !held || err != nil {
						t.Errorf("%t, %v", held, err)
					}
				}
				x.wantFrozen(t, false)
			}
		})
	}
}

func TestUnreachableFilesystemIsNotFrozen(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "ext4")
	// Something lies over it, so that this process does not reach it either.
	must(t, unix.Mount("tmpfs", x.dir, "tmpfs", 0, ""))
	for _, mounts := range [][]freeze.Mount{nil, {{PID: os.Getpid(), Point: "/"}}, {{PID: os.Getpid(), Point: "/nonesuch"}}, {{PID: 1 << 22, Point: x.dir}}} {
		_, err := x.freezer().Freeze(t.Context(), x.number, mounts, time.Minute)
		if err == nil || !strings.Contains(err.Error(), x.device+": no mount leads to it") {
			t.Errorf("%v: %v", mounts, err)
		}
	}
	must(t, pooltest.Unmount(x.dir))
	x.wantFrozen(t, false)
	z := freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: x.notes, Helper: []string{"false"}})
	if _, err := z.Freeze(t.Context(), x.number, x.mounts, time.Minute); err == nil || !strings.Contains(err.Error(), "start the guard") {
		t.Errorf("without a guard: %v", err)
	}
	x.wantFrozen(t, false)
}

func TestMountInAnotherNamespaceIsFrozen(t *testing.T) {
	pooltest.NeedHost(t, "unshare")
	x := newTarget(t, "ext4")
	must(t, pooltest.Unmount(x.dir))
	pid := filepath.Join(t.TempDir(), "pid")
	stop := pooltest.InShell(t, fmt.Sprintf(`exec unshare -m --propagation private sh -c 'mount %s %s && echo $$ > "$1" && echo ready > "$2" && exec sleep 1000' sh "$1" "$2"`, x.device, x.dir), pid)
	text, err := os.ReadFile(pid)
	must(t, err)
	x.mounts[0].PID, err = strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	f, err := x.freezer().Freeze(t.Context(), x.number, x.mounts, time.Minute)
	must(t, err)
	x.mount(t) // The same filesystem here.
	must(t, wantErr(x.ioctl(t, fiFreeze), unix.EBUSY))
	if held, err := f.Thaw(); !held || err != nil {
		t.Errorf("%t, %v", held, err)
	}
	x.wantFrozen(t, false)
	stop()
}

func TestLimitThaws(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "ext4")
	f, err := x.freezer().Freeze(t.Context(), x.number, x.mounts, 50*time.Millisecond)
	must(t, err)
	// Waits for the thaw, or for ever.
	must(t, os.WriteFile(x.dir+"/file", []byte("written"), 0o600))
	if held, err := f.Thaw(); held || err != nil {
		t.Errorf("%t, %v", held, err)
	}
	x.wantFrozen(t, false)
}

func TestCancelThaws(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "ext4")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.freezer().Freeze(ctx, x.number, x.mounts, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	x.wantFrozen(t, false)
}

// guards returns the guards of a device.
func (x *target) guards(t *testing.T) []int {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var pids []int
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(text), "\x00"+freeze.HelperName+"\x00guard\x00"+x.device) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

func (x *target) guard(t *testing.T) int {
	t.Helper()
	pids := x.guards(t)
	if len(pids) != 1 {
		t.Fatalf("guards %v, want one", pids)
	}
	return pids[0]
}

// stopped waits until a process that was told to stop has done so: it may run for a while on another processor.
func stopped(t *testing.T, pid int) {
	t.Helper()
	for range time.Tick(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		if _, after, ok := strings.Cut(string(stat), ") "); ok && after[0] == 'T' {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("it does not stop")
		}
	}
}

func TestDeadGuardIsReplaced(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]unix.Signal{"killed": unix.SIGKILL, "ended": unix.SIGTERM, "stopped": unix.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, "ext4")
			z := freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: x.notes, Answer: time.Second})
			f, err := z.Freeze(t.Context(), x.number, x.mounts, time.Minute)
			must(t, err)
			pid := x.guard(t)
			wait := end(t, pid)
			must(t, unix.Kill(pid, signal))
			if signal == unix.SIGSTOP {
				stopped(t, pid)
			} else {
				wait()
			}
			if held, err := f.Thaw(); held || err != nil {
				t.Errorf("%t, %v", held, err)
			}
			x.wantFrozen(t, false)
		})
	}
}

func TestLazilyUnmountedFilesystemIsThawed(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		x := newTarget(t, "ext4")
		f, err := x.freezer().Freeze(t.Context(), x.number, x.mounts, time.Minute)
		must(t, err)
		if err := unix.Unmount(x.dir, 0); !errors.Is(err, unix.EBUSY) {
			t.Errorf("unmounting what is frozen: %v", err)
		}
		must(t, unix.Unmount(x.dir, unix.MNT_DETACH))
		if killed {
			must(t, unix.Kill(x.guard(t), unix.SIGKILL))
		}
		if _, err := f.Thaw(); err != nil {
			t.Error(err)
		}
		x.mount(t)
		x.wantFrozen(t, false)
	}
}

func TestOthersFreezeIsLeftAlone(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "ext4")
	for _, theyThaw := range []bool{false, true} {
		must(t, x.ioctl(t, fiFreeze))
		f, err := x.freezer().Freeze(t.Context(), x.number, x.mounts, time.Minute)
		must(t, err)
		if theyThaw {
			must(t, x.ioctl(t, fiThaw))
		}
		if held, err := f.Thaw(); held == theyThaw || err != nil {
			t.Errorf("they thaw: %t, held: %t, %v", theyThaw, held, err)
		}
		if err := x.ioctl(t, fiThaw); (err == nil) == theyThaw {
			t.Errorf("they thaw: %t, then: %v", theyThaw, err)
		}
	}
}

func TestOthersThawIsTold(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "ext4")
	f, err := x.freezer().Freeze(t.Context(), x.number, x.mounts, time.Minute)
	must(t, err)
	must(t, x.ioctl(t, fiThaw))
	if held, err := f.Thaw(); held || err != nil {
		t.Errorf("%t, %v", held, err)
	}
}

// agent starts another process that freezes the filesystem, and returns what kills it.
func (x *target) agent(t *testing.T) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	text, err := json.Marshal(work{Device: x.number, Mounts: x.mounts, Notes: x.notes, Ready: "READY"})
	must(t, err)
	// The process group that is killed is that of the agent; its guard has one of its own.
	script := fmt.Sprintf(`%s="$(echo '%s' | sed "s:READY:$2:")" exec "$1"`, agentEnv, text)
	return pooltest.InShell(t, script, self)
}

func TestDeathOfTheAgentThaws(t *testing.T) {
	x := newTarget(t, "ext4")
	kill := x.agent(t)
	x.wantFrozen(t, true)
	wait := end(t, x.guard(t))
	kill()
	must(t, os.WriteFile(x.dir+"/file", []byte("written"), 0o600)) // Waits for the thaw, or for ever.
	wait()
	must(t, pooltest.Unmount(x.dir))
	x.mount(t)
	must(t, x.freezer().Recover(t.Context()))
	x.wantFrozen(t, false)
}

func TestNextAgentThawsWhatAgentAndGuardLeft(t *testing.T) {
	for name, between := range map[string]func(*testing.T, *target){
		"still mounted": func(*testing.T, *target) {},
		"unmounted": func(t *testing.T, x *target) {
			t.Helper()
			must(t, pooltest.Unmount(x.dir))
		},
		"mounted elsewhere": func(t *testing.T, x *target) {
			t.Helper()
			must(t, pooltest.Unmount(x.dir))
			x.dir = t.TempDir()
			x.mount(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTarget(t, "ext4")
			kill := x.agent(t)
			pid := x.guard(t)
			wait := end(t, pid)
			must(t, unix.Kill(pid, unix.SIGKILL)) // First, because it would thaw.
			wait()
			kill()
			must(t, wantErr(x.ioctl(t, fiFreeze), unix.EBUSY))
			between(t, x)
			must(t, x.freezer().Recover(t.Context()))
			if name == "unmounted" {
				x.mount(t)
			}
			x.wantFrozen(t, false)
			must(t, os.WriteFile(x.dir+"/file", []byte("written"), 0o600))
		})
	}
}

// TestGuardThatIsStillThereIsWaitedFor has a guard that would thaw later, and with it perhaps what was frozen anew.
func TestGuardThatIsStillThereIsWaitedFor(t *testing.T) {
	x := newTarget(t, "ext4")
	pidFile := filepath.Join(t.TempDir(), "pid")
	kill := pooltest.InShell(t, `echo $$ > "$1"; echo ready > "$2"; exec sleep 1000`, pidFile)
	text, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	must(t, x.ioctl(t, fiFreeze))
	must(t, os.MkdirAll(x.notes, 0o700))
	must(t, freeze.WriteNote(x.notes, x.number, "ext4", 1<<22+1, pid))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := x.freezer().Recover(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("wait for process %d to end", pid)) {
		t.Errorf("%v", err)
	}
	must(t, wantErr(x.ioctl(t, fiFreeze), unix.EBUSY))
	kill()
	must(t, x.freezer().Recover(t.Context()))
	x.wantFrozen(t, false)
}

func TestNotesOfALivingAgentAreLeftAlone(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "ext4")
	f, err := x.freezer().Freeze(t.Context(), x.number, x.mounts, time.Minute)
	must(t, err)
	must(t, x.freezer().Recover(t.Context()))
	x.wantFrozen(t, true)
	if held, err := f.Thaw(); !held || err != nil {
		t.Errorf("%t, %v", held, err)
	}
}

func TestNoteOfADeviceThatIsGoneIsDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	must(t, os.WriteFile(path, []byte(`{"agent":{"pid":4194305,"start":"1"},"guard":{"pid":4194305,"start":"1"},"device":1,"sequence":"7","type":"ext4"}`), 0o600))
	must(t, freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: dir}).Recover(t.Context()))
	if _, err := os.Stat(path); err == nil {
		t.Error("the note is still there")
	}
	must(t, os.WriteFile(path, []byte("{"), 0o600))
	if err := freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: dir}).Recover(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged note: %v", err)
	}
}
