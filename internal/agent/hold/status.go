// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// State is the state of a source on this host.
type State string

// The states. In Ready, Busy, StateStale and StateSuspect it is mounted.
const (
	Absent       State = "absent"
	Mounting     State = "mounting"
	Ready        State = "ready" // The only one that grants holds.
	Unmounting   State = "unmounting"
	Busy         State = "busy"    // Nobody holds it, and it could not be unmounted. It is tried again, and becomes Ready when someone comes.
	StateStale   State = "stale"   // Its server or device has lost it. It is mounted anew when the last hold goes.
	StateSuspect State = "suspect" // Its server does not answer.
	StateLost    State = "lost"    // It was recorded as mounted and is not.
	StateForeign State = "foreign" // Something else lies at its place.
	StateUnknown State = "unknown" // After the start, or because a helper hangs in the kernel.
)

// Status is all that is known of a source. It is a copy.
type Status struct {
	Source   mount.Source
	Place    string
	State    State
	Mounted  bool
	Mount    mount.Entry // With Mounted.
	Identity string      // The uuid that the source has or, as long as it has holds, must have.

	Running        mount.Options // What it was mounted with,
	Wanted         mount.Options // and what it would be mounted with now.
	OptionsPending bool          // Both differ: the new ones wait for the last hold to go.
	ReadOnly       bool
	Shared         bool // Other mount namespaces see it, and an unmount is refused while they use it.

	Pools    []string // That share it.
	Desired  bool     // One of them is to be mounted always.
	Draining []string // Those that get no holds.

	Holds    []Hold // By id.
	Blockers []mount.User
	Found    *mount.Entry // With StateForeign.

	LastError   string // Of mounting, unmounting, probing or recording.
	LastErrorAt time.Time
	NextTry     time.Time // Of mounting or unmounting. Zero: none is planned.
	Working     string    // What is under way: "mount", "unmount", "check", "start". Empty: nothing.
	Since       time.Time // When it began.
	Hanging     int       // Helpers that hang in the kernel and were left there.
	Token       string    // Confirms an operator's Detach of what is mounted now.
	UsersKnown  bool      // All finders have answered since the start.
}

// Counts is what metrics show of a Set.
type Counts struct {
	Sources   map[State]int
	Holds     map[HolderKind]int
	Waiting   int // Acquires that are under way.
	Anomalies int // Releases of what was not held, since the start.
	Hanging   int // Helpers that hang in the kernel.
	Orphans   int // Holds whose holder is dead.
	Events    map[EventKind]int
}
