// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

const processPrefix = "process/"

// processID is the id of a hold of a process. A process may hold several pools.
func processID(p peer) hold.ID {
	return hold.ID(fmt.Sprintf("%s%d-%d/%d", processPrefix, p.pid, p.start, time.Now().UnixNano()))
}

// watches are those that wait for the end of processes that hold pools.
type watches struct {
	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // Of the server that is served now.
	group sync.WaitGroup
}

// resume waits for the processes that an earlier agent gave holds to.
func (w *watches) resume(ctx context.Context, s *Server) {
	w.mu.Lock()
	w.ctx = ctx
	w.mu.Unlock()
	all, err := s.Holding.Set().InspectAll(ctx)
	if err != nil {
		s.Log.Warn("holds of processes cannot be watched", "error", err)
		return
	}
	for _, st := range all {
		for _, h := range st.Holds {
			if strings.HasPrefix(string(h.ID), processPrefix) && !h.Derived {
				w.add(s, h) //nolint:contextcheck // It has it.
			}
		}
	}
}

// add waits for the end of a hold's process, and releases the hold then.
func (w *watches) add(s *Server, h hold.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx := w.ctx
	if ctx.Err() != nil {
		return // The next agent does it.
	}
	w.group.Go(func() {
		if !gone(ctx, h.Holder.PID, h.Holder.Start) {
			return
		}
		t, err := s.Holding.Set().Release(ctx, h.ID)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("the hold of a process that has ended could not be released", "hold", h.ID, "error", err)
		} else if err == nil {
			s.Log.Info("a process that held a pool has ended", "pool", h.Pool, "process", h.Holder.String(), "outcome", t.String())
		}
	})
}

func (w *watches) wait() { w.group.Wait() }

// gone waits for the end of a process. It is false when ctx has ended before.
func gone(ctx context.Context, pid int, start uint64) bool {
	const look = 500 // Milliseconds.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // It is gone, or the kernel has no such thing.
		for mount.Alive(pid, start) {
			select {
			case <-time.After(look * time.Millisecond):
			case <-ctx.Done():
				return false
			}
		}
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	for mount.Alive(pid, start) { // Asked after it was opened: it is not that of a later process with the same id.
		if ctx.Err() != nil {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, look)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if n > 0 {
			return true
		}
	}
	return true
}
