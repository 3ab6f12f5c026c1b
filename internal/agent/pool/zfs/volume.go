// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
)

// entry is a volume as it was found.
type entry struct {
	Row
	id      pool.ID
	rolling bool // It is still called what a roll-back made it as.
}

func (e entry) isNew() bool { return e.State == isNew }

// find returns a volume from a report.
func find(r Report, id pool.ID) (entry, bool) {
	name := id.Name()
	if row, ok := r.Volumes[name+rollSuffix]; ok && row.State == isFinished {
		return entry{Row: row, id: id.Fold(), rolling: true}, true
	}
	row, ok := r.Volumes[name]
	return entry{Row: row, id: id.Fold()}, ok && (row.State == isNew || row.State == isFinished)
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
		e, ok := find(r, id)
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
	volumes := []pool.Volume{}
	for name := range r.Volumes {
		id, ok := idOf(name)
		if !ok {
			continue
		}
		e, ok := find(r, id)
		if !ok || e.Name != name {
			continue
		}
		v, err := p.volume(e)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, v)
	}
	slices.SortFunc(volumes, func(a, b pool.Volume) int { return a.ID.Compare(b.ID) })
	return volumes, nil
}

// Find implements pool.Finder.
func (p *Pool) Find(ctx context.Context, id pool.ID) (pool.Volume, bool, error) {
	r, end, err := p.glance(ctx, id)
	if err != nil {
		return pool.Volume{}, false, err
	}
	defer end()
	e, ok := find(r, id)
	if !ok {
		return pool.Volume{}, false, nil
	}
	v, err := p.volume(e)
	return v, err == nil, err
}

// volume completes an entry to what the pool knows of the volume.
func (p *Pool) volume(e entry) (pool.Volume, error) {
	v := pool.Volume{
		ID: e.id, Size: e.Size, Granularity: e.Block, Allocated: max(e.Reserved, min(e.Referenced, e.Used)), New: e.isNew(), RolledBack: e.RolledBack,
	}
	if !e.Open || e.rolling {
		return v, nil
	}
	var err error
	v.Device, err = p.device(e.Name)
	return v, err
}

// Create implements pool.Driver.
func (p *Pool) Create(ctx context.Context, id pool.ID, size int64) error {
	size, err := pool.RoundUp(size, p.c.Block)
	if err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := find(r, id)
	switch {
	case ok && !e.isNew():
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.Size}
	case ok && p.asMade(e, size):
		return nil
	case ok:
		if err := p.remove(ctx, r, e); err != nil {
			return err
		}
	}
	if err := p.sound(r); err != nil {
		return err
	}
	args := []string{"create", "-V", inBytes(size), "-o", "volblocksize=" + inBytes(p.c.Block), "-o", "volmode=none", "-o", propVolume + "=" + isNew}
	if p.c.Thin {
		args = append(args, "-s")
	}
	err = p.c.Host.change(ctx, p.c.Dataset, append(args, p.path(id.Name()))...)
	if exists(err) { // A program that did not end in time, since the disk hung, may have done so now.
		if again, lookErr := p.look(ctx); lookErr == nil {
			if e, ok := find(again, id); ok && p.asMade(e, size) {
				return nil
			}
		}
	}
	if err != nil {
		return p.refused(ctx, "create volume "+id.String(), size, err)
	}
	return nil
}

// asMade tells whether a volume is as Create makes it.
func (p *Pool) asMade(e entry, size int64) bool {
	return e.isNew() && e.Size == size && e.Origin == "" && e.Block == p.c.Block
}

