// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// Kind says why a hold was refused.
type Kind string

// The kinds of an Error.
const (
	Invalid         Kind = "invalid"          // The request itself.
	MountFailed     Kind = "mount failed"     // The cause is a *mount.Error with the words of the program.
	TimedOut        Kind = "timed out"        // Mounting or unmounting hangs. Phase says which.
	OptionsConflict Kind = "options conflict" // The source is mounted with other options, for others.
	Foreign         Kind = "foreign"          // Something else is mounted at the place.
	WrongIdentity   Kind = "wrong identity"   // The source is another file system than before, or than was asked for.
	SameSource      Kind = "same source"      // Another source leads to the same file system.
	ReadOnlySource  Kind = "read-only source" // And the hold wants to write.
	Stale           Kind = "stale"            // The server or device lost what is mounted.
	Suspect         Kind = "suspect"          // The server does not answer.
	Lost            Kind = "lost"             // The mount went away under users that may write.
	Draining        Kind = "draining"
	ShuttingDown    Kind = "shutting down"
	NotReady        Kind = "not ready"    // What is mounted cannot be learned now.
	NotRecorded     Kind = "not recorded" // The journal could not be written.
	Reused          Kind = "id reused"    // The id is of another hold.
	Released        Kind = "released"     // Someone released the hold before it was granted.
	Unknown         Kind = "unknown"      // There is no such pool.
)

// Error says why a pool could not be held.
type Error struct {
	Kind    Kind
	Pool    string
	Source  string
	Phase   string        // With TimedOut: "mount", "unmount" or "start".
	Running mount.Options // With OptionsConflict: what the mount has,
	Wanted  mount.Options // and what was asked for.
	Holders []string      // Who stands in the way.
	Found   *mount.Entry  // With Foreign: what is mounted there.
	Detail  string
	Since   time.Time // When what is the matter began. Zero: now.
	Err     error     // The cause.
}

func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Pool == "": // It is the source's own fault, whoever asked.
		fmt.Fprintf(&b, "hold %s", e.Source)
	case e.Source != "":
		fmt.Fprintf(&b, "hold pool %s (%s)", e.Pool, e.Source)
	default:
		fmt.Fprintf(&b, "hold pool %s", e.Pool)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	if e.Phase != "" {
		fmt.Fprintf(&b, " in %s", e.Phase)
	}
	if !e.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", e.Since.UTC().Format(time.RFC3339))
	}
	if e.Kind == OptionsConflict {
		fmt.Fprintf(&b, ": it is mounted with %q and wanted with %q", e.Running, e.Wanted)
	}
	if len(e.Holders) > 0 {
		fmt.Fprintf(&b, ", used by %s", strings.Join(e.Holders, ", "))
	}
	if e.Found != nil {
		fmt.Fprintf(&b, ": found %s", e.Found)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if c := e.correction(); c != "" {
		fmt.Fprintf(&b, "; %s", c)
	}
	return b.String()
}

// correction says what to do, where there is something to do.
func (e *Error) correction() string {
	switch e.Kind {
	case TimedOut:
		return "it goes on when the server answers; an operator can detach the pool"
	case OptionsConflict:
		return "use the same options for all pools of a source, or release its holds first"
	case Foreign:
		return "unmount what is there, it was not mounted by this agent"
	case SameSource:
		return "use one name for one source"
	case ReadOnlySource:
		return "hold it read-only, or make it writable"
	case Lost:
		return "end or release those who use the old mount, then it is mounted again"
	case Reused:
		return "choose another id"
	default:
		return ""
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsKind tells whether err is an Error of a kind.
func IsKind(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// kindOf classes an error of the driver's Mount.
func kindOf(err error) (kind Kind, phase string) {
	var failed *mount.Error
	if !errors.As(err, &failed) {
		return MountFailed, ""
	}
	switch failed.Fault {
	case mount.WrongIdentity:
		return WrongIdentity, ""
	case mount.Taken:
		return Foreign, ""
	case mount.TimedOut:
		return TimedOut, "mount"
	case mount.StaleHandle:
		return Stale, ""
	default:
		return MountFailed, ""
	}
}
