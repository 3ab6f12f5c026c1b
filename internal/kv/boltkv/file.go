// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/durable"
	"github.com/holdfast-storage/holdfast/internal/kv"
)

// lockPoll is how often a waiting owner tries to take the lock.
const lockPoll = 20 * time.Millisecond

// mapped is the least part of the address space that the file is mapped to. Below it, reading transactions never make a growing file wait.
const mapped = 64 << 20

// open opens the file, takes its lock, and makes sure that bbolt can work with it. It creates the file when it is missing.
func open(ctx context.Context, ending <-chan struct{}, path string) (*database, error) {
	f, err := locked(ctx, ending, path)
	if err != nil {
		return nil, err
	}
	if err := sound(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return attach(path, f, false)
}

// locked opens the file and takes its lock. When the path has come to lead to another file meanwhile, it takes that one.
func locked(ctx context.Context, ending <-chan struct{}, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			if err := create(path); err != nil {
				return nil, fmt.Errorf("create: %w", err)
			}
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
		if err != nil {
			return nil, err
		}
		if err := lock(ctx, ending, f, unix.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return f, nil
		}
		if err := errors.Join(f.Close(), context.Cause(ctx)); err != nil {
			return nil, err
		}
	}
}

// create makes a new file so that it appears whole and durable, or not at all.
func create(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	temporary := f.Name()
	defer func() { err = errors.Join(err, os.Remove(temporary)) }()
	db, err := attach(temporary, f, false)
	if err != nil {
		return err
	}
	if err := errors.Join(db.transact((*bolt.Tx).Commit, layOut), db.close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces the file of another process that came first.
	if err := os.Link(temporary, path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return durable.Folder(filepath.Dir(path))
}

// layOut writes the buckets of an empty database.
func layOut(tx *bolt.Tx) error {
	if _, err := tx.CreateBucket([]byte(rowsBucket)); err != nil {
		return err
	}
	m, err := tx.CreateBucket([]byte(metaBucket))
	if err != nil {
		return err
	}
	return errors.Join(
		m.Put([]byte(formatKey), binary.BigEndian.AppendUint64(nil, format)),
		m.Put([]byte(createdKey), []byte(time.Now().UTC().Format(time.RFC3339))),
		m.Put([]byte(revisionKey), make([]byte, 8)),
		m.Put([]byte(termKey), make([]byte, 8)))
}

// lock takes the lock of the file in a mode, waiting until ctx ends or the engine is closed.
func lock(ctx context.Context, ending <-chan struct{}, f *os.File, mode int) error {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		err := unix.Flock(int(f.Fd()), mode|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock: %w", err)
		}
		select {
		case <-poll.C:
		case <-ending:
			return kv.ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w by %s: %w", kv.ErrInUse, holder(f), context.Cause(ctx))
		}
	}
}

// holder names the process that has the lock of the file.
func holder(f *os.File) string {
	const unknown = "another process"
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return unknown
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return unknown
	}
	// A line is like "3: FLOCK  ADVISORY  WRITE 1234 fe:00:131077 0 EOF".
	for line := range bytes.Lines(locks) {
		fields := bytes.Fields(line)
		if len(fields) < 6 || string(fields[1]) != "FLOCK" {
			continue
		}
		var major, minor uint32
		var inode uint64
		if n, _ := fmt.Sscanf(string(fields[5]), "%x:%x:%d", &major, &minor, &inode); n != 3 {
			continue
		}
		if inode == st.Ino && unix.Mkdev(major, minor) == st.Dev {
			return "process " + string(fields[4])
		}
	}
	return unknown
}

// The beginning of a bbolt file: pages 0 and 1 each hold a header and a description of the whole file. The newer description that is
// valid counts.
const (
	pageHeader = 16
	magic      = 0xED0CDAED
	version    = 2
)

// boltMeta is the description of a file in one of its first two pages.
type boltMeta struct {
	Magic, Version, PageSize, Flags uint32
	Root, Sequence                  uint64
	Freelist, Pages, Tx, Checksum   uint64
}

// sound checks what bbolt takes for granted: that the file is one of its own, is not shorter than what is used of it, and has a list of
// free pages.
func sound(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a file", kv.ErrCorrupt)
	}
	if st.Size() == 0 {
		return fmt.Errorf("%w: it is empty; remove the file to begin with an empty database", kv.ErrCorrupt)
	}
	m, ok := newest(f, st.Size())
	switch {
	case !ok:
		return fmt.Errorf("%w: it is not a bbolt file, or both its descriptions are damaged", kv.ErrCorrupt)
	case uint64(st.Size()) < m.Pages*uint64(m.PageSize):
		return fmt.Errorf("%w: it is cut off: it has %d bytes and should have %d", kv.ErrCorrupt, st.Size(), m.Pages*uint64(m.PageSize))
	case m.Root >= m.Pages || m.Freelist >= m.Pages: // without a list of free pages its number is the largest of all
		return fmt.Errorf("%w: it was written by another program", kv.ErrCorrupt)
	}
	return nil
}

// newest finds the description that counts.
func newest(f *os.File, size int64) (boltMeta, bool) {
	best, found := boltMeta{}, false
	consider := func(at int64) uint32 {
		m, ok := describe(f, at)
		if ok && (!found || m.Tx > best.Tx) {
			best, found = m, true
		}
		return m.PageSize
	}
	if page := consider(0); found {
		consider(int64(page))
		return best, true
	}
	for page := int64(1 << 10); page <= 1<<24 && page < size; page <<= 1 {
		consider(page)
	}
	return best, found
}

// describe reads the description at an offset.
func describe(f *os.File, at int64) (m boltMeta, ok bool) {
	raw := make([]byte, binary.Size(m))
	if _, err := f.ReadAt(raw, at+pageHeader); err != nil {
		return m, false
	}
	if _, err := binary.Decode(raw, binary.NativeEndian, &m); err != nil {
		return m, false
	}
	sum := fnv.New64a()
	_, _ = sum.Write(raw[:len(raw)-8])
	return m, m.Magic == magic && m.Version == version && m.Checksum == sum.Sum64()
}
