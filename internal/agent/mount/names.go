// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// names gives the processes that were found their names. Reading a command line can wait for a process that hangs.
func (s *scan) names() error {
	for key, u := range s.users {
		if u.PID == 0 {
			continue
		}
		dir := filepath.Join(s.proc, strconv.Itoa(u.PID))
		s.users[key] = named(u, dir)
	}
	return nil
}

// named completes a user with what /proc knows of its process. One that has ended keeps its number alone.
func named(u User, dir string) User {
	if start, err := startTime(u.PID); err == nil {
		u.Start = start
	}
	if comm, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
		u.Command = strings.TrimSpace(string(comm))
	}
	if groups, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		u.Unit = unitOf(groups)
	}
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return u
	}
	self, _ := os.Readlink("/proc/self/exe")
	if u.Machine = isQEMU(exe); !u.Machine && exe != self {
		return u
	}
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return u
	}
	argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if u.Machine {
		u.VM, u.VMUUID = machineOf(argv)
	}
	u.Own = exe == self && slices.Contains(argv, HelperName) && !slices.Contains(argv, enterVerb)
	return u
}

// isQEMU tells whether a program, as the link exe of its process names it, runs virtual machines.
func isQEMU(exe string) bool {
	base := path.Base(strings.TrimSuffix(exe, " (deleted)"))
	return strings.HasPrefix(base, "qemu-system") || base == "qemu-kvm" || base == "kvm"
}

// machineOf returns the name and the uuid of the virtual machine that a command line of QEMU runs.
func machineOf(argv []string) (name, id string) {
	for i, arg := range argv[:max(0, len(argv)-1)] {
		value := argv[i+1]
		switch strings.TrimPrefix(arg, "-") {
		case "-name", "name":
			name = guestName(value)
		case "-uuid", "uuid":
			id = value
		}
	}
	return name, id
}

// guestName reads the value of QEMU's option -name: a name, or guest=NAME among others. A comma in the name is doubled.
func guestName(value string) string {
	const comma = "\x00"
	value = strings.ReplaceAll(value, ",,", comma)
	for i, word := range strings.Split(value, ",") {
		guest, ok := strings.CutPrefix(word, "guest=")
		if ok || i == 0 && !strings.Contains(word, "=") {
			return strings.ReplaceAll(guest, comma, ",")
		}
	}
	return ""
}

// unitOf returns the systemd unit in a process's list of control groups: the last service or scope of the path.
func unitOf(groups []byte) string {
	for line := range bytes.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(fields) != 3 || fields[1] != "" && fields[1] != "name=systemd" {
			continue
		}
		parts := strings.Split(fields[2], "/")
		for _, part := range slices.Backward(parts) {
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				return part
			}
		}
	}
	return ""
}

// maps finds the processes that have files of the mount mapped and not open any more. It comes last: it waits for processes that hang.
func (s *scan) maps() error {
	entries, err := os.ReadDir(s.proc)
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, p := range entries {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(s.proc, p.Name())
		sp, err := s.space(dir)
		if err != nil || len(sp.ids) == 0 || s.knows(pid) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "maps"))
		if err != nil {
			if unseen(err) {
				continue
			}
			return fmt.Errorf("look at process %d: %w", pid, err)
		}
		if file := s.mapped(text, sp); file != "" {
			s.add(named(User{Use: Mapped, Path: file, PID: pid, Foreign: sp.foreign}, dir))
		}
	}
	return nil
}

// knows tells whether a process is among the users already.
func (s *scan) knows(pid int) bool {
	for key := range s.users {
		if key.pid == pid {
			return true
		}
	}
	return false
}

// mapped returns a file of the mount in a table of mappings, or nothing.
func (s *scan) mapped(text []byte, sp *space) string {
	const fields = 6 // address, permissions, offset, device, inode, path
	device := fmt.Sprintf("%02x:%02x", s.e.Major, s.e.Minor)
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < fields || f[3] != device {
			continue
		}
		at := strings.Index(string(line), f[5])
		file := unescape(strings.TrimSuffix(string(line[at:]), "\n"))
		for _, point := range sp.ids {
			if within(file, point) && s.nearest(sp, file) {
				return file
			}
		}
	}
	return ""
}
