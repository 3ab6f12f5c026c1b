// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// kept is a snapshot as it was found. Its volume may be one that is gone.
type kept struct {
	Row
	id pool.SnapshotID
	of string // The zvol that it is of now.
}

func (k kept) full() string { return k.of + "@" + k.Name }

// snapshots returns our snapshots that are seen, by all zvols that their volumes are and were.
func snapshots(r Report) []kept {
	var found []kept
	for of, rows := range r.Snapshots {
		id, ok := idOf(of)
		if !ok {
			continue
		}
		for _, row := range rows {
			sid := pool.SnapshotID{Resource: id.Resource, Volume: id.Volume, Snapshot: row.Name}
			if (row.State == isNew || row.State == isFinished) && !row.Deferred && sid.Validate() == nil && sid == sid.Fold() {
				found = append(found, kept{Row: row, id: sid, of: of})
			}
		}
	}
	slices.SortFunc(found, func(a, b kept) int { return a.id.Compare(b.id) })
	return found
}

func findSnapshot(r Report, id pool.SnapshotID) (kept, bool) {
	list := snapshots(r)
	i := slices.IndexFunc(list, func(k kept) bool { return k.id == id.Fold() })
	if i < 0 {
		return kept{}, false
	}
	return list[i], true
}

// TakeSnapshot implements pool.Snapshotter.
func (p *Pool) TakeSnapshot(ctx context.Context, id pool.SnapshotID, progress pool.Progress) error {
	size, err := p.take(ctx, []pool.SnapshotID{id})
	if err == nil {
		progress.Tell(size, size)
	}
	return err
}

// TakeSnapshots implements pool.MomentTaker: ZFS takes all snapshots that it is told of at once in one transaction, or none.
func (p *Pool) TakeSnapshots(ctx context.Context, ids []pool.SnapshotID) error {
	_, err := p.take(ctx, ids)
	return err
}

// take takes snapshots at one moment, and returns the size of their volumes.
func (p *Pool) take(ctx context.Context, ids []pool.SnapshotID) (size int64, err error) {
	of := make([]pool.ID, len(ids))
	for i, id := range ids {
		if err := id.Validate(); err != nil {
			return 0, err
		}
		of[i] = id.Of()
	}
	r, end, err := p.begin(ctx, of...)
	if err != nil {
		return 0, err
	}
	defer end()
	args := []string{"snapshot", "-o", propSnapshot + "=" + isNew}
	for _, id := range ids {
		e, ok := find(r, id.Of())
		if !ok || e.isNew() {
			return 0, &pool.NotFoundError{Pool: p.c.Name, ID: id.Of()}
		}
		if old, ok := findSnapshot(r, id); ok {
			if old.State != isNew {
				return 0, &pool.ExistsError{Pool: p.c.Name, ID: id.Of(), Snapshot: id.Snapshot, Size: old.Size}
			}
			if err := p.drop(ctx, old); err != nil {
				return 0, fmt.Errorf("replace snapshot %s of pool %s: %w", id, p.c.Name, err)
			}
		}
		args = append(args, p.path(e.Name)+"@"+strings.ToLower(id.Snapshot))
		size += e.Size
	}
	if err := p.c.Host.change(ctx, p.c.Dataset, args...); err != nil {
		return 0, p.refused(ctx, fmt.Sprintf("take snapshot %s of %d volumes", ids[0], len(ids)), size, err)
	}
	return size, nil
}

