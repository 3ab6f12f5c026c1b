// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/durable"
	"github.com/holdfast-storage/holdfast/internal/kv"
)

// OpenReader opens the file at a path to be read alone, also on a file system that cannot be written. It changes nothing, and creates no
// file. Readers exclude owners: it waits until no process owns the file or ctx ends. The engine cannot be owned: Load is all that
// it does.
func OpenReader(ctx context.Context, path string) (*Engine, error) {
	e := New(path)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := lock(ctx, e.ending, f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(e.problem("open", err), f.Close())
	}
	if err := sound(f); err != nil {
		return nil, errors.Join(e.problem("open", err), f.Close())
	}
	db, err := attach(path, f, true)
	if err != nil {
		return nil, e.problem("open", err)
	}
	e.db, e.reader = db, true
	return e, nil
}

// writeChunk is how many entries Write puts into one transaction of bbolt.
const writeChunk = 5000

// Write makes a new file with entries, as they are at a revision, and returns how many there are. The file appears whole and durable,
// or not at all; one that exists is not replaced.
func Write(path string, revision kv.Revision, entries iter.Seq2[kv.Entry, error]) (n int, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return 0, fmt.Errorf("write database %s: %w", path, err)
	}
	temporary := f.Name()
	defer func() { err = errors.Join(err, os.Remove(temporary)) }()
	db, err := attach(temporary, f, false)
	if err != nil {
		return 0, fmt.Errorf("write database %s: %w", path, err)
	}
	db.bolt.NoSync = true // until all is written: the file is nobody's yet
	n, err = fill(db, revision, entries)
	err = errors.Join(err, db.guarded(db.bolt.Sync))
	if err = errors.Join(err, db.close()); err != nil {
		return 0, fmt.Errorf("write database %s: %w", path, err)
	}
	if err := os.Link(temporary, path); err != nil {
		return 0, fmt.Errorf("write database: %w", err)
	}
	return n, durable.Folder(filepath.Dir(path))
}

func fill(db *database, revision kv.Revision, entries iter.Seq2[kv.Entry, error]) (n int, err error) {
	if err := db.transact((*bolt.Tx).Commit, layOut); err != nil {
		return 0, err
	}
	var chunk []kv.Entry
	flush := func() error {
		defer func() { chunk = chunk[:0] }()
		return db.transact((*bolt.Tx).Commit, func(tx *bolt.Tx) error {
			rows := tx.Bucket([]byte(rowsBucket))
			for _, e := range chunk {
				if err := rows.Put([]byte(e.Key), e.Value); err != nil {
					return err
				}
			}
			return tx.Bucket([]byte(metaBucket)).Put([]byte(revisionKey), binary.BigEndian.AppendUint64(nil, uint64(revision)))
		})
	}
	for e, err := range entries {
		if err != nil {
			return n, err
		}
		if chunk, n = append(chunk, e), n+1; len(chunk) == writeChunk {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}
