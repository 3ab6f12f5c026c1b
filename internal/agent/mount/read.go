// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reader reads the table of this process's mount namespace, again only when it has changed: that is asked of the kernel in about a
// microsecond. It touches no mounted file system. It may be used by many goroutines at once.
type Reader struct {
	mu    sync.Mutex
	file  *tableFile
	table Table
	read  time.Time
}

// tableFile is an open list of mounts. It is no os.File: the runtime's poller would take the news that the table has changed for itself.
type tableFile struct{ fd int }

func openTable() (*tableFile, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	return &tableFile{fd: fd}, nil
}

// Read implements io.Reader.
func (f *tableFile) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, p)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *tableFile) close() error { return unix.Close(f.fd) }

// maxAge is how old a table may be that the kernel calls unchanged: a file system that turned read-only is no change to it.
const maxAge = 10 * time.Second

// forget makes the next call of Table read the table, also when the kernel calls it unchanged.
func (r *Reader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.table = nil
}

// Table returns the mounts as they are now.
func (r *Reader) Table() (Table, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		f, err := openTable()
		if err != nil {
			return nil, err
		}
		r.file = f
	}
	changed, err := r.file.changed()
	if err != nil {
		return nil, err
	}
	if !changed && r.table != nil && time.Since(r.read) < maxAge {
		return r.table, nil
	}
	const tries = 8
	for range tries {
		t, err := readTable(r.file)
		if err != nil {
			return nil, err
		}
		r.table, r.read = t, time.Now()
		// A change while it was read may have mixed two states up.
		if changed, err = r.file.changed(); err != nil || !changed {
			return t, err
		}
	}
	r.table = nil
	return nil, errors.New("read the table of mounts: it changes all the time")
}

// Close closes the reader. Another call of Table opens it again.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.close()
	r.file, r.table = nil, nil
	return err
}

// changed tells whether the table has changed since the last call.
func (f *tableFile) changed() (bool, error) {
	fds := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("ask whether the table of mounts has changed: %w", err)
		}
		return fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0, nil
	}
}

func readTable(f *tableFile) (Table, error) {
	if _, err := unix.Seek(f.fd, 0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	t, err := ParseTable(f)
	if err != nil {
		return nil, err
	}
	return t, numberTable(t)
}

// mountRequest is what listmount and statmount are asked with.
type mountRequest struct {
	size  uint32
	spare uint32
	id    uint64
	param uint64
}

// The system calls of Linux 6.8 that the standard packages do not know yet.
const (
	requestSize  = 24
	fromRoot     = ^uint64(0)
	basic        = 2
	statSize     = 512
	offsetUnique = 40
	offsetID     = 56
	listAtOnce   = 512
	noSuchCall   = unix.ENOSYS
)

// numberTable completes t with the unique numbers of its mounts, where the kernel tells them.
func numberTable(t Table) error {
	byID := make(map[int]int, len(t))
	for i, e := range t {
		byID[e.ID] = i
	}
	ids := make([]uint64, listAtOnce)
	last := uint64(0)
	for {
		req := mountRequest{size: requestSize, id: fromRoot, param: last}
		n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&req)), uintptr(unsafe.Pointer(&ids[0])), uintptr(len(ids)), 0, 0, 0) //nolint:gosec // There is no other way to make the call.
		if unknownCall(errno) {
			return nil
		}
		if errno != 0 {
			return fmt.Errorf("list the mounts: %w", errno)
		}
		for _, id := range ids[:n] {
			old, err := oldID(id)
			if errors.Is(err, unix.ENOENT) {
				continue // Unmounted meanwhile.
			}
			if err != nil {
				return err
			}
			if i, ok := byID[old]; ok {
				t[i].Unique = id
			}
		}
		if int(n) < len(ids) {
			return nil
		}
		last = ids[n-1]
	}
}

// unknownCall tells whether a kernel or a sandbox does not have a system call.
func unknownCall(errno unix.Errno) bool {
	return errno == noSuchCall || errno == unix.EPERM || errno == unix.EOPNOTSUPP
}

// oldID returns the number that mountinfo shows for a mount.
func oldID(unique uint64) (int, error) {
	req := mountRequest{size: requestSize, id: unique, param: basic}
	var buf [statSize]byte
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&req)), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0) //nolint:gosec // There is no other way to make the call.
	if errno != 0 {
		return 0, fmt.Errorf("look at mount %d: %w", unique, errno)
	}
	if got := binary.NativeEndian.Uint64(buf[offsetUnique:]); got != unique {
		return 0, fmt.Errorf("look at mount %d: the kernel answered for %d", unique, got)
	}
	return int(binary.NativeEndian.Uint32(buf[offsetID:])), nil
}
