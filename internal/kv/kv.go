// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package kv is the contract of the engines under the store: a durable, ordered, exclusively owned map from keys to values.
//
// # Vocabulary
//
// An [Entry] is a key with its value. A [Batch] is the puts and deletes that become durable together. A [Revision] numbers
// the batches of a map, 1, 2, 3 and so on without a hole, for ever. A [Term] is the time in which one owner may append; a
// later Own ends every earlier term of the map, in this process or in another.
//
// # What an engine promises
//
//   - Whole: a batch is durable with all its rows or with none, through any crash.
//   - Durable: when Append has answered nil, no crash of the process and no loss of power takes the batch back.
//   - Ordered: revisions follow each other without a hole; Load yields exactly the fold of all batches up to its revision, and
//     Watch yields each later batch once, whole, in order, or ends with [ErrCompacted].
//   - Exclusive: once Own has answered, no Append of an earlier term ever succeeds again, however long it was under way. This
//     rests on the commit itself, never on a clock.
//   - Honest: an error other than [ErrUnknown] means that nothing was written. [ErrUnknown] means that the batch is durable or
//     not, whole in both cases, and that the term is over: the caller takes the map again and looks.
//
// An engine stores rows and nothing else. It knows no types, no indexes, no conditions.
//
// # Concurrency
//
// All methods may be called from several goroutines. Appends of one term run one after the other, in the order of the calls;
// the caller that wants throughput puts more into a batch. A sequence from Load may hold a read lock of the engine until it has
// been consumed, so a goroutine must not append in the middle of it.
package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// The limits of a batch. They fit in a transaction of an etcd server with its default settings, with room for the
// engine's own operations.
const (
	MaxRows  = 100     // puts and deletes in a batch
	MaxBytes = 1 << 20 // keys and values of a batch together
	MaxKey   = 4096    // bytes of a key
)

// Engine is a durable, ordered, exclusively owned map. The package comment says what it promises.
type Engine interface {
	// Own takes the map for the caller and ends every earlier term. It waits its turn until ctx ends: an engine whose owners
	// exclude each other by a lock then says who holds it. One that fails may have ended the earlier terms all the same.
	Own(ctx context.Context) (Term, error)

	// Load yields every entry of one revision, in key order. A sequence that meets an error yields it and ends.
	Load(ctx context.Context) (Revision, iter.Seq2[Entry, error])

	// Append makes b durable, whole, as the next revision. An empty batch is allowed: it proves that t still owns the map and
	// that the map can be written. When ctx ends meanwhile Append returns soon, with ErrUnknown if it cannot tell. Errors:
	// [ErrFenced], [ErrUnknown], [ErrFull], [ErrReadOnly], [ErrClosed], and a [*LimitError] for a batch that no engine takes.
	Append(ctx context.Context, t Term, b Batch) (Revision, error)

	// Watch yields each batch after a revision once, whole and in order; the delete of a key that was absent may be missing in it.
	// It ends by yielding an error: [ErrCompacted] when the engine has no longer all batches after that revision (the watcher loads
	// again), [ErrClosed], or the error of ctx.
	Watch(ctx context.Context, after Revision) iter.Seq2[Batch, error]

	// Close gives the map up. Every later call, and every sequence under way, ends with [ErrClosed].
	Close() error
}

// Term is one time of ownership. Terms of a map only grow.
type Term uint64

// Revision numbers the batches of a map. 0 is the empty map before the first batch.
type Revision uint64

// Entry is one row: a key of 1 to [MaxKey] bytes, which need not be text, and its value.
type Entry struct {
	Key   string
	Value []byte
}

// Batch is the rows that become durable together. No key may occur twice. The engine does not keep the slices of a batch
// that it was given, and a watcher must not change those of a batch that it was handed.
type Batch struct {
	Revision Revision // set in batches from Watch; Append ignores it
	Put      []Entry
	Delete   []string // a key that is absent is no error
}

// Errors that callers tell apart with errors.Is.
var (
	// ErrFenced: the term is over because someone else owns the map now. Nothing was written.
	ErrFenced = errors.New("another owner has taken the database")
	// ErrUnknown: whether the batch is durable could not be learned. The term is over.
	ErrUnknown = errors.New("the outcome is unknown")
	// ErrCompacted: the history does not reach back that far.
	ErrCompacted = errors.New("the history was compacted")
	// ErrFull: the database has no space left. Nothing was written; a later attempt may succeed.
	ErrFull = errors.New("no space left for the database")
	// ErrReadOnly: the database cannot be written. Nothing was written; a later attempt may succeed.
	ErrReadOnly = errors.New("the database is read-only")
	// ErrInUse: another process owns the map and did not give it up in time.
	ErrInUse = errors.New("the database is in use")
	// ErrCorrupt: what is stored is not a map of this engine, or is damaged.
	ErrCorrupt = errors.New("the database is damaged or of another kind")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("the database is closed")
)

// LimitError says that a batch breaks a rule that holds on every engine. Nothing was written.
type LimitError struct {
	What string // the rule, for example "rows"
	Key  string // the key concerned, when it is about one
	Have int
	Max  int
}

func (e *LimitError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("batch refused: %s (%d, at most %d) at key %q", e.What, e.Have, e.Max, e.Key)
	}
	return fmt.Sprintf("batch refused: %s (%d, at most %d)", e.What, e.Have, e.Max)
}

// Rows is the number of puts and deletes of b.
func (b Batch) Rows() int { return len(b.Put) + len(b.Delete) }

// Bytes is what b counts against [MaxBytes]: its keys and values.
func (b Batch) Bytes() int {
	n := 0
	for _, e := range b.Put {
		n += len(e.Key) + len(e.Value)
	}
	for _, k := range b.Delete {
		n += len(k)
	}
	return n
}

// Check returns a [*LimitError] when b is larger than any engine takes, has an empty or overlong key, or names a key twice. Every
// engine calls it first in Append.
func (b Batch) Check() error {
	if n := b.Rows(); n > MaxRows {
		return &LimitError{What: "too many rows", Have: n, Max: MaxRows}
	}
	if n := b.Bytes(); n > MaxBytes {
		return &LimitError{What: "too many bytes", Have: n, Max: MaxBytes}
	}
	seen := make(map[string]struct{}, b.Rows())
	for i := range b.Rows() {
		var k string
		if i < len(b.Put) {
			k = b.Put[i].Key
		} else {
			k = b.Delete[i-len(b.Put)]
		}
		if len(k) == 0 {
			return &LimitError{What: "empty key", Have: 0, Max: MaxKey}
		}
		if len(k) > MaxKey {
			return &LimitError{What: "key too long", Key: k[:32], Have: len(k), Max: MaxKey}
		}
		if _, twice := seen[k]; twice {
			return &LimitError{What: "key named twice", Key: k, Have: 2, Max: 1}
		}
		seen[k] = struct{}{}
	}
	return nil
}
