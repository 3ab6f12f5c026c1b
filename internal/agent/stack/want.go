// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

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
	Pool       string // Name of the pool on this host.
	Provider   string // Kind of the pool as the API spells it, such as FILE_THIN. Empty: any.
	Size       int64  // Usable bytes, at least.
	Filesystem *Filesystem
}

// Filesystem is what a volume is formatted with, once, before anyone is told of it.
type Filesystem struct {
	Type       string // ext4, xfs or btrfs.
	MkfsParams string // Options for mkfs in one string, split as a shell splits words. Options that name other files or devices are refused.
}

// State is how far a wish is fulfilled, by observation.
type State string

// The states of a replica.
const (
	Pending   State = "pending"   // Something is left to do.
	Ready     State = "ready"     // All volumes are finished, open and large enough.
	Destroyed State = "destroyed" // None of the volumes exists.
)

// Result is what was observed of a replica.
type Result struct {
	State   State
	Volumes []VolumeHave // The volumes of the wish that exist, finished ones only, ordered by Number.
}

// VolumeHave is what was observed of one finished volume.
type VolumeHave struct {
	Number     int
	DevicePath string // Empty while the volume is not open.
	Usable     int64  // Bytes.
	Allocated  int64  // Bytes of the pool that it really takes.
	InUse      bool
	Holders    []string // Who uses it, as people read it.
}
