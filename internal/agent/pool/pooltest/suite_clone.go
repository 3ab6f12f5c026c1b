// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func (u *subject) cloner(t *testing.T) pool.Cloner {
	t.Helper()
	d, ok := u.d.(pool.Cloner)
	if !ok {
		t.Skip("the driver makes no clones")
	}
	return d
}

// volumeOf names a volume as a source.
func volumeOf(id pool.ID) pool.SnapshotID {
	return pool.SnapshotID{Resource: id.Resource, Volume: id.Volume}
}

// clone makes a finished volume from a source.
func (u *subject) clone(t *testing.T, id pool.ID, size int64, from pool.SnapshotID) {
	t.Helper()
	var last pool.Copied
	if err := u.cloner(t).Clone(t.Context(), id, size, from, func(c pool.Copied) { last = c }); err != nil {
		t.Fatalf("clone %s of %d bytes from %s: %v", id, size, from, err)
	}
	if last.Done != last.Total {
		t.Errorf("progress ended with %+v", last)
	}
	if !u.Slow { // CloneIsNewUntilFinished looks in any case.
		if v := u.find(t, id); !v.New {
			t.Errorf("cloned: %+v", v)
		}
	}
	u.finish(t, id)
}

func testClone(t *testing.T, u *subject) {
	u.cloner(t)
	u.filled(t, db(0), 4*MiB, "one")
	u.taken(t, snapshot("s"))
	copies := []pool.ID{{Resource: "same"}, {Resource: "larger", Volume: 3}, {Resource: "volume"}}
	u.clone(t, copies[0], 4*MiB, snapshot("s"))
	u.clone(t, copies[1], 6*MiB, snapshot("S"))
	u.clone(t, copies[2], 5*MiB, volumeOf(pool.ID{Resource: "DB"}))
	u.fill(t, db(0), "two")
	u.removeSnapshot(t, snapshot("s"))
	u.restart(t)
	for i, size := range []int64{4 * MiB, 6 * MiB, 5 * MiB} {
		if v := u.find(t, copies[i]); v.Size != size || v.New || v.RolledBack != "" {
			t.Errorf("%+v", v)
		}
		u.wantContent(t, copies[i], "one", 4*MiB)
	}
	u.wantContent(t, db(0), "two", 4*MiB)
	// A clone is a volume like others, and none of its source's.
	u.fill(t, copies[0], "three")
	u.grow(t, copies[0], 8*MiB)
	u.wantContent(t, copies[0], "three", 4*MiB)
	u.wantContent(t, copies[2], "one", 4*MiB)
	u.clone(t, db(1), 8*MiB, volumeOf(copies[0]))
	u.remove(t, copies[0])
	u.wantContent(t, db(1), "three", 4*MiB)
}

func testCloneNew(t *testing.T, u *subject) {
	d := u.cloner(t)
	ctx := t.Context()
	u.filled(t, db(0), MiB, "content")
	u.taken(t, snapshot("s"))
	u.take(t, snapshot("new"))
	u.create(t, db(1), MiB)
	for what, from := range map[string]pool.SnapshotID{"no volume": volumeOf(db(7)), "a new volume": volumeOf(db(1)), "no snapshot": snapshot("x"), "a new snapshot": snapshot("new")} {
		e := wantError[*pool.NotFoundError](t, what, d.Clone(ctx, db(2), MiB, from, nil))
		if e.ID != from.Of() || e.Snapshot != from.Snapshot {
			t.Errorf("%s: %+v", what, e)
		}
	}
	u.absent(t, db(2))
	_ = wantError[*pool.ExistsError](t, "clone over a volume", d.Clone(ctx, db(0), MiB, snapshot("s"), nil))
	_ = wantError[*pool.SizeError](t, "clone that is too small", d.Clone(ctx, db(2), 4096, snapshot("s"), nil))
	_ = wantError[*pool.SizeError](t, "clone without a size", d.Clone(ctx, db(2), 0, snapshot("s"), nil))
	u.absent(t, db(2))
	// What is NEW gives way to what is made now, in either direction.
	u.clone(t, db(1), 2*MiB, snapshot("s"))
	u.wantContent(t, db(1), "content", MiB)
	if err := d.Clone(ctx, db(2), MiB, snapshot("s"), nil); err != nil {
		t.Fatal(err)
	}
	u.open(t, db(2)) // It may be open before it is finished.
	u.create(t, db(2), MiB)
	u.finish(t, db(2))
	if u.RealDevices {
		u.wantContent(t, db(2), "", 0)
	}
	if err := d.Clone(ctx, db(3), MiB, snapshot("s"), nil); err != nil {
		t.Fatal(err)
	}
	u.restart(t)
	if v := u.find(t, db(3)); !v.New {
		t.Errorf("%+v", v)
	}
	u.remove(t, db(3))
}

