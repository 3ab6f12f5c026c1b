// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"context"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// parseRoll reads the name of what a volume is rolled back to.
func parseRoll(name string) (pool.ID, bool) {
	volume, ok := strings.CutSuffix(name, rollSuffix)
	if !ok {
		return pool.ID{}, false
	}
	return parseVolume(volume)
}

// RollBack implements pool.RollBacker.
func (p *Thin) RollBack(ctx context.Context, to pool.SnapshotID, token string, progress pool.Progress) error {
	if err := to.Validate(); err != nil {
		return err
	}
	if err := pool.ValidateToken(token); err != nil {
		return err
	}
	id := to.Of()
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := p.find(r, id)
	if !ok || e.isNew() {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	if rolledToken(e.Tags) == token {
		progress.Tell(e.Size, e.Size)
		return nil
	}
	s, ok := p.snapshot(r, to)
	if !ok || s.Has(tagNew) {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id, Snapshot: to.Snapshot}
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

func (p *Thin) roll(ctx context.Context, r Report, e entry, s kept, token string) error {
	half := e.Name + rollSuffix
	if _, ok := r.Volumes[half]; ok { // What a crash left.
		if err := p.destroy(ctx, half); err != nil {
			return err
		}
	}
	if err := p.copyLarger(ctx, r, s.Volume, half, tagHalf, e.Size); err != nil {
		return err
	}
	// From here on, it is the volume.
	if err := p.change(ctx, "lvchange", "--deltag", tagHalf, "--addtag", rolledTag(token), p.path(half)); err != nil {
		return err
	}
	made := e
	made.Name, made.rolling = half, true
	return p.completeRoll(ctx, r, made)
}

// completeRoll removes what a volume was before a roll-back, and gives its name to what it is now.
func (p *Pool) completeRoll(ctx context.Context, r Report, e entry) error {
	name := volumeName(e.id)
	if old, ok := r.Volumes[name]; ok && p.mine(old) {
		if old.Active {
			// Somebody may have it open since a crash: that content is over, but its device is not taken away.
			if err := p.unused(ctx, entry{Volume: old, id: e.id}); err != nil {
				return err
			}
		}
		p.forget(old.UUID)
		if err := p.destroy(ctx, name); err != nil {
			return err
		}
	}
	return p.change(ctx, "lvrename", p.c.Group, e.Name, name)
}
