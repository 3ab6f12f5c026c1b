// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mounttest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// The roles in which a test binary is started again.
const (
	privateEnv = "HOLDFAST_TEST_PRIVATE_MOUNTS" // Set in the process that lives in a mount namespace of its own.
	userEnv    = "HOLDFAST_TEST_MOUNT_USER"     // Set in processes that Use starts.
)

// Main runs the tests of m in a mount namespace of its own when it may, checks that no goroutine is left, and returns the exit code. It is also
// what makes the test binary a helper of package mount.
func Main(m *testing.M) int {
	if code, done := Private(); done {
		return code
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Private is the part of Main before the tests, for a TestMain that has something to prepare: it returns true when they have run, in a
// mount namespace of their own, and the exit code. Else they are to be run now.
func Private() (code int, done bool) {
	if len(os.Args) > 1 && os.Args[1] == mount.HelperName {
		syscall.Exit(mount.HelperMain(os.Args[2:])) // Without the second that the race detector waits at the end.
	}
	if how := os.Getenv(userEnv); how != "" {
		syscall.Exit(use(how, os.Args[1:]))
	}
	if os.Geteuid() != 0 {
		return 0, false
	}
	if os.Getenv(privateEnv) == "" {
		return again(), true
	}
	if err := leaveOthers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, false
}

// again runs this program once more in a mount namespace of its own, and ends as it does; the other way round, a killed test run leaves nothing
// running.
func again() int {
	program, err := os.Executable() // Under its own name, as those see it who ask who uses a device.
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.LockOSThread() // The kernel takes the end of the thread that has started a process for that of its parent.
	p, err := os.StartProcess(program, os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), privateEnv+"=1"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}, // Mounts are private in it.
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the tests in a mount namespace of their own:", err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = p.Signal(s)
		}
	}()
	state, err := p.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return state.ExitCode()
}

// leaveOthers takes away what others had mounted in the folder of temporary files when this namespace was made: as long as it is here, too,
// they could not give up its devices.
func leaveOthers() error {
	within := filepath.Clean(os.TempDir()) + "/"
	theirs, err := mountinfo.GetMounts(mountinfo.PrefixFilter(within))
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(theirs) {
		err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // It may have gone with the one below it.
			return fmt.Errorf("unmount %s of others: %w", m.Mountpoint, err)
		}
	}
	return nil
}

// Gone waits until nothing is mounted at a folder, in whatever mount namespace: one that another test has just made has copies of all mounts until it
// has left those of others, and they count as users.
func Gone(tb testing.TB, dir string) {
	tb.Helper()
	const tries, between = 500, 20 * time.Millisecond
	for range tries {
		tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
		if err != nil {
			tb.Fatal(err)
		}
		if !slices.ContainsFunc(tables, func(table string) bool {
			text, err := os.ReadFile(table)
			return err == nil && strings.Contains(string(text), " "+dir+" ") // Else it has ended.
		}) {
			return
		}
		<-time.After(between)
	}
	tb.Fatalf("something is mounted at %s still", dir)
}

// NeedRoot skips the test unless it is run as root, in a mount namespace that Main has made.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	if os.Getenv(privateEnv) == "" {
		tb.Skip("needs root: it makes real mounts in a mount namespace of its own")
	}
}

// Scratch returns an empty folder on a file system in memory of its own. It vanishes with all that is mounted in it.
func Scratch(tb testing.TB) string {
	tb.Helper()
	NeedRoot(tb)
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	if err := unix.Mount("scratch", dir, "tmpfs", 0, "mode=755"); err != nil {
		tb.Fatalf("mount a file system in memory: %v", err)
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			tb.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// Mkdir makes a folder and returns its path.
func Mkdir(tb testing.TB, elem ...string) string {
	tb.Helper()
	dir := filepath.Join(elem...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	return dir
}
