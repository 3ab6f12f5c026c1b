// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// RecordType says what a Record notes.
type RecordType string

// The types of records.
const (
	HoldAdded     RecordType = "hold+"
	HoldRemoved   RecordType = "hold-"
	MountIntent   RecordType = "intent-mount"
	MountDone     RecordType = "mounted"
	UnmountIntent RecordType = "intent-unmount"
	UnmountDone   RecordType = "unmounted" // Also when the mount was lost.
)

// Record is one line of the journal of a source.
type Record struct {
	Type     RecordType   `json:"type"`
	Time     time.Time    `json:"time"`
	Hold     *Hold        `json:"hold,omitempty"` // With HoldAdded.
	ID       ID           `json:"id,omitempty"`   // With HoldRemoved.
	Spec     *mount.Spec  `json:"spec,omitempty"` // With MountIntent and MountDone, and with HoldAdded what was wanted then.
	Entry    *mount.Entry `json:"entry,omitempty"`
	Identity string       `json:"identity,omitempty"`
	Inode    uint64       `json:"inode,omitempty"`
	Detail   string       `json:"detail,omitempty"`
}

// A Journal keeps the records of each source while the kernel runs: mounts die with it, and so do holds. Calls for one source come one after
// the other, those for several at once.
type Journal interface {
	// Load returns what was recorded since the kernel was booted.
	Load() ([]Saved, error)
	// Append adds records. When sync is set they outlive also a crash of the whole host; in any case one of this process.
	Append(s mount.Source, records []Record, sync bool) error
	// Rewrite replaces all records of a source at once. With none, the source is forgotten.
	Rewrite(s mount.Source, records []Record) error
}

// Saved is what a journal has of one source.
type Saved struct {
	Source  mount.Source
	Records []Record
	Damaged string // What is wrong with the journal: there may have been more holds. Empty: nothing is.
}

// image is what the records of a source amount to.
type image struct {
	spec     *mount.Spec  // Of the last intent to mount, or what the first holder wanted.
	entry    *mount.Entry // Of the mount that was recorded as made and not as unmounted.
	identity string
	inode    uint64
	intent   RecordType // The change that was begun and not recorded as ended. Empty: none.
	holds    map[ID]Hold
}

func newImage() *image { return &image{holds: map[ID]Hold{}} }

func (m *image) apply(r Record) {
	switch r.Type {
	case HoldAdded:
		if r.Hold != nil {
			m.holds[r.Hold.ID] = *r.Hold
		}
		if m.spec == nil {
			m.spec = r.Spec
		}
	case HoldRemoved:
		delete(m.holds, r.ID)
	case MountIntent:
		m.spec, m.intent = r.Spec, MountIntent
	case MountDone:
		m.spec, m.entry, m.identity, m.inode, m.intent = r.Spec, r.Entry, r.Identity, r.Inode, ""
	case UnmountIntent:
		m.intent = UnmountIntent
	case UnmountDone:
		m.entry, m.intent = nil, ""
		if len(m.holds) == 0 {
			m.identity = "" // Whoever comes next depends on nobody's file system.
		}
	}
}

// records returns the shortest records that amount to m.
func (m *image) records(now time.Time) []Record {
	var records []Record
	if m.entry != nil || m.identity != "" {
		records = append(records, Record{Type: MountDone, Time: now, Spec: m.spec, Entry: m.entry, Identity: m.identity, Inode: m.inode})
	}
	if m.intent != "" {
		records = append(records, Record{Type: m.intent, Time: now, Spec: m.spec})
	}
	for _, h := range slices.SortedFunc(maps.Values(m.holds), func(a, b Hold) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
		records = append(records, Record{Type: HoldAdded, Time: now, Hold: &h, Spec: m.spec})
	}
	return records
}
