// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// kept is a snapshot as it was found.
type kept struct {
	Volume
	id pool.SnapshotID
}

// snapshot returns a snapshot from a report.
func (p *Pool) snapshot(r Report, id pool.SnapshotID) (kept, bool) {
	v, ok := r.Volumes[snapshotName(id)]
	return kept{Volume: v, id: id.Fold()}, ok && p.mine(v)
}

// TakeSnapshot implements pool.Snapshotter. LVM holds back who writes, and has a mounted filesystem write what it has, for the instant that it takes.
func (p *Thin) TakeSnapshot(ctx context.Context, id pool.SnapshotID, progress pool.Progress) error {
	if err := id.Validate(); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id.Of())
	if err != nil {
		return err
	}
	defer end()
	e, ok := p.find(r, id.Of())
	if !ok || e.isNew() {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id.Of()}
	}
	if old, ok := p.snapshot(r, id); ok {
		if !old.Has(tagNew) {
			return &pool.ExistsError{Pool: p.c.Name, ID: id.Of(), Snapshot: id.Snapshot, Size: old.Size}
		}
		if err := p.destroy(ctx, old.Name); err != nil {
			return fmt.Errorf("replace snapshot %s of pool %s: %w", id, p.c.Name, err)
		}
	}
	if err := p.copy(ctx, r, e.Name, snapshotName(id), tagNew, "y"); err != nil {
		return p.refused(ctx, "take snapshot "+id.String(), e.Size, err)
	}
	progress.Tell(e.Size, e.Size)
	return nil
}

// copy makes a thin snapshot, with a tag. Skip is whether it is left out when all volumes are activated.
func (p *Thin) copy(ctx context.Context, r Report, from, to, tag, skip string) error {
	if err := p.admit(to); err != nil {
		return err
	}
	if err := p.sound(r); err != nil {
		return err
	}
	return p.change(ctx, "lvcreate", "--yes", "-an", "--snapshot", "--setactivationskip", skip,
		"--addtag", ours, "--addtag", tag, "--name", to, p.path(from))
}

