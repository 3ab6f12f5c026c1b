// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Connection is how far the session of a node came.
type Connection string

// The connections, with LINSTOR's names.
const (
	Offline   Connection = "OFFLINE"   // no session
	Connected Connection = "CONNECTED" // a session; what the node shall have is not taken over yet
	Online    Connection = "ONLINE"
)

// Facts is what an agent says about its host at the start of a session.
type Facts struct {
	Uname                string // the host's own name
	Version              string // of the agent's program
	Providers            []model.Provider
	Layers               []model.Layer
	UnsupportedProviders map[string]string // each with its reason
	UnsupportedLayers    map[string]string
}

// NodeStatus is what is known of a node. The facts are those of the last session.
type NodeStatus struct {
	Connection Connection
	Since      time.Time // of the connection; zero for a node that never had a session
	Heard      time.Time // when the agent last said anything
	Reason     string    // why the node is OFFLINE, for people
	Facts
}

// Phase is how far the work on a replica came.
type Phase int

// The phases. A replica that is not Working has settled: the agent has looked at it after
// its last step.
const (
	Working   Phase = iota
	Ready           // as it shall be
	Failed          // a step failed; the agent tries again by itself
	Destroyed       // nothing of it is left on the host
)

// Settled tells whether the phase is an outcome.
func (p Phase) Settled() bool { return p != Working }

func (p Phase) String() string {
	switch p {
	case Working:
		return "working"
	case Ready:
		return "ready"
	case Failed:
		return "failed"
	case Destroyed:
		return "destroyed"
	}
	return "unknown"
}

// Reason classes a failure.
type Reason int

// The reasons.
const (
	Other       Reason = iota
	InUse              // someone uses the device
	NoSpace            // the pool cannot hold it
	PoolFaulty         // the pool cannot be used now
	Unsupported        // the host lacks a tool, a module or an ability
	Invalid            // what is asked for makes no sense on this host
	Locked             // the key of an encrypted volume is needed, and there is none
)

// Failure is the step that fails now.
type Failure struct {
	Step     string
	Message  string
	Reason   Reason
	Attempts uint32
	NextTry  time.Time // zero when it is not known
}

// VolumeStatus is the state of one volume of a replica. Sizes are bytes; nil is unknown.
type VolumeStatus struct {
	Number      model.VolumeNumber
	DevicePath  string
	BackingPath string // the device or file below the lowest layer
	Usable      *int64
	Allocated   *int64
	InUse       *bool
	Holders     []string // who uses it, one text each
	DiskState   string   // DRBD's words
	RolledBack  string   // the token of its last roll-back
	ResyncDone  *float64 // percent, while it is being filled by a peer
}

// ResourceStatus is the state of a replica on its node.
type ResourceStatus struct {
	Generation uint64 // of the assignment that this is the state of
	Phase      Phase
	Volumes    []VolumeStatus
	Failure    *Failure    // nil when no step fails
	Work       []Work      // what goes on in the background
	DRBD       *DRBDStatus // nil while DRBD does not run for it
	Current    bool        // false: the node is away, or has not said it again since it came back
}

// Work is something that takes long. The phase of its replica is Working meanwhile.
type Work struct {
	What     string             // as people read it
	Volume   model.VolumeNumber // that is made or rolled back, unless it is a snapshot
	Snapshot model.SnapshotName // that is taken
	Done     int64              // bytes
	Total    int64              // bytes; it may change; zero when it is not known yet
	Waiting  bool               // for other work
}

// InUse tells whether any volume is in use, and whether that is known.
func (r ResourceStatus) InUse() (inUse, known bool) {
	if !r.Current {
		return false, false
	}
	known = r.Phase != Working || len(r.Volumes) > 0
	for _, v := range r.Volumes {
		switch {
		case v.InUse == nil:
			known = false
		case *v.InUse:
			return true, true
		}
	}
	return false, known
}

// masked is r as it reads when it is not current.
func (r ResourceStatus) masked() ResourceStatus {
	r.Current, r.Work, r.DRBD = false, nil, nil
	r.Volumes = slices.Clone(r.Volumes)
	for i := range r.Volumes {
		v := &r.Volumes[i]
		v.Allocated, v.InUse, v.Holders, v.DiskState, v.ResyncDone = nil, nil, nil, "", nil
	}
	return r
}

// PoolStatus is the state of a pool. Sizes are bytes; nil is unknown, never zero. While the
// node is away all of them are nil.
type PoolStatus struct {
	Total             *int64
	Free              *int64
	Allocated         *int64 // by all volumes of ours; Free is of the same time, or less
	Pledged           *int64 // of Allocated: by assigned volumes, each up to its assigned size
	Granularity       int64
	SupportsSnapshots bool
	Faults            []string  // why the pool cannot be used now; none for a healthy one
	Unknown           []string  // volumes that carry our mark, but are in no assignment
	At                time.Time // when the agent said it
	Current           bool
}

// masked is p as it reads when it is not current.
func (p PoolStatus) masked() PoolStatus {
	p.Total, p.Free, p.Allocated, p.Pledged, p.Current = nil, nil, nil, nil, false
	return p
}

func (r ResourceStatus) equal(o ResourceStatus) bool {
	return r.Generation == o.Generation && r.Phase == o.Phase &&
		slices.EqualFunc(r.Volumes, o.Volumes, VolumeStatus.equal) && equalFailure(r.Failure, o.Failure) &&
		slices.Equal(r.Work, o.Work) && r.DRBD.equal(o.DRBD)
}

func (v VolumeStatus) equal(o VolumeStatus) bool {
	return v.Number == o.Number && v.DevicePath == o.DevicePath && v.BackingPath == o.BackingPath &&
		same(v.Usable, o.Usable) && same(v.Allocated, o.Allocated) && same(v.InUse, o.InUse) &&
		slices.Equal(v.Holders, o.Holders) && v.DiskState == o.DiskState && v.RolledBack == o.RolledBack &&
		same(v.ResyncDone, o.ResyncDone)
}

func equalFailure(a, b *Failure) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Step == b.Step && a.Message == b.Message && a.Reason == b.Reason &&
		a.Attempts == b.Attempts && a.NextTry.Equal(b.NextTry)
}

// equal leaves out At: the same figures said again are no change.
func (p PoolStatus) equal(o PoolStatus) bool {
	return same(p.Total, o.Total) && same(p.Free, o.Free) && same(p.Allocated, o.Allocated) && same(p.Pledged, o.Pledged) &&
		p.Granularity == o.Granularity && p.SupportsSnapshots == o.SupportsSnapshots &&
		slices.Equal(p.Faults, o.Faults) && slices.Equal(p.Unknown, o.Unknown)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
