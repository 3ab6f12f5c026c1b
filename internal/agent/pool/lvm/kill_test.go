// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/lvm"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// killer runs programs, and kills one of them when it is about to change something on the host: a device of device mapper, or what lies on a disk.
type killer struct {
	tools command.Runner
	dir   string
	left  int    // How many changes still to let pass. Below zero: all.
	where string // The program that was killed, and before what.
}

// arm kills whatever program is about to make the change number n from now, counted from zero.
func (k *killer) arm(n int) { k.left, k.where = n, "" }

// disarm lets all changes pass.
func (k *killer) disarm() { k.left = -1 }

func (k *killer) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if k.left < 0 || c.Program == "lvm" || c.Program == "lvmconfig" {
		return k.tools.Run(ctx, c)
	}
	// All that is done to a traced process is done by one thread.
	type answer struct {
		res command.Result
		err error
	}
	ended := make(chan answer)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		res, err := k.trace(c)
		ended <- answer{res, err}
	}()
	a := <-ended
	return a.res, a.err
}

// trace runs a program, and kills it at the change that k waits for.
func (k *killer) trace(c command.Command) (command.Result, error) {
	failed := func(err error) (command.Result, error) {
		return command.Result{}, &command.Error{Kind: command.NotStarted, Program: c.Program, Args: c.Args, Code: -1, Err: err}
	}
	out, err := os.OpenFile(filepath.Join(k.dir, "out"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(c.Program, c.Args...)
	cmd.Dir, cmd.Env = "/", append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/"}, c.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Release() }()
	status, killed, err := k.watch(pid, c.Program)
	if err != nil {
		_ = unix.Kill(-pid, unix.SIGKILL)
		return failed(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return failed(err)
	}
	switch {
	case killed:
		return command.Result{}, &command.Error{Kind: command.TimedOut, Program: c.Program, Args: c.Args, Code: -1, Err: context.DeadlineExceeded}
	case status.ExitStatus() != 0:
		return command.Result{}, &command.Error{Kind: command.Exited, Program: c.Program, Args: c.Args, Code: status.ExitStatus(), Stderr: string(text)}
	}
	return command.Result{Stdout: text}, nil
}

// watch follows a traced process from call to call of the kernel until it ends.
func (k *killer) watch(pid int, program string) (status unix.WaitStatus, killed bool, err error) {
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return status, false, err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return status, false, err
	}
	signal := 0
	for {
		if err := unix.PtraceSyscall(pid, signal); err != nil {
			return status, killed, fmt.Errorf("go on: %w", err)
		}
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
			return status, killed, err
		}
		signal = 0
		switch {
		case status.Exited() || status.Signaled():
			return status, false, nil
		case status.StopSignal() == unix.SIGTRAP|0x80:
			change, err := nextChange(pid)
			if err != nil {
				return status, false, err
			}
			if change == "" {
				continue
			}
			if k.left--; k.left < 0 {
				k.where = program + " before " + change
				_ = unix.Kill(-pid, unix.SIGKILL) // With what it started.
				_, err = unix.Wait4(pid, &status, unix.WALL, nil)
				return status, true, err
			}
		case status.StopSignal() != unix.SIGTRAP:
			signal = int(status.StopSignal())
		}
	}
}

// nextChange says what the call changes that a stopped process is about to make, or nothing.
func nextChange(pid int) (string, error) {
	const entry = 1
	var info [88]byte // The kernel's struct ptrace_syscall_info.
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		return "", fmt.Errorf("ask what it calls: %w", errno)
	}
	if info[0] != entry {
		return "", nil
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(info[24+8*i:]) }
	switch word(0) {
	case unix.SYS_IOCTL:
		return mapperCalls(word(2)), nil
	case unix.SYS_IO_SUBMIT:
		return submitted(pid, uintptr(word(3)))
	}
	return "", nil
}

