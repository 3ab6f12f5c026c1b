// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// A migration happens whole, with the change of the generation, or not at all, and may be run again.
func TestAMigrationIsWholeAndRepeatable(t *testing.T) {
	engine := kvtest.NewMemory()
	st, err := store.Open(t.Context(), engine, schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	broken := errors.New("broken off")
	runs := 0
	migrations := map[int]schema.Migration{schema.Generation: func(tx *store.Tx) error {
		runs++
		if err := schema.Groups.Insert(tx, schema.Group{Name: "migrated"}); err != nil {
			return err
		}
		if runs == 1 {
			return broken
		}
		return nil
	}}
	if err := schema.Migrate(t.Context(), st, "new", migrations); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if o := st.Snapshot().Origin(); o != (store.Origin{}) || schema.Groups.Len(st.Snapshot()) != 0 {
		t.Errorf("half a migration left %+v and %d groups", o, schema.Groups.Len(st.Snapshot()))
	}
	for range 2 {
		if err := schema.Migrate(t.Context(), st, "new", migrations); err != nil {
			t.Fatal(err)
		}
	}
	if _, there := schema.Groups.Get(st.Snapshot(), model.GroupName("migrated").Key()); !there || runs != 2 {
		t.Errorf("the migration ran %d times", runs)
	}
	if err := schema.Migrate(t.Context(), st, "newer", migrations); err != nil {
		t.Fatal(err)
	}
	if o := st.Snapshot().Origin(); o != (store.Origin{Generation: schema.Generation, Program: "newer"}) || runs != 2 {
		t.Errorf("the database says %+v after %d runs", o, runs)
	}
}
