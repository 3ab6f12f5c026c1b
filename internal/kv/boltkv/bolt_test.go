// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv_test

import (
	"os"
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
			dir := fastDir(t)
			return func() kv.Engine { return child(dir) }
		},
		OwnWaits: true,
		Unknown:  boltkv.FailNextCommit,
		Compact:  boltkv.Forget,
		Child:    child,
	})
}

// fastDir is a directory in memory, where there is one: the suite ends processes, not machines, and need not wait for disks.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "boltkv-test-*") //nolint:usetesting // It is about another place.
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
