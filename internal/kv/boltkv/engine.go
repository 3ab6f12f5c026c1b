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
	"strings"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// format is the layout of the file, as the package comment describes it.
const format = 1

// The buckets of a file, and the keys of the second one.
const (
	rowsBucket = "rows"
	metaBucket = "holdfast"

	formatKey   = "format"
	createdKey  = "created"
	revisionKey = "revision"
	termKey     = "term"
)

// Engine is a bbolt file. It is opened by Own.
type Engine struct {
	path string

	mu       sync.Mutex // held through Own and Append
	db       *database  // nil: not open
	term     kv.Term    // 0: over
	revision kv.Revision
	closed   bool
	reader   bool // the file is open to be read alone
	scans    map[*scan]struct{}

	closing func()          // ends what waits for the lock of the file
	ending  <-chan struct{} // closed by closing

	history *history

	commit func(*bolt.Tx) error // (*bolt.Tx).Commit, but for tests of what happens when it fails
}

var _ kv.Engine = (*Engine)(nil)

// New returns an engine on the file at a path. Nothing is opened yet; the first Own creates the file when it is missing, in a directory
// that must exist.
func New(path string) *Engine {
	ending := make(chan struct{})
	return &Engine{
		path:    path,
		scans:   map[*scan]struct{}{},
		closing: sync.OnceFunc(func() { close(ending) }),
		ending:  ending,
		history: newHistory(),
		commit:  (*bolt.Tx).Commit,
	}
}

// Own implements [kv.Engine]. On an engine that owns its file already it begins the next term. It writes to the file and syncs it, so
// whatever Load shows afterwards is durable.
func (e *Engine) Own(ctx context.Context) (kv.Term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, e.problem("open", kv.ErrClosed)
	}
	if e.reader {
		return 0, e.problem("open", fmt.Errorf("it was opened to be read alone: %w", kv.ErrReadOnly))
	}
	if err := context.Cause(ctx); err != nil {
		return 0, e.problem("open", err)
	}
	if e.term == 0 {
		if err := e.drop(); err != nil { // after an unknown outcome, the file is looked at afresh
			return 0, e.problem("close", err)
		}
	}
	if e.db == nil {
		db, err := open(ctx, e.ending, e.path)
		if err != nil {
			return 0, e.problem("open", err)
		}
		e.db = db
	}
	var term kv.Term
	var revision kv.Revision
	err := e.db.transact(e.commit, func(tx *bolt.Tx) error {
		m := tx.Bucket([]byte(metaBucket))
		if m == nil || tx.Bucket([]byte(rowsBucket)) == nil {
			return fmt.Errorf("%w: it is not a database of holdfast", kv.ErrCorrupt)
		}
		f, err := number(m, formatKey)
		if err != nil {
			return err
		}
		if f != format {
			return fmt.Errorf("%w: it has format %d, this program knows %d", kv.ErrCorrupt, f, format)
		}
		t, err := number(m, termKey)
		if err != nil {
			return err
		}
		r, err := number(m, revisionKey)
		if err != nil {
			return err
		}
		term, revision = kv.Term(t+1), kv.Revision(r)
		return m.Put([]byte(termKey), binary.BigEndian.AppendUint64(nil, uint64(term)))
	})
	if err != nil {
		return 0, e.problem("open", errors.Join(err, e.drop()))
	}
	if revision != e.revision || e.term == 0 {
		e.history.reset(revision)
	}
	e.term, e.revision = term, revision
	return term, nil
}

// number reads a number of the meta bucket.
func number(m *bolt.Bucket, key string) (uint64, error) {
	v := m.Get([]byte(key))
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: %s is missing or is not a number", kv.ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(v), nil
}

