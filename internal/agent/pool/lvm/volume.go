// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
)

// entry is a volume as it was found.
type entry struct {
	Volume
	id      pool.ID
	rolling bool // It is still called what a roll-back made it as.
}

func (e entry) isNew() bool { return e.Has(tagNew) }

// mine tells whether a logical volume is a volume or snapshot of the pool.
func (p *Pool) mine(v Volume) bool {
	if !v.Has(ours) || v.Has(tagHalf) {
		return false
	}
	if p.thin() {
		return v.Kind == 'V' && v.Pool == p.c.ThinPool
	}
	return v.Pool == "" && v.Kind != 't' && v.Kind != 's'
}

// find returns a volume from a report.
func (p *Pool) find(r Report, id pool.ID) (entry, bool) {
	name := volumeName(id)
	if v, ok := r.Volumes[name+rollSuffix]; ok && p.mine(v) {
		return entry{Volume: v, id: id.Fold(), rolling: true}, true
	}
	v, ok := r.Volumes[name]
	return entry{Volume: v, id: id.Fold()}, ok && p.mine(v)
}

// glance does what all methods for volumes begin with that change nothing. The caller calls end when there was no error.
func (p *Pool) glance(ctx context.Context, ids ...pool.ID) (r Report, end func(), err error) {
	return turn.Glance(ctx, &p.turns, p.look, ids...)
}

// begin is glance for methods that change something: it completes roll-backs that were broken off.
func (p *Pool) begin(ctx context.Context, ids ...pool.ID) (r Report, end func(), err error) {
	if r, end, err = p.glance(ctx, ids...); err != nil {
		return Report{}, nil, err
	}
	for _, id := range ids {
		e, ok := p.find(r, id)
		if !ok || !e.rolling {
			continue
		}
		err := p.completeRoll(ctx, r, e)
		if err == nil {
			r, err = p.look(ctx)
		}
		if err != nil {
			end()
			return Report{}, nil, fmt.Errorf("complete the roll-back of volume %s of pool %s: %w", id, p.c.Name, err)
		}
	}
	return r, end, nil
}

// List implements pool.Driver.
func (p *Pool) List(ctx context.Context) ([]pool.Volume, error) {
	r, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for name, v := range r.Volumes {
		if !p.mine(v) {
			continue
		}
		if id, ok := parseVolume(name); ok {
			if e, ok := p.find(r, id); ok && !e.rolling {
				entries = append(entries, e)
			}
		} else if id, ok := parseRoll(name); ok {
			if e, ok := p.find(r, id); ok {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.id.Compare(b.id) })
	taken, err := p.allocated(ctx, r, entries)
	if err != nil {
		return nil, err
	}
	volumes := make([]pool.Volume, len(entries))
	for i, e := range entries {
		if volumes[i], err = p.volume(r, e, taken); err != nil {
			return nil, err
		}
	}
	return volumes, nil
}

// Find implements pool.Finder.
func (p *Pool) Find(ctx context.Context, id pool.ID) (pool.Volume, bool, error) {
	r, end, err := p.glance(ctx, id)
	if err != nil {
		return pool.Volume{}, false, err
	}
	defer end()
	e, ok := p.find(r, id)
	if !ok {
		return pool.Volume{}, false, nil
	}
	taken, err := p.allocated(ctx, r, []entry{e})
	if err != nil {
		return pool.Volume{}, false, err
	}
	v, err := p.volume(r, e, taken)
	return v, err == nil, err
}

// volume completes an entry to what the pool knows of the volume.
func (p *Pool) volume(r Report, e entry, taken map[string]int64) (pool.Volume, error) {
	v := pool.Volume{
		ID: e.id, Size: e.Size, Granularity: r.Group.Extent * e.Stripes, Allocated: e.Size, New: e.isNew(), RolledBack: rolledToken(e.Tags),
	}
	if p.thin() {
		v.Granularity, v.Allocated = r.Group.Extent, min(taken[e.UUID], e.Size)
	}
	if !e.Active || e.rolling {
		return v, nil
	}
	var err error
	v.Device, err = p.device(e.Name)
	return v, err
}

// Create implements pool.Driver.
func (p *Pool) Create(ctx context.Context, id pool.ID, size int64) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if size, err = pool.RoundUp(size, p.granularity(r)); err != nil {
		return err
	}
	e, ok := p.find(r, id)
	switch {
	case ok && !e.isNew():
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.Size}
	case ok && e.Size == size && e.Origin == "":
		return nil
	case ok:
		if err := p.remove(ctx, r, e); err != nil {
			return err
		}
		if r, err = p.look(ctx); err != nil { // With the room that it left.
			return err
		}
	}
	if err := p.sound(r); err != nil {
		return err
	}
	if err := p.create(ctx, r, id, size); err != nil {
		return p.refused(ctx, "create volume "+id.String(), size, err)
	}
	return nil
}

