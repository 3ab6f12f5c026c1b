// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// copying is the work of a call that copies. Check and finish are called with the volume locked; in between it is not, because that may take long.
type copying struct {
	from   pool.SnapshotID
	draft  entry
	check  func(*folder, source) error // Refuses, or makes room.
	size   int64                       // What the file is to have in the end, in bytes. Zero: what its source has.
	finish func(*folder, draft) error  // Gives the file its name.
}

// draft is a file that is being copied to. It is locked as long as it is open.
type draft struct {
	entry
	file *os.File
}

// errOvertaken is told when someone removed or replaced a draft.
var errOvertaken = errors.New("it was removed while it was copied")

// copy runs a call for a volume that copies. Whatever goes wrong, no draft is left, unless this process dies; then the next one sweeps it away.
func (p *Pool) copy(ctx context.Context, id pool.ID, c copying, progress pool.Progress) error {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	from, d, err := p.draft(f, c)
	end()
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(from.file.Close(), d.file.Close()) }()
	defer p.reads.add(from.entry.file, "a copy that becomes "+c.draft.text())()
	err = p.fill(ctx, c, from, d, progress)
	if err == nil {
		if f, end, err = p.begin(ctx, id); err == nil {
			if err = p.own(f, d); err == nil {
				err = c.finish(f, d)
			}
			end()
		}
	}
	if err != nil {
		p.discard(context.WithoutCancel(ctx), d)
	}
	return err
}

