// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// backups notes what is asked for.
type backups struct {
	rest.Database
	made []string
	fail error
}

func (b *backups) Make(_ context.Context, reason string) (string, error) {
	b.made = append(b.made, reason)
	return "/backups/one.db", b.fail
}

func (b *backups) Run(ctx context.Context) { <-ctx.Done() }

func TestABackupIsMadeBeforeAnotherVersionChangesTheDatabase(t *testing.T) {
	engine := kvtest.NewMemory()
	start := func(version string, b *backups) (store.Origin, *log, error) {
		l := &log{}
		k, err := controller.New(t.Context(), controller.Config{
			Engine: engine.Peer(), Plaintext: true, Backups: b, Build: rest.Build{Version: version, Commit: "c"}, Log: slog.New(slog.NewTextHandler(l, nil)),
		})
		if err != nil {
			return store.Origin{}, l, err
		}
		o := k.Store.Snapshot().Origin()
		return o, l, k.Close()
	}
	for _, w := range []struct {
		version string
		made    int
	}{{"1.0", 0}, {"1.0", 0}, {"2.0", 1}, {"2.0", 0}} {
		b := &backups{}
		o, l, err := start(w.version, b)
		if err != nil || len(b.made) != w.made || o.Program != w.version+"+c" {
			t.Errorf("version %s made the backups %v, the database says %+v, %v", w.version, b.made, o, err)
		}
		if w.made > 0 && !l.says("backup=/backups/one.db") {
			t.Errorf("the log does not say where the backup is: %s", l.text.String())
		}
	}
	full := errors.New("no space left")
	if _, _, err := start("3.0", &backups{fail: full}); !errors.Is(err, full) {
		t.Errorf("without a backup the upgrade is answered %v", err)
	}
	if o, _, err := start("2.0", &backups{}); err != nil || o.Program != "2.0+c" {
		t.Errorf("after the refused upgrade the database says %+v, %v", o, err)
	}
}
