// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Watch tells of changes of this process's table of mounts until ctx ends: the channel gets a value after each change, many changes at once
// make one value, and it is closed at the end. A change that is made while the receiver is busy is not missed.
func Watch(ctx context.Context) (<-chan struct{}, error) {
	f, err := openTable()
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch the table of mounts: %w", err), f.close())
	}
	changes := make(chan struct{}, 1)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer close(changes)
		watch(f.fd, wake, changes)
	}()
	go func() {
		select {
		case <-ctx.Done():
			_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			<-watched
		case <-watched:
		}
		_ = unix.Close(wake)
		_ = f.close()
	}()
	return changes, nil
}

// watch reports changes of table until wake can be read.
func watch(table, wake int, changes chan<- struct{}) {
	for {
		fds := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		if fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0 {
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}
}
