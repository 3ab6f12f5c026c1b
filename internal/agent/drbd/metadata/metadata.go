// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package metadata computes how much of a backing device DRBD 9 keeps for itself.
//
// Its metadata is a block of 4 KiB, an activity log of 32 KiB, and a bitmap with one bit for each 4 KiB of the device and each
// peer that the metadata has room for, rounded up to 4 KiB. Internal metadata lies at the end of the backing device. The room for peers is
// fixed when the metadata is made: see drbdmeta(8), option --max-peers.
//
// All sizes are bytes. The functions are pure, and exact: what drbdmeta and the kernel print is in the tests.
package metadata

import "fmt"

const (
	block       = 4096
	superblock  = block
	activityLog = 32 << 10
	// word is what the bits of one peer are rounded up to.
	word = 64
)

// The room for peers that metadata can have.
const (
	MinPeers = 1
	MaxPeers = 31
	// DefaultPeers is room for all that a resource commonly needs: it cannot be made larger later.
	DefaultPeers = 7
)

// Smallest is the smallest usable size that DRBD serves sensibly.
const Smallest = block

// Bitmap returns the size of the bitmap for a device of size bytes.
func Bitmap(size int64, peers int) int64 {
	bits := roundUp(ceil(size, block), word)
	return roundUp(bits/8*int64(peers), block)
}

// Size returns the size of the metadata of a device of size bytes: what a device for external metadata must have at least.
func Size(size int64, peers int) int64 {
	return superblock + activityLog + Bitmap(size, peers)
}

// Usable returns how much of a backing device is left to its user when its metadata is internal; zero when it is too small for any.
func Usable(backing int64, peers int) int64 {
	backing -= backing % block
	return max(0, backing-Size(backing, peers))
}

// Backing returns the size of the smallest backing device that leaves usable bytes to its user when its metadata is internal.
func Backing(usable int64, peers int) int64 {
	usable = roundUp(usable, block)
	size := usable + Size(usable, peers)
	// The bitmap covers the metadata as well. It grows by far less than what it covers, so this ends after a few rounds.
	for Usable(size, peers) < usable {
		size = usable + Size(size, peers)
	}
	return size
}

// CheckPeers refuses room for peers that no metadata has.
func CheckPeers(peers int) error {
	if peers < MinPeers || peers > MaxPeers {
		return fmt.Errorf("metadata has room for %d to %d peers, not for %d", MinPeers, MaxPeers, peers)
	}
	return nil
}

func ceil(n, unit int64) int64 { return (n + unit - 1) / unit }

func roundUp(n, unit int64) int64 { return ceil(n, unit) * unit }
