// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sh(script string, args ...string) command.Command {
	return command.Command{Program: "sh", Args: append([]string{"-c", script, "sh"}, args...)}
}

func TestRunReturnsWhatTheProgramPrinted(t *testing.T) {
	var e command.Exec
	c := sh(`cat; echo "$1"; echo warned >&2`, "two words")
	c.Stdin = []byte("from stdin\n")
	res, err := e.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Stdout), "from stdin\ntwo words\n"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got, want := string(res.Stderr), "warned\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if res.Duration <= 0 {
		t.Errorf("duration %s", res.Duration)
	}
}

func TestEnvironmentIsPinned(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("SURPRISE", "1")
	e := command.Exec{Path: "/usr/bin:/bin"}
	c := command.Command{Program: "env", Env: []string{"LVM_SYSTEM_DIR=/etc/lvm"}}
	res, err := e.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := "PATH=/usr/bin:/bin\nLC_ALL=C\nHOME=/\nLVM_SYSTEM_DIR=/etc/lvm\n"
	if diff := cmp.Diff(want, string(res.Stdout)); diff != "" {
		t.Error(diff)
	}
}

func TestErrorSaysHowTheProgramEnded(t *testing.T) {
	cases := []struct {
		name string
		c    command.Command
		want command.Error
		text string
	}{
		{"exit code", sh("echo 'no such volume' >&2; exit 5"), command.Error{Kind: command.Exited, Code: 5, Stderr: "no such volume"}, "exit code 5: no such volume"},
		{"killed by another", sh("kill -TERM $$"), command.Error{Kind: command.Signaled, Code: 15}, "killed by signal 15"},
		{"not installed", command.Command{Program: "mkfs.nonesuch"}, command.Error{Kind: command.NotInstalled, Code: -1}, `no program "mkfs.nonesuch" in /usr/sbin:/usr/bin:/sbin:/bin`},
		{"path that does not exist", command.Command{Program: "/nonesuch/prog"}, command.Error{Kind: command.NotInstalled, Code: -1}, "/nonesuch/prog: no such file"},
		{"path that cannot be run", command.Command{Program: "/etc/passwd"}, command.Error{Kind: command.NotInstalled, Code: -1}, "permission denied"},
		{"too much output", command.Command{Program: "sh", Args: []string{"-c", "echo 12345678"}, MaxOutput: 4}, command.Error{Kind: command.TooMuchOutput, Code: -1}, "more than 4 bytes"},
	}
	e := command.Exec{Path: "/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.Run(t.Context(), tc.c)
			var got *command.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a *command.Error", err)
			}
			if got.Kind != tc.want.Kind || got.Code != tc.want.Code || got.Stderr != tc.want.Stderr {
				t.Errorf("kind %q, code %d, stderr %q; want %q, %d, %q", got.Kind, got.Code, got.Stderr, tc.want.Kind, tc.want.Code, tc.want.Stderr)
			}
			if !strings.Contains(err.Error(), tc.text) || !strings.HasPrefix(err.Error(), tc.c.Program) {
				t.Errorf("text %q does not name the program or lacks %q", err, tc.text)
			}
		})
	}
}

