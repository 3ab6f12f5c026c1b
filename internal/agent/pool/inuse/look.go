// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// look makes one pass.
func (s *Scanner) look(ctx context.Context) (*Table, error) {
	l := &looker{
		proc:   s.proc(),
		sys:    s.sys(),
		seen:   map[string]bool{},
		mounts: map[mount]bool{},
		table:  &Table{proc: s.proc(), sys: s.sys(), devices: map[uint64][]pool.Holder{}, files: map[File][]pool.Holder{}},
	}
	proc, err := unix.Open(l.proc, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look for users of block devices: open %s: %w", l.proc, err)
	}
	defer func() { _ = unix.Close(proc) }()
	names, err := l.names(proc)
	names = slices.Clone(names)
	if err != nil {
		return nil, fmt.Errorf("look for users of block devices: read %s: %w", l.proc, err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || programless(proc, name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("look for users of block devices: %w", err)
		}
		if err := errors.Join(l.openers(proc, pid), l.namespace(pid)); err != nil {
			return nil, fmt.Errorf("look for users of block devices, process %d: %w", pid, err)
		}
	}
	if err := errors.Join(l.swaps(), l.loops()); err != nil {
		return nil, fmt.Errorf("look for users of block devices: %w", err)
	}
	return l.table, nil
}

// looker is the state of one pass.
type looker struct {
	proc, sys string
	seen      map[string]bool // Mount namespaces that were read.
	mounts    map[mount]bool  // Mounts that were noted; most namespaces have the same ones.
	table     *Table

	dirents [16 << 10]byte
	list    []string
}

// mount is what makes two mounts the same for a reader.
type mount struct {
	device uint64
	point  string
}

// programless tells whether a process runs no program: the kernel's own threads, most of all, and those that have just ended. They have nothing open.
func programless(proc int, pid string) bool {
	var target [1]byte
	_, err := unix.Readlinkat(proc, pid+"/exe", target[:])
	return errors.Is(err, unix.ENOENT)
}

// openers notes the block devices and regular files that a process has open.
func (l *looker) openers(proc, pid int) error {
	dir, err := unix.Openat(proc, strconv.Itoa(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return l.unlessHidden(pid, err)
	}
	defer func() { _ = unix.Close(dir) }()
	fds, err := l.names(dir)
	if err != nil {
		return l.unlessHidden(pid, err)
	}
	holder := pool.Holder{Kind: pool.Opened, PID: pid}
	for _, fd := range fds {
		var st unix.Statx_t
		// Without AT_STATX_DONT_SYNC the kernel would ask the server of a network filesystem, for ever when it is dead.
		const flags = unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
		if err := unix.Statx(dir, fd, flags, unix.STATX_TYPE|unix.STATX_INO, &st); err != nil {
			// Otherwise it was closed meanwhile, or is of a filesystem that fails: not one of ours, which was just looked at.
			if errors.Is(err, unix.EACCES) {
				return l.unlessHidden(pid, err)
			}
			continue
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFBLK:
			addOpener(l.table.devices, unix.Mkdev(st.Rdev_major, st.Rdev_minor), holder)
		case unix.S_IFREG:
			addOpener(l.table.files, File{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}, holder)
		}
	}
	return nil
}

// addOpener notes a process once for each thing that it has open. Its entries come one after the other.
func addOpener[K comparable](holders map[K][]pool.Holder, key K, h pool.Holder) {
	have := holders[key]
	if n := len(have); n == 0 || have[n-1] != h {
		holders[key] = append(have, h)
	}
}

// namespace notes the mounts of a process unless its mount namespace was read already.
func (l *looker) namespace(pid int) error {
	dir := filepath.Join(l.proc, strconv.Itoa(pid))
	ns, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
	if errors.Is(err, os.ErrPermission) {
		ns = dir // Its mounts may be readable all the same.
	} else if err != nil {
		return unlessGone(err)
	}
	if l.seen[ns] {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, "mountinfo"))
	if err != nil {
		return l.unlessHidden(pid, err)
	}
	defer func() { _ = f.Close() }()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return unlessGone(err)
	}
	l.seen[ns] = true
	for _, m := range infos {
		device := unix.Mkdev(uint32(m.Major), uint32(m.Minor))
		if m.Major == 0 {
			// btrfs and others show a number of their own; the source then names the device.
			var ok bool
			if device, ok = blockDevice(m.Source); !ok {
				continue
			}
		}
		if key := (mount{device: device, point: m.Mountpoint}); !l.mounts[key] {
			l.mounts[key] = true
			l.table.devices[device] = append(l.table.devices[device], pool.Holder{Kind: pool.Mounted, Name: m.Mountpoint, PID: pid})
		}
	}
	return nil
}

