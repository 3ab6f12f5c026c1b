// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// snapshot is a snapshot of volume db/0.
func snapshot(name string) pool.SnapshotID { return pool.SnapshotID{Resource: "db", Snapshot: name} }

func (u *subject) snapshotter(t *testing.T) pool.Snapshotter {
	t.Helper()
	d, ok := u.d.(pool.Snapshotter)
	if !ok {
		t.Skip("the driver takes no snapshots")
	}
	return d
}

func (u *subject) snapshots(t *testing.T) []pool.Snapshot {
	t.Helper()
	list, err := u.snapshotter(t).Snapshots(t.Context(), "")
	if err != nil {
		t.Fatalf("snapshots: %v", err)
	}
	return list
}

// findSnapshot returns a snapshot that must exist, and looks whether it is listed for its resource alone.
func (u *subject) findSnapshot(t *testing.T, id pool.SnapshotID) pool.Snapshot {
	t.Helper()
	list, err := u.snapshotter(t).Snapshots(t.Context(), id.Resource)
	i := slices.IndexFunc(list, func(s pool.Snapshot) bool { return s.ID == id.Fold() })
	if err != nil || i < 0 {
		t.Fatalf("snapshot %s is not in %+v, %v", id, list, err)
	}
	if slices.ContainsFunc(list, func(s pool.Snapshot) bool { return s.ID.Resource != list[i].ID.Resource }) {
		t.Errorf("snapshots of %s: %+v", id.Resource, list)
	}
	return list[i]
}

func (u *subject) take(t *testing.T, id pool.SnapshotID) {
	t.Helper()
	var last pool.Copied
	told := 0
	err := u.snapshotter(t).TakeSnapshot(t.Context(), id, func(c pool.Copied) {
		if c.Done < last.Done || c.Done > c.Total {
			t.Errorf("progress went from %+v to %+v", last, c)
		}
		last = c
		told++
	})
	if err != nil {
		t.Fatalf("take %s: %v", id, err)
	}
	if told == 0 || last.Done != last.Total {
		t.Errorf("progress ended after %d calls with %+v", told, last)
	}
}

func (u *subject) finishSnapshot(t *testing.T, id pool.SnapshotID) {
	t.Helper()
	if err := u.snapshotter(t).FinishSnapshot(t.Context(), id); err != nil {
		t.Fatalf("finish %s: %v", id, err)
	}
}

func (u *subject) taken(t *testing.T, id pool.SnapshotID) {
	t.Helper()
	u.take(t, id)
	u.finishSnapshot(t, id)
}

func (u *subject) removeSnapshot(t *testing.T, id pool.SnapshotID) {
	t.Helper()
	if err := u.snapshotter(t).RemoveSnapshot(t.Context(), id); err != nil {
		t.Fatalf("remove %s: %v", id, err)
	}
}

// wantSnapshot looks whether a snapshot has a content, by a clone.
func (u *subject) wantSnapshot(t *testing.T, id pool.SnapshotID, label string, n int64) {
	t.Helper()
	look := pool.ID{Resource: "look"}
	u.clone(t, look, u.findSnapshot(t, id).Size, id)
	u.wantContent(t, look, label, n)
	u.remove(t, look)
}

func testSnapshotNew(t *testing.T, u *subject) {
	d := u.snapshotter(t)
	for what, err := range map[string]error{
		"take of no volume":     d.TakeSnapshot(t.Context(), snapshot("s"), nil),
		"finish of no snapshot": d.FinishSnapshot(t.Context(), snapshot("s")),
	} {
		_ = wantError[*pool.NotFoundError](t, what, err)
	}
	u.create(t, db(0), MiB)
	_ = wantError[*pool.NotFoundError](t, "take of a new volume", d.TakeSnapshot(t.Context(), snapshot("s"), nil))
	u.finish(t, db(0))
	begin := time.Now().Add(-time.Second) // Filesystems have clocks of their own.
	for range 2 {
		u.take(t, snapshot("s"))
		if s := u.findSnapshot(t, snapshot("s")); !s.New || s.Size != MiB || s.Created.Before(begin) || s.Created.After(time.Now().Add(time.Second)) {
			t.Errorf("taken: %+v", s)
		}
	}
	u.restart(t)
	u.take(t, snapshot("s")) // A NEW one is taken again.
	for range 2 {
		u.finishSnapshot(t, snapshot("s"))
		if s := u.findSnapshot(t, snapshot("s")); s.New || s.Size != MiB {
			t.Errorf("finished: %+v", s)
		}
	}
	u.restart(t)
	d = u.snapshotter(t)
	e := wantError[*pool.ExistsError](t, "take again", d.TakeSnapshot(t.Context(), snapshot("S"), nil))
	if e.ID != db(0) || e.Snapshot != "S" || e.Size != MiB {
		t.Errorf("%+v", e)
	}
	u.take(t, snapshot("t"))
	u.removeSnapshot(t, snapshot("t")) // While it is NEW.
	if list := u.snapshots(t); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if v := u.find(t, db(0)); v.New || v.Size != MiB {
		t.Errorf("the volume is %+v", v)
	}
	if volumes := u.list(t); len(volumes) != 1 {
		t.Errorf("snapshots are listed as volumes: %+v", volumes)
	}
}

