// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	maxStderr = 64 << 10
	// drain is how long the output of a program is awaited after it ended: a daemon that it left behind may hold the pipe open for ever.
	drain = time.Second
	// farewell is how long the end of a killed program is awaited before it is left behind. It is longer than drain.
	farewell = 3 * time.Second
	// systemPath completes the PATH of a process that was not started by root's shell or systemd.
	systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Exec runs programs on this host. The zero value is ready for use. Its fields must not change after the first Run.
type Exec struct {
	// Path lists the directories in which programs are looked up, and is the PATH that they get. Empty: the PATH of this process, and
	// after it the usual directories of a system.
	Path string
	// Log gets one debug line for each call. Nil: none.
	Log *slog.Logger
	// Observe is told of each call that ended, for metrics. It must be quick and safe for concurrent use. Nil: none.
	Observe func(Observation)
}

// Observation is what metrics learn of one call.
type Observation struct {
	Program  string // The base name.
	Failure  Kind   // Empty when it went well.
	Duration time.Duration
}

// Run implements Runner.
func (e *Exec) Run(ctx context.Context, c Command) (Result, error) {
	start := time.Now()
	res, failure := e.run(ctx, c)
	res.Duration = time.Since(start)

	seen := Observation{Program: filepath.Base(c.Program), Duration: res.Duration}
	if failure != nil {
		failure.Program, failure.Args, failure.Duration = c.Program, c.Shown(), res.Duration
		failure.Stderr = shownStderr(c, res.Stderr)
		seen.Failure = failure.Kind
	}
	if e.Observe != nil {
		e.Observe(seen)
	}
	if e.Log != nil {
		e.Log.LogAttrs(ctx, slog.LevelDebug, "ran a program", slog.String("program", c.Program), slog.Any("args", c.Shown()),
			slog.Duration("duration", res.Duration), slog.String("failure", string(seen.Failure)))
	}
	if failure != nil { // A nil *Error must not become an error.
		return res, failure
	}
	return res, nil
}

func (e *Exec) run(ctx context.Context, c Command) (Result, *Error) {
	path := e.path()
	program, err := lookUp(path, c.Program)
	if err != nil {
		return Result{}, &Error{Kind: NotInstalled, Code: -1, Err: err}
	}
	limit := c.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if ctx.Err() != nil {
		return Result{}, &Error{Kind: NotStarted, Code: -1, Err: ctx.Err()}
	}

	stdout, stderr := &head{limit: c.MaxOutput}, &tail{limit: maxStderr}
	if stdout.limit <= 0 {
		stdout.limit = DefaultMaxOutput
	}
	cmd := exec.CommandContext(ctx, program, c.Args...) //nolint:gosec,forbidigo // Running programs is what this package is for.
	cmd.Args[0] = c.Program
	cmd.Dir = "/" // Not the agent's own: a working directory keeps a mount busy.
	cmd.Env = append([]string{"PATH=" + path, "LC_ALL=C", "HOME=/"}, c.Env...)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = drain
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }

	started, waitErr := wait(ctx, cmd)
	out, cut := stdout.take()
	res := Result{Stdout: out, Stderr: stderr.take()}
	if !started {
		return res, &Error{Kind: NotStarted, Code: -1, Err: waitErr}
	}
	return res, judge(ctx, waitErr, cut, stdout.limit)
}

// errLeftBehind says that a program did not end although it was killed: it hangs in the kernel.
var errLeftBehind = errors.New("killed, but it hangs in the kernel and was left behind")

// wait starts cmd and returns how it ended. A program that outlives its kill is left behind; a goroutine stays with it until it ends.
func wait(ctx context.Context, cmd *exec.Cmd) (started bool, err error) {
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return true, err
	case <-ctx.Done():
	}
	last := time.NewTimer(farewell)
	defer last.Stop()
	select {
	case err := <-ended:
		return true, err
	case <-last.C:
		return true, fmt.Errorf("process %d: %w", cmd.Process.Pid, errLeftBehind)
	}
}

// judge turns the end of a program into an Error, or nil when it did its work.
func judge(ctx context.Context, err error, cut bool, limit int) *Error {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, errLeftBehind):
		return &Error{Kind: overKind(ctx), Code: -1, Err: errors.Join(context.Cause(ctx), err)}
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		// It ended with code 0. ErrWaitDelay: it left something behind that still holds its output open; what it had to say it has said.
		if cut {
			return &Error{Kind: TooMuchOutput, Code: -1, Err: fmt.Errorf("it printed more than %d bytes", limit)}
		}
		return nil
	case errors.As(err, &exit):
		status, ok := exit.Sys().(syscall.WaitStatus)
		if !ok || !status.Signaled() {
			return &Error{Kind: Exited, Code: exit.ExitCode()}
		}
		if ctx.Err() != nil {
			return &Error{Kind: overKind(ctx), Code: -1, Err: context.Cause(ctx)}
		}
		return &Error{Kind: Signaled, Code: int(status.Signal())}
	case ctx.Err() != nil:
		return &Error{Kind: overKind(ctx), Code: -1, Err: err}
	}
	return &Error{Kind: NotStarted, Code: -1, Err: err}
}

func overKind(ctx context.Context) Kind {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimedOut
	}
	return Cancelled
}

// killGroup kills a whole process group. One that is already gone is os.ErrProcessDone, as exec.Cmd.Cancel wants it.
func killGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	} else if err != nil {
		return fmt.Errorf("kill process group %d: %w", pid, err)
	}
	return nil
}

func (e *Exec) path() string {
	if e.Path != "" {
		return e.Path
	}
	own := os.Getenv("PATH")
	if own == "" {
		return systemPath
	}
	return own + ":" + systemPath
}

// lookUp finds a program in the directories of path. A program with a slash in it is taken as it is.
func lookUp(path, program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, executable(program)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		full := filepath.Join(dir, program)
		if err := executable(full); err == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("no program %q in %s", program, path)
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s: %w", file, fs.ErrPermission)
	}
	return nil
}