// swaps notes the devices and files that the kernel swaps to.
func (l *looker) swaps() error {
	text, err := os.ReadFile(filepath.Join(l.proc, "swaps"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // A kernel without swap.
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		path, _, ok := strings.Cut(line, " ")
		if !ok || !strings.HasPrefix(path, "/") {
			continue
		}
		path = unescape(strings.TrimSuffix(path, "\t"))
		holder := pool.Holder{Kind: pool.Stacked, Name: "swap"}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			continue // Swapped to before a change of root; the kernel's exclusive hold still shows.
		}
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			l.table.devices[st.Rdev] = append(l.table.devices[st.Rdev], holder)
		} else {
			f := File{Dev: st.Dev, Ino: st.Ino}
			l.table.files[f] = append(l.table.files[f], holder)
		}
	}
	return nil
}

// loops notes the loop devices, and those that lie on other block devices as users of them: the kernel does not list them as holders.
func (l *looker) loops() error {
	var err error
	l.table.loops, err = Loops(l.proc, l.sys)
	for _, loop := range l.table.loops {
		if below, ok := blockDevice(loop.Backing); ok {
			l.table.devices[below] = append(l.table.devices[below], pool.Holder{Kind: pool.Stacked, Name: loop.Name})
		}
	}
	return err
}

// Loops returns the loop devices that are bound, in no order. They are read from proc and sysfs, which are mounted there, and not opened.
func Loops(proc, sys string) ([]Loop, error) {
	block, err := os.Open(filepath.Join(sys, "block"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = block.Close() }()
	devices, err := disks(proc)
	if errors.Is(err, os.ErrNotExist) {
		devices, err = block.Readdirnames(-1)
	}
	if err != nil {
		return nil, err
	}
	var loops []Loop
	for _, name := range devices {
		if !strings.HasPrefix(name, "loop") {
			continue
		}
		backing, err := attribute(int(block.Fd()), name+"/loop/backing_file")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // Not bound, or no more.
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", name, err)
		}
		loops = append(loops, Loop{Name: name, Backing: strings.TrimSuffix(backing, "\n")})
	}
	return loops, nil
}

// disks returns the names of the block devices that have a size: in sysfs, there may be hundreds of loop devices that nobody uses.
func disks(proc string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(proc, "partitions"))
	if err != nil {
		return nil, err
	}
	var devices []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 4 { // Major, minor, blocks, name.
			devices = append(devices, fields[3])
		}
	}
	return devices, nil
}

// attribute reads a file below a folder of sysfs, in as few system calls and steps of a path as possible.
func attribute(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	var text [unix.PathMax + 16]byte // The kernel gives an attribute whole and at most a page of it.
	n, err := unix.Read(fd, text[:])
	if err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

// blockDevice returns the number of the block device at a path under /dev, the only place that cannot hang.
func blockDevice(path string) (uint64, bool) {
	if !strings.HasPrefix(path, "/dev/") {
		return 0, false
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, false
	}
	return st.Rdev, true
}

// unescape undoes the octal escapes of paths in proc.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// unlessHidden is unlessGone for what a process may also hide from us.
func (l *looker) unlessHidden(pid int, err error) error {
	if !errors.Is(err, os.ErrPermission) {
		return unlessGone(err)
	}
	if n := len(l.table.Hidden); n == 0 || l.table.Hidden[n-1] != pid {
		l.table.Hidden = append(l.table.Hidden, pid)
	}
	return nil
}

// unlessGone drops the errors that come from a process that ended while it was looked at.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// names returns the names in an open folder, in no order. They hold until it is called again.
func (l *looker) names(dir int) ([]string, error) {
	l.list = l.list[:0]
	for {
		n, err := unix.ReadDirent(dir, l.dirents[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return l.list, err
		}
		_, _, l.list = unix.ParseDirent(l.dirents[:n], -1, l.list)
	}
}
