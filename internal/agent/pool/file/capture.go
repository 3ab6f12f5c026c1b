// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// errBrokenOff is told of a file that was not copied to its end.
var errBrokenOff = errors.New("it is a copy that was broken off: make it again")

// source is what is copied: the open file of a finished volume or snapshot.
type source struct {
	entry
	file *os.File
}

// openSource opens what is to be copied. It needs no lock: whoever renames or unlinks the file meanwhile leaves the open one as it is.
func (p *Pool) openSource(f *folder, from pool.SnapshotID) (source, error) {
	e := volumeFile(from.Of(), finishedSuffix)
	if from.Snapshot != "" {
		e = snapshotFile(from, snapshotSuffix)
	}
	// Looked at first: to open what is no regular file could hang.
	if _, ok, err := p.stat(f, e); err != nil {
		return source{}, err
	} else if !ok {
		return source{}, &pool.NotFoundError{Pool: p.c.Name, ID: from.Of(), Snapshot: from.Snapshot}
	}
	file, err := f.open(e.name(), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return source{}, &pool.NotFoundError{Pool: p.c.Name, ID: from.Of(), Snapshot: from.Snapshot}
	}
	if err != nil {
		return source{}, fmt.Errorf("open %s of pool %s: %w", e.text(), p.c.Name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return source{}, errors.Join(fmt.Errorf("look at %s of pool %s: %w", e.text(), p.c.Name, err), file.Close())
	}
	e.complete(&st)
	return source{entry: e, file: file}, nil
}

// capture gives a new file the content that a source has at one moment. Where the file system can, the two share their blocks from then on, which
// the kernel does in one step with all writers locked out. Else the content is copied, and that nobody wrote meanwhile is proven afterwards. If reserve
// is above zero, the file gets at least so many bytes of blocks.
func (p *Pool) capture(ctx context.Context, f *folder, from source, to *os.File, reserve int64, progress pool.Progress) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if from.snapshot == "" {
		if err := p.flushVolume(f, from); err != nil {
			return err
		}
	}
	err := ignoringEINTR(func() error { return unix.IoctlFileClone(int(to.Fd()), int(from.file.Fd())) })
	if err == nil {
		err = p.reserve(to, reserve)
		progress.Tell(from.size, from.size)
		return err
	}
	if full(err) || errors.Is(err, unix.EIO) {
		return err
	}
	if err := p.reserve(to, reserve); err != nil {
		return err
	}
	return p.copyUnchanged(ctx, f, from, to, progress)
}

// flushVolume hands on to the file what was written to the device of a volume.
func (p *Pool) flushVolume(f *folder, from source) error {
	device, err := p.loops.find(f.uuid, from.entry, listLoops)
	if err != nil || device == "" {
		return err
	}
	return p.loops.flush(device)
}

// reserve gives a file the blocks that it lacks of its first bytes, and leaves its size as it is.
func (p *Pool) reserve(file *os.File, bytes int64) error {
	if bytes <= 0 || p.c.Thin {
		return nil
	}
	return ignoringEINTR(func() error { return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes) })
}

// copyUnchanged copies a source that nobody writes meanwhile.
func (p *Pool) copyUnchanged(ctx context.Context, f *folder, from source, to *os.File, progress pool.Progress) error {
	unchanged := func() error { return nil }
	if from.snapshot == "" {
		before, err := p.imprint(f, from.file, from.entry)
		if err != nil {
			return err
		}
		if err := p.mayStandStill(before, from); err != nil {
			return err
		}
		unchanged = func() error { return p.unchanged(ctx, f, from, before) }
	}
	c := copier{from: from.file, to: to, size: from.size, total: min(from.size, from.taken), progress: progress, pause: unchanged}
	if err := c.run(ctx); err != nil {
		return err
	}
	return unchanged()
}

// imprint is what changes when a volume is written.
type imprint struct {
	mtime   unix.Timespec
	device  string // Empty while the volume is closed.
	seq     string
	written [2]string // Sectors that were written to the device, and discarded.
	busy    bool      // A write, or a flush, is under way.
}

// imprint looks at a volume whose file is open.
func (p *Pool) imprint(f *folder, file *os.File, e entry) (imprint, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return imprint{}, fmt.Errorf("look at %s of pool %s: %w", e.text(), p.c.Name, err)
	}
	m := imprint{mtime: st.Mtim}
	var err error
	if m.device, err = p.loops.find(f.uuid, e, listLoops); err != nil || m.device == "" {
		return m, err
	}
	m.seq = sequence(m.device)
	m.written, m.busy, err = writtenTo(m.device)
	return m, err
}

