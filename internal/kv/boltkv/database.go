// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// database is a file that bbolt works with. When bbolt has panicked on it, it is broken: bbolt may hold its own locks for ever, so
// nothing is asked of it any more.
type database struct {
	bolt   *bolt.DB
	file   *os.File // holds the lock
	broken atomic.Bool
}

var errBroken = fmt.Errorf("%w: bbolt has failed on it before", kv.ErrCorrupt)

// attach gives an open and locked file to bbolt. The list of free pages is written with each commit: it is short, and without
// it a start would read the whole file.
func attach(path string, f *os.File, readOnly bool) (*database, error) {
	d := &database{file: f}
	err := d.guarded(func() (err error) {
		d.bolt, err = bolt.Open(path, 0, &bolt.Options{
			OpenFile:        func(string, int, os.FileMode) (*os.File, error) { return f, nil },
			FreelistType:    bolt.FreelistMapType,
			InitialMmapSize: mapped,
			NoStatistics:    true,
			ReadOnly:        readOnly,
		})
		return err
	})
	if err == nil {
		return d, nil
	}
	d.release()
	for _, kind := range []error{berrors.ErrInvalid, berrors.ErrChecksum, berrors.ErrVersionMismatch} {
		if errors.Is(err, kind) {
			return nil, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
		}
	}
	return nil, err
}

// guarded calls fn, which calls bbolt. A panic of bbolt, and a fault on a page that the file does not have, become errors: a file that
// was truncated is still mapped to its former size, and reading behind its end faults.
func (d *database) guarded(fn func() error) (err error) {
	if d.broken.Load() {
		return errBroken
	}
	defer func() {
		if p := recover(); p != nil {
			d.broken.Store(true)
			err = fmt.Errorf("%w: %v", kv.ErrCorrupt, p)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return fn()
}

// transact runs fn in a transaction and commits it.
func (d *database) transact(commit func(*bolt.Tx) error, fn func(*bolt.Tx) error) error {
	return d.guarded(func() error {
		tx, err := d.bolt.Begin(true)
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return commit(tx)
	})
}

// revision reads the revision that is in the file.
func (d *database) revision() (r kv.Revision, err error) {
	err = d.guarded(func() error {
		return d.bolt.View(func(tx *bolt.Tx) error {
			n, err := number(tx.Bucket([]byte(metaBucket)), revisionKey)
			r = kv.Revision(n)
			return err
		})
	})
	return r, err
}

// close gives up the lock and closes the file.
func (d *database) close() error {
	if !d.broken.Load() {
		if err := d.guarded(d.bolt.Close); !d.broken.Load() {
			return err
		}
	}
	d.release()
	return nil
}

// release gives up the lock of a file with which bbolt has failed. Closing it alone would not do: bbolt may have left it mapped, and
// the mapping would keep the lock. It does no harm when bbolt has closed the file.
func (d *database) release() {
	_ = unix.Flock(int(d.file.Fd()), unix.LOCK_UN)
	_ = d.file.Close()
}