// FinishSnapshot implements pool.Snapshotter. What was taken is durable: LVM waits for the metadata of the thin pool.
func (p *Thin) FinishSnapshot(ctx context.Context, id pool.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id.Of())
	if err != nil {
		return err
	}
	defer end()
	s, ok := p.snapshot(r, id)
	if !ok {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id.Of(), Snapshot: id.Snapshot}
	}
	if !s.Has(tagNew) {
		return nil
	}
	if err := p.change(ctx, "lvchange", "--deltag", tagNew, p.path(s.Name)); err != nil {
		return fmt.Errorf("finish snapshot %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

// Snapshots implements pool.Snapshotter.
func (p *Thin) Snapshots(ctx context.Context, resource string) ([]pool.Snapshot, error) {
	r, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	var found []kept
	for name, v := range r.Volumes {
		if id, ok := parseSnapshot(name); ok && p.mine(v) && (resource == "" || strings.EqualFold(id.Resource, resource)) {
			found = append(found, kept{Volume: v, id: id})
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	room, err := p.roomOfSnapshots(ctx, r)
	if err != nil {
		return nil, err
	}
	list := make([]pool.Snapshot, len(found))
	for i, s := range found {
		list[i] = pool.Snapshot{ID: s.id, Size: s.Size, Allocated: room[s.UUID], Created: s.Created, New: s.Has(tagNew)}
	}
	slices.SortFunc(list, func(a, b pool.Snapshot) int { return a.ID.Compare(b.ID) })
	return list, nil
}

// roomOfSnapshots shares what the thin pool has given away, and no volume takes, out to the snapshots, the oldest first and to none more than it holds.
func (p *Thin) roomOfSnapshots(ctx context.Context, r Report) (map[string]int64, error) {
	fill, err := p.fill(ctx, r)
	if err != nil {
		return nil, err
	}
	var snapshots []kept
	var volumes []entry
	for name, v := range r.Volumes {
		if v.Pool != p.c.ThinPool || v.Kind != 'V' {
			continue
		}
		if id, ok := parseSnapshot(name); ok && p.mine(v) {
			snapshots = append(snapshots, kept{Volume: v, id: id})
		}
		volumes = append(volumes, entry{Volume: v})
	}
	taken, err := p.allocated(ctx, r, volumes)
	if err != nil {
		return nil, err
	}
	rest := fill.bytes(r.Volumes[p.c.ThinPool].Size)
	for _, v := range volumes {
		rest -= taken[v.UUID]
	}
	for _, s := range snapshots {
		rest += taken[s.UUID]
	}
	slices.SortFunc(snapshots, func(a, b kept) int { return cmp.Or(cmp.Compare(a.ThinID, b.ThinID), a.id.Compare(b.id)) })
	room := make(map[string]int64, len(snapshots))
	for _, s := range snapshots {
		share := max(0, min(rest, taken[s.UUID]))
		room[s.UUID] = share
		rest -= share
	}
	return room, nil
}

// RemoveSnapshot implements pool.Snapshotter.
func (p *Thin) RemoveSnapshot(ctx context.Context, id pool.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id.Of())
	if err != nil {
		return err
	}
	defer end()
	s, ok := p.snapshot(r, id)
	if !ok {
		return nil
	}
	e := entry{Volume: s.Volume, id: s.id.Of()}
	if s.Active {
		if err := p.unused(ctx, e); err != nil {
			return inUseOf(err, id)
		}
	}
	p.forget(s.UUID)
	err = p.destroy(ctx, s.Name)
	switch {
	case err == nil:
		return nil
	case inUse(err):
		return inUseOf(p.stillUsed(ctx, e), id)
	}
	return fmt.Errorf("remove snapshot %s of pool %s: %w", id, p.c.Name, err)
}

// Clone implements pool.Cloner.
func (p *Thin) Clone(ctx context.Context, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
	check := from.Validate
	if from.Snapshot == "" {
		check = from.Of().Validate
	}
	if err := check(); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id, from.Of())
	if err != nil {
		return err
	}
	defer end()
	if size, err = pool.RoundUp(size, r.Group.Extent); err != nil {
		return err
	}
	source, err := p.source(r, from)
	if err != nil {
		return err
	}
	if size < source.Size {
		return &pool.SizeError{Asked: size, Least: source.Size}
	}
	e, ok := p.find(r, id)
	switch {
	case ok && !e.isNew():
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.Size}
	case ok:
		if err := p.remove(ctx, r, e); err != nil {
			return err
		}
	}
	if err := p.copyLarger(ctx, r, source, volumeName(id), tagNew, size); err != nil {
		return p.refused(ctx, "clone volume "+id.String(), size, err)
	}
	progress.Tell(size, size)
	return nil
}

// source finds what is to be copied.
func (p *Thin) source(r Report, from pool.SnapshotID) (Volume, error) {
	if from.Snapshot != "" {
		if s, ok := p.snapshot(r, from); ok && !s.Has(tagNew) {
			return s.Volume, nil
		}
		return Volume{}, &pool.NotFoundError{Pool: p.c.Name, ID: from.Of(), Snapshot: from.Snapshot}
	}
	e, ok := p.find(r, from.Of())
	if !ok || e.isNew() {
		return Volume{}, &pool.NotFoundError{Pool: p.c.Name, ID: from.Of()}
	}
	return e.Volume, nil
}

// copyLarger makes a thin snapshot and enlarges it. On an error nothing is left.
func (p *Thin) copyLarger(ctx context.Context, r Report, from Volume, to, tag string, size int64) error {
	if err := p.copy(ctx, r, from.Name, to, tag, "n"); err != nil {
		return err
	}
	if size == from.Size {
		return nil
	}
	if err := p.change(ctx, "lvextend", "--size", inBytes(size), p.path(to)); err != nil {
		if undo := p.destroy(context.WithoutCancel(ctx), to); undo != nil {
			return fmt.Errorf("%w; and %s is left: %w", err, to, undo)
		}
		return err
	}
	return nil
}

// inUseOf makes an error about a volume one about its snapshot.
func inUseOf(err error, id pool.SnapshotID) error {
	used, ok := err.(*pool.InUseError) //nolint:errorlint // As it was just made.
	if !ok {
		return err
	}
	return &pool.InUseError{ID: id.Of(), Snapshot: id.Snapshot, Holders: used.Holders}
}
