// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is what the kernel says of a process.
type process struct {
	cpu    time.Duration
	memory int64 // resident bytes
	peak   int64 // the most resident bytes that there were
}

// child finds the process that this one has started with mark among its arguments.
func child(mark string) (pid int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	self := strconv.Itoa(os.Getpid())
	for _, path := range stats {
		fields, err := statOf(path)
		if err != nil || fields[1] != self {
			continue // It is gone, or another's.
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err == nil && bytes.Contains(args, []byte(mark)) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no process with %s among its arguments was found", mark)
}

// statOf reads the fields of a stat file behind the name of the program, which may hold
// anything: state, parent, and so on.
func statOf(path string) ([]string, error) {
	const least = 20
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < least {
		return nil, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	return fields, nil
}

// look reads what the kernel says of a process.
func look(pid int) (process, error) {
	const (
		tick          = time.Second / 100 // the kernel's unit in these files, on all platforms that Go runs on
		user, systems = 11, 12            // fields, counted from the state
	)
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fields, err := statOf(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	var p process
	for _, f := range []int{user, systems} {
		ticks, err := strconv.ParseInt(fields[f], 10, 64)
		if err != nil {
			return process{}, err
		}
		p.cpu += time.Duration(ticks) * tick
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			p.memory = kib << 10
		case "VmHWM":
			p.peak = kib << 10
		}
	}
	return p, err
}
