// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	Held            EventKind = "held"             // A hold was granted.
	Left            EventKind = "released"         // A hold was released.
	Anomaly         EventKind = "anomaly"          // A hold was released that is not there.
	MountedEvent    EventKind = "mounted"          //
	Adopted         EventKind = "adopted"          // A mount that was there already was verified and taken.
	MountError      EventKind = "mount failed"     //
	Unmounted       EventKind = "unmounted"        //
	UnmountDeferred EventKind = "unmount deferred" // It could not be unmounted, or must not be.
	Forced          EventKind = "forced"           // It was unmounted by force.
	AbandonedEvent  EventKind = "abandoned"        // A helper hangs in the kernel.
	Returned        EventKind = "returned"         // A helper that hung has ended.
	LostEvent       EventKind = "lost"             // A mount is gone and we did not unmount it.
	Regained        EventKind = "regained"         // Those who held a lost mount have a good one again.
	ForeignEvent    EventKind = "foreign"          // Something else lies at the place of a source.
	SuspectEvent    EventKind = "suspect"          // A server does not answer.
	StaleEvent      EventKind = "stale"            // A server has lost what is mounted.
	Recovered       EventKind = "recovered"        // A server answers again.
	Orphaned        EventKind = "orphaned"         // A holder has died.
	OrphanReleased  EventKind = "orphan released"  // Its hold was released.
	OptionsPending  EventKind = "options pending"  // New options wait for the last hold to go.
	Stray           EventKind = "stray"            // A mount lies in our folder and nobody knows of it.
	JournalError    EventKind = "journal failed"   //
	FinderError     EventKind = "finder failed"    // Users cannot be learned, so nothing is unmounted.
)

// Event is something that happened to a source.
type Event struct {
	Kind   EventKind
	Time   time.Time
	Source mount.Source // The zero Source for what belongs to none.
	Target string
	Hold   *Hold         // With Held, Left, Anomaly and the orphans.
	Detail string        // In words.
	Users  []mount.User  // With UnmountDeferred and LostEvent.
	Took   time.Duration // With MountedEvent, Unmounted and their failures.
	Err    error         // With failures.
}