// testCloneSizes has sizes that are no multiple of anything: what was rounded up once must not be refused for it.
func testCloneSizes(t *testing.T, u *subject) {
	u.cloner(t)
	for i, size := range []int64{1, 4097, 1109605 * 8} {
		source, copied := pool.ID{Resource: "source", Volume: i}, pool.ID{Resource: "copied", Volume: i}
		from := pool.SnapshotID{Resource: "source", Volume: i, Snapshot: "s"}
		u.create(t, source, size)
		u.finish(t, source)
		u.taken(t, from)
		u.clone(t, copied, size, from)
		if a, b := u.find(t, source), u.find(t, copied); a.Size != b.Size {
			t.Errorf("%d bytes became %d and were cloned to %d", size, a.Size, b.Size)
		}
		u.clone(t, pool.ID{Resource: "again", Volume: i}, size, volumeOf(copied))
	}
}

func testManyClones(t *testing.T, u *subject) {
	d := u.cloner(t)
	n := u.few(20)
	u.filled(t, db(0), 2*MiB, "content")
	g, ctx := errgroup.WithContext(t.Context())
	id := func(i int) pool.ID { return pool.ID{Resource: fmt.Sprintf("clone%d", i)} }
	for i := range n {
		g.Go(func() error {
			if err := d.Clone(ctx, id(i), 2*MiB, volumeOf(db(0)), nil); err != nil {
				return err
			}
			if _, err := u.d.Open(ctx, id(i)); err != nil {
				return err
			}
			return u.d.Finish(ctx, id(i))
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		u.wantContent(t, id(i), "content", 2*MiB)
	}
}

func (u *subject) rollBacker(t *testing.T) pool.RollBacker {
	t.Helper()
	d, ok := u.d.(pool.RollBacker)
	if !ok {
		t.Skip("the driver rolls nothing back")
	}
	return d
}

func (u *subject) rollBack(t *testing.T, to pool.SnapshotID, token string) {
	t.Helper()
	if err := u.rollBacker(t).RollBack(t.Context(), to, token, nil); err != nil {
		t.Fatalf("roll back to %s: %v", to, err)
	}
	if v := u.find(t, to.Of()); v.RolledBack != token {
		t.Errorf("rolled back by %s: %+v", token, v)
	}
}

func testRollBack(t *testing.T, u *subject) {
	d := u.rollBacker(t)
	u.filled(t, db(0), 4*MiB, "one")
	u.taken(t, snapshot("one"))
	u.fill(t, db(0), "two")
	u.taken(t, snapshot("two"))
	u.grow(t, db(0), 6*MiB)
	u.fill(t, db(0), "three")

	release := u.Uses[pool.Opened](t, db(0), u.open(t, db(0)).Path)
	e := wantError[*pool.InUseError](t, "roll back", d.RollBack(t.Context(), snapshot("one"), "a", nil))
	if e.ID.Fold() != db(0) {
		t.Errorf("%+v", e)
	}
	u.wantContent(t, db(0), "three", 6*MiB)
	release()

	u.rollBack(t, snapshot("one"), "a")
	if v := u.find(t, db(0)); v.Size != 6*MiB || v.New || v.Device.Path != "" {
		t.Errorf("rolled back: %+v", v)
	}
	u.wantContent(t, db(0), "one", 4*MiB) // And zeros where it grew.
	u.taken(t, snapshot("three"))
	u.rollBack(t, snapshot("two"), "b")
	u.restart(t)
	u.wantContent(t, db(0), "two", 4*MiB)
	u.rollBack(t, snapshot("one"), "c")
	u.wantContent(t, db(0), "one", 4*MiB)
	for name, label := range map[string]string{"one": "one", "two": "two", "three": "one"} { // All are still there.
		u.wantSnapshot(t, snapshot(name), label, 4*MiB)
	}
	if len(u.list(t)) != 1 {
		t.Errorf("%+v", u.list(t))
	}
}

func testRollBackOnce(t *testing.T, u *subject) {
	d := u.rollBacker(t)
	u.filled(t, db(0), MiB, "one")
	u.taken(t, snapshot("s"))
	u.take(t, snapshot("new"))
	u.fill(t, db(0), "two")
	for what, to := range map[string]pool.SnapshotID{"no snapshot": snapshot("x"), "a new snapshot": snapshot("new"), "no volume": {Resource: "x", Snapshot: "s"}} {
		_ = wantError[*pool.NotFoundError](t, what, d.RollBack(t.Context(), to, "a", nil))
	}
	for _, token := range []string{"", "a b", "a\nb", "ä", string(make([]byte, 200))} {
		if err := d.RollBack(t.Context(), snapshot("s"), token, nil); err == nil {
			t.Errorf("token %q was taken", token)
		}
	}
	u.wantContent(t, db(0), "two", MiB)
	u.rollBack(t, snapshot("s"), "a")
	u.fill(t, db(0), "three")
	release := u.Uses[pool.Opened](t, db(0), u.open(t, db(0)).Path)
	for range 2 {
		u.restart(t)
		u.rollBack(t, snapshot("S"), "a") // Was done: nothing is to do, so that nobody is in the way.
		u.wantContent(t, db(0), "three", MiB)
	}
	release()
	u.rollBack(t, snapshot("s"), "b")
	u.wantContent(t, db(0), "one", MiB)
	u.remove(t, db(0))
	u.create(t, db(0), MiB)
	u.finish(t, db(0))
	if v := u.find(t, db(0)); v.RolledBack != "" {
		t.Errorf("a new volume was rolled back: %+v", v)
	}
}

// testCopyCrash ends the driver after each step of copies, and repeats the step in the next life.
func testCopyCrash(t *testing.T, u *subject) {
	u.rollBacker(t)
	u.filled(t, db(0), MiB, "one")
	again := func(t *testing.T, err error) { // A step that was done says so.
		t.Helper()
		if _, done := errors.AsType[*pool.ExistsError](err); err != nil && !done {
			t.Fatal(err)
		}
	}
	type step struct {
		name string
		do   func(*testing.T)
	}
	for _, s := range []step{
		{"take", func(t *testing.T) { u.take(t, snapshot("s")) }},
		{"finish snapshot", func(t *testing.T) { u.finishSnapshot(t, snapshot("s")) }},
		{"take again", func(t *testing.T) { again(t, u.snapshotter(t).TakeSnapshot(t.Context(), snapshot("s"), nil)) }},
		{"write", func(t *testing.T) { u.fill(t, db(0), "two") }},
		{"clone", func(t *testing.T) { again(t, u.cloner(t).Clone(t.Context(), db(1), 2*MiB, snapshot("s"), nil)) }},
		{"open", func(t *testing.T) { u.open(t, db(1)) }},
		{"finish", func(t *testing.T) { u.finish(t, db(1)) }},
		{"look at the clone", func(t *testing.T) { u.wantContent(t, db(1), "one", MiB) }},
		{"roll back", func(t *testing.T) { u.rollBack(t, snapshot("s"), "a") }},
		{"look at the volume", func(t *testing.T) { u.wantContent(t, db(0), "one", MiB) }},
		{"remove snapshot", func(t *testing.T) { u.removeSnapshot(t, snapshot("s")) }},
	} {
		t.Run(s.name, func(t *testing.T) {
			for range 2 {
				s.do(t)
				u.restart(t)
			}
		})
	}
}

func testCopyCancelled(t *testing.T, u *subject) {
	u.rollBacker(t)
	u.filled(t, db(0), MiB, "one")
	u.taken(t, snapshot("s"))
	u.fill(t, db(0), "two")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"take":            u.snapshotter(t).TakeSnapshot(ctx, snapshot("t"), nil),
		"finish snapshot": u.snapshotter(t).FinishSnapshot(ctx, snapshot("s")),
		"remove snapshot": u.snapshotter(t).RemoveSnapshot(ctx, snapshot("s")),
		"clone":           u.cloner(t).Clone(ctx, db(1), MiB, snapshot("s"), nil),
		"roll back":       u.rollBacker(t).RollBack(ctx, snapshot("s"), "a", nil),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	u.absent(t, db(1))
	if list := u.snapshots(t); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	u.wantContent(t, db(0), "two", MiB)
}
