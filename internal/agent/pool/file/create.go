// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

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
	case ok && !e.isNew():
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.size}
	case ok && e.suffix == newSuffix && e.size == size:
		return nil
	case ok:
		if err := p.remove(ctx, f, id); err != nil {
			return err
		}
	}
	return p.create(ctx, f, id, size)
}

// create makes a volume's file. It gets its size last, so that one that was left half-made does not pass for a whole one.
func (p *Pool) create(ctx context.Context, f *folder, id pool.ID, size int64) error {
	if err := p.roomFor(ctx, f, size); err != nil {
		return err
	}
	e := volumeFile(id, newSuffix)
	file, err := f.open(e.name(), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return p.refused(f, e, size, err)
	}
	defer func() { _ = file.Close() }()
	if err := p.extend(file, 0, size); err != nil {
		_ = unix.Unlinkat(f.fd(), e.name(), 0)
		return p.refused(f, e, size, err)
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
func (p *Pool) roomFor(ctx context.Context, f *folder, size int64) error {
	space, err := p.space(ctx, f)
	if err != nil {
		return err
	}
	if !p.c.Thin && size > space.Free {
		return &pool.NoSpaceError{Pool: p.c.Name, Asked: size, Free: space.Free, Total: space.Total}
	}
	return nil
}

// refused turns an error of making or growing a file into one that says why.
func (p *Pool) refused(f *folder, e entry, size int64, err error) error {
	switch {
	case full(err):
		space, spaceErr := p.room(f)
		if spaceErr != nil {
			return spaceErr
		}
		return &pool.NoSpaceError{Pool: p.c.Name, Asked: size, Free: space.Free, Total: space.Total}
	case errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s of pool %s: %w", e.text(), p.c.Name, &pool.SizeError{Asked: size})
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%s of pool %s: the file system of %s cannot reserve blocks: use a FILE_THIN pool there: %w", e.text(), p.c.Name, p.c.Dir, err)
	case errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrPermission):
		return p.unwritable(e.text(), err)
	}
	return fmt.Errorf("%s of pool %s: %w", e.text(), p.c.Name, err)
}
