// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/store"
)

// Generation is the newest generation of the schema that this program knows. It grows with each change after which an older program
// must not write the database, whether rows are brought forward one by one when they are loaded (store.Version) or by a
// migration. A program refuses a database of a later generation.
const Generation = 1

// Migration brings the database from one generation to the next. It runs in one update, together with the change of the
// generation, so that it happens whole or not at all, and within the bounds of an update: what concerns each row of a large
// collection is an upgrade of rows, by store.Version.
type Migration func(*store.Tx) error

// Migrations returns the migration to each generation. One that is not listed needs none: its rows are brought forward when they
// are loaded.
func Migrations() map[int]Migration { return map[int]Migration{} }

// Migrate brings the database to this program's generation, and notes which program did. It may be run again after any failure.
func Migrate(ctx context.Context, st *store.Store, program string, migrations map[int]Migration) error {
	return migrateTo(ctx, st, store.Origin{Generation: Generation, Program: program}, migrations)
}

func migrateTo(ctx context.Context, st *store.Store, to store.Origin, migrations map[int]Migration) error {
	from := st.Snapshot().Origin().Generation
	for g := from + 1; g <= to.Generation; g++ {
		run := migrations[g]
		if run == nil {
			run = func(*store.Tx) error { return nil }
		}
		if err := st.Upgrade(ctx, store.Origin{Generation: g, Program: to.Program}, run); err != nil {
			return fmt.Errorf("bring the database from schema generation %d to %d: %w", g-1, g, err)
		}
	}
	if st.Snapshot().Origin() == to {
		return nil
	}
	return st.Upgrade(ctx, to, func(*store.Tx) error { return nil })
}
