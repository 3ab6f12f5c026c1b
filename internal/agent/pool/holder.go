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
)

// Holder is one user of a volume.
type Holder struct {
	Kind HolderKind
	Name string // Process, mount point, or device on top.
	PID  int    // Of the process for Opened, and of one process that sees the mount for Mounted; otherwise zero.
}

// String returns the holder as people read it.
func (h Holder) String() string {
	switch h.Kind {
	case Opened:
		return fmt.Sprintf("open by %s (pid %d)", h.Name, h.PID)
	case Mounted:
		return fmt.Sprintf("mounted at %s (seen by pid %d)", h.Name, h.PID)
	case Stacked:
		return "below " + h.Name
	case Claimed:
		return "held exclusively by the kernel (" + h.Name + ")"
	}
	return string(h.Kind) + " " + h.Name
}
