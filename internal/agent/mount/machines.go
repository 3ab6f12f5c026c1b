// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is a file that a running virtual machine has open.
type Machine struct {
	Name  string `json:"name"` // As QEMU was told it; its process id when it was told none.
	UUID  string `json:"uuid,omitempty"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // When its process started, as StartTime tells it.
	Path  string `json:"path"`  // As the machine's own mount namespace names it.
	Write bool   `json:"write,omitempty"`
}

// Machines returns all files that the QEMU processes of this host have open, the disks of virtual machines and whatever lies below those among
// them. No file system is touched. An error says that not all of them could be seen.
func (k *Kernel) Machines(ctx context.Context) ([]Machine, error) {
	ans, err := k.help(ctx, "machines", request{Step: "look for virtual machines on", Source: "this host", Slot: k.slot("host", "machines")})
	return ans.Machines, err
}

// findMachines is the helper's side of Machines.
func findMachines(proc string) ([]Machine, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Machine
	for _, p := range entries {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		files, err := machineFiles(filepath.Join(proc, p.Name()), pid)
		if err != nil && !unseen(err) {
			return nil, fmt.Errorf("look at process %d: %w", pid, err)
		}
		all = append(all, files...)
	}
	return all, nil
}

// machineFiles returns the files that a process has open, if it is QEMU.
func machineFiles(dir string, pid int) ([]Machine, error) {
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil || !isQEMU(exe) {
		return nil, err
	}
	u := named(User{PID: pid}, dir)
	m := Machine{Name: u.VM, UUID: u.VMUUID, PID: pid, Start: u.Start}
	if m.Name == "" {
		m.Name = strconv.Itoa(pid)
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fdinfo"))
	if err != nil {
		return nil, err
	}
	var files []Machine
	for _, fd := range fds {
		file, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if err != nil || !strings.HasPrefix(file, "/") || strings.HasPrefix(file, "/dev/") {
			continue // Closed meanwhile, or no file of a file system.
		}
		info, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		if err != nil {
			continue
		}
		m.Path, m.Write = strings.TrimSuffix(file, " (deleted)"), writable(info)
		if !slices.Contains(files, m) {
			files = append(files, m)
		}
	}
	return files, nil
}

// writable tells whether a file was opened for writing, by its fdinfo.
func writable(info []byte) bool {
	for line := range strings.Lines(string(info)) {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(value), 8, 64)
			return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}
