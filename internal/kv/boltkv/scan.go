// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// scan is a Load under way. Its lock is not held while the caller looks at an entry, so Close can end it there.
type scan struct {
	mu     sync.Mutex
	tx     *bolt.Tx // nil: ended
	cursor *bolt.Cursor
	begun  bool
}

// scan begins to read the file. The caller holds the lock of e.
func (e *Engine) scan() (c *scan, revision kv.Revision, err error) {
	switch {
	case e.closed:
		return nil, 0, kv.ErrClosed
	case e.db == nil:
		return nil, 0, fmt.Errorf("it is not owned: %w", kv.ErrFenced)
	}
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("%w: %v", kv.ErrCorrupt, p)
		}
	}()
	defer faultsPanic()()
	tx, err := e.db.Begin(false)
	if err != nil {
		return nil, 0, err
	}
	c = &scan{tx: tx}
	n, err := number(tx.Bucket([]byte(metaBucket)), revisionKey)
	if err != nil {
		c.rollback()
		return nil, 0, err
	}
	c.cursor = tx.Bucket([]byte(rowsBucket)).Cursor()
	e.scans[c] = struct{}{}
	return c, kv.Revision(n), nil
}

// next returns a copy of the next entry; false is the end.
func (c *scan) next() (entry kv.Entry, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tx == nil {
		return entry, false, kv.ErrClosed
	}
	defer func() {
		if p := recover(); p != nil {
			ok, err = false, fmt.Errorf("%w: %v", kv.ErrCorrupt, p)
		}
	}()
	defer faultsPanic()()
	var k, v []byte
	if c.begun {
		k, v = c.cursor.Next()
	} else {
		k, v = c.cursor.First()
		c.begun = true
	}
	if k == nil {
		return entry, false, nil
	}
	return kv.Entry{Key: string(k), Value: slices.Clone(v)}, true, nil
}

// forget ends a scan whose caller has seen enough.
func (e *Engine) forget(c *scan) {
	c.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.scans, c)
}

// end gives the transaction of bbolt back.
func (c *scan) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rollback()
}

func (c *scan) rollback() {
	if c.tx == nil {
		return
	}
	_ = c.tx.Rollback() // a transaction that only reads has nothing to lose
	c.tx, c.cursor = nil, nil
}

// faultsPanic makes a fault on a page that the file does not have a panic of this goroutine, until the function that it returns
// is called. A truncated file is mapped to its former size, and reading behind its end faults.
func faultsPanic() func() {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}
