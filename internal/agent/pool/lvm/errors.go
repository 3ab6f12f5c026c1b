// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// missing tells whether there is no such group.
func missing(err error) bool {
	return command.Said(err, "Volume group \"", "Cannot process volume group") && command.Said(err, "not found")
}

// absent tells whether there is no such logical volume.
func absent(err error) bool { return command.Said(err, "Failed to find logical volume") }

// inUse tells whether the kernel refused because a device is open.
func inUse(err error) bool {
	return command.Said(err, "in use", "is used by another device", "contains a filesystem", "is open")
}

// unknownToPool tells whether a thin pool does not have a volume that LVM has given it.
func unknownToPool(err error) bool { return command.Said(err, "No data available") }

// told is what LVM says of a volume that the thin pool has and that it was about to be told of. LVM compares its own count of changes with that of the pool
// before, so it is the change that was broken off, and not an older volume.
var told = regexp.MustCompile(`Thin pool (\S+) \([0-9:]+\) already contain thin device with device_id ([0-9]+)`)

// halfTold returns the device of the thin pool and the number of such a volume.
func halfTold(err error) (device string, id int64, ok bool) {
	failed, ok := errors.AsType[*command.Error](err)
	if !ok {
		return "", 0, false
	}
	words := told.FindStringSubmatch(failed.Stderr)
	if words == nil {
		return "", 0, false
	}
	id, err = strconv.ParseInt(words[2], 10, 64)
	return words[1], id, err == nil
}

// noRoom tells whether a group or thin pool has not enough room.
func noRoom(err error) bool {
	return command.Said(err, "insufficient free space", "Insufficient free space", "Insufficient suitable", "not enough free", "is above threshold", "No space left", "maximum size",
		"Not enough free", "too few free extents")
}

// tooLarge tells whether no logical volume can have that size.
func tooLarge(err error) bool {
	return command.Said(err, "Volume too large", "Size is too big", "Upper limit is")
}

// faulty returns the error for a pool that cannot be worked with.
func (p *Pool) faulty(r pool.Reason, detail string, err error) error {
	e := &pool.FaultyError{Pool: p.c.Name, Place: "volume group " + p.c.Group, Reason: r, Detail: detail, Err: err}
	if p.thin() {
		e.Place = "thin pool " + p.place()
	}
	switch r {
	case pool.Missing:
		e.Correction = "attach its disks and look with vgs, or give the pool its new name when it was renamed"
	case pool.ReadOnly:
		e.Correction = "look into the kernel log for errors of its disks, then make it writable with vgchange"
	case pool.Incomplete:
		e.Correction = "attach the missing disks, or replace them and run vgreduce --removemissing"
	case pool.Full:
		e.Correction = "enlarge it with lvextend --poolmetadatasize +1G " + p.place()
	case pool.WrongIdentity:
		e.Correction = "give the pool the group that it had; when that is gone for good, delete the pool and make it anew"
	case pool.Unreadable:
		e.Correction = "look into the kernel log for errors of its disks, and repair a thin pool with lvconvert --repair"
	case pool.NotADirectory, pool.NotWritable, pool.LostIdentity:
	}
	return e
}
