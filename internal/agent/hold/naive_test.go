// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// manager is what the tests of the four faults need of a keeper of mounts.
type manager interface {
	acquire(user string) error
	release(user string) (unmounted bool) // What it reports.
}

// sound is a Set as a manager.
type sound struct{ *rig }

func (m sound) acquire(user string) error {
	_, err := m.Acquire(context.Background(), pool, req(user))
	return err
}

func (m sound) release(user string) bool {
	t, err := m.Release(context.Background(), hold.ID(user))
	return err == nil && t.Outcome == hold.Done
}

// naive counts users, as agents in the field do, with the four faults that were found there. It shows that the tests can fail.
type naive struct {
	driver  *process
	manager chan struct{} // The lock of those that find no entry.
	entry   chan struct{} // The lock of those that find one: which lock is taken depends on the caller.
	count   map[mount.Source]int
	mounted mount.Entry
	yield   func(point string) // Called between reading and writing a count.
}

func newNaive(p *process, yield func(string)) *naive {
	return &naive{driver: p, manager: make(chan struct{}, 1), entry: make(chan struct{}, 1), count: map[mount.Source]int{}, yield: yield}
}

// add changes the count and returns what it is then. While there is no entry, an acquire and a release do not exclude each other.
func (m *naive) add(by int, point string) int {
	lock := m.entry
	if m.count[nas] == 0 && by > 0 {
		lock = m.manager
	}
	lock <- struct{}{}
	defer func() { <-lock }()
	n := m.count[nas]
	m.yield(point)
	n = max(0, n+by)
	m.count[nas] = n
	return n
}

func (m *naive) acquire(user string) error {
	m.add(1, "increment")
	got, err := m.driver.Mount(context.Background(), pool.Spec)
	if _, known := errors.AsType[*mount.Error](err); known { // Other errors leak the count.
		m.add(-1, "decrement")
	}
	if err != nil {
		return err
	}
	m.mounted = got.Entry
	m.driver.hold(nas, hold.ID(user))
	return nil
}

func (m *naive) release(user string) bool {
	m.driver.unhold(nas, hold.ID(user))
	if m.add(-1, "decrement") > 0 {
		return false
	}
	// Nobody is left; and now, some time later, it is unmounted.
	_ = m.driver.Unmount(context.Background(), nas, m.mounted, mount.Plain)
	return true // umount has printed nothing.
}
