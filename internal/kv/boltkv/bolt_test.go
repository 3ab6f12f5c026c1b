// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
)

func TestBolt(t *testing.T) {
	child := func(dir string) kv.Engine { return boltkv.New(filepath.Join(dir, "db")) }
	kvtest.TestEngine(t, kvtest.Subject{
		New: func(t *testing.T) func() kv.Engine {
			t.Helper()
			dir := t.TempDir()
			return func() kv.Engine { return child(dir) }
		},
		OwnWaits: true,
		Unknown:  boltkv.FailNextCommit,
		Compact:  boltkv.Forget,
		Child:    child,
	})
}