func TestOutputOfAFailedProgramIsReturned(t *testing.T) {
	var e command.Exec
	res, err := e.Run(t.Context(), sh("echo partly; exit 3"))
	if err == nil || string(res.Stdout) != "partly\n" {
		t.Errorf("stdout %q, error %v", res.Stdout, err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const secret = "correct-horse"
	var log bytes.Buffer
	e := command.Exec{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	c := sh(`echo "bad password: $1" >&2; cat >/dev/null; exit 1`, secret)
	c.Secret = []int{3, 99, -1}
	c.Stdin = []byte("stdin-" + secret)
	_, err := e.Run(t.Context(), c)
	if err == nil {
		t.Fatal("want an error")
	}
	for what, text := range map[string]string{"error": err.Error(), "error value": fmt.Sprintf("%#v", err), "log": log.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("the %s shows the secret: %s", what, text)
		}
		if !strings.Contains(text, "***") {
			t.Errorf("the %s does not show that something is hidden: %s", what, text)
		}
	}
}

// startedPID waits until a program has written its process id to file.
func startedPID(t *testing.T, file string) int {
	t.Helper()
	for range 2000 {
		if b, err := os.ReadFile(file); err == nil {
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("%s did not appear", file)
	return 0
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 2000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

// grandchild is a program whose child would outlive it by far, and notes the child's id in the file $1.
const grandchild = `sleep 1000 & echo $! > "$1.tmp"; mv "$1.tmp" "$1"; wait`

func TestCancelKillsTheWholeProcessGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		startedPID(t, file)
		cancel()
	}()
	var e command.Exec
	_, err := e.Run(ctx, sh(grandchild, file))
	var got *command.Error
	if !errors.As(err, &got) || got.Kind != command.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gone(t, startedPID(t, file))
}

func TestLimitKillsTheWholeProcessGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	var e command.Exec
	c := sh(grandchild, file)
	c.Limit = 500 * time.Millisecond
	_, err := e.Run(t.Context(), c)
	var got *command.Error
	if !errors.As(err, &got) || got.Kind != command.TimedOut || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	gone(t, startedPID(t, file))
}

// frozen puts a process where it cannot be killed until the returned function is called.
func frozen(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	dir := fmt.Sprintf("/sys/fs/cgroup/freezer/holdfast-test-%d", pid)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("needs root and the freezer cgroup of version 1: %v", err)
	}
	set := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
			t.Error(err)
		}
	}
	set("cgroup.procs", strconv.Itoa(pid))
	set("freezer.state", "FROZEN")
	return func() {
		set("freezer.state", "THAWED")
		gone(t, pid)
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestProgramThatCannotBeKilledIsLeftBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var e command.Exec
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, sh(`echo early; echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; read x < /dev/zero`, file))
		ended <- err
	}()
	thaw := frozen(t, startedPID(t, file))
	cancel()
	var err error
	select {
	case err = <-ended:
	case <-time.After(30 * time.Second):
		t.Error("Run still waits for a program that cannot end")
	}
	thaw()
	var got *command.Error
	if !errors.As(err, &got) || got.Kind != command.Cancelled || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "left behind") {
		t.Errorf("got %v", err)
	}
}

func TestDaemonLeftBehindDoesNotDelayTheAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	var e command.Exec
	res, err := e.Run(t.Context(), sh(`sleep 1000 & echo $! > "$1"; echo done`, file))
	if err != nil || string(res.Stdout) != "done\n" {
		t.Errorf("stdout %q, error %v", res.Stdout, err)
	}
	if err := syscall.Kill(startedPID(t, file), syscall.SIGKILL); err != nil {
		t.Errorf("a program that ended well must not have its children killed: %v", err)
	}
}

func TestNothingIsStartedWhenTheContextIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "ran")
	var e command.Exec
	_, err := e.Run(ctx, command.Command{Program: "touch", Args: []string{file}})
	var got *command.Error
	if !errors.As(err, &got) || got.Kind != command.NotStarted {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the program ran")
	}
}

func TestStderrKeepsItsEnd(t *testing.T) {
	var e command.Exec
	res, err := e.Run(t.Context(), sh(`i=0; while [ $i -lt 20000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`))
	var got *command.Error
	if !errors.As(err, &got) {
		t.Fatal(err)
	}
	if !strings.HasSuffix(got.Stderr, "line 19999") || len(got.Stderr) > 4<<10 {
		t.Errorf("%d bytes, ending in %q", len(got.Stderr), got.Stderr[max(0, len(got.Stderr)-20):])
	}
	if len(res.Stderr) > 64<<10 || !bytes.HasSuffix(res.Stderr, []byte("line 19999\n")) {
		t.Errorf("result keeps %d bytes of stderr", len(res.Stderr))
	}
}

func TestEachCallIsObserved(t *testing.T) {
	var mu sync.Mutex
	counts := map[string]int{}
	e := command.Exec{Observe: func(o command.Observation) {
		mu.Lock()
		defer mu.Unlock()
		counts[o.Program+" "+string(o.Failure)]++
	}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, _ = e.Run(t.Context(), command.Command{Program: "/bin/true"})
			_, _ = e.Run(t.Context(), command.Command{Program: "false"})
			_, _ = e.Run(t.Context(), command.Command{Program: "nonesuch"})
		})
	}
	wg.Wait()
	want := map[string]int{"true ": 8, "false exited": 8, "nonesuch not installed": 8}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
}
