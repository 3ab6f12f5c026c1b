// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// RollBack implements pool.RollBacker.
func (p *Pool) RollBack(ctx context.Context, to pool.SnapshotID, token string, progress pool.Progress) error {
	if err := to.Validate(); err != nil {
		return err
	}
	if err := pool.ValidateToken(token); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, to.Of())
	if err != nil {
		return err
	}
	defer end()
	e, ok := find(r, to.Of())
	if !ok || e.isNew() {
		return &pool.NotFoundError{Pool: p.c.Name, ID: to.Of()}
	}
	if e.RolledBack == token {
		progress.Tell(e.Size, e.Size)
		return nil
	}
	s, ok := findSnapshot(r, to)
	if !ok || s.State == isNew {
		return &pool.NotFoundError{Pool: p.c.Name, ID: to.Of(), Snapshot: to.Snapshot}
	}
	if err := p.foreign(r, e); err != nil {
		return err
	}
	if err := p.shut(ctx, e); err != nil {
		return err
	}
	if err := p.roll(ctx, r, e, s, token); err != nil {
		return p.refused(ctx, "roll back to snapshot "+to.String(), e.Size, err)
	}
	progress.Tell(e.Size, e.Size)
	return nil
}

func (p *Pool) roll(ctx context.Context, r Report, e entry, s kept, token string) error {
	half := e.Name + rollSuffix
	if _, ok := r.Volumes[half]; ok { // What a crash left.
		if err := p.destroy(ctx, half); err != nil {
			return err
		}
	}
	if err := p.copy(ctx, s.full(), half, isHalf, s.Size, e.Size); err != nil {
		return err
	}
	// From here on, it is the volume.
	if err := p.c.Host.change(ctx, p.c.Dataset, "set", propVolume+"="+isFinished, propRolled+"="+token, p.path(half)); err != nil {
		return err
	}
	made := e
	made.Name, made.rolling = half, true
	return p.completeRoll(ctx, r, made)
}

// completeRoll hides what a volume was before a roll-back, and gives its name to what it is now.
func (p *Pool) completeRoll(ctx context.Context, r Report, e entry) error {
	name := e.id.Name()
	if old, ok := r.Volumes[name]; ok && old.State != "" {
		was := entry{Row: old, id: e.id}
		if err := p.shut(ctx, was); err != nil {
			return err
		}
		if snapshots := r.Snapshots[name]; len(snapshots) > 0 {
			if err := p.hide(ctx, was, snapshots); err != nil {
				return err
			}
		} else if err := p.destroy(ctx, name); err != nil {
			return err
		}
	}
	if err := p.c.Host.change(ctx, p.c.Dataset, "rename", p.path(e.Name), p.path(name)); err != nil {
		return err
	}
	return p.sweep(ctx)
}
