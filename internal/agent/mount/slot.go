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

// Alive tells whether the process that had this id and start time still is at work. One that only waits for its parent to take notice is
// not. The start time tells it from a later process with the same id; it is in the kernel's clock ticks, as StartTime returns it.
func Alive(pid int, start uint64) bool {
	state, begun, err := processStat(pid)
	return err == nil && begun == start && state != 'Z' && state != 'X'
}

// StartTime returns when a process started, in the kernel's clock ticks since it booted.
func StartTime(pid int) (uint64, error) { return startTime(pid) }

func startTime(pid int) (uint64, error) {
	_, start, err := processStat(pid)
	return start, err
}

// processStat reads the state and the start time of a process.
func processStat(pid int) (state byte, start uint64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(text)
}

// parseStat reads a line of /proc/PID/stat. The name of the program is in parentheses and may have anything in it, parentheses too.
func parseStat(text []byte) (state byte, start uint64, err error) {
	const stateField, startField = 0, 19 // After the name.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return 0, 0, fmt.Errorf("state of a process %q has no name in it", text)
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= startField || len(fields[stateField]) != 1 {
		return 0, 0, fmt.Errorf("state of a process %q is too short", text)
	}
	start, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("start time of a process: %w", err)
	}
	return fields[stateField][0], start, nil
}
