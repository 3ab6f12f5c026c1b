// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

// mountOn mounts a new XFS on a device with sectors of a size.
func mountOn(t *testing.T, sectors int) (dir string) {
	t.Helper()
	base := t.TempDir()
	image := filepath.Join(base, "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 320*pooltest.MiB))
	device := pooltest.Run(t, "losetup", "-f", "--show", "-b", fmt.Sprint(sectors), image)
	t.Cleanup(func() { pooltest.Run(background{t}, "losetup", "-d", device) })
	pooltest.Run(t, "mkfs.xfs", "-q", device)
	dir = filepath.Join(base, "mnt")
	must(t, os.Mkdir(dir, 0o700))
	pooltest.Run(t, "mount", device, dir)
	t.Cleanup(func() { must(t, pooltest.Unmount(dir)) })
	return dir
}

// background lets a program run after the context of a test has ended.
type background struct{ *testing.T }

func (background) Context() context.Context { return context.Background() }

// TestSectorsOfADeviceStaySmall opens volumes before and after they share blocks, for which the kernel would like larger sectors. With those, neither a
// filesystem nor a partition table that was made before could be read any more.
func TestSectorsOfADeviceStaySmall(t *testing.T) {
	pooltest.NeedHost(t, "losetup", "mkfs.xfs")
	for _, sectors := range []int{512, 4096} {
		p := open(t, file.Config{Dir: folder(t, mountOn(t, sectors)), Thin: true})
		must(t, p.Create(t.Context(), db, pooltest.MiB))
		device := small512(t, p, db)
		must(t, p.Finish(t.Context(), db))
		must(t, p.TakeSnapshot(t.Context(), snap, nil))
		writeSector(t, device, 3) // While it has the device that it had before.
		must(t, p.Close(t.Context(), db))
		writeSector(t, small512(t, p, db), 5)
		must(t, p.FinishSnapshot(t.Context(), snap))
		must(t, p.Clone(t.Context(), clone, pooltest.MiB, pool.SnapshotID{Resource: "db"}, nil))
		writeSector(t, small512(t, p, clone), 7)
		for id, want := range map[pool.ID][]int{db: {3, 5}, clone: {3, 5, 7}} {
			text, err := os.ReadFile(small512(t, p, id))
			must(t, err)
			for i := range len(text) / 512 {
				if got := text[i*512] != 0; got != strings.Contains(fmt.Sprint(want), fmt.Sprint(i)) && i < 10 {
					t.Errorf("sectors of %d bytes: sector %d of %s is written: %t", sectors, i, id, got)
				}
			}
		}
		must(t, errors.Join(p.Remove(t.Context(), db), p.Remove(t.Context(), clone)))
	}
}

// small512 opens a volume and looks at the sectors of its device.
func small512(t *testing.T, p *file.Pool, id pool.ID) (device string) {
	t.Helper()
	d, err := p.Open(t.Context(), id)
	must(t, err)
	text, err := os.ReadFile("/sys/block/" + filepath.Base(d.Path) + "/queue/logical_block_size")
	if err != nil || strings.TrimSpace(string(text)) != "512" {
		t.Errorf("%s has sectors of %s, %v", id, text, err)
	}
	return d.Path
}

// writeSector writes one sector past the cache.
func writeSector(t *testing.T, device string, at int64) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_WRONLY|unix.O_DIRECT, 0)
	must(t, err)
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // Aligned.
	must(t, err)
	page[0] = 'x'
	_, err = f.WriteAt(page[:512], at*512)
	must(t, errors.Join(err, f.Sync(), f.Close(), unix.Munmap(page)))
}

