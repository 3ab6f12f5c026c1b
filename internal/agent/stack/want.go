// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Want is the wish for one replica on this host.
type Want struct {
	Resource  string
	Destroy   bool           // All volumes named here are to go. Snapshots go only by their own word.
	Inactive  bool           // Finished volumes are to have no device: nobody can use them.
	Volumes   []VolumeWant   // Each Number at most once. What is not named is not touched.
	Snapshots []SnapshotWant // Each Name at most once, likewise.
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
	Prepare    Prepare   // Nil: nothing.
	Source     *Source   // What a new volume begins with. It is then not formatted.
	RollBack   *RollBack // A finished volume gets this content back, once.
	Stretch    bool      // A filesystem that is mounted from it on this host grows with it.
	Encrypted  bool      // It lies encrypted in its pool, and what it is made from does.
}

// Prepare is done on a NEW volume when it has its content and before it is finished, with its device. It is done again after a crash in between.
type Prepare func(ctx context.Context, device string) error

// Source is what a new volume is made from: a snapshot or, when Snapshot is empty, a volume as it is at that moment.
type Source struct {
	Resource string
	Volume   int
	Snapshot string
	Pool     string // That it lies in. Empty: the pool of the new volume.
	Provider string // Empty: any.
}

// id returns the name of the source in its pool.
func (s Source) id() pool.SnapshotID {
	return pool.SnapshotID{Resource: s.Resource, Volume: s.Volume, Snapshot: s.Snapshot}
}

// elsewhere tells whether the volume is made from what lies in another pool.
func (v VolumeWant) elsewhere() bool {
	return v.Source != nil && v.Source.Pool != "" && !strings.EqualFold(v.Source.Pool, v.Pool)
}

// RollBack is the wish to give a volume the content of one of its snapshots.
type RollBack struct {
	Snapshot string
	Token    string // Names this one roll-back. The volume keeps it; as long as its last roll-back had this token, there is nothing to do.
}

// SnapshotWant is the wish for one snapshot of a replica. It is of one moment, in all of its volumes.
type SnapshotWant struct {
	Name     string
	Destroy  bool
	Existing bool             // It was complete once. When it is not, that is an error: one that is taken now would be of another moment.
	Volumes  []SnapshotVolume // Each Number at most once. They must be wanted as volumes, too, when the snapshot is to be taken.
}

