// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// below is how files of a pool are reached: nothing leads out of the worker's folder.
const below = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

func openFile(name string, flags int) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: below}
	if flags&unix.O_CREAT != 0 {
		how.Mode = 0o600
	}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, name, how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// openImage opens a file of the pool for reading.
func openImage(name string) (*os.File, int64, error) {
	f, err := openFile(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, 0, refusef("the file cannot be read: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, 0, errors.Join(refusef("the file %s cannot be read: %w", name, err), f.Close())
	}
	return f, info.Size(), nil
}

// inFolder opens the folder that a file lies in.
func inFolder(name string, makeIt bool) (*os.File, error) {
	dir := path.Dir(name)
	f, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) && makeIt && dir != "." {
		parent, err := inFolder(dir, true)
		if err != nil {
			return nil, err
		}
		defer func() { _ = parent.Close() }()
		if err := unix.Mkdirat(int(parent.Fd()), path.Base(dir), 0o711); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, &os.PathError{Op: "make folder", Path: dir, Err: err}
		}
		return openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	return f, err
}

// newDraft makes the file that becomes t.File when it is whole. That must not be there.
func newDraft(t task) (*os.File, error) {
	dir, err := inFolder(t.File, true)
	if err != nil {
		return nil, refusef("the folder of %s cannot be had: %w", t.File, err)
	}
	defer func() { _ = dir.Close() }()
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), path.Base(t.File), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return nil, refusef("the file %s is there already: remove it or choose another name", t.File)
	} else if !errors.Is(err, unix.ENOENT) {
		return nil, refusef("look for %s: %w", t.File, err)
	}
	if err := removeFile(t.Draft); err != nil { // Of an earlier try.
		return nil, err
	}
	return openFile(t.Draft, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
}

// publish gives a draft its name, durably, unless someone else has taken that meanwhile. It may be done again.
func publish(_ context.Context, t task, _ func(news)) (o outcome, err error) {
	dir, err := inFolder(t.File, false)
	if err != nil {
		return o, err
	}
	defer func() { _ = dir.Close() }()
	at, from, to := int(dir.Fd()), path.Base(t.Draft), path.Base(t.File)
	var st unix.Stat_t
	if unix.Fstatat(at, from, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT && unix.Fstatat(at, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return o, nil // It was done before.
	}
	err = unix.Renameat2(at, from, at, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // NFS does not know the flag: a link is refused there when the name is taken.
		if err = unix.Linkat(at, from, at, to, 0); err == nil {
			err = unix.Unlinkat(at, from, 0)
		}
	}
	if err != nil {
		return o, fmt.Errorf("give the file its name %s: %w", t.File, err)
	}
	return o, dir.Sync()
}

// removeFile removes a file of the pool, durably. One that is not there is removed.
func removeFile(name string) error {
	dir, err := inFolder(name, false)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Unlinkat(int(dir.Fd()), path.Base(name), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return dir.Sync()
}

// export writes a device into a new file.
func (w work) export(ctx context.Context, t task, tell func(news)) (o outcome, err error) {
	want, err := parseChecksum(t.Checksum)
	if err != nil {
		return o, err
	}
	from, err := openSource(t.Source)
	if err != nil {
		return o, err
	}
	defer func() { _ = from.Close() }()
	f, err := newDraft(t)
	if err != nil {
		return o, err
	}
	defer func() { _ = f.Close() }()
	if t.Format == qcow2 {
		return w.exportQcow2(ctx, from, f, want, tell)
	}
	return exportRaw(ctx, from, f, want, tell)
}

// exportRaw copies a device into a file, with holes where it has zeros.
func exportRaw(ctx context.Context, from *device, f *os.File, want sum, tell func(news)) (o outcome, err error) {
	digest := want.new()
	buffer := make([]byte, piece)
	for at := int64(0); at < from.size; {
		if err := ctx.Err(); err != nil {
			return o, err
		}
		n, err := io.ReadFull(from, buffer[:min(piece, from.size-at)])
		if err != nil {
			return o, fmt.Errorf("read at %d bytes: %w", at, err)
		}
		_, _ = digest.Write(buffer[:n]) // A hash never fails.
		if !zero(buffer[:n]) {
			if _, err := f.WriteAt(buffer[:n], at); err != nil {
				return o, fmt.Errorf("write at %d bytes: %w", at, err)
			}
		}
		at += int64(n)
		tell(news{Done: at, Total: 2 * from.size})
	}
	if err := errors.Join(f.Truncate(from.size), f.Sync()); err != nil {
		return o, fmt.Errorf("make the file durable: %w", err)
	}
	written := digest.Sum(nil)
	if err := want.verify(written); err != nil {
		return o, err
	}
	found, err := rereadFile(ctx, f, from.size, want, func(done int64) { tell(news{Done: from.size + done, Total: 2 * from.size}) })
	if err != nil {
		return o, err
	}
	if !bytes.Equal(found, written) {
		return o, fmt.Errorf("what was read from the file is not what was written: %s instead of %s", want.text(found), want.text(written))
	}
	return outcome{Checksum: want.text(written), Size: from.size}, nil
}

// rereadFile returns the digest of a file as it is on its disk or server.
func rereadFile(ctx context.Context, f *os.File, size int64, want sum, tell func(int64)) ([]byte, error) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // What is still cached then was written a moment ago.
	return reread(ctx, f, size, want.new(), tell)
}

// importFile writes a file into a volume.
func (w work) importFile(ctx context.Context, t task, tell func(news)) (o outcome, err error) {
	want, err := parseChecksum(t.Checksum)
	if err != nil {
		return o, err
	}
	f, size, err := openImage(t.File)
	if err != nil {
		return o, err
	}
	defer func() { _ = f.Close() }()
	to, err := openTarget(t.Target)
	if err != nil {
		return o, err
	}
	defer func() { _ = to.Close() }()
	if t.Format == qcow2 {
		return w.importQcow2(ctx, f, size, to, want, tell)
	}
	if size > to.size {
		return o, refusef("the image has %d bytes, and the volume has room for %d: resize it first", size, to.size)
	}
	if want.algorithm != "" { // Before anything is written.
		found, err := reread(ctx, f, size, want.new(), func(done int64) { tell(news{Done: done, Total: size}) })
		if err != nil {
			return o, refusef("the image cannot be read: %w", err)
		}
		if err := want.verify(found); err != nil {
			return o, refusef("%w", err)
		}
	}
	return intoVolume(ctx, f, size, to, want, tell)
}
