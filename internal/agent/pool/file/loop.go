// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

const (
	devDir     = "/dev"
	control    = "/dev/loop-control"
	procDir    = "/proc"
	sysDir     = "/sys"
	blockDir   = "/sys/block"
	loopPrefix = "loop"
	sector     = 512 // Bytes; what sysfs counts sizes in, whatever the device's own sectors are.

	// bindTries bounds the race for free loop devices with other programs, and bindPause is between two tries after the first few.
	bindTries = 200
	bindPause = 10 * time.Millisecond
)

// loops binds files to loop devices and finds the devices again. Devices are known by their names in sysfs, such as loop3.
type loops struct {
	keepSpace bool // Switch discards off.

	bind sync.Mutex // Held while a free device is looked for and bound, so that our own calls do not race for it.

	// look is held for reading while devices are opened for a look, and for writing while one is detached: a look must not be taken for a user.
	look sync.RWMutex

	mu sync.Mutex
	// hints save the search for the device of each file.
	hints map[inuse.File]hint
}

// hint says which device a file was last found under. It holds as long as the device has the same sequence number. An empty name says that the file was
// made by this process and was not bound since, so that it need not be looked for.
type hint struct {
	name string
	seq  string
}

func newLoops(keepSpace bool) *loops {
	return &loops{keepSpace: keepSpace, hints: map[inuse.File]hint{}}
}

// owned tells whether a device is bound by the pool with that uuid.
func owned(info *unix.LoopInfo64, uuid string) bool {
	return unix.ByteSliceToString(info.File_name[:]) == mark(uuid)
}

// mark is what the kernel keeps with each of our devices.
func mark(uuid string) string { return "holdfast:" + uuid }

// under tells whether a device is bound to a file.
func under(info *unix.LoopInfo64, file inuse.File) bool {
	return info.Device == file.Dev && info.Inode == file.Ino
}