// writtenTo returns how much was written to a device and discarded so far, and whether a write or a flush is under way.
func writtenTo(device string) (written [2]string, busy bool, err error) {
	dir := filepath.Join(blockDir, device)
	counted, err1 := os.ReadFile(filepath.Join(dir, "queue/iostats"))
	stat, err2 := os.ReadFile(filepath.Join(dir, "stat"))
	inflight, err3 := os.ReadFile(filepath.Join(dir, "inflight"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return written, false, fmt.Errorf("look for writes to %s: %w", device, err)
	}
	if strings.TrimSpace(string(counted)) == "0" {
		return written, false, fmt.Errorf("look for writes to %s: the kernel does not count them: write 1 to %s/queue/iostats", device, dir)
	}
	const writes, discards = 6, 13 // The fields with the sectors.
	fields, way := strings.Fields(string(stat)), strings.Fields(string(inflight))
	if len(fields) <= discards || len(way) != 2 {
		return written, false, fmt.Errorf("look for writes to %s: %q and %q are not what the kernel should tell", device, stat, inflight)
	}
	return [2]string{fields[writes], fields[discards]}, way[1] != "0", nil
}

// settled is imprint once no write is under way any more. A flush looks like a write until it is done.
func (p *Pool) settled(ctx context.Context, f *folder, from source) (imprint, error) {
	const tries, between = 200, 5 * time.Millisecond
	for try := 1; ; try++ {
		now, err := p.imprint(f, from.file, from.entry)
		if err != nil || !now.busy || try == tries {
			return now, err
		}
		if err := pool.Pause(ctx, between); err != nil {
			return imprint{}, err
		}
	}
}

// changedSince tells whether a volume may have been written between two looks at it.
func (m imprint) changedSince(before imprint) bool {
	if m.mtime != before.mtime || m.busy {
		return true
	}
	// A device that came meanwhile has other counters; whatever is written through it shows in the time.
	return m.device == before.device && m.seq == before.seq && m.written != before.written
}

// unchanged returns an error when a volume was written since before.
func (p *Pool) unchanged(ctx context.Context, f *folder, from source, before imprint) error {
	now, err := p.settled(ctx, f, from)
	if err != nil {
		return err
	}
	if !now.changedSince(before) {
		return nil
	}
	changed := &pool.ChangedError{ID: from.id}
	if u, err := p.usage(ctx, f, from.id); err == nil {
		changed.Holders = append(u.device, u.file...)
	}
	if why := p.still.Failure(before.device); why != nil {
		return fmt.Errorf("%w; its filesystem could not be frozen: %w", changed, why)
	}
	return changed
}

// copier copies the data of a file, and leaves its holes. Both files are at their beginning, and the new one is empty but for reserved blocks.
type copier struct {
	from, to *os.File
	size     int64
	total    int64 // What is expected.
	done     int64
	progress pool.Progress
	pause    func() error // Called now and then; an error breaks off.
}

// copyChunk is what is copied between two looks at the context.
const copyChunk = 8 << 20

func (c *copier) run(ctx context.Context) error {
	fd := int(c.from.Fd())
	c.progress.Tell(0, c.total)
	for at := int64(0); at < c.size; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO):
			at = c.size
			continue // Nothing but a hole follows.
		case errors.Is(err, unix.EINVAL):
			data = at // The file system knows of no holes.
		case err != nil:
			return err
		}
		hole, err := unix.Seek(fd, data, unix.SEEK_HOLE)
		if errors.Is(err, unix.EINVAL) {
			hole, err = c.size, nil
		}
		if err != nil {
			return err
		}
		if at = min(hole, c.size); data < at {
			if err := c.copy(ctx, data, at); err != nil {
				return err
			}
		}
	}
	// The size comes last: it covers the hole at the end.
	if err := c.to.Truncate(c.size); err != nil {
		return err
	}
	c.progress.Tell(c.done, c.done)
	return nil
}

// copy copies one piece of data.
func (c *copier) copy(ctx context.Context, from, to int64) error {
	for from < to {
		if err := errors.Join(ctx.Err(), c.pause()); err != nil {
			return err
		}
		n, err := c.piece(from, min(copyChunk, to-from))
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF // Someone else made it shorter.
		}
		from += n
		c.done += n
		c.total = max(c.total, c.done)
		c.progress.Tell(c.done, c.total)
	}
	return nil
}

// piece copies some bytes, by the kernel if it can.
func (c *copier) piece(at, n int64) (int64, error) {
	in, out := at, at
	var done int
	err := ignoringEINTR(func() (err error) {
		done, err = unix.CopyFileRange(int(c.from.Fd()), &in, int(c.to.Fd()), &out, int(n), 0)
		return err
	})
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return io.Copy(io.NewOffsetWriter(c.to, at), io.NewSectionReader(c.from, at, n))
	}
	return int64(done), err
}