// SnapshotVolume is where the part of a snapshot lies that is of one volume: where that volume lies or lay.
type SnapshotVolume struct {
	Number    int
	Pool      string
	Provider  string // Empty: any.
	Encrypted bool   // Its volume lies encrypted in the pool, or did.
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

// going returns how many volumes are to go.
func (w Want) going() int {
	n := 0
	for _, v := range w.Volumes {
		if w.Destroy || v.Destroy {
			n++
		}
	}
	return n
}

// validate refuses a wish that says two things of one volume or snapshot.
func (w Want) validate() error {
	seen := map[int]bool{}
	rolledBack := map[string]bool{}
	for _, v := range w.Volumes {
		if seen[v.Number] {
			return fmt.Errorf("volume %d of %s is named twice in one wish", v.Number, w.Resource)
		}
		seen[v.Number] = true
		if v.Size <= 0 && !w.Destroy && !v.Destroy {
			return fmt.Errorf("volume %d of %s: %w", v.Number, w.Resource, &pool.SizeError{Asked: v.Size})
		}
		if v.RollBack != nil {
			if err := pool.ValidateToken(v.RollBack.Token); err != nil {
				return fmt.Errorf("roll-back of volume %d of %s: %w", v.Number, w.Resource, err)
			}
			rolledBack[strings.ToLower(v.RollBack.Snapshot)] = true
		}
	}
	names := map[string]bool{}
	for _, s := range w.Snapshots {
		name := strings.ToLower(s.Name)
		if names[name] {
			return fmt.Errorf("snapshot %s of %s is named twice in one wish", s.Name, w.Resource)
		}
		if names[name] = true; s.Destroy && rolledBack[name] {
			return fmt.Errorf("snapshot %s of %s is to go, and to be rolled back to", s.Name, w.Resource)
		}
		parts := map[int]bool{}
		for _, v := range s.Volumes {
			if parts[v.Number] {
				return fmt.Errorf("snapshot %s of %s names volume %d twice", s.Name, w.Resource, v.Number)
			}
			parts[v.Number] = true
		}
	}
	return nil
}

// State is how far a wish is fulfilled, by observation.
type State string

// The states of a replica.
const (
	Pending   State = "pending"   // Something is left to do, goes on in the background, or cannot be done.
	Ready     State = "ready"     // All volumes that are wanted are finished, open (unless they are to be inactive) and large enough, all snapshots are complete, and none is left that is to go.
	Destroyed State = "destroyed" // None of the volumes exists, and no snapshot that is to go.
)

// Result is what was observed of a replica.
type Result struct {
	State     State
	Volumes   []VolumeHave   // The volumes of the wish that exist, finished ones only, in the order of the wish.
	Snapshots []SnapshotHave // The snapshots of the wish that exist, complete ones only, in the order of the wish.
	Absent    []string       // The snapshots of the wish of which nothing is there, in the order of the wish.
	Work      []Work         // What goes on in the background.
}

// Work is something that takes long and goes on after Apply has returned.
type Work struct {
	What     string // As people read it.
	Volume   int    // The volume that is made or rolled back, unless it is a snapshot.
	Snapshot string // The snapshot that is taken.
	Done     int64  // Bytes.
	Total    int64  // Bytes. It may change; zero: not known yet.
	Waiting  bool   // For other work in the same pool.
}

// SnapshotHave is what was observed of one complete snapshot.
type SnapshotHave struct {
	Name    string    // As in the wish.
	Created time.Time // When its last part was taken.
	Volumes []SnapshotVolumeHave
}

// SnapshotVolumeHave is the part of a snapshot that is of one volume.
type SnapshotVolumeHave struct {
	Number    int
	Size      int64 // Bytes.
	Allocated int64 // Bytes of the pool that it takes, without what its volume or an older snapshot takes as well.
}

// VolumeHave is what was observed of one finished volume.
type VolumeHave struct {
	Number     int
	DevicePath string // Empty while the volume is not open.
	Backing    string // The device or file that the pool has it in, for people.
	Usable     int64  // Bytes.
	Allocated  int64  // Bytes of the pool that it really takes.
	InUse      bool
	Holders    []string // Who uses it, as people read it.
	UseUnknown string   // Why InUse and Holders could not be learned. Empty when they could.
	RolledBack string   // Token of its last roll-back.
}

// MissingError says that a volume or snapshot that was there is there no more. None was made in its place.
type MissingError struct {
	ID       pool.ID
	Snapshot string // Empty for the volume itself.
	Pool     string
}

func (e *MissingError) Error() string {
	if e.Snapshot != "" {
		return fmt.Sprintf("snapshot %s of volume %s is not in pool %s any more, and nobody was to remove it: bring it back, or delete the snapshot", e.Snapshot, e.ID, e.Pool)
	}
	return fmt.Sprintf("volume %s is not in pool %s any more, and nobody was to remove it: bring it back, or delete this replica and make it anew", e.ID, e.Pool)
}

// MomentError says that the parts of a snapshot would not be of one moment: more than one of its volumes was written while they were taken. Nothing was kept.
type MomentError struct {
	Resource string
	Snapshot string
	Written  []pool.ID
}

func (e *MomentError) Error() string {
	names := make([]string, len(e.Written))
	for i, id := range e.Written {
		names[i] = id.String()
	}
	return fmt.Sprintf("snapshot %s of %s would not be of one moment: the volumes %s were written while it was taken, by users who cannot be held back: stop them, or take each by itself",
		e.Snapshot, e.Resource, strings.Join(names, ", "))
}

// UnsupportedError says that a pool cannot do what is wanted.
type UnsupportedError struct {
	Pool string
	What string // Such as "take snapshots".
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("pool %s cannot %s", e.Pool, e.What)
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
