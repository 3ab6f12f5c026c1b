// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Host is the machine that the agent works on. [Machine] is the real one.
//
// All methods may be called at once, but Apply is called by one goroutine at a time for one
// resource. Each returns soon after its context ends. Errors are those of package pool, or
// an errs.Error; others count as a failed step.
type Host interface {
	// Apply makes the host as w wants it and returns what was seen after the last step. It is
	// idempotent, and called from time to time to repair what has drifted.
	Apply(ctx context.Context, w Want) (Result, error)

	// Inspect returns what is seen of the resource now and changes nothing.
	Inspect(ctx context.Context, w Want) (Result, error)

	// Measure looks at a pool: its space and the volumes of ours in it.
	Measure(ctx context.Context, p Pool) (Space, error)

	// Check tells whether a pool would work on this host, and its space if so. It leaves
	// nothing behind.
	Check(ctx context.Context, p Pool) (Space, error)

	// Remove destroys a volume of ours that is in no assignment, unless it is in use. One that
	// is not there is removed.
	Remove(ctx context.Context, p Pool, id pool.ID) error

	// RemoveSnapshot is Remove for a snapshot.
	RemoveSnapshot(ctx context.Context, p Pool, id pool.SnapshotID) error
}

// A Watcher is a Host that notices by itself when something has changed. It is an optional
// ability: what no one tells is noticed by the periodic look.
type Watcher interface {
	// Watch calls resource or pool with the name of each one that changed, until ctx ends.
	// Both return at once, however often they are called.
	Watch(ctx context.Context, resource, pool func(name string))
}

// Pool is a storage pool as it is assigned to this node.
type Pool struct {
	Name     string
	Provider model.Provider
	Props    model.Props

	// Identity is the mark that the pool is known to carry, from an earlier look at it; empty
	// when it is not known yet. A place with another mark, or none, is not the pool.
	Identity string
}

// Want is what the host shall have of one resource.
type Want struct {
	Resource string
	Destroy  bool // all volumes named here are to go; snapshots go by their own word
	Inactive bool // volumes are to have no devices

	Layers    []model.Layer  // top first, with STORAGE at the end
	Volumes   []VolumeWant   // each number once; what is not named is not touched
	Snapshots []SnapshotWant // each name once, likewise

	DRBD *agentpb.Drbd // with the layer DRBD, unless it is to be destroyed
}

// VolumeWant is what the host shall have of one volume.
type VolumeWant struct {
	Number     int32
	Destroy    bool                // this volume is to go, the others stay
	Existing   bool                // it is there, or has to be brought back: never to be made
	Pool       *Pool               // nil for a replica without storage
	Size       int64               // usable bytes, at least
	Filesystem *agentpb.Filesystem // to be made on a new volume; nil for none
	Source     *Source             // what a new volume begins with; it is then not formatted
	RollBack   *agentpb.RollBack   // to be done once for each token; nil for none
	Stretch    bool                // a filesystem that is mounted from it grows with it
	Luks       *agentpb.Luks       // of one that lies encrypted in its pool; nil for others
	DRBD       *agentpb.DrbdVolume // with the layer DRBD
}

// Source is a snapshot or, when Snapshot is empty, a volume.
type Source struct {
	Resource string
	Volume   int32
	Snapshot string
	Pool     *Pool // that it lies in
}

// SnapshotWant is what the host shall have of one snapshot.
type SnapshotWant struct {
	Name     string
	Destroy  bool
	Existing bool // it was complete once: none is taken in its place
	Parts    []SnapshotPart
}

// SnapshotPart is the part of a snapshot that is of one volume.
type SnapshotPart struct {
	Number    int32
	Pool      Pool
	Encrypted bool // its volume was
}

// Result is what was seen of a resource. Messages are the agent's own from now on.
type Result struct {
	Volumes   []*agentpb.VolumeStatus   // those that exist, by number
	Snapshots []*agentpb.SnapshotStatus // of the wanted ones, those that there is anything to tell of
	Pending   bool                      // something is left to do, or goes on in the background
	Work      []*agentpb.Work           // what goes on
	DRBD      *agentpb.DrbdStatus       // of a resource with that layer that is up
	Waits     bool                      // it is pending for other hosts alone, whose doings the host tells of by itself
	Fills     bool                      // peers fill it, and how far they are is not told of by itself
}

// Space is what was seen of a pool at one time: what Free has, no volume in it takes as well.
// Amounts are bytes.
type Space struct {
	Total       int64
	Free        int64
	Allocated   int64           // by the volumes and snapshots of ours
	Granularity int64           // volumes are rounded up to multiples of it
	CanSnapshot bool            // the pool can make snapshots
	Identity    string          // the mark that the pool carries; empty for none
	Volumes     []pool.Volume   // of ours, by ID
	Snapshots   []pool.Snapshot // of ours, by ID
}
