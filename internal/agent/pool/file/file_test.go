// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == freeze.HelperName {
		syscall.Exit(freeze.HelperMain(os.Args[2:])) // Without the second that the race detector waits at the end.
	}
	if text := os.Getenv(victimEnv); text != "" {
		syscall.Exit(beVictim(text))
	}
	os.Exit(mounttest.Main(m))
}

// folder makes a pool's directory on a mounted filesystem.
func folder(t *testing.T, mount string) string {
	t.Helper()
	dir, err := os.MkdirTemp(mount, "pool-") //nolint:usetesting // On that filesystem.
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, c file.Config) *file.Pool {
	t.Helper()
	if c.Name == "" {
		c.Name, c.Node = "p", "n1"
	}
	p, err := file.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDriver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		provider, fstype string
		thin             bool
	}{
		{"FILE", "ext4", false},
		{"FILE_THIN", "ext4", true},
		{"FILE", "xfs", false},
		{"FILE_THIN", "btrfs", true},
		{"FILE_THIN", "tmpfs", true}, // Without direct I/O.
	} {
		t.Run(tc.provider+"/"+tc.fstype, func(t *testing.T) {
			t.Parallel() // Most of the time is waiting. And so pools race for loop devices, as agents on one host do.
			pooltest.NeedHost(t, "losetup", "mkfs.ext4")
			if tc.fstype != "tmpfs" {
				pooltest.NeedHost(t, "mkfs."+tc.fstype)
			}
			mount := pooltest.Mount(t, tc.fstype, 1<<30)
			pooltest.Suite{
				New:         func(t *testing.T) pooltest.Fixture { t.Helper(); return fixture(t, mount, tc.thin) },
				Granularity: file.Granularity,
				Thin:        tc.thin,
				RealDevices: true,
				Shares:      tc.fstype == "xfs" || tc.fstype == "btrfs",
			}.Run(t)
		})
	}
}

// fixture makes an empty pool on a mounted filesystem.
func fixture(t *testing.T, mount string, thin bool) pooltest.Fixture {
	t.Helper()
	dir := folder(t, mount)
	return pooltest.Fixture{
		Open:    func(t *testing.T) pool.Driver { t.Helper(); return open(t, file.Config{Dir: dir, Thin: thin}) },
		Uses:    pooltest.DeviceUses(),
		Foreign: func(t *testing.T) func(*testing.T) { t.Helper(); return plant(t, dir) },
	}
}

// plant puts files of others into a pool, with names that are nearly ours.
func plant(t *testing.T, dir string) func(*testing.T) {
	t.Helper()
	names := []string{
		"db_00000", "db_00000.img", "db_0000.volume", "db_000000.new", "db_00000.volume.bak", "DB_00000.volume", ".db_00000.new", "db-00000.volume",
		"db_65535.volume", "db.volume", "db_00000.new~", "lost+found", "_.new",
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Right names, but not regular files.
	for _, name := range []string{"web_00000.volume", "web_00001.new"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("db_00000", filepath.Join(dir, "web_00002.volume")); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) {
		t.Helper()
		for _, name := range names {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name {
				t.Errorf("foreign file %s: %q, %v", name, text, err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "web_") && e.Name() != ".holdfast-pool" && !slices.Contains(names, e.Name()) {
				t.Errorf("%s was left", e.Name())
			}
		}
		if len(entries) != len(names)+4 {
			t.Errorf("%d entries, want %d", len(entries), len(names)+4)
		}
	}
}
