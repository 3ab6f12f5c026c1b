// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
)

// Origin says which program writes a database, and the generation of its schema: a number that grows with each change after which an
// older program must not write the database. It is stored with every commit.
type Origin struct {
	Generation int    `json:"generation,omitempty"`
	Program    string `json:"program,omitempty"`
}

// WrittenBy makes the store refuse a database of a later generation than o's, with a [*NewerError]. A database of an earlier generation keeps
// it until [Store.Upgrade]. Without this setting every database is taken, and what it says of its origin is kept.
func WrittenBy(o Origin) Setting { return func(s *settings) { s.origin = &o } }

// NewerError refuses a database that a later program has written.
type NewerError struct {
	Database Origin
	Known    int // the newest generation that this program knows
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("version %s of the program wrote it with schema generation %d, and this one knows %d: "+
		"start version %s or a later one, or restore the backup that was made before its upgrade",
		e.Database.Program, e.Database.Generation, e.Known, e.Database.Program)
}

// Origin returns who wrote the newest durable state.
func (v *View) Origin() Origin { return v.state.origin }

// Upgrade runs fn as an update, and changes the origin to o in the same commit, also when fn writes nothing. It either happens whole
// or not at all, and may be run again when it did not.
func (s *Store) Upgrade(ctx context.Context, o Origin, fn func(*Tx) error) error {
	_, err := s.Update(ctx, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		tx.state.origin, tx.marked = o, true
		return nil
	})
	return err
}

// suits returns why a database of an origin cannot be used.
func (s *settings) suits(o Origin) error {
	if s.origin != nil && o.Generation > s.origin.Generation {
		return &NewerError{Database: o, Known: s.origin.Generation}
	}
	return nil
}
