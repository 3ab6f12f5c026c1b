// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// begin does what all methods for one volume begin with. The caller calls end when there was no error.
func (p *Pool) begin(ctx context.Context, id pool.ID) (f *folder, end func(), err error) {
	if err := id.Validate(); err != nil {
		return nil, nil, err
	}
	release, err := p.turns.Take(ctx, id.Name())
	if err != nil {
		return nil, nil, err
	}
	if f, err = p.enter(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return f, func() { f.close(); release() }, nil
}

// List implements pool.Driver.
func (p *Pool) List(ctx context.Context) ([]pool.Volume, error) {
	f, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer f.close()
	entries, err := p.list(f)
	if err != nil {
		return nil, err
	}
	bound := sync.OnceValues(listLoops)
	volumes := make([]pool.Volume, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := p.volume(f, e, bound)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, v)
	}
	lost, err := p.listLost(f, entries)
	if err != nil || len(lost) == 0 {
		return volumes, err
	}
	volumes = append(volumes, lost...)
	slices.SortFunc(volumes, func(a, b pool.Volume) int { return a.ID.Compare(b.ID) })
	return volumes, nil
}

// list returns the files of all volumes, ordered by ID.
func (p *Pool) list(f *folder) ([]entry, error) {
	entries, err := p.read(f, parseVolume)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.id.Compare(b.id), cmp.Compare(slices.Index(volumeSuffixes(), a.suffix), slices.Index(volumeSuffixes(), b.suffix)))
	})
	return slices.CompactFunc(entries, func(a, b entry) bool { return a.id == b.id }), nil
}

// read returns the files of the directory that are wanted, in no order.
func (p *Pool) read(f *folder, wanted func(name string) (entry, bool)) ([]entry, error) {
	// A file that is renamed while the directory is read may be seen under both names or under none.
	p.renames.RLock()
	defer p.renames.RUnlock()
	if _, err := f.dir.Seek(0, io.SeekStart); err != nil {
		return nil, p.faulty(pool.Unreadable, "list", err)
	}
	names, err := f.dir.Readdirnames(-1)
	if err != nil {
		return nil, p.faulty(pool.Unreadable, "list", err)
	}
	var entries []entry
	for _, name := range names {
		e, ok := wanted(name)
		if !ok {
			continue
		}
		e, ok, err := p.stat(f, e)
		switch {
		case errors.Is(err, errForeign):
		case err != nil:
			return nil, err
		case ok:
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// volume completes an entry to what the pool knows of the volume.
func (p *Pool) volume(f *folder, e entry, bound lister) (pool.Volume, error) {
	v := pool.Volume{
		ID: e.id, Size: e.size, Granularity: Granularity, Allocated: e.taken, Backing: filepath.Join(p.c.Dir, e.name()), New: e.isNew(),
	}
	var err error
	if v.RolledBack, err = rolledBack(f, e); err != nil {
		return v, fmt.Errorf("look at volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	name, err := p.loops.find(f.uuid, e, bound)
	if err != nil || name == "" {
		return v, err
	}
	size, err := p.loops.size(name)
	v.Device = pool.Device{Path: devicePath(name), Size: size}
	return v, err
}

// Find implements pool.Finder.
func (p *Pool) Find(ctx context.Context, id pool.ID) (pool.Volume, bool, error) {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return pool.Volume{}, false, err
	}
	defer end()
	e, ok, err := p.find(f, id)
	if err == nil && !ok {
		return p.findLost(f, id)
	}
	if err != nil {
		return pool.Volume{}, false, err
	}
	v, err := p.volume(f, e, listLoops)
	if err != nil {
		return pool.Volume{}, false, err
	}
	return v, true, nil
}

// Finish implements pool.Driver.
func (p *Pool) Finish(ctx context.Context, id pool.ID) error {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok, err := p.find(f, id)
	if err != nil {
		return err
	}
	if !ok {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	if err := p.finish(f, e); err != nil {
		return fmt.Errorf("finish volume %s of pool %s: %w", id, p.c.Name, err)
	}
	return nil
}

func (p *Pool) finish(f *folder, e entry) error {
	if e.suffix == copySuffix {
		return errBrokenOff
	}
	if e.isNew() {
		device, err := p.loops.find(f.uuid, e, listLoops)
		if err != nil {
			return err
		}
		if device != "" {
			err = p.loops.flush(device) // The kernel passes it on as a flush of the file.
		} else {
			err = flush(f, e.name())
		}
		if err != nil {
			return err
		}
		if err := p.rename(f, e.name(), e.id.Name()+finishedSuffix); err != nil {
			return err
		}
	}
	// Also when it was finished before: that call may have ended just before this.
	return f.dir.Sync()
}

func (p *Pool) rename(f *folder, from, to string) error {
	p.renames.Lock()
	defer p.renames.Unlock()
	return unix.Renameat(f.fd(), from, f.fd(), to)
}

// flush makes a file of the directory durable.
func flush(f *folder, name string) error {
	file, err := f.open(name, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Grow implements pool.Driver.
func (p *Pool) Grow(ctx context.Context, id pool.ID, size int64) error {
	size, err := pool.RoundUp(size, Granularity)
	if err != nil {
		return err
	}
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok, err := p.find(f, id)
	if err != nil {
		return err
	}
	if !ok {
		return &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	if size > e.size {
		if err := p.grow(ctx, f, e, size); err != nil {
			return err
		}
		e.size = size
	}
	device, err := p.loops.find(f.uuid, e, listLoops)
	if err != nil || device == "" {
		return err
	}
	return p.loops.fit(device, e.size)
}

// grow extends a volume's file and makes its new size durable.
func (p *Pool) grow(ctx context.Context, f *folder, e entry, size int64) error {
	if err := p.roomFor(ctx, f, size-e.size); err != nil {
		return err
	}
	file, err := f.open(e.name(), unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("grow volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	defer func() { _ = file.Close() }()
	if err := p.extend(file, e.size, size); err != nil {
		return p.refused(f, e, size-e.size, err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("grow volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	return nil
}