func (p *Pool) create(ctx context.Context, r Report, id pool.ID, size int64) error {
	name := volumeName(id)
	if err := p.admit(name); err != nil {
		return err
	}
	if _, foreign := r.Volumes[name]; foreign {
		return fmt.Errorf("logical volume %s is there and is not ours: rename it, or remove it", p.path(name))
	}
	tags := []string{"--yes", "--addtag", ours, "--addtag", tagNew, "--name", name}
	if p.thin() {
		return p.change(ctx, "lvcreate", append(tags, "-an", "--thin", "--virtualsize", inBytes(size), p.place())...)
	}
	if size > r.Group.Free {
		return &pool.NoSpaceError{Pool: p.c.Name, Asked: size, Free: r.Group.Free, Total: r.Group.Size}
	}
	args := append(tags, "-ay", "--wipesignatures", "y", "--zero", "y", "--size", inBytes(size))
	if p.c.Stripes > 1 {
		args = append(args, "--stripes", fmt.Sprint(p.c.Stripes))
	}
	// It is active for a moment: only so can LVM wipe it.
	if err := p.change(ctx, "lvcreate", append(args, p.c.Group)...); err != nil {
		return err
	}
	return p.change(ctx, "lvchange", "-an", p.path(name))
}

// refused turns an error of making or growing a volume into one that says why.
func (p *Pool) refused(ctx context.Context, what string, size int64, err error) error {
	switch {
	case noRoom(err):
		return p.noSpace(ctx, size)
	case tooLarge(err):
		return fmt.Errorf("%s of pool %s: %w: %w", what, p.c.Name, &pool.SizeError{Asked: size}, err)
	case missing(err):
		return p.faulty(pool.Missing, "", nil)
	}
	return fmt.Errorf("%s of pool %s: %w", what, p.c.Name, err)
}

// Finish implements pool.Driver.
func (p *Pool) Finish(ctx context.Context, id pool.ID) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := p.find(r, id)
	switch {
	case !ok:
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	case !e.isNew():
		return nil
	}
	if e.Active {
		if err := p.flush(e.Name); err != nil {
			return fmt.Errorf("finish volume %s of pool %s: %w", id, p.c.Name, err)
		}
	}
	if err := p.change(ctx, "lvchange", "--deltag", tagNew, p.path(e.Name)); err != nil {
		return fmt.Errorf("finish volume %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

// Grow implements pool.Driver.
func (p *Pool) Grow(ctx context.Context, id pool.ID, size int64) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := p.find(r, id)
	if !ok {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	granularity := r.Group.Extent
	if !p.thin() {
		granularity *= e.Stripes
	}
	if size, err = pool.RoundUp(size, granularity); err != nil {
		return err
	}
	if size > e.Size {
		if err := p.sound(r); err != nil {
			return err
		}
		if asked := size - e.Size; !p.thin() && asked > r.Group.Free {
			return &pool.NoSpaceError{Pool: p.c.Name, Asked: asked, Free: r.Group.Free, Total: r.Group.Size}
		}
		if err := p.change(ctx, "lvextend", "--size", inBytes(size), p.path(e.Name)); err != nil {
			return p.refused(ctx, "grow volume "+id.String(), size-e.Size, err)
		}
		e.Size = size
	}
	if e.Active {
		_, err = p.fit(ctx, e)
	}
	return err
}
