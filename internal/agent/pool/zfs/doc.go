// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package zfs is the pool driver for ZFS: each volume is a zvol below one dataset. ZFS reserves the room of a volume, ZFS_THIN does not; that is all in which
// the two providers differ.
//
// # On disk
//
// All that the driver must remember lies in ZFS's own properties, which a transaction changes as a whole or not at all:
//
//	DATASET/db_00000              a volume: resource, underscore, number; holdfast:volume is "new" or "finished"
//	DATASET/db_00000@daily        a snapshot of it; holdfast:snapshot is "new" or "finished"
//	DATASET/db_00000:roll         what a volume is being rolled back to; "half" until it is the volume's content
//	DATASET/db_00000:gone:GUID    what a volume was, when something still depends on it; "gone"
//
// What has none of these properties is not ours. The dataset belongs to the operator.
//
// # What depends on what
//
// ZFS does not let a volume go that has snapshots, nor a snapshot that has clones. Here all three live by themselves: a volume that is removed is renamed, loses
// its device, its reservation and what was written after its last snapshot, and goes for good with the last of them. A snapshot that has clones is
// renamed and marked for ZFS to destroy with the last clone. Whoever removes something looks whether something can go that was kept for it.
//
// Snapshots of others are named and keep a volume from being removed or rolled back: we do not destroy them, and do not hide them from who made them.
//
// # Devices
//
// A volume is open when its property volmode is "dev"; closed is "none". ZFS makes and removes devices after its command has ended, and keeps one
// that is open without saying so; the driver waits for the device, and looks whether it is gone.
//
// # Roll-back
//
// A clone of the snapshot becomes the volume: it is made beside it as half, then one change of its properties makes it the volume's content, and only then the old
// one is renamed, and the new one gets its name. So newer snapshots stay. Whoever comes next finishes what a crash left.
//
// # Room
//
// A thin volume takes what it refers to, or less when it shares that with a snapshot that it was cloned from. What snapshots take together is what ZFS says; it is
// told of the oldest snapshots. With a quota, the size of the pool is the quota.
package zfs
