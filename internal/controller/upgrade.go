// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// program is what the database says of who wrote it.
func (c Config) program() string {
	const short = 12
	commit := c.Build.Commit
	if len(commit) > short {
		commit = commit[:short]
	}
	return c.Build.Version + "+" + commit
}

// lockPatience is how long another controller on the same file is waited for: it may just be stopping.
const lockPatience = 10 * time.Second

// settings are those of the store, with what this program may write.
func (c Config) settings() []store.Setting {
	return append([]store.Setting{
		store.WrittenBy(store.Origin{Generation: schema.Generation, Program: c.program()}), store.OwnWithin(lockPatience),
	}, c.StoreSettings...)
}

// open opens the store, where it is not open yet.
func (c Config) open(ctx context.Context) (*store.Store, error) {
	if c.Store != nil {
		return c.Store, nil
	}
	st, err := store.Open(ctx, c.Engine, schema.Collections(), c.settings()...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), c.Engine.Close())
	}
	return st, nil
}

// upgrade brings a database that another version has written to this one. A backup is made before, unless nothing is in it.
func (c Config) upgrade(ctx context.Context, st *store.Store) error {
	v := st.Snapshot()
	was := v.Origin()
	if was.Generation == schema.Generation && was.Program == c.program() {
		return nil
	}
	if v.Revision() > 0 && c.Backups != nil {
		path, err := c.Backups.Make(ctx, "before-upgrade")
		if err != nil {
			return fmt.Errorf("the backup before the upgrade could not be made, so nothing was changed: %w", err)
		}
		c.Log.Info("another version wrote the database; a backup was made before it is changed",
			"wrote", was.Program, "generation", was.Generation, "program", c.program(), "backup", path)
	}
	if err := schema.Migrate(ctx, st, c.program(), schema.Migrations()); err != nil {
		return fmt.Errorf("upgrade the database: %w", err)
	}
	return nil
}