// TestReservedVolumesKeepTheirReservation takes snapshots and clones of FILE volumes as long as the pool admits. After that all volumes can be written over.
func TestReservedVolumesKeepTheirReservation(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.xfs")
	const size = 40 * pooltest.MiB
	p := open(t, file.Config{Dir: folder(t, pooltest.Mount(t, "xfs", 320*pooltest.MiB))})
	fill := func(id pool.ID, c string) {
		t.Helper()
		d, err := p.Open(t.Context(), id)
		must(t, err)
		must(t, os.WriteFile(d.Path, bytes.Repeat([]byte(c), size), 0o600))
		must(t, flush(d.Path))
	}
	must(t, p.Create(t.Context(), db, size))
	must(t, p.Finish(t.Context(), db))
	fill(db, "a")
	before := free(t, p)
	must(t, p.TakeSnapshot(t.Context(), snap, nil))
	must(t, p.FinishSnapshot(t.Context(), snap))
	wantFree := func(want int64) {
		t.Helper()
		if got := free(t, p); got < want-4*pooltest.MiB || got > want+4*pooltest.MiB {
			t.Errorf("%d bytes are free, want %d", got, want)
		}
	}
	wantFree(before - size) // What the volume needs when it is written.
	must(t, p.Clone(t.Context(), clone, size, pool.SnapshotID{Resource: "db"}, nil))
	must(t, p.Finish(t.Context(), clone))
	wantFree(before - 2*size)
	if v, _, err := p.Find(t.Context(), clone); err != nil || v.Allocated < size {
		t.Errorf("%+v, %v", v, err)
	}
	// Clones that share nothing with others yet, but would have to.
	var made []pool.ID
	for i := range 10 {
		id := pool.ID{Resource: "more", Volume: i}
		err := p.Clone(t.Context(), id, size, snap, nil)
		if err != nil {
			if e, ok := errors.AsType[*pool.NoSpaceError](err); !ok || e.Asked != size || e.Free >= size {
				t.Errorf("%v", err)
			}
			break
		}
		must(t, p.Finish(t.Context(), id))
		made = append(made, id)
	}
	if left := free(t, p); len(made) == 0 || len(made) == 10 || left >= size {
		t.Errorf("%d more clones were made, and %d bytes are left", len(made), left)
	}
	for _, id := range append(made, db, clone) {
		fill(id, "b")
	}
	for _, id := range append(made, db, clone) {
		must(t, p.Remove(t.Context(), id))
	}
	must(t, p.RemoveSnapshot(t.Context(), snap))
}

// TestLayersAreCountedRight compares with a count of single bytes.
func TestLayersAreCountedRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const room = 40
		var spans []file.Span
		volumes, first := [room]int{}, [room]int{}
		for i := range first {
			first[i] = -1
		}
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			start := rapid.IntRange(0, room-1).Draw(t, "start")
			s := file.Span{Start: uint64(start), End: uint64(rapid.IntRange(start+1, room).Draw(t, "end")), Owner: rapid.IntRange(-1, 3).Draw(t, "owner")}
			spans = append(spans, s)
			for at := s.Start; at < s.End; at++ {
				switch {
				case s.Owner < 0:
					volumes[at]++
				case first[at] < 0 || s.Owner < first[at]:
					first[at] = s.Owner
				}
			}
		}
		type piece struct{ volumes, first int }
		want, got := map[piece]int64{}, map[piece]int64{}
		for at := range room {
			if volumes[at] > 0 || first[at] >= 0 {
				want[piece{volumes[at], first[at]}]++
			}
		}
		file.Layers(spans, func(bytes int64, volumes, first int) { got[piece{volumes, first}] += bytes })
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func FuzzFileNames(f *testing.F) {
	for _, seed := range []string{
		"db_00000.volume", "db_00000.new", "db_00000.clone", "db_00000.copy", "db_00000@s.snapshot", "db_00000@s.new", "db_00000@s.copy", "db_00000@s.volume",
		"db_00000.snapshot", "db_00000.rolled", "DB_00000.volume", "db_00000@S.snapshot", "db_00000@.new", "@s.new", "db_00000@a@b.new", ".new", "db_00000@s", "db_00000@../x.new",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		back, ok := file.ParseName(name)
		if ok && (back != name || strings.ContainsAny(name, "/\x00")) {
			t.Fatalf("%q was taken for %q", name, back)
		}
	})
}
