// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func absent(err error) bool {
	return command.Said(err, "does not exist", "could not find any snapshots")
}

func exists(err error) bool { return command.Said(err, "dataset already exists") }

func noRoom(err error) bool {
	return command.Said(err, "out of space", "greater than available space", "No space left", "quota exceeded")
}

func inUse(err error) bool { return command.Said(err, "is busy", "in use") }

func tooLarge(err error) bool {
	return command.Said(err, "too large", "Value too large", "out of range")
}

// faulty returns the error for a pool that cannot be worked with.
func (p *Pool) faulty(r pool.Reason, detail string, err error) error {
	e := &pool.FaultyError{Pool: p.c.Name, Place: "dataset " + p.c.Dataset, Reason: r, Detail: detail, Err: err}
	switch r {
	case pool.Missing:
		e.Correction = "look with zpool list and zfs list; import its zpool, or make it with zfs create"
	case pool.ReadOnly:
		e.Correction = "look at zpool status, then make it writable with zfs set readonly=off"
	case pool.WrongIdentity:
		e.Correction = "give the pool the dataset that it had; when that is gone for good, delete the pool and make it anew"
	case pool.Unreadable:
		e.Correction = "look at zpool status"
	case pool.NotADirectory, pool.NotWritable, pool.LostIdentity, pool.Full, pool.Incomplete:
	}
	return e
}
