// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// slot is the file that notes the helper at work on something. The helper writes it before it does anything and then makes sure that whoever
// started it still lives; so a process that reads it after a restart either sees the helper or can be sure that it will do nothing.
type slot string

// take notes this process. It is called in the helper.
func (s slot) take() error {
	start, err := startTime(os.Getpid())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(string(s)), 0o700); err != nil {
		return err
	}
	draft := fmt.Sprintf("%s.%d", s, os.Getpid())
	if err := os.WriteFile(draft, fmt.Appendf(nil, "%d %d\n", os.Getpid(), start), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, string(s))
}

// busy returns the process that is at work, or zero.
func (s slot) busy() (pid int, err error) {
	text, err := os.ReadFile(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	first, second, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	pid, errPID := strconv.Atoi(first)
	start, errStart := strconv.ParseUint(second, 10, 64)
	if err := errors.Join(errPID, errStart); err != nil {
		return 0, fmt.Errorf("%s notes no process: %w", s, err)
	}
	if !Alive(pid, start) {
		return 0, nil
	}
	return pid, nil
}

// wait returns when nobody is at work.
func (s slot) wait(ctx context.Context) error {
	const first, last = 5 * time.Millisecond, time.Second
	pause := time.NewTimer(0)
	defer pause.Stop()
	for next := first; ; next = min(2*next, last) {
		pid, err := s.busy()
		if err != nil || pid == 0 {
			return err
		}
		pause.Reset(next)
		select {
		case <-ctx.Done():
			return fmt.Errorf("helper with process id %d hangs in the kernel: %w", pid, ctx.Err())
		case <-pause.C:
		}
	}
}

// Alive tells whether the process that had this id and start time still is at work, by any of its threads. One that only waits for its parent to
// take notice is not. The start time tells it from a later process with the same id; it is in the kernel's clock ticks, as StartTime returns it.
func Alive(pid int, start uint64) bool {
	st, err := processStat(pid)
	return err == nil && st.start == start && (st.state != 'Z' && st.state != 'X' || st.threads > 1)
}

// StartTime returns when a process started, in the kernel's clock ticks since it booted.
func StartTime(pid int) (uint64, error) { return startTime(pid) }

func startTime(pid int) (uint64, error) {
	st, err := processStat(pid)
	return st.start, err
}

// process is what the kernel tells of a process.
type process struct {
	state   byte // Of its first thread, which may have ended before others.
	threads int
	start   uint64
}

// processStat reads the state and the start time of a process.
func processStat(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(text)
}

// parseStat reads a line of /proc/PID/stat. The name of the program is in parentheses and may have anything in it, parentheses too.
func parseStat(text []byte) (p process, err error) {
	const stateField, threadsField, startField = 0, 17, 19 // After the name.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return p, fmt.Errorf("state of a process %q has no name in it", text)
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= startField || len(fields[stateField]) != 1 {
		return p, fmt.Errorf("state of a process %q is too short", text)
	}
	p.state = fields[stateField][0]
	var errThreads, errStart error
	p.threads, errThreads = strconv.Atoi(string(fields[threadsField]))
	p.start, errStart = strconv.ParseUint(string(fields[startField]), 10, 64)
	if err := errors.Join(errThreads, errStart); err != nil {
		return p, fmt.Errorf("state of a process %q: %w", text, err)
	}
	return p, nil
}
