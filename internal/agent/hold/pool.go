// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// Class says what a pool is for.
type Class string

// The classes.
const (
	Primary  Class = "primary"  // Volumes live there. It is never unmounted by force without an operator. The zero Class is Primary.
	Transfer Class = "transfer" // Jobs copy to and from it.
)

// Residency says when a pool is mounted.
type Residency string

// The residencies.
const (
	OnDemand Residency = "on-demand" // While someone holds it, and for the idle time after that. The zero Residency is OnDemand.
	Always   Residency = "always"    // While it is desired.
)

// Pool is a source of storage as the control plane wants it on this host. It is a value and can be compared.
type Pool struct {
	ID         string // The control plane's name of it, never empty.
	Spec       mount.Spec
	Generation int64 // Grows when the spec changes. A newer one that cannot be had at once is had when the last hold goes.
	Class      Class
	Residency  Residency
	Idle       time.Duration // How long it stays mounted after its last hold. Zero: not at all.
}

// Validate refuses a pool that cannot be worked with.
func (p Pool) Validate() error {
	switch {
	case p.ID == "":
		return errors.New("a pool without an id cannot be held")
	case p.Spec.Source.Path == "":
		return fmt.Errorf("pool %s has no source", p.ID)
	case p.Class != "" && p.Class != Primary && p.Class != Transfer:
		return fmt.Errorf("pool %s has the class %q: use %s or %s", p.ID, p.Class, Primary, Transfer)
	case p.Residency != "" && p.Residency != OnDemand && p.Residency != Always:
		return fmt.Errorf("pool %s has the residency %q: use %s or %s", p.ID, p.Residency, OnDemand, Always)
	}
	return nil
}

// HolderKind says what a holder is.
type HolderKind string

// The kinds of holders.
const (
	VM       HolderKind = "vm"       // A virtual machine.
	Volume   HolderKind = "volume"   // A volume that is deployed on this host.
	Job      HolderKind = "job"      // A copy, a download, a command.
	Operator HolderKind = "operator" // A person, until he releases it.
	Probe    HolderKind = "probe"    // Who looks whether the pool works. He gets it also while its server does not answer.
)

// Holder is who holds a pool. Two holders are the same when they are equal.
type Holder struct {
	Kind  HolderKind `json:"kind"`
	Name  string     `json:"name"`            // Such as the name of the virtual machine, never empty.
	Epoch string     `json:"epoch,omitempty"` // Tells two lives of one name apart, such as the source and the target of a migration.
	PID   int        `json:"pid,omitempty"`   // The process that lives as long as the holder. Zero: there is none.
	Start uint64     `json:"start,omitempty"` // When that process started, as mount.StartTime tells it.
}

// String returns the holder as people read it.
func (h Holder) String() string {
	s := string(h.Kind) + " " + h.Name
	if h.Epoch != "" {
		s += "@" + h.Epoch
	}
	if h.PID != 0 {
		s += fmt.Sprintf(" (pid %d)", h.PID)
	}
	return s
}

// ID is the name of a hold, chosen by whoever acquires it: trying again with the same one is safe.
type ID string

// Mode says what a holder may do.
type Mode string

// The modes. The zero Mode is ReadWrite.
const (
	ReadWrite Mode = "rw"
	ReadOnly  Mode = "ro"
)

// Request is what a hold is asked for with.
type Request struct {
	ID      ID // Never empty, and unique on this host while it is held.
	Holder  Holder
	Subpath string // The folder of the pool that is used, relative to the root of the source. Empty: the root.
	Mode    Mode
}

// Validate refuses a request that nobody could be held responsible for.
func (r Request) Validate() error {
	switch {
	case r.ID == "":
		return errors.New("a hold without an id cannot be released: give it one")
	case r.Holder.Kind == "" || r.Holder.Name == "":
		return fmt.Errorf("hold %s has no holder: give kind and name", r.ID)
	case r.Mode != "" && r.Mode != ReadWrite && r.Mode != ReadOnly:
		return fmt.Errorf("hold %s has the mode %q: use %s or %s", r.ID, r.Mode, ReadWrite, ReadOnly)
	case r.Subpath != "":
		if err := mount.CheckSubpath(r.Subpath); err != nil {
			return fmt.Errorf("hold %s: %w", r.ID, err)
		}
	}
	return nil
}

// Hold is one holder's claim on a pool.
type Hold struct {
	ID      ID           `json:"id"`
	Pool    string       `json:"pool"`
	Source  mount.Source `json:"source"`
	Holder  Holder       `json:"holder"`
	Subpath string       `json:"subpath,omitempty"`
	Mode    Mode         `json:"mode"`
	Created time.Time    `json:"created"`

	Place   string      `json:"-"` // Where the source is mounted.
	Mount   mount.Entry `json:"-"` // The mount that the hold was granted on.
	Derived bool        `json:"-"` // A Finder knows of it; nobody has acquired it, and nobody can release it.
	Waiting bool        `json:"-"` // It is not granted yet.
	Broken  string      `json:"-"` // Why the mount that it was granted on is of no use any more. Empty: it is.
	Orphan  time.Time   `json:"-"` // Since when its holder is known to be dead. Zero: it is not.
}

// Path returns the folder that is held.
func (h Hold) Path() string { return path.Join(h.Place, h.Subpath) }

func (h Hold) writes() bool { return h.Mode != ReadOnly }

// same tells whether a request asks for exactly this hold.
func (h Hold) same(p Pool, r Request) bool {
	return h.Pool == p.ID && h.Holder == r.Holder && h.Subpath == r.Subpath && h.writes() == (r.Mode != ReadOnly)
}
