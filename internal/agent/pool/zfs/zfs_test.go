// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs_test

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/zfs"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// zpool makes a zpool for a test, on the disk that the environment names, and skips the test when it names none.
func zpool(t *testing.T, name string) {
	t.Helper()
	dev := os.Getenv("HOLDFAST_LAB_ZFS_DISK")
	if dev == "" {
		t.Skip("needs ZFS and an empty disk: set HOLDFAST_LAB_ZFS_DISK, as in the lab")
	}
	pooltest.NeedHost(t, "zfs", "zpool")
	pooltest.Run(t, "zpool", "create", "-f", "-m", "none", name, dev)
	t.Cleanup(func() { pooltest.Run(t, "zpool", "destroy", "-f", name) })
}

// tools run programs, and tell what they ran when the environment wants it.
func tools(t *testing.T) command.Runner {
	t.Helper()
	e := &command.Exec{}
	if os.Getenv("HOLDFAST_LAB_TRACE") != "" {
		e.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return e
}

// open returns a driver as an agent that has just started has it.
func open(t *testing.T, c zfs.Config) *zfs.Pool {
	t.Helper()
	if c.Name == "" {
		c.Name = "p"
	}
	c.Host = zfs.NewHost(tools(t))
	d, err := zfs.New(c)
	must(t, err)
	return d
}

func TestDriver(t *testing.T) {
	for _, provider := range []string{"ZFS", "ZFS_THIN"} {
		t.Run(provider, func(t *testing.T) {
			zpool(t, "tank")
			pooltest.Run(t, "zfs", "create", "-o", "mountpoint=none", "tank/hf")
			c := zfs.Config{Dataset: "tank/hf", Thin: provider == "ZFS_THIN"}
			pooltest.Suite{
				New: func(t *testing.T) pooltest.Fixture {
					t.Helper()
					return pooltest.Fixture{
						Open:    func(t *testing.T) pool.Driver { t.Helper(); return open(t, c) },
						Uses:    pooltest.DeviceUses(),
						Foreign: func(t *testing.T) func(*testing.T) { t.Helper(); return plant(t, c.Dataset) },
					}
				},
				Granularity: zfs.DefaultBlock, Thin: c.Thin, RealDevices: true, Shares: true, Slow: true,
			}.Run(t)
		})
	}
}

// plant puts zvols of others into a dataset, with names that are ours or nearly so.
func plant(t *testing.T, dataset string) func(*testing.T) {
	t.Helper()
	names := []string{"db_00001", "db", "DB_00000", "db_00000:roll", "web_00000:gone:1"}
	for _, name := range names {
		pooltest.Run(t, "zfs", "create", "-s", "-V", "1m", "-b", "16k", dataset+"/"+name)
	}
	pooltest.Run(t, "zfs", "create", "-o", "mountpoint=none", dataset+"/web_00003")
	return func(t *testing.T) {
		t.Helper()
		for _, name := range append(names, "web_00003") {
			pooltest.Run(t, "zfs", "destroy", dataset+"/"+name)
		}
	}
}
