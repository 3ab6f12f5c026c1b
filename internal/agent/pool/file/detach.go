// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// detach takes down a device that ours recognises. It returns nil when the device is surely gone, or whoever kept it.
//
// The kernel refuses an exclusive open while a file system is mounted or another device lies on it, and refuses those while the
// exclusive open lasts. Plain openers it does not refuse: then LOOP_CLR_FD only says that the device shall go with the last of
// them. That is not what was asked for, so it is undone and the device counts as used.
func (l *loops) detach(name string, ours func(*unix.LoopInfo64) bool) (*pool.Holder, error) {
	l.look.Lock()
	defer l.look.Unlock()
	holder, err := unbind(name, ours)
	if holder != nil || err != nil {
		return holder, err
	}
	return keep(name, ours)
}

// unbind asks the kernel to unbind a device while no one else can hold it exclusively.
func unbind(name string, ours func(*unix.LoopInfo64) bool) (*pool.Holder, error) {
	fd, err := unix.Open(filepath.Join(devDir, name), unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	switch {
	case unbound(err):
		return nil, nil //nolint:nilnil // Nobody kept it.
	case errors.Is(err, unix.EBUSY):
		return &pool.Holder{Kind: pool.Claimed, Name: "a file system that is mounted somewhere, or a device on top"}, nil
	case err != nil:
		return nil, fmt.Errorf("detach %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }() // With this, the last close, the device really goes.
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err == nil && !ours(info) {
		return nil, nil //nolint:nilnil // Gone, and bound to something else by now.
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0)
	}
	switch {
	case err == nil || unbound(err):
		return nil, nil //nolint:nilnil // Nobody kept it so far.
	case errors.Is(err, unix.EBUSY):
		return unseen(), nil
	}
	return nil, fmt.Errorf("detach %s: %w", name, err)
}

// keep looks whether a device is really gone after unbind. If not, it takes back that it goes with its last user.
func keep(name string, ours func(*unix.LoopInfo64) bool) (*pool.Holder, error) {
	fd, err := unix.Open(filepath.Join(devDir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if unbound(err) {
		return nil, nil //nolint:nilnil // It is gone.
	}
	if err != nil {
		return nil, fmt.Errorf("look whether %s is gone: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }() // While it is open, the device cannot go.
	info, err := unix.IoctlLoopGetStatus64(fd)
	if unbound(err) || err == nil && !ours(info) {
		return nil, nil //nolint:nilnil // It is gone.
	}
	if err != nil {
		return nil, fmt.Errorf("look whether %s is gone: %w", name, err)
	}
	if info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
		info.Flags &^= unix.LO_FLAGS_AUTOCLEAR
		if err := unix.IoctlLoopSetStatus64(fd, info); err != nil {
			return nil, fmt.Errorf("keep %s, which is still in use: %w", name, err)
		}
	}
	return unseen(), nil
}

// unseen is a user that only the kernel knows.
func unseen() *pool.Holder {
	return &pool.Holder{Kind: pool.Opened, Name: "a process that cannot be seen"}
}
