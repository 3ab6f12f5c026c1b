// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"fmt"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// scan is a Load under way. Its lock is not held while the caller looks at an entry, so Close can end it there.
type scan struct {
	db *database

	mu     sync.Mutex
	tx     *bolt.Tx // nil: ended
	cursor *bolt.Cursor
	last   string // key
}

// scan begins to read the file.
func (d *database) scan() (c *scan, revision kv.Revision, err error) {
	c = &scan{db: d}
	err = d.guarded(func() (err error) {
		if c.tx, err = d.bolt.Begin(false); err != nil {
			return err
		}
		n, err := number(c.tx.Bucket([]byte(metaBucket)), revisionKey)
		if err != nil {
			return err
		}
		revision, c.cursor = kv.Revision(n), c.tx.Bucket([]byte(rowsBucket)).Cursor()
		return nil
	})
	if err != nil {
		c.end()
		return nil, 0, err
	}
	return c, revision, nil
}

// next returns a copy of the next entry; false is the end.
func (c *scan) next() (entry kv.Entry, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tx == nil {
		return entry, false, kv.ErrClosed
	}
	err = c.db.guarded(func() error {
		var k, v []byte
		if c.last == "" {
			k, v = c.cursor.First()
		} else {
			k, v = c.cursor.Next()
		}
		if ok = k != nil; !ok {
			return nil
		}
		entry = kv.Entry{Key: string(k), Value: slices.Clone(v)}
		if entry.Key <= c.last {
			return fmt.Errorf("%w: key %q comes after %q", kv.ErrCorrupt, entry.Key, c.last)
		}
		c.last = entry.Key
		return nil
	})
	return entry, ok && err == nil, err
}

// end gives the transaction of bbolt back.
func (c *scan) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tx != nil && !c.db.broken.Load() {
		_ = c.tx.Rollback() // a transaction that only reads has nothing to lose
	}
	c.tx, c.cursor = nil, nil
}
