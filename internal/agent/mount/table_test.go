// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

// listed is a table as the kernel prints it: two mounts stacked at /a, one hidden below a later mount of /b, and a space in a path.
const listed = `20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:30 / /a rw - tmpfs one rw
22 21 0:31 / /a rw,nosuid - tmpfs two rw
23 22 0:32 /sub /a/deep ro - nfs4 nas1:/x rw,vers=4.2
24 20 0:33 / /b/deep rw - tmpfs hidden rw
25 20 0:34 / /b rw shared:4 master:2 - tmpfs cover rw
26 20 8:1 /data/with\040space /data rw - ext4 /dev/sda1 rw
27 20 8:1 /data /c rw - ext4 /dev/sda1 rw
`

func parse(tb testing.TB, text string) mount.Table {
	tb.Helper()
	table, err := mount.ParseTable(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

func TestLookUpsEndOnTheMountThatThePathLeadsTo(t *testing.T) {
	table := parse(t, listed)
	cases := []struct {
		path, rest string
		id         int
		mounted    bool
	}{
		{"/", "/", 20, true},
		{"/etc/fstab", "/etc/fstab", 20, false},
		{"/a", "/", 22, true},
		{"/a/file", "/file", 22, false},
		{"/ab", "/ab", 20, false},
		{"/a/deep/er", "/er", 23, false},
		{"/b/deep", "/deep", 25, false}, // The mount that is listed there is hidden.
		{"/data", "/", 26, true},
	}
	for _, tc := range cases {
		e, rest, ok := table.Reach(tc.path)
		if !ok || e.ID != tc.id || rest != tc.rest {
			t.Errorf("%s leads to mount %d, %s", tc.path, e.ID, rest)
		}
		if _, at := table.At(tc.path); at != tc.mounted {
			t.Errorf("%s is a mount: %v", tc.path, at)
		}
	}
	if _, _, ok := mount.Table(nil).Reach("/"); ok {
		t.Error("an empty table has a root")
	}
}

func TestTwinsShowTheSameFiles(t *testing.T) {
	table := parse(t, listed)
	twins := table.Twins(table[7])
	if len(twins) != 1 || twins[0].ID != 26 {
		t.Errorf("twins %v", twins)
	}
	if !table[3].ReadOnly() || table[0].ReadOnly() || !table[5].Shared() || table[1].Shared() {
		t.Error("options are not understood")
	}
}

func TestMountsAreToldApartByTheirUniqueNumbers(t *testing.T) {
	dir := mounttest.Scratch(t)
	var r mount.Reader
	defer func() { _ = r.Close() }()
	var before mount.Entry
	for range 3 {
		tmpfs(t, dir)
		table, err := r.Table()
		if err != nil {
			t.Fatal(err)
		}
		e, ok := table.At(dir)
		if !ok || e.Source != "foreign" {
			t.Fatalf("found %v", e)
		}
		if e.Unique == 0 {
			unmount(t, dir)
			t.Skip("needs Linux 6.8: mounts have no unique numbers")
		}
		if e.Same(before) || before.ID != 0 && before.ID != e.ID {
			t.Errorf("mount %d (%d) after %d (%d)", e.ID, e.Unique, before.ID, before.Unique)
		}
		before = e
		unmount(t, dir)
	}
	if table, err := r.Table(); err != nil {
		t.Error(err)
	} else if _, ok := table.Find(before); ok {
		t.Error("an unmounted one is still listed")
	}
}

func TestWithoutUniqueNumbersAllElseMustBeEqual(t *testing.T) {
	e := parse(t, listed)[3]
	if !e.Same(e) {
		t.Error("a mount is not itself")
	}
	other := e
	other.Options = "rw"
	if !e.Same(other) {
		t.Error("other options make another mount")
	}
	other.Source = "nas2:/x"
	if e.Same(other) {
		t.Error("another source makes no other mount")
	}
}

func TestChangesOfTheTableAreTold(t *testing.T) {
	dir := mounttest.Scratch(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := mount.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tmpfs(t, dir)
	<-changes
	unmount(t, dir)
	<-changes
	cancel()
	if _, open := <-changes; open {
		if _, open = <-changes; open {
			t.Error("changes are told after the end")
		}
	}
}

func TestTableIsReadOnlyWhenItHasChanged(t *testing.T) {
	dir := mounttest.Scratch(t)
	var r mount.Reader
	defer func() { _ = r.Close() }()
	first, err := r.Table()
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Table()
	if err != nil || &first[0] != &second[0] {
		t.Errorf("read again: %v", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	third, err := r.Table()
	if e, ok := third.At(dir); err != nil || !ok || !e.ReadOnly() {
		t.Errorf("after a change: %v, %v", e, err)
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(listed)
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := mount.ParseTable(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range table {
			if _, ok := table.At(e.Target); ok && e.Target == "" {
				t.Error("a mount without a place was found")
			}
			table.Twins(e)
		}
	})
}

func BenchmarkTable(b *testing.B) {
	var r mount.Reader
	defer func() { _ = r.Close() }()
	for b.Loop() {
		if _, err := r.Table(); err != nil {
			b.Fatal(err)
		}
	}
}
