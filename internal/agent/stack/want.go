// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Want is the wish for one replica on this host.
type Want struct {
	Resource string
	Destroy  bool         // All volumes named here are to go.
	Volumes  []VolumeWant // Each Number at most once. What is not named is not touched.
}

// VolumeWant is the wish for one volume of a replica.
type VolumeWant struct {
	Number     int
	Destroy    bool   // This volume is to go, the others stay.
	Existing   bool   // It was Ready once. When it is not there, that is an error: an empty one in its place would pass for it.
	Pool       string // Name of the pool on this host.
	Provider   string // Kind of the pool as the API spells it, such as FILE_THIN. Empty: any.
	Size       int64  // Usable bytes, at least. Not needed for a volume that is to go.
	Filesystem *Filesystem
}

// Filesystem is what a volume is formatted with, once, before anyone is told of it.
type Filesystem struct {
	Type       string // ext4, xfs or btrfs.
	MkfsParams string // Options for mkfs in one string, split as a shell splits words. Options that name other files or devices are refused.
}

// id returns the name of a volume in its pool.
func (w Want) id(v VolumeWant) pool.ID {
	return pool.ID{Resource: w.Resource, Volume: v.Number}
}

// validate refuses a wish that says two things of one volume.
func (w Want) validate() error {
	seen := map[int]bool{}
	for _, v := range w.Volumes {
		if seen[v.Number] {
			return fmt.Errorf("volume %d of %s is named twice in one wish", v.Number, w.Resource)
		}
		seen[v.Number] = true
		if v.Size <= 0 && !w.Destroy && !v.Destroy {
			return fmt.Errorf("volume %d of %s: %w", v.Number, w.Resource, &pool.SizeError{Asked: v.Size})
		}
	}
	return nil
}

// State is how far a wish is fulfilled, by observation.
type State string

// The states of a replica.
const (
	Pending   State = "pending"   // Something is left to do, or cannot be done.
	Ready     State = "ready"     // All volumes that are wanted are finished, open and large enough, and no other one is left.
	Destroyed State = "destroyed" // None of the volumes exists.
)

// Result is what was observed of a replica.
type Result struct {
	State   State
	Volumes []VolumeHave // The volumes of the wish that exist, finished ones only, in the order of the wish.
}

// VolumeHave is what was observed of one finished volume.
type VolumeHave struct {
	Number     int
	DevicePath string // Empty while the volume is not open.
	Usable     int64  // Bytes.
	Allocated  int64  // Bytes of the pool that it really takes.
	InUse      bool
	Holders    []string // Who uses it, as people read it.
	UseUnknown string   // Why InUse and Holders could not be learned. Empty when they could.
}

// MissingError says that a volume that was there is there no more. None was made in its place.
type MissingError struct {
	ID   pool.ID
	Pool string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("volume %s is not in pool %s any more, and nobody was to remove it: bring it back, or delete this replica and make it anew", e.ID, e.Pool)
}

// ShrinkError says that a volume is larger than what is wanted. It was left as it is: what lies in the part that would go is not known.
type ShrinkError struct {
	ID    pool.ID
	Size  int64 // What it has, in bytes.
	Asked int64 // What is wanted, in bytes.
}

func (e *ShrinkError) Error() string {
	return fmt.Sprintf("volume %s has %d bytes and cannot shrink to %d: move what lies on it to a new volume of that size", e.ID, e.Size, e.Asked)
}
