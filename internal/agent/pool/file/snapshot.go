// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// TakeSnapshot implements pool.Snapshotter.
func (p *Pool) TakeSnapshot(ctx context.Context, id pool.SnapshotID, progress pool.Progress) error {
	if err := id.Validate(); err != nil {
		return err
	}
	err := p.copy(ctx, id.Of(), copying{
		from:  pool.SnapshotID{Resource: id.Resource, Volume: id.Volume},
		draft: snapshotFile(id, copySuffix),
		check: func(f *folder, _ source) error { return p.retake(f, id) },
		finish: func(f *folder, d draft) error {
			return p.rename(f, d.name(), snapshotFile(id, newSuffix).name())
		},
	}, progress)
	if err != nil {
		return fmt.Errorf("take snapshot %s in pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

// retake makes room for a snapshot: one that is NEW goes.
func (p *Pool) retake(f *folder, id pool.SnapshotID) error {
	entries, err := p.snapshotEntries(f, id)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.isNew() {
			return &pool.ExistsError{Pool: p.c.Name, ID: id.Of(), Snapshot: id.Snapshot, Size: e.size}
		}
	}
	return p.unlink(f, entries)
}

// unlink removes files that nobody uses.
func (p *Pool) unlink(f *folder, entries []entry) error {
	for _, e := range entries {
		if err := unix.Unlinkat(f.fd(), e.name(), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return p.unwritable("remove "+e.text(), err)
		}
	}
	return nil
}

// FinishSnapshot implements pool.Snapshotter.
func (p *Pool) FinishSnapshot(ctx context.Context, id pool.SnapshotID) error {
	f, end, err := p.beginSnapshot(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	entries, err := p.snapshotEntries(f, id)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id.Of(), Snapshot: id.Snapshot}
	}
	if err := p.finishSnapshot(f, entries[0]); err != nil {
		return fmt.Errorf("finish snapshot %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

func (p *Pool) finishSnapshot(f *folder, e entry) error {
	switch e.suffix {
	case copySuffix:
		return errBrokenOff
	case newSuffix:
		if err := flush(f, e.name()); err != nil {
			return err
		}
		if err := p.rename(f, e.name(), snapshotFile(e.snapshotID(), snapshotSuffix).name()); err != nil {
			return err
		}
	}
	// Also when it was finished before: that call may have ended just before this.
	return f.dir.Sync()
}

// beginSnapshot is begin for a snapshot.
func (p *Pool) beginSnapshot(ctx context.Context, id pool.SnapshotID) (f *folder, end func(), err error) {
	if err := id.Validate(); err != nil {
		return nil, nil, err
	}
	return p.begin(ctx, id.Of())
}

// Snapshots implements pool.Snapshotter.
func (p *Pool) Snapshots(ctx context.Context, resource string) ([]pool.Snapshot, error) {
	f, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer f.close()
	resource = strings.ToLower(resource)
	entries, err := p.read(f, func(name string) (entry, bool) {
		e, ok := parse(name)
		return e, ok && e.snapshot != "" && (resource == "" || e.id.Resource == resource)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.snapshotID().Compare(b.snapshotID()), cmp.Compare(slices.Index(snapshotSuffixes(), a.suffix), slices.Index(snapshotSuffixes(), b.suffix)))
	})
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.snapshotID() == b.snapshotID() })
	alone, err := p.alone(ctx, f, entries)
	if err != nil {
		return nil, err
	}
	list := make([]pool.Snapshot, len(entries))
	for i, e := range entries {
		list[i] = pool.Snapshot{ID: e.snapshotID(), Size: e.size, Allocated: alone[i], Created: time.Unix(e.mtime.Unix()), New: e.isNew()}
	}
	return list, nil
}

// RemoveSnapshot implements pool.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, id pool.SnapshotID) error {
	f, end, err := p.beginSnapshot(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	entries, err := p.snapshotEntries(f, id)
	if err != nil || len(entries) == 0 {
		return err
	}
	if err := p.unread(ctx, id, entries); err != nil {
		return err
	}
	if err := p.unlink(f, entries); err != nil {
		return err
	}
	if err := f.dir.Sync(); err != nil {
		return p.unwritable("remove snapshot "+id.String(), err)
	}
	return nil
}

// unread refuses when someone reads a snapshot past us. Who is only passing by is waited for.
func (p *Pool) unread(ctx context.Context, id pool.SnapshotID, entries []entry) error {
	holders, err := pool.Lasting(ctx, func(ctx context.Context) ([]pool.Holder, error) {
		table, err := p.users.Scan(ctx)
		if err != nil {
			return nil, fmt.Errorf("look who uses snapshot %s of pool %s: %w", id, p.c.Name, err)
		}
		var holders []pool.Holder
		for _, e := range entries {
			if e.suffix == copySuffix {
				continue // Whoever takes it notices that it is gone.
			}
			holders = append(holders, p.openers(table, e.file)...)
			above, err := p.loops.over(table, e)
			if err != nil {
				return nil, err
			}
			holders = append(holders, above...)
		}
		return holders, nil
	})
	if err == nil && len(holders) > 0 {
		err = &pool.InUseError{ID: id.Of(), Snapshot: id.Snapshot, Holders: holders}
	}
	return err
}