// status returns what the kernel says of a device, or false when it is not bound.
func (l *loops) status(name string) (*unix.LoopInfo64, bool, error) {
	l.look.RLock()
	defer l.look.RUnlock()
	fd, err := unix.Open(filepath.Join(devDir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if unbound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	info, err := unix.IoctlLoopGetStatus64(fd)
	if unbound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("status of %s: %w", name, err)
	}
	return info, true, nil
}

// unbound tells whether an error says that a loop device is bound to nothing.
func unbound(err error) bool {
	return errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

// find returns the device that the pool bound to a volume's file, or "". It asks bound only when the device is not known already.
func (l *loops) find(uuid string, e entry, bound lister) (string, error) {
	if h, known := l.recall(e.file); known {
		if h.name == "" {
			return "", nil
		}
		if h.seq != "" && h.seq == sequence(h.name) {
			return h.name, nil
		}
		l.forget(e.file)
	}
	names, err := bound()
	if err != nil {
		return "", err
	}
	for _, loop := range names[e.name()] {
		if elsewhere(loop.Backing, e) {
			continue
		}
		name := loop.Name
		seq := sequence(name) // Before the look: if it is bound anew in between, the hint is void.
		info, isBound, err := l.status(name)
		if err != nil {
			return "", err
		}
		if isBound && owned(info, uuid) && under(info, e.file) {
			l.remember(e.file, hint{name: name, seq: seq})
			return name, nil
		}
	}
	return "", nil
}

// lister returns the loop devices that are bound, by the last element of the path that they are bound to.
type lister func() (map[string][]inuse.Loop, error)

// listLoops is the lister.
func listLoops() (map[string][]inuse.Loop, error) {
	all, err := inuse.Loops(procDir, sysDir)
	if err != nil {
		return nil, fmt.Errorf("look for loop devices: %w", err)
	}
	names := make(map[string][]inuse.Loop, len(all))
	for _, loop := range all {
		base := filepath.Base(loop.Backing)
		names[base] = append(names[base], loop)
	}
	return names, nil
}

// elsewhere tells whether the path that a loop device is bound to leads to a file that is none of these. Only such devices need not be looked at
// more closely: a path may lead nowhere because its file was unlinked or lies under another mount by now. Other agents' devices shall
// not be looked at, because they could take a look for a user.
func elsewhere(path string, ours ...entry) bool {
	var st unix.Statx_t
	const flags = unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW
	if err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_INO, &st); err != nil {
		return false
	}
	file := inuse.File{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	return !slices.ContainsFunc(ours, func(e entry) bool { return e.file == file })
}

// sequence returns a number of the kernel's that changes whenever a device is bound or unbound, or "" when it is not bound or the kernel has none.
func sequence(name string) string {
	if _, err := os.Stat(filepath.Join(blockDir, name, "loop")); err != nil {
		return ""
	}
	seq, err := os.ReadFile(filepath.Join(blockDir, name, "diskseq"))
	if err != nil {
		return ""
	}
	return string(seq)
}

func (l *loops) recall(file inuse.File) (hint, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.hints[file]
	return h, ok
}

func (l *loops) remember(file inuse.File, h hint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hints[file] = h
}

func (l *loops) forget(file inuse.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hints, file)
}

// attach binds a file to a free device and returns the device's name.
func (l *loops) attach(ctx context.Context, uuid string, file *os.File) (string, error) {
	l.bind.Lock()
	defer l.bind.Unlock()
	ctl, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("ask for a free loop device: %w; load the module loop and run with access to /dev", err)
	}
	defer func() { _ = ctl.Close() }()
	for try := range bindTries {
		number, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("ask for a free loop device: %w", err)
		}
		name := loopName(number)
		if err = l.configure(name, uuid, file); err == nil && !l.keepSpace && l.spoiled(name) {
			err = l.renew(ctl, number, uuid, file)
		}
		switch {
		case err == nil:
			return name, nil
		case !unbound(err) && !errors.Is(err, unix.EBUSY):
			return "", fmt.Errorf("bind %s to %s: %w", file.Name(), name, err)
		case try > 4: // Someone else took it, and perhaps has not bound it yet.
			if err := pool.Pause(ctx, bindPause); err != nil {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("bind %s: no loop device could be had in %d tries: others took each one, or %s lacks their nodes", file.Name(), bindTries, devDir)
}

// spoiled tells whether a device does not pass discards on although it could: newer kernels keep that from an earlier use, by a pool
// that keeps its space.
func (l *loops) spoiled(name string) bool {
	possible, err1 := l.attribute(name, "queue/discard_max_hw_bytes")
	used, err2 := l.attribute(name, "queue/discard_max_bytes")
	return err1 == nil && err2 == nil && possible > 0 && used == 0
}

// renew replaces a spoiled device, which was just bound to a file and which nobody uses, by a new one of the same number. If
// someone does look into it, it stays bound as it is.
func (l *loops) renew(ctl *os.File, number int, uuid string, file *os.File) error {
	name := loopName(number)
	holder, err := l.detach(name, func(info *unix.LoopInfo64) bool { return owned(info, uuid) })
	if holder != nil || err != nil {
		return err
	}
	// Either may fail because others use loop devices too. Then it is bound as it is, or the next one is.
	if err := unix.IoctlSetInt(int(ctl.Fd()), unix.LOOP_CTL_REMOVE, number); err == nil {
		_ = unix.IoctlSetInt(int(ctl.Fd()), unix.LOOP_CTL_ADD, number)
	}
	return l.configure(name, uuid, file)
}

func loopName(number int) string { return loopPrefix + strconv.Itoa(number) }

// configure binds a file to one device.
func (l *loops) configure(name, uuid string, file *os.File) error {
	fd, err := unix.Open(filepath.Join(devDir, name), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// The kernel would take larger sectors for a file that shares blocks, and then what was made before on this volume cannot be mounted any more.
	config := unix.LoopConfig{Fd: uint32(file.Fd()), Size: sector, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_DIRECT_IO}}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], mark(uuid))
	return unix.IoctlLoopConfigure(fd, &config)
}

// stopDiscards makes a device refuse to give blocks back. Where sysfs cannot be written it goes on giving them back. It takes some 20 ms, but only at
// a device's first use on kernels that keep it.
func (l *loops) stopDiscards(name string) error {
	if used, err := l.attribute(name, "queue/discard_max_bytes"); err != nil || used == 0 {
		return nil //nolint:nilerr // No such attribute: no discards.
	}
	err := os.WriteFile(filepath.Join(blockDir, name, "queue/discard_max_bytes"), []byte("0"), 0)
	if err != nil && !errors.Is(err, unix.EROFS) && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("switch off discards on %s: %w", name, err)
	}
	return nil
}

// attribute reads a number from the device's folder in sysfs.
func (l *loops) attribute(name, file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(blockDir, name, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// size returns the size of a device in bytes.
func (l *loops) size(name string) (int64, error) {
	sectors, err := l.attribute(name, "size")
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", name, err)
	}
	return sectors * sector, nil
}

// fit makes a bound device as large as its file.
func (l *loops) fit(name string, size int64) error {
	want := size / sector * sector
	have, err := l.size(name)
	if err != nil || have == want {
		return err
	}
	fd, err := unix.Open(filepath.Join(devDir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("grow %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("grow %s: %w", name, err)
	}
	if have, err = l.size(name); err == nil && have != want {
		err = fmt.Errorf("grow %s: it has %d bytes instead of %d", name, have, want)
	}
	return err
}

// flush makes durable what was written to a device.
func (l *loops) flush(name string) error {
	fd, err := unix.Open(filepath.Join(devDir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("flush %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fsync(fd); err != nil {
		return fmt.Errorf("flush %s: %w", name, err)
	}
	return nil
}
