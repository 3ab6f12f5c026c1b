// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// File is the identity of a file while it exists: the device of its filesystem and its inode number, as stat reports them.
type File struct {
	Dev, Ino uint64
}

// Table is what one pass found. It does not change any more.
type Table struct {
	Hidden []int // Processes that the kernel did not let us look into.

	proc    string
	sys     string
	devices map[uint64][]pool.Holder // Processes have no names yet: they are read when someone asks, because most are never asked for.
	files   map[File][]pool.Holder
	loops   []Loop
}

// Loop is a loop device that is bound to something.
type Loop struct {
	Name    string // As in /sys/block.
	Backing string // Path of what is under it as the kernel shows it: " (deleted)" is added to that of an unlinked file.
}

// Loops returns all loop devices that are bound, in no order. The caller must not change the slice.
func (t *Table) Loops() []Loop { return t.loops }

// Device returns who uses a block device or one of its partitions. The device is given as stat reports it in Rdev.
func (t *Table) Device(rdev uint64) ([]pool.Holder, error) {
	dir := filepath.Join(t.sys, "dev/block", fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev)))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // No such device: nobody uses it.
	}
	if err != nil {
		return nil, fmt.Errorf("look for users of block device %s: %w", filepath.Base(dir), err)
	}
	holders := slices.Clone(t.devices[rdev])
	if holders, err = stacked(holders, dir); err != nil {
		return nil, err
	}
	for _, e := range entries {
		part := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(part, "partition")); err != nil {
			continue
		}
		number, err := deviceNumber(part)
		if err != nil {
			return nil, err
		}
		holders = append(holders, t.devices[number]...)
		if holders, err = stacked(holders, part); err != nil {
			return nil, err
		}
	}
	return t.named(holders), nil
}

// File returns who has a regular file open or uses it for swap.
func (t *Table) File(f File) []pool.Holder {
	return t.named(slices.Clone(t.files[f]))
}

// named gives the processes among holders, which is the caller's own slice, their names.
func (t *Table) named(holders []pool.Holder) []pool.Holder {
	for i, h := range holders {
		if h.Kind != pool.Opened {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(t.proc, strconv.Itoa(h.PID), "comm"))
		if holders[i].Name = strings.TrimSpace(string(comm)); err != nil || holders[i].Name == "" {
			holders[i].Name = "a process that has ended"
		}
	}
	return holders
}

// stacked adds the devices that the kernel lists as lying on top of the one in dir.
func stacked(holders []pool.Holder, dir string) ([]pool.Holder, error) {
	above, err := os.ReadDir(filepath.Join(dir, "holders"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for devices on top of %s: %w", dir, err)
	}
	for _, a := range above {
		holders = append(holders, pool.Holder{Kind: pool.Stacked, Name: a.Name()})
	}
	return holders, nil
}

// deviceNumber reads the number of the block device in a folder of sysfs.
func deviceNumber(dir string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return 0, fmt.Errorf("read the number of block device %s: %w", dir, err)
	}
	major, minor, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if !ok || errA != nil || errB != nil {
		return 0, fmt.Errorf("number %q of block device %s is not major:minor", text, dir)
	}
	return unix.Mkdev(uint32(a), uint32(b)), nil
}
