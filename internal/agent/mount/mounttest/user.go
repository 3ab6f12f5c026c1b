// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mounttest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// How says how a process that Use starts uses a mount.
type How string

// The ways to use a mount.
const (
	OpenFile How = "open"    // It has the file at the path open.
	WorkIn   How = "workdir" // The path is its working directory.
	MapFile  How = "map"     // It has the file at the path mapped, and closed.
	Apart    How = "apart"   // As OpenFile, in a mount namespace that is cut off from the others.
	Machine  How = "machine" // As Follow, and it looks like QEMU with the machine test-vm.
	Follow   How = "follow"  // As OpenFile, in a mount namespace that sees mounts of the one it came from, as a virtual machine of libvirt does.
)

// Process is a process that uses a mount until it is told to stop.
type Process struct {
	PID int

	process *os.Process
	stop    *os.File // Closed to tell it.
}

// Use starts a process that uses a path, and returns when it does. It is stopped at the end of the test at the latest.
func Use(tb testing.TB, how How, path string) *Process {
	tb.Helper()
	NeedRoot(tb)
	stopRead, stopWrite, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	readyRead, readyWrite, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	attr := &os.ProcAttr{
		Dir: "/", Env: append(os.Environ(), userEnv+"="+string(how)),
		Files: []*os.File{stopRead, readyWrite, os.Stderr},
	}
	if how == Apart {
		attr.Sys = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	if how == Follow || how == Machine {
		attr.Sys = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	program, argv := "/proc/self/exe", []string{os.Args[0], path}
	if how == Machine {
		program = qemu(tb)
		argv = append(argv, "-name", "guest=test-vm,debug-threads=on", "-uuid", "1c5f")
	}
	p, err := os.StartProcess(program, argv, attr)
	_, _ = stopRead.Close(), readyWrite.Close()
	if err != nil {
		tb.Fatal(err)
	}
	u := &Process{PID: p.Pid, process: p, stop: stopWrite}
	tb.Cleanup(u.Stop)
	text, err := io.ReadAll(readyRead)
	_ = readyRead.Close()
	if err != nil || string(text) != "ready" {
		tb.Fatalf("process that uses %s: %q, %v", path, text, err)
	}
	return u
}

// qemu returns a program that looks like QEMU: this one under its name.
func qemu(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "qemu-system-x86_64")
	if err := os.WriteFile(file, text, 0o700); err != nil {
		tb.Fatal(err)
	}
	return file
}

// Stop ends the process and returns when it is gone.
func (u *Process) Stop() {
	if u.process == nil {
		return
	}
	_ = u.stop.Close()
	_, _ = u.process.Wait()
	u.process = nil
}

// use is the life of a process that Use starts.
func use(how string, args []string) int {
	keep, err := begin(How(how), args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = os.Stdout.WriteString("ready")
	_ = os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = keep.Close()
	return 0
}

// begin uses a path as it is told to. What it returns keeps the use alive.
func begin(how How, path string) (io.Closer, error) {
	switch how {
	case WorkIn:
		return io.NopCloser(nil), os.Chdir(path)
	case MapFile:
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if _, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return nil, err
		}
		return io.NopCloser(nil), f.Close()
	case Follow, Machine:
		if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
			return nil, err
		}
		return os.Open(path)
	case OpenFile, Apart:
		return os.Open(path)
	}
	return nil, fmt.Errorf("use %q is not known", how)
}

// Loop returns a loop device over a new file of size bytes in dir. It is given back at the end of the test.
func Loop(tb testing.TB, dir string, size int64) string {
	tb.Helper()
	NeedRoot(tb)
	file := filepath.Join(dir, "disk.img")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		tb.Fatal(err)
	}
	device, _ := Attach(tb, file)
	return device
}

// Attach returns a loop device over a file. It is given back by calling release, and at the end of the test at the latest.
func Attach(tb testing.TB, file string) (device string, release func()) {
	tb.Helper()
	NeedRoot(tb)
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = backing.Close() }()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = control.Close() }()
	const tries = 20 // Others may take the device that the kernel calls free.
	for range tries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			tb.Fatal(err)
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		dev, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			tb.Fatal(err)
		}
		if err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_FD, int(backing.Fd())); err != nil {
			_ = dev.Close()
			continue
		}
		release := func() {
			_ = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
			_ = dev.Close()
		}
		release = sync.OnceFunc(release)
		tb.Cleanup(release)
		return name, release
	}
	tb.Fatal("no loop device is free")
	return "", nil
}
