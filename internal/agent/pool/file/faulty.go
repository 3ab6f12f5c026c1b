// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// faulty returns the error for a directory that cannot be worked with.
func (p *Pool) faulty(r pool.Reason, detail string, err error) error {
	e := &pool.FaultyError{Pool: p.c.Name, Place: p.c.Dir, Reason: r, Detail: detail, Err: err}
	switch r {
	case pool.Missing:
		e.Correction = "mount the file system that it lies on, or create it"
	case pool.NotADirectory:
		e.Correction = "give the pool the real path of a directory"
	case pool.ReadOnly:
		e.Correction = "look into the kernel log for errors of the file system, then mount it writable"
	case pool.NotWritable:
		e.Correction = "let root write to it"
	case pool.Full:
		e.Correction = "remove something from its file system or enlarge it"
	case pool.WrongIdentity:
		e.Correction = "give each pool a directory of its own; when that pool is gone for good, remove the file .holdfast-pool from there"
	case pool.LostIdentity:
		e.Correction = "mount the file system that belongs there"
	case pool.Unreadable, pool.Incomplete:
		e.Correction = "look into the kernel log for errors of the file system"
	}
	return e
}

// unreachable turns an error of opening the directory into one that says why.
func (p *Pool) unreachable(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return p.faulty(pool.Missing, "", nil)
	case errors.Is(err, unix.ENOTDIR):
		return p.faulty(pool.NotADirectory, "", nil)
	case errors.Is(err, unix.ELOOP):
		return p.faulty(pool.NotADirectory, "its path has a symbolic link in it", nil)
	}
	return p.faulty(pool.Unreadable, "", err)
}

// unwritable turns an error of changing the directory into one that says why.
func (p *Pool) unwritable(what string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return p.faulty(pool.ReadOnly, what, err)
	case full(err):
		return p.faulty(pool.Full, what, err)
	}
	return p.faulty(pool.NotWritable, what, err)
}

// full tells whether a file system refused for lack of room.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