// refused turns an error of making or growing a volume into one that says why.
func (p *Pool) refused(ctx context.Context, what string, size int64, err error) error {
	switch {
	case noRoom(err):
		return p.noSpace(ctx, size)
	case tooLarge(err):
		return fmt.Errorf("%s of pool %s: %w: %w", what, p.c.Name, &pool.SizeError{Asked: size}, err)
	case exists(err):
		return fmt.Errorf("%s of pool %s: a dataset of that name is there and is not ours: rename it, or destroy it: %w", what, p.c.Name, err)
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
	e, ok := find(r, id)
	switch {
	case !ok:
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	case !e.isNew():
		return nil
	}
	if err := p.finish(ctx, e); err != nil {
		return fmt.Errorf("finish volume %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

func (p *Pool) finish(ctx context.Context, e entry) error {
	if e.Open {
		d, err := p.fit(ctx, e)
		if err == nil {
			err = flush(d.Path)
		}
		if vanished(err) { // udev gave its name to another one meanwhile.
			if d, err = p.fit(ctx, e); err == nil {
				err = flush(d.Path)
			}
		}
		if err != nil {
			return err
		}
	}
	return p.c.Host.change(ctx, p.c.Dataset, "set", propVolume+"="+isFinished, p.path(e.Name))
}

// flush makes what was written to a device durable.
func flush(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Grow implements pool.Driver.
func (p *Pool) Grow(ctx context.Context, id pool.ID, size int64) error {
	if _, err := pool.RoundUp(size, p.c.Block); err != nil {
		return err
	}
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := find(r, id)
	if !ok {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	if size, err = pool.RoundUp(size, max(e.Block, 1)); err != nil {
		return err
	}
	if size > e.Size {
		if err := p.sound(r); err != nil {
			return err
		}
		if err := p.c.Host.change(ctx, p.c.Dataset, "set", "volsize="+inBytes(size), p.path(e.Name)); err != nil {
			return p.refused(ctx, "grow volume "+id.String(), size-e.Size, err)
		}
		e.Size = size
	}
	if e.Open {
		_, err = p.fit(ctx, e)
	}
	return err
}

// Remove implements pool.Driver.
func (p *Pool) Remove(ctx context.Context, id pool.ID) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if half, ok := r.Volumes[id.Name()+rollSuffix]; ok && half.State == isHalf {
		if err := p.destroy(ctx, half.Name); err != nil {
			return fmt.Errorf("remove volume %s of pool %s: %w", id, p.c.Name, err)
		}
	}
	e, ok := find(r, id)
	if !ok {
		return nil
	}
	return p.remove(ctx, r, e)
}

// remove takes a volume away from its users: for good, or for as long as something depends on it.
func (p *Pool) remove(ctx context.Context, r Report, e entry) error {
	if err := p.foreign(r, e); err != nil {
		return err
	}
	if err := p.shut(ctx, e); err != nil {
		return err
	}
	var err error
	if snapshots := r.Snapshots[e.Name]; len(snapshots) > 0 {
		err = p.hide(ctx, e, snapshots)
	} else {
		err = p.destroy(ctx, e.Name)
	}
	if inUse(err) {
		return p.stillUsed(ctx, e)
	}
	if err == nil {
		err = p.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	return nil
}

// foreign refuses when others have snapshots of a volume.
func (p *Pool) foreign(r Report, e entry) error {
	var holders []pool.Holder
	for _, s := range r.Snapshots[e.Name] {
		if s.State == "" && !s.Deferred {
			holders = append(holders, pool.Holder{Kind: pool.Kept, Name: p.path(e.Name) + "@" + s.Name})
		}
	}
	if len(holders) > 0 {
		return &pool.InUseError{ID: e.id, Holders: holders, Detail: "these snapshots were made by others: destroy them with zfs destroy first"}
	}
	return nil
}

// hide renames a volume and leaves of it only what its snapshots need.
func (p *Pool) hide(ctx context.Context, e entry, snapshots []Row) error {
	gone := goneName(e.id, e.GUID)
	steps := [][]string{
		{"set", propVolume + "=" + isGone, "refreservation=none", p.path(e.Name)}, // From here on it is no volume any more.
		{"rename", p.path(e.Name), p.path(gone)},
		{"rollback", p.path(gone) + "@" + snapshots[len(snapshots)-1].Name},
	}
	for _, args := range steps {
		// Another call may have done a step as what a crash had left.
		if err := p.c.Host.change(ctx, p.c.Dataset, args...); err != nil && (args[0] != "rename" || !absent(err)) {
			return err
		}
	}
	return nil
}

// destroy destroys a zvol. One that is not there is destroyed.
func (p *Pool) destroy(ctx context.Context, name string) error {
	if err := p.c.Host.change(ctx, p.c.Dataset, "destroy", p.path(name)); !absent(err) {
		return err
	}
	return nil
}

// sweeps bounds how often one call looks for what can go.
const sweeps = 20

// sweep destroys what was kept for something that is gone. What it destroys may be what something else was kept for.
func (p *Pool) sweep(ctx context.Context) error {
	for range sweeps {
		r, err := p.look(ctx)
		if err != nil {
			return err
		}
		idle := true
		if err := p.sweepSnapshots(ctx, r); err != nil {
			return err
		}
		for name, row := range r.Volumes {
			if row.State != isGone {
				continue
			}
			if !strings.Contains(name, goneMark) { // A crash came before the new name.
				id, ok := idOf(name)
				if !ok {
					continue
				}
				if err := p.c.Host.change(ctx, p.c.Dataset, "rename", p.path(name), p.path(goneName(id, row.GUID))); err != nil && !absent(err) {
					return err
				}
				idle = false
				continue
			}
			if len(r.Snapshots[name]) > 0 {
				continue
			}
			if err := p.destroy(ctx, name); err != nil {
				return err
			}
			idle = false
		}
		if idle {
			return nil
		}
	}
	return nil // What is left goes with the next removal.
}

// sweepSnapshots has ZFS destroy the snapshots that clones were made of when the agent ended.
func (p *Pool) sweepSnapshots(ctx context.Context, r Report) error {
	for of, rows := range r.Snapshots {
		for _, row := range rows {
			name := of + "@" + row.Name
			if row.State != isGone || row.Deferred || p.noted(name) {
				continue
			}
			if err := p.c.Host.change(ctx, p.c.Dataset, "destroy", "-d", p.path(name)); err != nil && !absent(err) {
				return err
			}
		}
	}
	return nil
}
