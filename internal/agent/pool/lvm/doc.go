// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package lvm is the pool driver for LVM: each volume is a logical volume, in a volume group ([Thick], provider LVM) or in a thin pool of one
// ([Thin], provider LVM_THIN).
//
// # On disk
//
// All that the driver must remember lies in LVM's metadata, which LVM changes as a whole or not at all:
//
//	db_00000              a volume: resource, underscore, number
//	db_00000.daily        a snapshot of it
//	db_00000+roll         what a volume is being rolled back to
//
// A logical volume is ours when it has the tag "holdfast"; a name alone says nothing. The tag "holdfast.new" is on what is NEW, "holdfast.half" on what is
// being made for a roll-back, and "holdfast.rolled=TOKEN" tells the last roll-back. Where LVM would take a name for one of its own
// ("snapshot…", "…_tmeta"), it has a plus sign in it. The group belongs to the operator: the driver makes, changes and removes only what carries its tag.
//
// # Commands
//
// A [Host] runs all programs for all pools of a host. What is asked of a group is asked once for all who wait for an answer, in one report; a group
// is changed by one program at a time, and on the whole host a few run at once. A program that has begun to change something is never killed before its
// limit, since LVM suspends devices while it works. What a killed program left is taken back before the next change: suspended devices, parts of a thin pool
// that are active by themselves, and a thin volume that its pool was not told of. A group that hangs, by a lock or by a disk, holds up no other, and the
// error names who holds its lock.
//
// LVM is told not to look into what lies on volumes: DRBD devices, zvols, and groups that a guest has made inside of a volume.
//
// # Sizes
//
// Sizes are rounded up to extents, in a striped volume of a [Thick] pool to an extent for each stripe. How much a thin volume really takes is asked of the kernel. Of
// one that has no device, the kernel does not tell; it gets a device for a moment, without LVM's knowledge, once: what is closed takes as
// much as before.
//
// The kernel does not tell which blocks thin volumes share. So the room that snapshots take is what the pool has given away beyond what its volumes
// take; it is told of the oldest snapshots. In sum it is exact as long as no volume shares blocks with another.
//
// # Roll-back
//
// A thin snapshot of the snapshot becomes the volume: it is made beside it as half, then one change of its tags makes it the volume's content, and only
// then the old volume is removed and the new one gets its name. Whoever comes next finishes what a crash left.
//
// # What is left of data
//
// A new thick volume has its first bytes and all signatures wiped, so that nobody takes it for what lay there before. What it has further on is undefined:
// [Config].Wipe says whether a volume is overwritten when it is removed. Thin volumes read as zeros.
package lvm
