// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// SnapshotID names one snapshot of one volume. Like an [ID], it names the same one in any case of its letters.
type SnapshotID struct {
	Resource string
	Volume   int
	Snapshot string
}

// snapshotMark stands between the name of a volume and that of its snapshot. No name has it.
const snapshotMark = "@"

// Of returns the volume.
func (id SnapshotID) Of() ID { return ID{Resource: id.Resource, Volume: id.Volume} }

// Validate refuses what cannot be a name on disk.
func (id SnapshotID) Validate() error {
	if err := id.Of().Validate(); err != nil {
		return err
	}
	return validateName("snapshot", id.Snapshot)
}

// Fold returns the ID in the case that is used on disk.
func (id SnapshotID) Fold() SnapshotID {
	return SnapshotID{Resource: strings.ToLower(id.Resource), Volume: id.Volume, Snapshot: strings.ToLower(id.Snapshot)}
}

// Name returns the snapshot's name on disk: that of the volume, an at sign and the folded name of the snapshot.
func (id SnapshotID) Name() string {
	return id.Of().Name() + snapshotMark + strings.ToLower(id.Snapshot)
}

// String returns the ID as people read it.
func (id SnapshotID) String() string { return id.Of().String() + snapshotMark + id.Snapshot }

// Compare orders IDs by volume, then by folded name of the snapshot.
func (id SnapshotID) Compare(other SnapshotID) int {
	return cmp.Or(id.Of().Compare(other.Of()), strings.Compare(strings.ToLower(id.Snapshot), strings.ToLower(other.Snapshot)))
}

// ParseSnapshotName is the inverse of SnapshotID.Name. It returns false for a name that Name cannot have made.
func ParseSnapshotName(name string) (SnapshotID, bool) {
	volume, snapshot, ok := strings.Cut(name, snapshotMark)
	if !ok {
		return SnapshotID{}, false
	}
	of, ok := ParseName(volume)
	id := SnapshotID{Resource: of.Resource, Volume: of.Volume, Snapshot: snapshot}
	if !ok || id.Validate() != nil || id.Name() != name {
		return SnapshotID{}, false
	}
	return id, true
}

// Snapshot is what the pool knows of one snapshot.
type Snapshot struct {
	ID        SnapshotID // Folded.
	Size      int64      // Of the volume when it was taken, in bytes.
	Allocated int64      // Bytes of the pool that it takes, without what its volume or an older snapshot of that volume takes as well.
	Created   time.Time  // When it was taken.
	New       bool       // Taken, perhaps in part, and not finished.
}

// A Snapshotter keeps the content that volumes had. It is an optional ability of a driver.
//
// The crash rule of volumes holds for snapshots too: nobody is told of a NEW one, so one that is found after a crash is taken again or removed, and
// never finished as it is. Snapshots live by themselves: they can be removed in any order, and outlive their volume.
type Snapshotter interface {
	// TakeSnapshot keeps what a finished volume has at one moment, open or closed, as a NEW snapshot. A NEW one that is there is replaced; a finished one is
	// an *ExistsError. Where the driver has to copy, it is a *ChangedError when someone wrote meanwhile, and an *InUseError when users would have to be
	// held back for too long. Whatever was flushed to the device before the call is in the snapshot. On an error, nothing is left.
	TakeSnapshot(ctx context.Context, id SnapshotID, progress Progress) error

	// FinishSnapshot makes what was taken durable and then, atomically, the snapshot no longer NEW.
	FinishSnapshot(ctx context.Context, id SnapshotID) error

	// Snapshots returns the snapshots of a resource, or of all when the name is empty, NEW ones too, ordered by ID.
	Snapshots(ctx context.Context, resource string) ([]Snapshot, error)

	// RemoveSnapshot destroys a snapshot, NEW or finished. An *InUseError while it is read.
	RemoveSnapshot(ctx context.Context, id SnapshotID) error
}

// A Cloner makes volumes from what there is. It is an optional ability of a driver. Neither the source nor the clone keeps the other one alive.
type Cloner interface {
	// Clone makes a NEW volume of at least size bytes that begins with the content of a snapshot or, when from.Snapshot is empty, with what a finished volume
	// has at one moment; what follows reads as zeros. A NEW volume that is there is replaced, whatever its size; a finished one is an *ExistsError. A
	// size below that of the source is a *SizeError. Of a volume that is in use, Clone says what TakeSnapshot says. On an error, nothing is left.
	Clone(ctx context.Context, id ID, size int64, from SnapshotID, progress Progress) error
}

// A RollBacker gives volumes the content back that they had. It is an optional ability of a driver.
type RollBacker interface {
	// RollBack gives a finished volume, atomically and durably, the content of one of its snapshots. The volume keeps its size: what it grew by reads as
	// zeros. It is closed. Token is printable, without blanks, and names this one roll-back: when the volume's last one had the same token, nothing is
	// done. An *InUseError when anyone uses the volume.
	RollBack(ctx context.Context, to SnapshotID, token string, progress Progress) error
}

// Progress is told how far a copy is: at least once, in order, by one goroutine at a time. It must return at once. Nil is allowed.
type Progress func(Copied)

// Copied is how far a copy is, in bytes. Total may change on the way; at the end Done is Total.
type Copied struct {
	Done, Total int64
}

// Tell calls p unless it is nil.
func (p Progress) Tell(done, total int64) {
	if p != nil {
		p(Copied{Done: done, Total: total})
	}
}

// A MomentTaker takes snapshots of several volumes at one moment by itself, whoever writes to them meanwhile. It is an optional ability of
// a [Snapshotter].
type MomentTaker interface {
	// TakeSnapshots does for several volumes what TakeSnapshot does for one: for all of them at one moment, or on an error for none. No volume is named
	// twice.
	TakeSnapshots(ctx context.Context, ids []SnapshotID) error
}

// A Suspender holds writers back, so that the snapshots of several volumes are of one moment. It is an optional ability of a driver.
type Suspender interface {
	// Suspend begins to watch the writes to some volumes, and stops those that it can stop, until Resume. They go on by themselves after limit, and
	// soon after the death of this process.
	Suspend(ctx context.Context, ids []ID, limit time.Duration) (Suspension, error)
}

// Suspension is a time in which writers are held back. Its methods may be called by any goroutine.
type Suspension interface {
	// Resume lets writers go on, at the latest when it returns. It returns the volumes that were written all the same since Suspend, ordered by ID: when they are
	// none or one, then whatever was taken of all volumes meanwhile is of one moment. A further call returns the same again.
	Resume() (written []ID, err error)
}

// maxToken is the most bytes of a token.
const maxToken = 128

// ValidateToken refuses what cannot be the token of a roll-back.
func ValidateToken(token string) error {
	if n := len(token); n == 0 || n > maxToken {
		return fmt.Errorf("token %q has %d bytes: use 1 to %d", token, n, maxToken)
	}
	for i, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("token %q: %q is not allowed at byte %d: use printable ASCII without blanks", token, c, i)
		}
	}
	return nil
}
