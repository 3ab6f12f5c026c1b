// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Entry is one mount as the kernel lists it.
type Entry struct {
	Unique  uint64 `json:"unique,omitempty"` // Never used twice while the kernel runs. Zero where the kernel does not tell it.
	ID      int    `json:"id"`               // Used again as soon as the mount is gone.
	Parent  int    `json:"parent"`
	Major   int    `json:"major"` // With Minor the device number of the file system.
	Minor   int    `json:"minor"`
	Root    string `json:"root"`   // What of the file system is mounted.
	Target  string `json:"target"` // Where.
	FSType  string `json:"fstype"`
	Source  string `json:"source"`
	Options string `json:"options"`         // Of this mount.
	Super   string `json:"super"`           // Of the file system.
	Group   string `json:"group,omitempty"` // How mounts propagate: shared:N, master:N and their like. Empty: not at all.
}

// Same tells whether e and o are the very same mount, seen at two times. Its options may have changed.
func (e Entry) Same(o Entry) bool {
	if e.Unique != 0 && o.Unique != 0 {
		return e.Unique == o.Unique
	}
	return e.ID == o.ID && e.Parent == o.Parent && e.SameFS(o) && e.Root == o.Root && e.Target == o.Target && e.FSType == o.FSType && e.Source == o.Source
}

// SameFS tells whether e and o show the same file system while both exist.
func (e Entry) SameFS(o Entry) bool { return e.Major == o.Major && e.Minor == o.Minor }

// ReadOnly tells whether nothing can be written through the mount.
func (e Entry) ReadOnly() bool { return hasOption(e.Options, "ro") || hasOption(e.Super, "ro") }

// Shared tells whether mounts made below e are seen in the mount namespaces of others, and unmounts there are refused while others use them.
func (e Entry) Shared() bool { return strings.Contains(e.Group, "shared:") }

// String returns the mount as people read it.
func (e Entry) String() string {
	return fmt.Sprintf("%s (%s) at %s, mount %d", e.Source, e.FSType, e.Target, e.ID)
}

func hasOption(options, word string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == word {
			return true
		}
	}
	return false
}

// Table is all mounts of one mount namespace, in the kernel's order. It is not changed once it was read.
type Table []Entry

// ParseTable reads the format of /proc/self/mountinfo.
func ParseTable(r io.Reader) (Table, error) {
	infos, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	t := make(Table, len(infos))
	for i, m := range infos {
		t[i] = Entry{
			ID: m.ID, Parent: m.Parent, Major: m.Major, Minor: m.Minor, Root: m.Root, Target: m.Mountpoint, FSType: m.FSType, Source: m.Source,
			Options: m.Options, Super: m.VFSOptions, Group: m.Optional,
		}
	}
	return t, nil
}

// Reach returns the mount on which a look-up of a clean absolute path ends, and what is left of the path below that mount's root: "/" for
// the root itself. It reads the table alone and follows no symbolic links.
func (t Table) Reach(file string) (e Entry, rest string, ok bool) {
	at := t.root()
	if at < 0 {
		return Entry{}, "", false
	}
	for range t { // Each step goes deeper, so there are no more of them than mounts.
		next := -1
		for i, c := range t {
			if i == at || c.Parent != t[at].ID || !within(file, c.Target) {
				continue
			}
			// A look-up meets the mount point that is nearest to the root first.
			if next < 0 || len(c.Target) < len(t[next].Target) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		at = next
	}
	return t[at], below(file, t[at].Target), true
}

// root returns the index of the mount at "/" whose parent is not listed: look-ups begin there.
func (t Table) root() int {
	for i, e := range t {
		if e.Target == "/" && !slices.ContainsFunc(t, func(o Entry) bool { return o.ID == e.Parent && o.ID != e.ID }) {
			return i
		}
	}
	return -1
}

// At returns the mount that a look-up of target ends on, if that is mounted at target itself.
func (t Table) At(target string) (Entry, bool) {
	e, rest, ok := t.Reach(target)
	return e, ok && rest == "/" && e.Target == target && target != ""
}

// Find returns the entry that is the same mount as e.
func (t Table) Find(e Entry) (Entry, bool) {
	i := slices.IndexFunc(t, e.Same)
	if i < 0 {
		return Entry{}, false
	}
	return t[i], true
}

// Twins returns the other mounts that show the same part of a file system as e, or a part of that part.
func (t Table) Twins(e Entry) []Entry {
	var twins []Entry
	for _, o := range t {
		if o.shows(e) && !o.Same(e) {
			twins = append(twins, o)
		}
	}
	return twins
}

// shows tells whether e shows what o shows, or a part of it. Exports of one NFS server that lie in one of its file systems have one device
// number and one root; only their names differ.
func (e Entry) shows(o Entry) bool {
	return e.SameFS(o) && within(e.Root, o.Root) && (!strings.HasPrefix(o.FSType, "nfs") || e.Source == o.Source)
}

// Under returns the mounts whose mount points lie in a folder or below, the folder's own excluded.
func (t Table) Under(dir string) []Entry {
	var under []Entry
	for _, e := range t {
		if e.Target != dir && within(e.Target, dir) {
			under = append(under, e)
		}
	}
	return under
}

// within tells whether a clean path is dir or lies below it.
func within(file, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(file, "/")
	}
	rest, ok := strings.CutPrefix(file, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// below returns what is left of file below dir, beginning with a slash.
func below(file, dir string) string { return path.Clean("/" + strings.TrimPrefix(file, dir)) }