// draft opens the source and makes the file.
func (p *Pool) draft(f *folder, c copying) (source, draft, error) {
	from, err := p.openSource(f, c.from)
	if err != nil {
		return source{}, draft{}, err
	}
	if err := c.check(f, from); err != nil {
		return source{}, draft{}, errors.Join(err, from.file.Close())
	}
	d := draft{entry: c.draft}
	if d.file, err = f.open(d.name(), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600); err != nil {
		return source{}, draft{}, errors.Join(p.refused(f, d.entry, from.size, err), from.file.Close())
	}
	var st unix.Stat_t
	if err := errors.Join(unix.Flock(int(d.file.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.Fstat(int(d.file.Fd()), &st)); err != nil {
		_ = unix.Unlinkat(f.fd(), d.name(), 0)
		return source{}, draft{}, errors.Join(fmt.Errorf("%s: %w", d.text(), err), from.file.Close(), d.file.Close())
	}
	d.complete(&st)
	return from, d, nil
}

// fill gives a draft its content and size.
func (p *Pool) fill(ctx context.Context, c copying, from source, d draft, progress pool.Progress) error {
	f, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	size := max(c.size, from.size)
	err = p.capture(ctx, f, from, d.file, c.size, progress)
	if err == nil && size > from.size {
		err = ignoringEINTR(func() error { return unix.Ftruncate(int(d.file.Fd()), size) })
	}
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return p.refused(f, d.entry, size, err)
	}
	if err != nil || p.c.Thin {
		return err
	}
	return p.keepPromises(ctx, f, size)
}

// own makes sure that the draft is still the file of that name.
func (p *Pool) own(f *folder, d draft) error {
	e, ok, err := p.stat(f, d.entry)
	if err != nil {
		return err
	}
	if !ok || e.file != d.entry.file {
		return fmt.Errorf("%s: %w", d.text(), errOvertaken)
	}
	return nil
}

// discard removes a draft that did not become anything.
func (p *Pool) discard(ctx context.Context, d draft) {
	f, end, err := p.begin(ctx, d.id)
	if err != nil {
		return // The directory is not there any more.
	}
	defer end()
	if p.own(f, d) == nil {
		_ = unix.Unlinkat(f.fd(), d.name(), 0)
	}
}

// Clone implements pool.Cloner.
func (p *Pool) Clone(ctx context.Context, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
	if err := errors.Join(id.Validate(), validSource(from)); err != nil {
		return err
	}
	rounded, err := pool.RoundUp(size, Granularity)
	if err != nil {
		return err
	}
	err = p.copy(ctx, id, copying{
		from: from, draft: volumeFile(id, copySuffix), size: rounded,
		check: func(f *folder, from source) error {
			if rounded < from.size {
				return &pool.SizeError{Asked: size, Least: from.size}
			}
			return p.makeWay(ctx, f, id)
		},
		finish: func(f *folder, d draft) error {
			if err := p.rename(f, d.name(), volumeFile(id, clonedSuffix).name()); err != nil {
				return err
			}
			p.loops.remember(d.entry.file, hint{})
			return nil
		},
	}, progress)
	if err != nil {
		return fmt.Errorf("clone %s to volume %s in pool %s: %w", sourceText(from), id, p.c.Name, err)
	}
	return nil
}

func validSource(from pool.SnapshotID) error {
	if from.Snapshot == "" {
		return from.Of().Validate()
	}
	return from.Validate()
}

func sourceText(from pool.SnapshotID) string {
	if from.Snapshot == "" {
		return "volume " + from.Of().String()
	}
	return "snapshot " + from.String()
}

// makeWay removes a volume that is NEW.
func (p *Pool) makeWay(ctx context.Context, f *folder, id pool.ID) error {
	e, ok, err := p.find(f, id)
	switch {
	case err != nil:
		return err
	case ok && !e.isNew():
		return &pool.ExistsError{Pool: p.c.Name, ID: id, Size: e.size}
	}
	return p.remove(ctx, f, id)
}

// RollBack implements pool.RollBacker. The volume's file is replaced by another one.
func (p *Pool) RollBack(ctx context.Context, to pool.SnapshotID, token string, progress pool.Progress) error {
	if err := errors.Join(to.Validate(), pool.ValidateToken(token)); err != nil {
		return err
	}
	errDone := errors.New("it was done before")
	c := copying{from: to, draft: volumeFile(to.Of(), copySuffix)}
	c.check = func(f *folder, _ source) error {
		old, err := p.finished(f, to.Of())
		if err != nil {
			return err
		}
		last, err := rolledBack(f, old)
		if err == nil && last == token {
			err = errDone
		}
		if err == nil {
			err = p.release(ctx, f, to.Of(), true)
		}
		if err != nil {
			return err
		}
		return p.unlink(f, []entry{volumeFile(to.Of(), copySuffix)})
	}
	c.finish = func(f *folder, d draft) error { return p.replace(ctx, f, d, token) }
	// The size that the volume has, not that of the snapshot.
	f, err := p.enter(ctx)
	if err != nil {
		return err
	}
	old, err := p.finished(f, to.Of())
	f.close()
	if err == nil {
		c.size = old.size
		err = p.copy(ctx, to.Of(), c, progress)
	}
	if err != nil && !errors.Is(err, errDone) {
		return fmt.Errorf("roll volume %s of pool %s back to snapshot %s: %w", to.Of(), p.c.Name, to.Snapshot, err)
	}
	return nil
}

// finished returns the file of a volume that must be finished.
func (p *Pool) finished(f *folder, id pool.ID) (entry, error) {
	e, ok, err := p.stat(f, volumeFile(id, finishedSuffix))
	if err == nil && !ok {
		err = &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	return e, err
}

// replace puts a draft in the place of a finished volume that nobody uses, together with the token.
func (p *Pool) replace(ctx context.Context, f *folder, d draft, token string) error {
	if err := d.file.Sync(); err != nil {
		return err
	}
	old, err := p.finished(f, d.id)
	if err != nil {
		return err
	}
	if old.size > d.size() { // It grew meanwhile.
		if err := p.extend(d.file, d.size(), old.size); err != nil {
			return err
		}
		if err := d.file.Sync(); err != nil {
			return err
		}
	}
	// Again: someone may have come while it was copied.
	if err := p.release(ctx, f, d.id, true); err != nil {
		return err
	}
	if err := noteRollBack(f, d.entry, token); err != nil {
		return p.unwritable("roll back volume "+d.id.String(), err)
	}
	if err := p.rename(f, d.name(), old.name()); err != nil {
		return err
	}
	p.loops.forget(old.file)
	p.loops.remember(d.entry.file, hint{})
	return f.dir.Sync()
}

// size returns what a draft has by now.
func (d draft) size() int64 {
	info, err := d.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// The file that says which roll-back a volume had last has the inode of the volume's file and the token in it. So it is true in the very moment in which that
// file gets the volume's name.

// noteRollBack says that a file is the result of a roll-back, before it gets the volume's name.
func noteRollBack(f *folder, e entry, token string) error {
	name := e.id.Name() + rolledSuffix
	if err := unix.Unlinkat(f.fd(), name+draftSuffix, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := f.write(name+draftSuffix, []byte(strconv.FormatUint(e.file.Ino, 10)+" "+token+"\n")); err != nil {
		return err
	}
	return unix.Renameat(f.fd(), name+draftSuffix, f.fd(), name)
}

// rolledBack returns the token of the roll-back that a volume's file is the result of, or "".
func rolledBack(f *folder, e entry) (string, error) {
	if e.isNew() {
		return "", nil
	}
	file, err := f.open(e.id.Name()+rolledSuffix, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text := make([]byte, markerLimit)
	n, err := file.Read(text)
	if err != nil {
		return "", err
	}
	inode, token, _ := bytes.Cut(bytes.TrimSpace(text[:n]), []byte(" "))
	if string(inode) != strconv.FormatUint(e.file.Ino, 10) {
		return "", nil
	}
	return string(token), nil
}

// forgetRollBack removes what says which roll-back a volume had.
func forgetRollBack(f *folder, id pool.ID) error {
	for _, suffix := range []string{rolledSuffix, rolledSuffix + draftSuffix} {
		if err := unix.Unlinkat(f.fd(), id.Name()+suffix, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
