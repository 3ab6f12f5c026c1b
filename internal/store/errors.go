// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Errors of the engine that reach the callers of a store, to be told apart with errors.Is. The package kv defines them; callers need
// not know it.
var (
	ErrFenced    = kv.ErrFenced
	ErrUnknown   = kv.ErrUnknown
	ErrCompacted = kv.ErrCompacted
	ErrFull      = kv.ErrFull
	ErrReadOnly  = kv.ErrReadOnly
	ErrClosed    = kv.ErrClosed
)

// Errors of the store itself.
var (
	// ErrAborted: the update was not made, because an update before it, on whose result it was built, could not be made
	// durable. It may be tried again.
	ErrAborted = errors.New("an earlier update did not become durable")
	// ErrUnavailable: no updates are taken until the state has been read again from the engine. Reads go on.
	ErrUnavailable = errors.New("the database is being read again")
	// ErrBusy: too many updates wait for durability.
	ErrBusy = errors.New("too many updates are waiting for the database")
)

// ExistsError refuses the insertion of a row whose key is taken.
type ExistsError struct {
	Collection string
	Key        string // as text
}

func (e *ExistsError) Error() string { return fmt.Sprintf("%s %s exists already", e.Collection, e.Key) }

// NotFoundError refuses the update or deletion of a row that is absent.
type NotFoundError struct {
	Collection string
	Key        string // as text
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s %s does not exist", e.Collection, e.Key)
}

// ParentError refuses a reference to a parent that is missing or closing.
type ParentError struct {
	Collection string // the child's
	Key        string // the child's, as text
	Parent     string // the parent's collection
	ParentKey  string // as text
	Closing    bool   // the parent exists but takes no new references
}

func (e *ParentError) Error() string {
	what := "does not exist"
	if e.Closing {
		what = "is being removed and takes no new references"
	}
	return fmt.Sprintf("%s %s needs %s %s, which %s", e.Collection, e.Key, e.Parent, e.ParentKey, what)
}

// ChildrenError refuses the deletion of a row that others refer to.
type ChildrenError struct {
	Collection string // the parent's
	Key        string // the parent's, as text
	Child      string // the children's collection
	Count      int
	First      []string // keys of the first few children, as text
}

func (e *ChildrenError) Error() string {
	more := ""
	if e.Count > len(e.First) {
		more = ", …"
	}
	return fmt.Sprintf("%s %s is still needed by %d of %s: %s%s", e.Collection, e.Key, e.Count, e.Child, strings.Join(e.First, ", "), more)
}

// UniqueError refuses a row that claims a value of a unique index which another row holds.
type UniqueError struct {
	Collection string
	Key        string // the refused row's, as text
	Index      string
	Value      string // as text
	Holder     string // key of the row that holds the value, as text
}

func (e *UniqueError) Error() string {
	return fmt.Sprintf("%s %s cannot have %s %s: %s has it", e.Collection, e.Key, e.Index, e.Value, e.Holder)
}

// LimitError refuses an update that is larger than a commit may be. Large work is a loop of small updates.
type LimitError struct {
	What string // "rows" or "bytes"
	Have int
	Max  int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the update has %d %s, at most %d are possible", e.Have, e.What, e.Max)
}

// RowError refuses a row that cannot be stored so that it reads back the same.
type RowError struct {
	Collection string
	Key        string // as text
	Reason     string
}

func (e *RowError) Error() string {
	return fmt.Sprintf("%s %s cannot be stored: %s", e.Collection, e.Key, e.Reason)
}

// AsideError refuses to overwrite a stored row that could not be used when the state was loaded.
type AsideError struct {
	Aside Aside
}

func (e *AsideError) Error() string {
	return fmt.Sprintf("%s %s is in the database but unusable (%s): repair or discard it first", e.Aside.Collection, e.Aside.Key, e.Aside.Reason)
}
