// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import "fmt"

// HolderKind says how someone uses a volume.
type HolderKind string

// The ways to use a volume.
const (
	Opened  HolderKind = "open"    // A process has the device, or what lies under it, open.
	Mounted HolderKind = "mounted" // A filesystem on it is mounted, in some mount namespace.
	Stacked HolderKind = "stacked" // Another device, or swap, lies on top of it.
	Claimed HolderKind = "claimed" // The kernel holds it exclusively for a user that cannot be named.
	Kept    HolderKind = "kept"    // Someone else has made something of it that needs it, such as a snapshot.
)

// Holder is one user of a volume.
type Holder struct {
	Kind HolderKind
	Name string // Process, mount point, or device on top.
	PID  int    // Of the process for Opened, and of one process that sees the mount for Mounted. Zero when it is not known.
}

// String returns the holder as people read it.
func (h Holder) String() string {
	seen := func(format string) string {
		if h.PID == 0 {
			return ""
		}
		return fmt.Sprintf(format, h.PID)
	}
	switch h.Kind {
	case Opened:
		return "open by " + h.Name + seen(" (pid %d)")
	case Mounted:
		return "mounted at " + h.Name + seen(" (seen by pid %d)")
	case Stacked:
		return "below " + h.Name
	case Claimed:
		return "held exclusively by the kernel (" + h.Name + ")"
	case Kept:
		return "kept by " + h.Name
	}
	return string(h.Kind) + " " + h.Name
}