// FinishSnapshot implements pool.Snapshotter.
func (p *Pool) FinishSnapshot(ctx context.Context, id pool.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id.Of())
	if err != nil {
		return err
	}
	defer end()
	s, ok := findSnapshot(r, id)
	if !ok {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id.Of(), Snapshot: id.Snapshot}
	}
	if s.State != isNew {
		return nil
	}
	if err := p.c.Host.change(ctx, p.c.Dataset, "set", propSnapshot+"="+isFinished, p.path(s.full())); err != nil {
		return fmt.Errorf("finish snapshot %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

// Snapshots implements pool.Snapshotter. What the snapshots of a zvol take together is told of the oldest.
func (p *Pool) Snapshots(ctx context.Context, resource string) ([]pool.Snapshot, error) {
	r, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	room := map[string]int64{} // By full name.
	for of, rows := range r.Snapshots {
		rest := r.Volumes[of].OfSnapshots
		if r.Volumes[of].State == isGone {
			rest += r.Volumes[of].Referenced
		}
		for _, row := range rows {
			share := min(rest, row.Referenced)
			room[of+"@"+row.Name] = share
			rest -= share
		}
	}
	var list []pool.Snapshot
	for _, s := range snapshots(r) {
		if resource == "" || strings.EqualFold(resource, s.id.Resource) {
			list = append(list, pool.Snapshot{ID: s.id, Size: s.Size, Allocated: room[s.full()], Created: s.Created, New: s.State == isNew})
		}
	}
	return list, nil
}

// RemoveSnapshot implements pool.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, id pool.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id.Of())
	if err != nil {
		return err
	}
	defer end()
	s, ok := findSnapshot(r, id)
	if !ok {
		return nil
	}
	if err = p.drop(ctx, s); err == nil {
		err = p.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove snapshot %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

// drop destroys a snapshot now, or has ZFS do it with its last clone; then another may have its name.
func (p *Pool) drop(ctx context.Context, s kept) error {
	name := s.full()
	if len(s.Clones) > 0 {
		hidden := s.of + "@" + s.Name + goneMark + s.GUID
		if err := p.c.Host.change(ctx, p.c.Dataset, "rename", p.path(name), p.path(hidden)); err != nil {
			return err
		}
		name = hidden
	}
	if err := p.c.Host.change(ctx, p.c.Dataset, "destroy", "-d", p.path(name)); !absent(err) {
		return err
	}
	return nil
}

// Clone implements pool.Cloner.
func (p *Pool) Clone(ctx context.Context, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
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
	source, err := p.source(ctx, r, from)
	if err != nil {
		return err
	}
	defer func() { _ = source.done() }() // What is left of it goes at the next look.
	if size, err = pool.RoundUp(size, p.c.Block); err != nil {
		return err
	}
	if size < source.Size {
		return &pool.SizeError{Asked: size, Least: source.Size}
	}
	e, ok := find(r, id)
	switch {
	case ok && !e.isNew():
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.Size}
	case ok:
		if err := p.remove(ctx, r, e); err != nil {
			return err
		}
	}
	taken, err := source.take()
	if err == nil {
		err = p.copy(ctx, taken, id.Name(), isNew, source.Size, size)
	}
	if err != nil {
		return p.refused(ctx, "clone volume "+id.String(), size, err)
	}
	progress.Tell(size, size)
	return nil
}

// source is what is to be cloned: a snapshot, or one that take makes for the purpose.
type source struct {
	Size int64
	take func() (name string, err error)
	done func() error
}

func (p *Pool) source(ctx context.Context, r Report, from pool.SnapshotID) (source, error) {
	if from.Snapshot != "" {
		s, ok := findSnapshot(r, from)
		if !ok || s.State == isNew {
			return source{}, &pool.NotFoundError{Pool: p.c.Name, ID: from.Of(), Snapshot: from.Snapshot}
		}
		return source{Size: s.Size, take: func() (string, error) { return s.full(), nil }, done: func() error { return nil }}, nil
	}
	e, ok := find(r, from.Of())
	if !ok || e.isNew() {
		return source{}, &pool.NotFoundError{Pool: p.c.Name, ID: from.Of()}
	}
	name := e.Name + "@clone" + goneMark + rand.Text()
	made := false
	return source{
		Size: e.Size,
		take: func() (string, error) {
			made = true
			p.note(name, true)
			return name, p.c.Host.change(ctx, p.c.Dataset, "snapshot", "-o", propSnapshot+"="+isGone, p.path(name))
		},
		done: func() error {
			if !made {
				return nil
			}
			defer p.note(name, false)
			return p.c.Host.change(context.WithoutCancel(ctx), p.c.Dataset, "destroy", "-d", p.path(name))
		},
	}, nil
}

// note notes that a clone is being made of a snapshot, or no more.
func (p *Pool) note(name string, making bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if making {
		p.making[name] = true
	} else {
		delete(p.making, name)
	}
}

func (p *Pool) noted(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.making[name]
}

// copy clones a snapshot and enlarges the clone. On an error nothing is left.
func (p *Pool) copy(ctx context.Context, from, to, state string, have, size int64) error {
	if err := p.c.Host.change(ctx, p.c.Dataset, "clone", "-o", "volmode=none", "-o", propVolume+"="+state, p.path(from), p.path(to)); err != nil {
		return err
	}
	var steps [][]string
	if size > have {
		steps = append(steps, []string{"set", "volsize=" + inBytes(size), p.path(to)})
	}
	if !p.c.Thin {
		steps = append(steps, []string{"set", "refreservation=auto", p.path(to)})
	}
	for _, args := range steps {
		if err := p.c.Host.change(ctx, p.c.Dataset, args...); err != nil {
			if undo := p.destroy(context.WithoutCancel(ctx), to); undo != nil {
				return fmt.Errorf("%w; and %s is left: %w", err, to, undo)
			}
			return err
		}
	}
	return nil
}
