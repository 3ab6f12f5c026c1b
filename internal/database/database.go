// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package database has what an operator does to a whole database: check it, repair it, back it up and restore it, write it as JSON and
// read that, and move it between a file and etcd. Nothing here knows single objects.
//
// # What it promises
//
//   - Nothing is guessed. What cannot be used is set aside, as it is, where people can read it; nothing is made up in its place.
//   - Nothing is replaced before it was saved beside, and before what replaces it was read back whole and found sound.
//   - A database is replaced whole or not at all. In etcd, where it takes many transactions, a database that is filled halfway is
//     refused by every controller until the work was done again.
//
// # Vocabulary
//
// A [Place] is where a database is. A backup is a file like the embedded database, of either kind. An export is JSON.
package database

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Place is where a database is: in a file or, when File is empty, in etcd.
type Place struct {
	File string
	Etcd etcdkv.Settings
}

// String is the place for messages and for the REST API.
func (p Place) String() string {
	if p.File != "" {
		return "bolt:" + p.File
	}
	return "etcd:" + strings.Join(p.Etcd.Endpoints, ",") + p.Etcd.Base()
}

// Engine returns an engine to own the database with.
func (p Place) Engine() (kv.Engine, error) {
	if p.File != "" {
		return boltkv.New(p.File), nil
	}
	return etcdkv.New(p.Etcd)
}

// Reader returns an engine to read the database with. A file must not be owned by a process meanwhile; etcd may be.
func (p Place) Reader(ctx context.Context) (kv.Engine, error) {
	if p.File != "" {
		e, err := boltkv.OpenReader(ctx, p.File)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	return etcdkv.New(p.Etcd)
}

// Report is what a check has found.
type Report struct {
	Revision store.Revision
	Origin   store.Origin
	Rows     int             // that can be used
	Aside    []store.Aside   // that cannot be used
	Problems []store.Problem // among those that can
}

// Sound reports whether nothing is wrong.
func (r Report) Sound() bool { return len(r.Aside) == 0 && len(r.Problems) == 0 }

// Check reads a database, which need not be owned, and checks it: rows that do not decode or whose parents are missing, numbers and
// reservations that differ from a recount, and all that [schema.Check] knows.
func Check(ctx context.Context, e kv.Engine) (Report, error) {
	v, aside, err := store.Read(ctx, e, schema.Collections(), store.WrittenBy(store.Origin{Generation: schema.Generation}))
	if err != nil {
		return Report{}, err
	}
	r := Report{Revision: v.Revision(), Origin: v.Origin(), Aside: aside}
	for _, n := range v.Held() {
		r.Rows += n
	}
	if r.Revision > 0 || r.Rows > 0 { // an empty database lacks the rows that the first start makes
		r.Problems = schema.Check(v)
	}
	return r, nil
}

// CheckPlace checks the database at a place.
func CheckPlace(ctx context.Context, p Place) (Report, error) {
	e, err := p.Reader(ctx)
	if err != nil {
		return Report{}, err
	}
	r, err := Check(ctx, e)
	return r, errors.Join(err, e.Close())
}

// frozen is entries as an engine that is read alone.
type frozen struct {
	kv.Engine
	entries []kv.Entry
}

func (f frozen) Load(context.Context) (kv.Revision, iter.Seq2[kv.Entry, error]) {
	return 0, func(yield func(kv.Entry, error) bool) {
		for _, e := range f.entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// all reads every entry.
func all(ctx context.Context, e kv.Engine) ([]kv.Entry, error) {
	var list []kv.Entry
	_, entries := e.Load(ctx)
	for entry, err := range entries {
		if err != nil {
			return nil, err
		}
		list = append(list, entry)
	}
	return list, nil
}

// pieces divides work into batches that every engine takes.
func pieces(put []kv.Entry, del []string) iter.Seq[kv.Batch] {
	return func(yield func(kv.Batch) bool) {
		var b kv.Batch
		bytes := 0
		room := func(n int) bool {
			if b.Rows() < kv.MaxRows && bytes+n <= kv.MaxBytes {
				bytes += n
				return true
			}
			whole := b
			b, bytes = kv.Batch{}, n
			return yield(whole)
		}
		for _, k := range del {
			if !room(len(k)) {
				return
			}
			b.Delete = append(b.Delete, k)
		}
		for _, e := range put {
			if !room(len(e.Key) + len(e.Value)) {
				return
			}
			b.Put = append(b.Put, e)
		}
		if b.Rows() > 0 {
			yield(b)
		}
	}
}

// fill makes the content of an owned map exactly the entries, in many batches, of which the first one marks the map as incomplete and
// the last one takes that back.
func fill(ctx context.Context, e kv.Engine, what string, entries []kv.Entry) error {
	term, err := e.Own(ctx)
	if err != nil {
		return err
	}
	have, err := all(ctx, e)
	if err != nil {
		return err
	}
	want := make(map[string]string, len(entries))
	for _, entry := range entries {
		want[entry.Key] = string(entry.Value)
	}
	var gone []string
	same := map[string]bool{}
	for _, entry := range have {
		value, stays := want[entry.Key]
		if !stays && entry.Key != store.PartialKey {
			gone = append(gone, entry.Key)
		}
		same[entry.Key] = stays && value == string(entry.Value)
	}
	changed := slices.DeleteFunc(slices.Clone(entries), func(entry kv.Entry) bool { return same[entry.Key] })
	if _, err := e.Append(ctx, term, kv.Batch{Put: []kv.Entry{{Key: store.PartialKey, Value: []byte(what)}}}); err != nil {
		return err
	}
	for b := range pieces(changed, gone) {
		if _, err := e.Append(ctx, term, b); err != nil {
			return fmt.Errorf("%s was not finished; do it again: %w", what, err)
		}
	}
	if _, err := e.Append(ctx, term, kv.Batch{Delete: []string{store.PartialKey}}); err != nil {
		return fmt.Errorf("%s was not finished; do it again: %w", what, err)
	}
	return nil
}