func testSnapshotMoment(t *testing.T, u *subject) {
	u.snapshotter(t)
	u.filled(t, db(0), 4*MiB, "before")
	u.taken(t, snapshot("open"))
	u.fill(t, db(0), "between")
	u.close(t, db(0))
	u.taken(t, snapshot("closed"))
	u.grow(t, db(0), 8*MiB)
	u.fill(t, db(0), "after")
	u.taken(t, snapshot("grown"))
	u.remove(t, db(0))
	u.restart(t)
	u.wantSnapshot(t, snapshot("open"), "before", 4*MiB)
	u.wantSnapshot(t, snapshot("closed"), "between", 4*MiB)
	u.wantSnapshot(t, snapshot("GROWN"), "after", 8*MiB)
	u.filled(t, db(0), MiB, "another volume of that name")
	u.wantSnapshot(t, snapshot("open"), "before", 4*MiB)
}

func testSnapshotOrder(t *testing.T, u *subject) {
	d := u.snapshotter(t)
	n := u.few(30)
	kept := n - 1
	u.create(t, db(0), MiB)
	u.open(t, db(0))
	u.finish(t, db(0))
	name := func(i int) pool.SnapshotID { return snapshot(fmt.Sprintf("s%d", i)) }
	label := func(i int) string { return fmt.Sprintf("content %d", i) }
	for i := range n {
		u.fill(t, db(0), label(i))
		u.taken(t, name(i))
	}
	u.fill(t, db(0), "now")
	// One after the other in no order, and what is left has what it had.
	for _, i := range []int{3, 1, n - 2} {
		u.removeSnapshot(t, name(i))
		u.removeSnapshot(t, name(i))
	}
	u.wantSnapshot(t, name(2), label(2), MiB)
	u.taken(t, name(3))
	u.wantSnapshot(t, name(3), "now", MiB)
	g, ctx := errgroup.WithContext(t.Context())
	for _, i := range rand.Perm(n) {
		if i != kept {
			g.Go(func() error { return d.RemoveSnapshot(ctx, name(i)) })
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if list := u.snapshots(t); len(list) != 1 {
		t.Errorf("left: %+v", list)
	}
	u.wantSnapshot(t, name(kept), label(kept), MiB)
	u.wantContent(t, db(0), "now", MiB)
}

func testSnapshotNames(t *testing.T, u *subject) {
	d := u.snapshotter(t)
	u.create(t, db(0), MiB)
	u.finish(t, db(0))
	for _, id := range []pool.SnapshotID{
		{},
		snapshot(""), snapshot("../../x"), snapshot("a/b"), snapshot("a b"), snapshot("a@b"), snapshot("1a"), snapshot("ä"), snapshot(strings.Repeat("a", 49)),
		{Resource: "a@b", Snapshot: "s"},
		{Resource: "db", Volume: 65535, Snapshot: "s"},
	} {
		for what, err := range map[string]error{
			"take": d.TakeSnapshot(t.Context(), id, nil), "finish": d.FinishSnapshot(t.Context(), id), "remove": d.RemoveSnapshot(t.Context(), id),
		} {
			if _, absent := errors.AsType[*pool.NotFoundError](err); err == nil || absent {
				t.Errorf("%s of %q: got %v, want a refusal of the name", what, id, err)
			}
		}
	}
	long := pool.SnapshotID{Resource: strings.Repeat("x", 48), Volume: 65534, Snapshot: strings.Repeat("y", 48)}
	u.create(t, long.Of(), MiB)
	u.finish(t, long.Of())
	u.taken(t, long)
	u.restart(t)
	if s := u.findSnapshot(t, long); s.New || s.Size != MiB {
		t.Errorf("%+v", s)
	}
	if list := u.snapshots(t); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

// testSnapshotSpace looks who takes the room when a volume is written after a snapshot.
func testSnapshotSpace(t *testing.T, u *subject) {
	u.snapshotter(t)
	if !u.RealDevices {
		t.Skip("the pool's devices have no content")
	}
	if u.Encrypted {
		t.Skip("copies have headers too, which the pool below accounts for")
	}
	const size, tolerance = 16 * MiB, 2 * MiB
	u.filled(t, db(0), size, "before")
	u.taken(t, snapshot("first"))
	u.taken(t, snapshot("second"))
	volume := u.find(t, db(0)).Allocated
	sum := func() (bytes int64) {
		for _, s := range u.snapshots(t) {
			bytes += s.Allocated
		}
		return bytes
	}
	if got := sum(); u.Shares && got > tolerance || !u.Shares && got < 2*size-tolerance {
		t.Errorf("two snapshots take %d bytes before anything was overwritten", got)
	}
	u.fill(t, db(0), "after")
	if got := u.find(t, db(0)).Allocated; got > volume+tolerance || got < volume-tolerance {
		t.Errorf("the volume took %d bytes, and %d after it was overwritten", volume, got)
	}
	// The room is told once, whatever number of snapshots keep it.
	want := int64(size)
	if !u.Shares {
		want = 2 * size
	}
	if got := sum(); got < want-tolerance || got > want+tolerance {
		t.Errorf("two snapshots take %d bytes after %d were overwritten, want %d", got, size, want)
	}
	if first := u.findSnapshot(t, snapshot("first")).Allocated; first < size-tolerance || first > size+tolerance {
		t.Errorf("the older snapshot takes %d bytes", first)
	}
	u.removeSnapshot(t, snapshot("first"))
	if got := sum(); got < size-tolerance || got > size+tolerance {
		t.Errorf("one snapshot takes %d bytes", got)
	}
}

func testSuspend(t *testing.T, u *subject) {
	d, ok := u.d.(pool.Suspender)
	if !ok {
		t.Skip("the driver holds no writers back")
	}
	ids := []pool.ID{db(0), db(1), db(2)}
	for _, id := range ids {
		u.filled(t, id, MiB, "before")
	}
	u.close(t, db(2))
	suspend := func() pool.Suspension {
		t.Helper()
		s, err := d.Suspend(t.Context(), ids, time.Minute)
		if err != nil {
			t.Fatalf("suspend: %v", err)
		}
		return s
	}
	wantWritten := func(s pool.Suspension, want ...pool.ID) {
		t.Helper()
		for range 2 {
			if got, err := s.Resume(); err != nil || !slices.Equal(got, want) {
				t.Errorf("written are %v, %v, want %v", got, err, want)
			}
		}
	}
	wantWritten(suspend())
	s := suspend()
	u.taken(t, snapshot("s"))
	wantWritten(s)
	outer, inner := suspend(), suspend()
	wantWritten(outer)
	wantWritten(inner)
	if u.RealDevices { // Writers past a filesystem cannot be stopped, so they are told.
		s = suspend()
		u.fill(t, db(2), "after")
		u.fill(t, db(0), "after")
		wantWritten(s, db(0), db(2))
	}
	u.fill(t, db(0), "after")
	_, err := d.Suspend(t.Context(), []pool.ID{db(0), db(7)}, time.Minute)
	_ = wantError[*pool.NotFoundError](t, "suspend", err)
	u.fill(t, db(0), "after that")
}

// testMoment has someone write a number to one volume and then to another, over and over: in snapshots of one moment, the second is never ahead.
func testMoment(t *testing.T, u *subject) {
	d, ok := u.d.(pool.MomentTaker)
	if !ok || !u.RealDevices {
		t.Skip("the driver does not take several at one moment by itself")
	}
	ids := []pool.ID{db(0), db(1)}
	parts := make([]pool.SnapshotID, len(ids))
	paths := make([]string, len(ids))
	for i, id := range ids {
		u.filled(t, id, MiB, "before")
		paths[i] = u.open(t, id).Path
		parts[i] = pool.SnapshotID{Resource: id.Resource, Volume: id.Volume, Snapshot: "moment"}
	}
	stop := count(t, paths)
	err := d.TakeSnapshots(t.Context(), parts)
	if err := errors.Join(err, stop()); err != nil {
		t.Fatal(err)
	}
	numbers := make([]uint64, len(ids))
	for i, part := range parts {
		u.finishSnapshot(t, part)
		u.clone(t, db(5+i), MiB, part)
		b, err := readDevice(u.open(t, db(5+i)).Path, 8)
		if err != nil {
			t.Fatal(err)
		}
		numbers[i] = binary.BigEndian.Uint64(b)
	}
	if numbers[0] == 0 || numbers[1] > numbers[0] || numbers[0]-numbers[1] > 1 {
		t.Errorf("the snapshots have the numbers %d", numbers)
	}
	_ = wantError[*pool.ExistsError](t, "again", d.TakeSnapshots(t.Context(), parts))
	_ = wantError[*pool.NotFoundError](t, "of no volume", d.TakeSnapshots(t.Context(), []pool.SnapshotID{
		{Resource: "db", Snapshot: "other"}, {Resource: "db", Volume: 9, Snapshot: "other"},
	}))
	if left := u.snapshots(t); len(left) != len(parts) {
		t.Errorf("there are the snapshots %v", left)
	}
}

// count writes numbers that grow to the beginning of all devices, one after the other, until stop. It returns when the first was written.
func count(t *testing.T, paths []string) (stop func() error) {
	t.Helper()
	var devices []*os.File
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_SYNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		devices = append(devices, f)
	}
	write := func(n uint64) (err error) {
		for _, f := range devices {
			_, failed := f.WriteAt(binary.BigEndian.AppendUint64(nil, n), 0)
			err = errors.Join(err, failed)
		}
		return err
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for n := uint64(2); err == nil; n++ {
			select {
			case <-ended:
				for _, f := range devices {
					err = errors.Join(err, f.Close())
				}
				done <- err
				return
			default:
				err = write(n)
			}
		}
		done <- err
	}()
	return func() error {
		close(ended)
		return <-done
	}
}
