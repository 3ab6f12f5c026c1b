// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package device finds the block devices of a host that nobody uses and that have nothing on them, so that a pool can be made
// of them.
//
// A device is free when it is a whole disk, a partition, a multipath or a RAID device; larger than [MinSize]; writable; when
// nothing lies on top of it, nor on a part of it; when it has no signature of a filesystem, a partition table or a member of
// something larger, as blkid reads it from the device itself; and when nobody in the kernel has claimed it. Loop devices are
// volumes of ours more often than disks, and are no candidates, as are devices that other products of storage make: DRBD,
// zvols, logical volumes, network and memory devices.
//
// Whoever makes something of a device looks again: what is free now may be taken a moment later.
//
// A [Finder] may be used by several goroutines at once.
package device
