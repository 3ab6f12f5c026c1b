// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"strings"
)

// InUseError says that a volume, or a snapshot of it, was left as it is because someone uses it.
type InUseError struct {
	ID       ID
	Snapshot string   // Empty for the volume itself.
	Holders  []Holder // At least one.
	Detail   string   // What use forbids, and what to do; may be empty.
}

func (e *InUseError) Error() string {
	names := make([]string, len(e.Holders))
	for i, h := range e.Holders {
		names[i] = h.String()
	}
	text := fmt.Sprintf("%s is in use: %s", describe(e.ID, e.Snapshot), strings.Join(names, ", "))
	if e.Detail != "" {
		text += "; " + e.Detail
	}
	return text
}

// describe names a volume or a snapshot of it.
func describe(id ID, snapshot string) string {
	if snapshot == "" {
		return "volume " + id.String()
	}
	return fmt.Sprintf("snapshot %s of volume %s", snapshot, id)
}

// NoSpaceError says that a pool has not enough room. Amounts are bytes.
type NoSpaceError struct {
	Pool  string
	Asked int64 // What was missing: a new volume's size, or what an old one was to grow by.
	Free  int64
	Total int64
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("pool %s has not enough room: %d bytes asked, %d of %d free", e.Pool, e.Asked, e.Free, e.Total)
}

// NotFoundError says that a volume, or a snapshot of it, surely does not exist or, when ID is zero, that this host has no such pool. What is
// to be copied and is NEW counts as absent.
type NotFoundError struct {
	Pool     string
	ID       ID
	Snapshot string // Empty for the volume itself.
}

func (e *NotFoundError) Error() string {
	if e.ID == (ID{}) {
		return fmt.Sprintf("this host has no pool %s", e.Pool)
	}
	return fmt.Sprintf("pool %s has no %s", e.Pool, describe(e.ID, e.Snapshot))
}

// ExistsError says that a finished volume or snapshot stands where a new one was to be made. It was not touched.
type ExistsError struct {
	Pool     string
	ID       ID
	Snapshot string // Empty for the volume itself.
	Size     int64  // Of what exists, in bytes.
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("pool %s already has a finished %s of %d bytes", e.Pool, describe(e.ID, e.Snapshot), e.Size)
}

// ChangedError says that a volume was written while it was copied. The copy would have mixed moments, so nothing was kept of it.
type ChangedError struct {
	ID      ID
	Holders []Holder // Who may have written, as far as it is known.
}

func (e *ChangedError) Error() string {
	names := make([]string, len(e.Holders))
	for i, h := range e.Holders {
		names[i] = h.String()
	}
	by := ""
	if len(names) > 0 {
		by = " (" + strings.Join(names, ", ") + ")"
	}
	return fmt.Sprintf("volume %s was written while it was copied%s, and its pool cannot copy it in one instant: stop the writers, or use a pool on XFS or Btrfs", e.ID, by)
}

// LostError says that others removed a volume from under its device. Nothing was touched.
type LostError struct {
	Pool   string
	ID     ID
	Device string // Path of the device, from which the content can still be read.
}

func (e *LostError) Error() string {
	return fmt.Sprintf("volume %s was removed from pool %s by someone else; %s still has its content: save that, then delete the volume", e.ID, e.Pool, e.Device)
}

// SizeError says that no volume of the pool can have that size.
type SizeError struct {
	Asked int64 // Bytes.
	Limit int64 // The largest size that was possible, in bytes; zero when it is not known.
	Least int64 // What the volume is to hold, in bytes, when that is more than what was asked; else zero.
}

func (e *SizeError) Error() string {
	switch {
	case e.Asked <= 0:
		return fmt.Sprintf("a volume of %d bytes cannot be made: give a size above zero", e.Asked)
	case e.Least > 0:
		return fmt.Sprintf("a volume of %d bytes cannot hold a copy of %d bytes: give at least that size", e.Asked, e.Least)
	case e.Limit > 0:
		return fmt.Sprintf("a volume of %d bytes cannot be made: the pool's largest is %d", e.Asked, e.Limit)
	}
	return fmt.Sprintf("a volume of %d bytes cannot be made: it is larger than the pool's file system admits", e.Asked)
}

// Reason says why a pool cannot be worked with.
type Reason string

// The reasons of a FaultyError.
const (
	Missing       Reason = "is missing"
	NotADirectory Reason = "is not a directory"
	ReadOnly      Reason = "is read-only"
	NotWritable   Reason = "cannot be written"
	Full          Reason = "is full"
	WrongIdentity Reason = "belongs to another pool"
	LostIdentity  Reason = "has lost its identity" // Something else lies there: a file system that is not mounted, most likely.
	Unreadable    Reason = "cannot be read"
	Incomplete    Reason = "is incomplete" // Disks of it are missing. Volumes on the others work.
)

// FaultyError says that a pool as a whole cannot be worked with, and what an operator can do about it.
type FaultyError struct {
	Pool       string
	Place      string // The pool's directory, group or dataset.
	Reason     Reason
	Detail     string // More about the reason; may be empty.
	Correction string // What to do, as a sentence without a full stop.
	Err        error  // The cause, where there is one.
}

func (e *FaultyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s: %s %s", e.Pool, e.Place, e.Reason)
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Correction != "" {
		fmt.Fprintf(&b, "; %s", e.Correction)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *FaultyError) Unwrap() error { return e.Err }
