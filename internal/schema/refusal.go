// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Update runs one use case as one transaction and returns when it is durable. What the store
// refuses comes back as an *errs.Error about the objects involved, by the names that they were
// created with, so that no use case checks by itself what the store checks for all.
func Update(ctx context.Context, st *store.Store, fn func(*store.Tx) error) (store.Revision, error) {
	rev, err := st.Update(ctx, func(tx *store.Tx) error { return refusal(tx, fn(tx)) })
	return rev, Refusal(err)
}

// UpdateEach runs a transaction of its own for each item, as Update does, and returns when all
// are durable. Some run at a time: the store merges them into few commits. After an error no
// more are begun.
func UpdateEach[T any](ctx context.Context, st *store.Store, items []T, do func(*store.Tx, T) error) error {
	const atOnce = 32
	for chunk := range slices.Chunk(items, atOnce) {
		failed := make([]error, len(chunk))
		var wg sync.WaitGroup
		for i, item := range chunk {
			wg.Go(func() {
				_, failed[i] = Update(ctx, st, func(tx *store.Tx) error { return do(tx, item) })
			})
		}
		wg.Wait()
		if err := errors.Join(failed...); err != nil {
			return err
		}
	}
	return nil
}

// Refusal turns an error of the store into one that a user can read. An *errs.Error and nil
// pass through.
func Refusal(err error) error {
	if err = refusal(nil, err); err == nil || errs.As(err) != nil {
		return err
	}
	return engineRefusal(err)
}

// refusal is Refusal for what a transaction refuses, with the names that r has for keys. What
// does not come from the transaction passes through.
func refusal(r store.Reader, err error) error {
	if err == nil || errs.As(err) != nil {
		return err
	}
	var (
		exists   *store.ExistsError
		absent   *store.NotFoundError
		parent   *store.ParentError
		children *store.ChildrenError
		unique   *store.UniqueError
		limit    *store.LimitError
		aside    *store.AsideError
	)
	switch {
	case errors.As(err, &exists):
		n := nounOf(exists.Collection)
		return errs.New(errs.Exists, n.object, "%s exists already", n.named(r, exists.Key)).Wrap(err)
	case errors.As(err, &absent):
		n := nounOf(absent.Collection)
		return errs.New(errs.NotFound, n.object, "%s does not exist", n.named(r, absent.Key)).Wrap(err)
	case errors.As(err, &parent):
		return parentRefusal(r, parent).Wrap(err)
	case errors.As(err, &children):
		return childrenRefusal(r, children).Wrap(err)
	case errors.As(err, &unique):
		return uniqueRefusal(r, unique).Wrap(err)
	case errors.As(err, &limit):
		return errs.New(errs.Invalid, errs.NoObject, "the request is too large for one transaction").About(errs.Body).
			Because("%v", limit).Fix("split it into smaller requests").Wrap(err)
	case errors.As(err, &aside):
		n := nounOf(aside.Aside.Collection)
		return errs.New(errs.Exists, n.object, "%s is in the database but cannot be read", n.named(r, aside.Aside.Key)).
			Because("%s", aside.Aside.Reason).Fix("restore the database from a backup, or ask for help with this row").Wrap(err)
	default:
		return err
	}
}

func parentRefusal(r store.Reader, p *store.ParentError) *errs.Error {
	n, child := nounOf(p.Parent), nounOf(p.Collection)
	if p.Closing {
		return errs.New(errs.Closing, n.object, "%s takes no new %s", n.named(r, p.ParentKey), child.text).
			Because("it is being deleted").Fix("wait until it is gone, then create it again")
	}
	return errs.New(errs.NotFound, n.object, "%s does not exist", n.named(r, p.ParentKey))
}

func childrenRefusal(r store.Reader, c *store.ChildrenError) *errs.Error {
	n, child := nounOf(c.Collection), nounOf(c.Child)
	first := make([]string, len(c.First), len(c.First)+1)
	for i, key := range c.First {
		first[i] = child.short(r, key)
	}
	if c.Count > len(c.First) {
		first = append(first, "...")
	}
	return errs.New(errs.HasChildren, n.object, "%s cannot be deleted", n.named(r, c.Key)).
		Because("%d of its %ss still exist: %s", c.Count, child.text, strings.Join(first, ", ")).
		Fix("delete or move them first")
}

func uniqueRefusal(r store.Reader, u *store.UniqueError) *errs.Error {
	n := nounOf(u.Collection)
	kind, attr, value := errs.Invalid, errs.NoAttr, u.Value
	switch u.Index {
	case minorIndex:
		attr = errs.Minor
	case portIndex:
		attr, value = errs.Port, lastPart(value)
	case nodeIDIndex:
		attr, value = errs.NodeID, lastPart(value)
	case externalNameIndex:
		kind, attr = errs.Exists, errs.ExternalName
	}
	return errs.New(kind, n.object, "%s cannot have the %s %s", n.named(r, u.Key), u.Index, value).About(attr).
		Because("%s has it", n.named(r, u.Holder)).Fix("choose another, or leave the choice to the controller")
}

// lastPart is the number at the end of a value: what is before it says only what it is a
// number of.
func lastPart(value string) string { return value[strings.LastIndexByte(value, '/')+1:] }

func engineRefusal(err error) *errs.Error {
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrReadOnly):
		return errs.New(errs.Unavailable, errs.NoObject, "nothing was changed: the database cannot be written").
			Because("%v", err).Fix("free space on the controller's disk; reads go on, and writes do by themselves afterwards").Wrap(err)
	case errors.Is(err, store.ErrFenced):
		return errs.New(errs.Unavailable, errs.NoObject, "nothing was changed: another controller has taken over").
			Because("%v", err).Fix("send the request to the leading controller").Wrap(err)
	case errors.Is(err, store.ErrAborted), errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrClosed):
		return errs.New(errs.Unavailable, errs.NoObject, "nothing was changed: the database does not take writes now").
			Because("%v", err).Fix("try again").Wrap(err)
	case errors.Is(err, store.ErrUnknown), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errs.New(errs.TimedOut, errs.NoObject, "whether the change was made is not known").
			Because("%v", err).Fix("look at the object before trying again").Wrap(err)
	default:
		return errs.New(errs.Internal, errs.NoObject, "the change was not made").Because("%v", err).Wrap(err)
	}
}
