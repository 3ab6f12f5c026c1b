// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

const (
	finishedSuffix = ".volume"
	newSuffix      = ".new"
)

// entry is a volume's file.
type entry struct {
	id    pool.ID
	name  string // In the directory.
	isNew bool
	file  inuse.File
	size  int64
	taken int64 // Bytes of the blocks that it has.
}

// errForeign says that something stands where a volume's file would be. It was left alone.
var errForeign = errors.New("is not a regular file and was not made by the pool")

// parse returns the ID that a file name stands for, or false when the file cannot be ours.
func parse(name string) (id pool.ID, isNew, ok bool) {
	stem, ok := strings.CutSuffix(name, finishedSuffix)
	if !ok {
		if stem, isNew = strings.CutSuffix(name, newSuffix); !isNew {
			return pool.ID{}, false, false
		}
	}
	id, ok = pool.ParseName(stem)
	return id, isNew, ok
}

// stat returns one file of the directory, or false when there is none. What is not a regular file is an error.
func (p *Pool) stat(f *folder, id pool.ID, name string, isNew bool) (entry, bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, fmt.Errorf("look at volume %s of pool %s: %w", id, p.c.Name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return entry{}, false, fmt.Errorf("volume %s of pool %s: %s/%s: %w; move it away", id, p.c.Name, p.c.Dir, name, errForeign)
	}
	return entry{id: id.Fold(), name: name, isNew: isNew, file: inuse.File{Dev: st.Dev, Ino: st.Ino}, size: st.Size, taken: st.Blocks * sector}, true, nil
}

// find returns the file of a volume, or false when it surely has none.
func (p *Pool) find(f *folder, id pool.ID) (entry, bool, error) {
	e, ok, err := p.stat(f, id, id.Name()+finishedSuffix, false)
	if ok || err != nil {
		return e, ok, err
	}
	return p.stat(f, id, id.Name()+newSuffix, true)
}

// begin does what all methods for one volume begin with. The caller calls end when there was no error.
func (p *Pool) begin(ctx context.Context, id pool.ID) (f *folder, end func(), err error) {
	if err := id.Validate(); err != nil {
		return nil, nil, err
	}
	release, err := p.locks.take(ctx, id.Fold())
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
	// A file that is renamed while the directory is read may be seen under both names or under none.
	p.renames.RLock()
	defer p.renames.RUnlock()
	names, err := f.dir.Readdirnames(-1)
	if err != nil {
		return nil, p.faulty(pool.Unreadable, "list", err)
	}
	var entries []entry
	for _, name := range names {
		id, isNew, ok := parse(name)
		if !ok {
			continue
		}
		e, ok, err := p.stat(f, id, name, isNew)
		switch {
		case errors.Is(err, errForeign):
		case err != nil:
			return nil, err
		case ok:
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.id.Compare(b.id), strings.Compare(b.name, a.name)) // The finished one first.
	})
	return slices.CompactFunc(entries, func(a, b entry) bool { return a.id == b.id }), nil
}

// volume completes an entry to what the pool knows of the volume.
func (p *Pool) volume(f *folder, e entry, bound lister) (pool.Volume, error) {
	v := pool.Volume{ID: e.id, Size: e.size, Granularity: Granularity, Allocated: e.taken, New: e.isNew}
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

// Create implements pool.Driver.
func (p *Pool) Create(ctx context.Context, id pool.ID, size int64) error {
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
	switch {
	case err != nil:
		return err
	case ok && !e.isNew:
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.size}
	case ok && e.size == size:
		return nil
	case ok:
		if err := p.remove(ctx, f, id); err != nil {
			return err
		}
	}
	return p.create(f, id, size)
}

// create makes a volume's file. It gets its size last, so that one that was left half-made does not pass for a whole one.
func (p *Pool) create(f *folder, id pool.ID, size int64) error {
	if err := p.roomFor(f, size); err != nil {
		return err
	}
	name := id.Name() + newSuffix
	file, err := f.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return p.refused(f, id, size, err)
	}
	defer func() { _ = file.Close() }()
	if err := p.extend(file, 0, size); err != nil {
		_ = unix.Unlinkat(f.fd(), name, 0)
		return p.refused(f, id, size, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err == nil {
		p.loops.remember(inuse.File{Dev: st.Dev, Ino: st.Ino}, hint{})
	}
	return nil
}

// extend gives a file a larger size, with all its blocks when the pool reserves them. On an error the file is as it was.
func (p *Pool) extend(file *os.File, from, to int64) error {
	fd := int(file.Fd())
	if !p.c.Thin {
		// The size comes after the blocks: a crash in between leaves a file of the old size.
		if err := ignoringEINTR(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, from, to-from) }); err != nil {
			return errors.Join(err, unix.Ftruncate(fd, from))
		}
	}
	if err := ignoringEINTR(func() error { return unix.Ftruncate(fd, to) }); err != nil {
		return errors.Join(err, unix.Ftruncate(fd, from))
	}
	return nil
}

// ignoringEINTR repeats a system call that a signal broke off: the Go runtime sends itself signals.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// roomFor refuses early what the file system surely cannot give, so that a large reservation does not fill it up before it fails.
func (p *Pool) roomFor(f *folder, size int64) error {
	space, err := p.space(f)
	if err != nil {
		return err
	}
	if !p.c.Thin && size > space.Free {
		return &pool.NoSpaceError{Pool: p.c.Name, Asked: size, Free: space.Free, Total: space.Total}
	}
	return nil
}

// refused turns an error of making or growing a volume's file into one that says why.
func (p *Pool) refused(f *folder, id pool.ID, size int64, err error) error {
	switch {
	case full(err):
		space, spaceErr := p.space(f)
		if spaceErr != nil {
			return spaceErr
		}
		return &pool.NoSpaceError{Pool: p.c.Name, Asked: size, Free: space.Free, Total: space.Total}
	case errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EINVAL):
		return fmt.Errorf("volume %s of pool %s: %w", id, p.c.Name, &pool.SizeError{Asked: size})
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("volume %s of pool %s: the file system of %s cannot reserve blocks: use a FILE_THIN pool there: %w", id, p.c.Name, p.c.Dir, err)
	case errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrPermission):
		return p.unwritable("volume "+id.String(), err)
	}
	return fmt.Errorf("volume %s of pool %s: %w", id, p.c.Name, err)
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
	if e.isNew {
		device, err := p.loops.find(f.uuid, e, listLoops)
		if err != nil {
			return err
		}
		if device != "" {
			err = p.loops.flush(device) // The kernel passes it on as a flush of the file.
		} else {
			err = flush(f, e.name)
		}
		if err != nil {
			return err
		}
		if err := p.rename(f, e.name, e.id.Name()+finishedSuffix); err != nil {
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
		if err := p.grow(f, e, size); err != nil {
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
func (p *Pool) grow(f *folder, e entry, size int64) error {
	if err := p.roomFor(f, size-e.size); err != nil {
		return err
	}
	file, err := f.open(e.name, unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("grow volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	defer func() { _ = file.Close() }()
	if err := p.extend(file, e.size, size); err != nil {
		return p.refused(f, e.id, size-e.size, err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("grow volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	return nil
}