// Append implements [kv.Engine].
func (e *Engine) Append(ctx context.Context, t kv.Term, b kv.Batch) (kv.Revision, error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return 0, e.problem("write", kv.ErrClosed)
	case t == 0 || t != e.term:
		return 0, e.problem("write", fmt.Errorf("term %d is over: %w", t, kv.ErrFenced))
	case ctx.Err() != nil:
		return 0, e.problem("write", context.Cause(ctx))
	case e.db.broken.Load():
		return 0, e.problem("write", errBroken)
	}
	next := e.revision + 1
	err := e.db.transact(e.commit, func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte(rowsBucket))
		for _, p := range b.Put {
			if err := rows.Put([]byte(p.Key), p.Value); err != nil {
				return err
			}
		}
		for _, k := range b.Delete {
			if err := rows.Delete([]byte(k)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(metaBucket)).Put([]byte(revisionKey), binary.BigEndian.AppendUint64(nil, uint64(next)))
	})
	if err == nil {
		e.revision = next
		e.history.add(next, b)
		return next, nil
	}
	if e.doubtful(next) {
		e.term = 0
		return 0, e.problem("write", fmt.Errorf("%w: %w", kv.ErrUnknown, err))
	}
	return 0, e.problem("write", err)
}

// doubtful reports whether a commit that has failed may be in the file all the same. bbolt writes the page that makes a
// transaction valid last of all, so the revision in the file tells: when it is still the old one that page was never written. When
// it is the new one, the page was written but its sync failed.
func (e *Engine) doubtful(next kv.Revision) bool {
	have, err := e.db.revision()
	return err != nil || have >= next
}

// Load implements [kv.Engine]. It reads in one transaction of bbolt, which lasts until the sequence has been ranged over, once, or
// until Close.
func (e *Engine) Load(ctx context.Context) (kv.Revision, iter.Seq2[kv.Entry, error]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var c *scan
	var revision kv.Revision
	err := kv.ErrClosed
	switch {
	case e.closed:
	case e.db == nil:
		err = fmt.Errorf("it is not owned: %w", kv.ErrFenced)
	default:
		c, revision, err = e.db.scan()
	}
	if err != nil {
		return 0, func(yield func(kv.Entry, error) bool) { yield(kv.Entry{}, e.problem("read", err)) }
	}
	e.scans[c] = struct{}{}
	return revision, func(yield func(kv.Entry, error) bool) {
		defer e.forget(c)
		for {
			entry, ok, err := c.next()
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(kv.Entry{}, e.problem("read", err))
				return
			}
			if !ok || !yield(entry, nil) {
				return
			}
		}
	}
}

// Watch implements [kv.Engine].
func (e *Engine) Watch(ctx context.Context, after kv.Revision) iter.Seq2[kv.Batch, error] {
	return func(yield func(kv.Batch, error) bool) {
		for {
			next, more, err := e.history.after(after)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(kv.Batch{}, e.problem("watch", err))
				return
			}
			for _, b := range next {
				if !yield(b, nil) {
					return
				}
				after = b.Revision
			}
			if len(next) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
			}
		}
	}
}

// Close implements [kv.Engine].
func (e *Engine) Close() error {
	e.closing()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed, e.term = true, 0
	e.history.end()
	if err := e.drop(); err != nil {
		return e.problem("close", err)
	}
	return nil
}

// forget ends a scan whose caller has seen enough.
func (e *Engine) forget(c *scan) {
	c.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.scans, c)
}

// drop closes the file and gives up its lock. The caller holds the lock of e.
func (e *Engine) drop() error {
	if e.db == nil {
		return nil
	}
	for c := range e.scans {
		c.end()
	}
	clear(e.scans)
	db := e.db
	e.db = nil
	return db.close()
}

// problem says what could not be done with which file, in the kinds of package kv.
func (e *Engine) problem(what string, err error) error {
	switch {
	case errors.Is(err, kv.ErrUnknown):
	case full(err):
		err = fmt.Errorf("%w: %w", kv.ErrFull, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		err = fmt.Errorf("%w: %w", kv.ErrReadOnly, err)
	}
	return fmt.Errorf("%s database %s: %w", what, e.path, err)
}

// full reports whether an error is about space. bbolt keeps only the text of some errors of the system.
func full(err error) bool {
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, no) || strings.Contains(err.Error(), no.Error()) {
			return true
		}
	}
	return false
}
