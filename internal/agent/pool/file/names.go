// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// What the names of files end with. A file goes from one to the next by being renamed, and is never written after it has the last one but through a device.
const (
	finishedSuffix = ".volume"
	newSuffix      = ".new"   // A NEW volume without content, or a NEW snapshot.
	clonedSuffix   = ".clone" // A NEW volume with the whole content of its source.
	copySuffix     = ".copy"  // On the way to become one of the others. Locked by flock as long as someone works on it.
	snapshotSuffix = ".snapshot"
	rolledSuffix   = ".rolled" // Says which roll-back a volume had last.
	draftSuffix    = ".draft"  // On the way to become the last.
)

// volumeSuffixes are those of a volume's file, in the order in which they count when there are several.
func volumeSuffixes() []string { return []string{finishedSuffix, newSuffix, clonedSuffix, copySuffix} }

// snapshotSuffixes are likewise those of a snapshot's file.
func snapshotSuffixes() []string { return []string{snapshotSuffix, newSuffix, copySuffix} }

// entry is the file of a volume or a snapshot.
type entry struct {
	id       pool.ID
	snapshot string // Empty for a volume.
	suffix   string
	file     inuse.File
	size     int64
	taken    int64 // Bytes of the blocks that it has.
	mtime    unix.Timespec
}

// name returns the file's name in the directory.
func (e entry) name() string {
	if e.snapshot == "" {
		return e.id.Name() + e.suffix
	}
	return e.snapshotID().Name() + e.suffix
}

func (e entry) snapshotID() pool.SnapshotID {
	return pool.SnapshotID{Resource: e.id.Resource, Volume: e.id.Volume, Snapshot: e.snapshot}
}

// isNew tells whether it is not finished.
func (e entry) isNew() bool { return e.suffix != finishedSuffix && e.suffix != snapshotSuffix }

// complete fills in what a look at the file told.
func (e *entry) complete(st *unix.Stat_t) {
	e.file, e.size, e.taken, e.mtime = inuse.File{Dev: st.Dev, Ino: st.Ino}, st.Size, st.Blocks*sector, st.Mtim
}

// errForeign says that something stands where a volume's file would be. It was left alone.
var errForeign = errors.New("is not a regular file and was not made by the pool")

// parse returns what a file's name stands for, or false when the file is none of a volume or snapshot of ours.
func parse(name string) (entry, bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return entry{}, false
	}
	stem, suffix := name[:i], name[i:]
	if id, ok := pool.ParseName(stem); ok && slices.Contains(volumeSuffixes(), suffix) {
		return entry{id: id, suffix: suffix}, true
	}
	if id, ok := pool.ParseSnapshotName(stem); ok && slices.Contains(snapshotSuffixes(), suffix) {
		return entry{id: id.Of(), snapshot: id.Snapshot, suffix: suffix}, true
	}
	return entry{}, false
}

// parseVolume is parse for the files of volumes alone.
func parseVolume(name string) (entry, bool) {
	e, ok := parse(name)
	return e, ok && e.snapshot == ""
}

// stat looks at the file that an entry names, and returns false when there is none. What is not a regular file is an error.
func (p *Pool) stat(f *folder, e entry) (entry, bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(f.fd(), e.name(), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, fmt.Errorf("look at %s of pool %s: %w", e.text(), p.c.Name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return entry{}, false, fmt.Errorf("%s of pool %s: %s/%s: %w; move it away", e.text(), p.c.Name, p.c.Dir, e.name(), errForeign)
	}
	e.complete(&st)
	return e, true, nil
}

// text names a volume or snapshot in messages.
func (e entry) text() string {
	if e.snapshot == "" {
		return "volume " + e.id.String()
	}
	return "snapshot " + e.snapshotID().String()
}

// volumeFile is the entry of a volume before it was looked at.
func volumeFile(id pool.ID, suffix string) entry { return entry{id: id.Fold(), suffix: suffix} }

// snapshotFile is the entry of a snapshot before it was looked at.
func snapshotFile(id pool.SnapshotID, suffix string) entry {
	id = id.Fold()
	return entry{id: id.Of(), snapshot: id.Snapshot, suffix: suffix}
}

// find returns the file of a volume that counts, or false when it surely has none.
func (p *Pool) find(f *folder, id pool.ID) (entry, bool, error) {
	for _, suffix := range volumeSuffixes() {
		if e, ok, err := p.stat(f, volumeFile(id, suffix)); ok || err != nil {
			return e, ok, err
		}
	}
	return entry{}, false, nil
}

// entries returns all files of a volume. There is more than one while it is rolled back, or when someone else put them there.
func (p *Pool) entries(f *folder, id pool.ID) ([]entry, error) {
	var entries []entry
	for _, suffix := range volumeSuffixes() {
		e, ok, err := p.stat(f, volumeFile(id, suffix))
		if err != nil {
			return nil, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// snapshotEntries returns all files of a snapshot, likewise.
func (p *Pool) snapshotEntries(f *folder, id pool.SnapshotID) ([]entry, error) {
	var entries []entry
	for _, suffix := range snapshotSuffixes() {
		e, ok, err := p.stat(f, snapshotFile(id, suffix))
		if err != nil {
			return nil, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