// mapperCalls names the calls of device mapper that change something.
func mapperCalls(request uint64) string {
	const mapper = 0xfd
	if request>>8&0xff != mapper {
		return ""
	}
	return map[uint64]string{3: "create", 4: "remove", 5: "rename", 6: "suspend or resume", 9: "load", 10: "clear", 14: "message"}[request&0xff]
}

// submitted tells whether the first of the requests to the disk is one to write.
func submitted(pid int, list uintptr) (string, error) {
	const opcode, write = 16, 1
	var pointer, request [8]byte
	if _, err := unix.PtracePeekData(pid, list, pointer[:]); err != nil {
		return "", err
	}
	if _, err := unix.PtracePeekData(pid, uintptr(binary.NativeEndian.Uint64(pointer[:]))+opcode, request[:]); err != nil {
		return "", err
	}
	if binary.NativeEndian.Uint16(request[:]) == write {
		return "write", nil
	}
	return "", nil
}

// step is a call of a driver, in a sequence that begins and ends without a volume.
type step struct {
	name string
	do   func() error
}

// Programs that change something are killed before each of their changes, and the same call again completes the work.
func TestKilledProgramsLeaveNothingHalf(t *testing.T) {
	for _, thin := range []bool{false, true} {
		t.Run(map[bool]string{false: "LVM", true: "LVM_THIN"}[thin], func(t *testing.T) {
			group(t, "vg", "64k", "1")
			c := lvm.Config{Name: "p", Group: "vg"}
			if thin {
				c.ThinPool = "tp"
				pooltest.Run(t, "lvcreate", "--yes", "--size", "64m", "--poolmetadatasize", "2m", "--thinpool", "tp", "vg")
			}
			k := &killer{tools: tools(t), dir: t.TempDir(), left: -1}
			d := openWith(t, c, k)
			for round, killed := 0, true; killed; round++ {
				killed = false
				for _, s := range lifeOf(t, d, round) {
					k.arm(round)
					err := s.do()
					k.disarm()
					if k.where == "" {
						must(t, err)
						continue
					}
					killed = true
					t.Logf("round %d: %s: killed %s: %v", round, s.name, k.where, err)
					if err := s.do(); err != nil {
						t.Logf("devices:\n%s", pooltest.Run(t, "dmsetup", "info", "-c", "-o", "name,suspended,open"))
						t.Fatalf("%s, after %s was killed: %v", s.name, k.where, err)
					}
				}
			}
			if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("left are %+v, %v", list, err)
			}
			if text := pooltest.Run(t, "lvs", "--noheadings", "-o", "lv_name", "vg"); text != c.ThinPool {
				t.Errorf("left are %s", text)
			}
		})
	}
}

// lifeOf is all that can happen to a volume, and to a snapshot where the driver takes them.
func lifeOf(t *testing.T, d pool.Driver, round int) []step {
	t.Helper()
	ctx := t.Context()
	open := func() error { _, err := d.Open(ctx, db); return err }
	steps := []step{
		{"create", func() error { return d.Create(ctx, db, 2*mib) }},
		{"open", open},
		{"finish", func() error { return d.Finish(ctx, db) }},
		{"grow", func() error { return d.Grow(ctx, db, 4*mib) }},
	}
	if s, ok := d.(*lvm.Thin); ok {
		snapshot := pool.SnapshotID{Resource: "db", Snapshot: "s"}
		steps = append(steps,
			step{"take", func() error { return s.TakeSnapshot(ctx, snapshot, nil) }},
			step{"finish snapshot", func() error { return s.FinishSnapshot(ctx, snapshot) }},
			step{"roll back", func() error { return s.RollBack(ctx, snapshot, fmt.Sprint("token", round), nil) }},
			step{"open again", open},
			step{"remove snapshot", func() error { return s.RemoveSnapshot(ctx, snapshot) }},
		)
	}
	return append(steps, step{"close", func() error { return d.Close(ctx, db) }}, step{"remove", func() error { return d.Remove(ctx, db) }})
}
