// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/lvm"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// extent is the size of extents in most groups of the tests: small, so that volumes have the sizes that the suite wants.
const extent = 64 << 10

// disk returns an empty disk that the environment names for these tests, and skips the test when it names none.
func disk(tb testing.TB, number string) string {
	tb.Helper()
	dev := os.Getenv("HOLDFAST_LAB_DISK" + number)
	if dev == "" {
		tb.Skip("needs device mapper and empty disks: set HOLDFAST_LAB_DISK1 to 3, as in the lab")
	}
	pooltest.NeedHost(tb, "lvm", "dmsetup")
	return dev
}

// group makes a volume group for a test.
func group(tb testing.TB, name, extent string, numbers ...string) {
	tb.Helper()
	var disks []string
	for _, number := range numbers {
		disks = append(disks, disk(tb, number))
	}
	pooltest.Run(tb, "pvcreate", append([]string{"--yes", "-ff"}, disks...)...)
	pooltest.Run(tb, "vgcreate", append([]string{"--yes", "--physicalextentsize", extent, name}, disks...)...)
	tb.Cleanup(func() {
		settle(tb)
		pooltest.Run(tb, "vgremove", "--yes", "-ff", name)
		pooltest.Run(tb, "pvremove", append([]string{"--yes", "-ff"}, disks...)...)
	})
}

// settle waits until udev has looked at all that was made and written: it has devices open while it looks.
func settle(tb testing.TB) {
	tb.Helper()
	if _, err := os.Stat("/run/udev/control"); err == nil {
		pooltest.Run(tb, "udevadm", "settle", "--timeout", "120")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDriver(t *testing.T) {
	for _, provider := range []string{"LVM", "LVM_THIN"} {
		t.Run(provider, func(t *testing.T) {
			thin := provider == "LVM_THIN"
			c := lvm.Config{Name: "p", Group: "vg"}
			group(t, c.Group, "64k", "1")
			if thin {
				c.ThinPool = "tp"
				pooltest.Run(t, "lvcreate", "--yes", "--size", "700m", "--poolmetadatasize", "16m", "--thinpool", "tp", "vg")
			}
			pooltest.Suite{
				New:         func(t *testing.T) pooltest.Fixture { t.Helper(); return fixture(t, c) },
				Granularity: extent, Thin: thin, RealDevices: true, Shares: true, Slow: true,
			}.Run(t)
		})
	}
}

// fixture is a pool that the tests share: the suite leaves it empty.
func fixture(t *testing.T, c lvm.Config) pooltest.Fixture {
	t.Helper()
	return pooltest.Fixture{
		Open:    func(t *testing.T) pool.Driver { t.Helper(); return open(t, c) },
		Uses:    pooltest.DeviceUses(),
		Foreign: func(t *testing.T) func(*testing.T) { t.Helper(); return plant(t, c) },
	}
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
func open(t *testing.T, c lvm.Config) pool.Driver {
	t.Helper()
	return openWith(t, c, tools(t))
}

func openWith(t *testing.T, c lvm.Config, runner command.Runner) pool.Driver {
	t.Helper()
	c.Host = lvm.NewHost(runner)
	c.Host.Limit = 5 * time.Minute // A virtual machine of the lab on a busy host is slow.
	if c.ThinPool != "" {
		d, err := lvm.NewThin(c)
		must(t, err)
		return d
	}
	d, err := lvm.NewThick(c)
	must(t, err)
	return d
}

// plant puts logical volumes of others into a group, with names that are ours or nearly so.
func plant(t *testing.T, c lvm.Config) func(*testing.T) {
	t.Helper()
	names := []string{"db_00001", "db", "db_0", "web_00000.daily", "web_00000+roll"}
	make := func(args ...string) {
		if c.ThinPool != "" {
			args = append(args, "--thin", "--virtualsize", "1m", c.Group+"/"+c.ThinPool)
		} else {
			args = append(args, "--size", "1m", c.Group)
		}
		pooltest.Run(t, "lvcreate", append([]string{"--yes", "-ay"}, args...)...)
	}
	for _, name := range names {
		make("--name", name)
	}
	tagged := []string{"other", "DB_00002", "db_00000+roll+roll"} // With our tag, and names that are none.
	for _, name := range tagged {
		make("--addtag", "holdfast", "--name", name)
	}
	content := []byte("precious")
	for _, name := range names {
		must(t, os.WriteFile(filepath.Join("/dev", c.Group, name), content, 0))
	}
	return func(t *testing.T) {
		t.Helper()
		for _, name := range names {
			text := pooltest.Run(t, "head", "-c", "8", filepath.Join("/dev", c.Group, name))
			if text != string(content) {
				t.Errorf("foreign volume %s has %q", name, text)
			}
		}
		for _, name := range append(names, tagged...) {
			pooltest.Run(t, "lvremove", "--yes", c.Group+"/"+name)
		}
	}
}
