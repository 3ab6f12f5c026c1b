// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func db(volume int) pool.ID { return pool.ID{Resource: "db", Volume: volume} }

func testNewUntilFinished(t *testing.T, u *subject) {
	if left := u.list(t); len(left) != 0 {
		t.Errorf("a pool without volumes lists %+v", left)
	}
	for range 2 {
		u.create(t, db(0), MiB)
		if v := u.find(t, db(0)); !v.New || v.Size != MiB || v.Device.Path != "" {
			t.Errorf("created: %+v", v)
		}
	}
	u.open(t, db(0))
	for range 2 {
		u.finish(t, db(0))
		if v := u.find(t, db(0)); v.New || v.Size != MiB || v.Device.Path == "" {
			t.Errorf("finished: %+v", v)
		}
	}
	u.create(t, db(1), MiB)
	u.finish(t, db(1)) // Without ever being open.
	u.create(t, pool.ID{Resource: "a"}, MiB)
	var names []string
	for _, v := range u.list(t) {
		names = append(names, v.ID.String())
	}
	if !slices.Equal(names, []string{"a/0", "db/0", "db/1"}) {
		t.Errorf("listed %v", names)
	}
}

func testNewIsReplaced(t *testing.T, u *subject) {
	for _, size := range []int64{4 * MiB, MiB, 2 * MiB} {
		u.create(t, db(0), size)
		u.open(t, db(0))
		u.create(t, db(0), size)
		if v := u.find(t, db(0)); v.Size != size || !v.New {
			t.Errorf("created with %d bytes: %+v", size, v)
		}
	}
	u.restart(t)
	u.create(t, db(0), 3*MiB)
	if d := u.open(t, db(0)); d.Size != 3*MiB {
		t.Errorf("device %+v", d)
	}
}

func testFinishedStays(t *testing.T, u *subject) {
	u.create(t, db(0), MiB)
	u.finish(t, db(0))
	for _, size := range []int64{MiB, 2 * MiB} {
		e := wantError[*pool.ExistsError](t, "create", u.d.Create(t.Context(), db(0), size))
		if e.Size != MiB || e.ID != db(0) {
			t.Errorf("%+v", e)
		}
	}
	if v := u.find(t, db(0)); v.New || v.Size != MiB {
		t.Errorf("%+v", v)
	}
}

func testSizes(t *testing.T, u *subject) {
	sizes := []int64{1, 511, 4095, 4096, 4097, 1109605, 976563 * 1024}
	if u.Thin {
		sizes = append(sizes, 1<<40, 1<<40+1)
	} else {
		sizes[len(sizes)-1] = 97657 * 1024 // So that the pool may be small.
	}
	if u.Slow {
		sizes = []int64{1, 4097, 1109605, sizes[len(sizes)-1]}
	}
	for i, size := range sizes {
		id := db(i)
		want, err := pool.RoundUp(size, u.Granularity)
		if err != nil {
			t.Fatal(err)
		}
		u.create(t, id, size)
		d := u.open(t, id)
		u.create(t, id, size) // Compared with what it was rounded to.
		if v := u.find(t, id); v.Size != want || d.Size != want || v.Device != d {
			t.Errorf("asked for %d bytes: volume has %d, device has %d, want %d", size, v.Size, d.Size, want)
		}
		u.remove(t, id)
	}
}

func testImpossibleSizes(t *testing.T, u *subject) {
	for _, size := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		_ = wantError[*pool.SizeError](t, "create", u.d.Create(t.Context(), db(0), size))
		u.absent(t, db(0))
	}
	u.create(t, db(0), MiB)
	u.finish(t, db(0))
	for _, size := range []int64{0, -1, math.MaxInt64} {
		_ = wantError[*pool.SizeError](t, "grow", u.d.Grow(t.Context(), db(0), size))
	}
	// Large, but a number: whatever the pool says to it, it leaves nothing.
	if err := u.d.Create(t.Context(), db(1), 1<<62); err != nil {
		u.absent(t, db(1))
	}
	if v := u.find(t, db(0)); v.Size != MiB {
		t.Errorf("%+v", v)
	}
}

func testOpen(t *testing.T, u *subject) {
	u.create(t, db(0), MiB)
	first := u.open(t, db(0))
	if again := u.open(t, db(0)); again != first {
		t.Errorf("opened as %+v and as %+v", first, again)
	}
	u.finish(t, db(0))
	if again := u.open(t, db(0)); again != first {
		t.Errorf("opened as %+v, and after finish as %+v", first, again)
	}
	u.restart(t)
	if again := u.open(t, db(0)); again != first {
		t.Errorf("opened as %+v, and after a restart as %+v", first, again)
	}
	u.close(t, db(0))
	u.close(t, db(0))
	if again := u.open(t, db(0)); again.Size != first.Size {
		t.Errorf("opened as %+v, and after close as %+v", first, again)
	}
}

func testContent(t *testing.T, u *subject) {
	if !u.RealDevices {
		t.Skip("the pool's devices have no content")
	}
	u.create(t, db(0), 4*MiB)
	content := make([]byte, 4*MiB)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	// The beginning is an image whose header names another file: the content must stay what it is.
	copy(content, "QFI\xfb\x00\x00\x00\x03/etc/passwd")
	d := u.open(t, db(0))
	if err := writeDevice(d.Path, content); err != nil {
		t.Fatal(err)
	}
	same := func(when string) {
		t.Helper()
		d := u.open(t, db(0))
		got, err := readDevice(d.Path, len(content))
		if err != nil || !slices.Equal(got, content) {
			t.Errorf("content differs %s, error %v", when, err)
		}
	}
	u.finish(t, db(0))
	same("after finish")
	u.close(t, db(0))
	same("after close")
	u.grow(t, db(0), 8*MiB)
	same("after grow")
	u.close(t, db(0))
	u.restart(t)
	same("after a restart")
}

func writeDevice(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func readDevice(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content := make([]byte, n)
	_, err = io.ReadFull(f, content)
	return content, errors.Join(err, f.Close())
}

func testAbsent(t *testing.T, u *subject) {
	for range 2 {
		u.close(t, db(0))
		u.remove(t, db(0))
	}
	for _, finished := range []bool{false, true} {
		u.create(t, db(0), MiB)
		u.close(t, db(0))
		u.open(t, db(0))
		if finished {
			u.finish(t, db(0))
		}
		u.remove(t, db(0)) // While it is open.
		u.remove(t, db(0))
		u.restart(t)
		u.absent(t, db(0))
	}
	if h, ok := u.d.(pool.HolderLister); ok {
		if holders, err := h.Holders(t.Context(), db(0)); err != nil || len(holders) != 0 {
			t.Errorf("holders of an absent volume: %v, %v", holders, err)
		}
	}
}

func testNotFound(t *testing.T, u *subject) {
	u.create(t, db(1), MiB)
	_, err := u.d.Open(t.Context(), db(0))
	for what, err := range map[string]error{
		"open":   err,
		"finish": u.d.Finish(t.Context(), db(0)),
		"grow":   u.d.Grow(t.Context(), db(0), MiB),
	} {
		if e := wantError[*pool.NotFoundError](t, what, err); e.ID != db(0) || e.Pool == "" {
			t.Errorf("%s: %+v", what, e)
		}
	}
	u.absent(t, db(0))
}

func testGrow(t *testing.T, u *subject) {
	u.create(t, db(0), MiB)
	u.finish(t, db(0))
	u.grow(t, db(0), 2*MiB) // While it is closed.
	if d := u.open(t, db(0)); d.Size != 2*MiB {
		t.Errorf("device %+v", d)
	}
	for _, size := range []int64{3*MiB + 1, 3*MiB + 1, 3 * MiB, 1, 2 * MiB} {
		u.grow(t, db(0), size)
		want, err := pool.RoundUp(3*MiB+1, u.Granularity)
		if err != nil {
			t.Fatal(err)
		}
		d := u.open(t, db(0))
		if v := u.find(t, db(0)); v.Size != want || d.Size != want || v.New {
			t.Errorf("grown to %d bytes: volume %+v, device %+v", size, v, d)
		}
	}
	u.create(t, db(1), MiB)
	u.open(t, db(1))
	u.grow(t, db(1), 2*MiB)
	if v := u.find(t, db(1)); !v.New || v.Size != 2*MiB {
		t.Errorf("grown while new: %+v", v)
	}
}

func testInvalidNames(t *testing.T, u *subject) {
	for _, id := range []pool.ID{
		{},
		{Resource: "../../etc/x"},
		{Resource: "a/b"},
		{Resource: ".."},
		{Resource: "."},
		{Resource: "a b"},
		{Resource: "a\x00"},
		{Resource: "-a"},
		{Resource: "9a"},
		{Resource: "ä"},
		{Resource: "a.b"},
		{Resource: "db", Volume: -1},
		{Resource: "db", Volume: 65535},
		{Resource: strings.Repeat("a", 49)},
	} {
		_, openErr := u.d.Open(t.Context(), id)
		_, _, findErr := pool.Find(t.Context(), u.d, id)
		for what, err := range map[string]error{
			"create": u.d.Create(t.Context(), id, MiB), "open": openErr, "find": findErr, "finish": u.d.Finish(t.Context(), id),
			"grow": u.d.Grow(t.Context(), id, MiB), "close": u.d.Close(t.Context(), id), "remove": u.d.Remove(t.Context(), id),
		} {
			if _, absent := errors.AsType[*pool.NotFoundError](err); err == nil || absent {
				t.Errorf("%s of %q: got %v, want a refusal of the name", what, id.Resource, err)
			}
		}
	}
	if left := u.list(t); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func testLongestNames(t *testing.T, u *subject) {
	ids := []pool.ID{
		{Resource: strings.Repeat("x", 48), Volume: 65534},
		{Resource: strings.Repeat("x", 47) + "y", Volume: 65534},
		{Resource: strings.Repeat("_", 47) + "0", Volume: 0},
		{Resource: "x_00000", Volume: 1},
		{Resource: "x", Volume: 0},
		{Resource: "pvc-5ae35e8c-7e1c-4c2c-9f5e-3e3b3b8c1f7a", Volume: 12},
	}
	if u.Slow {
		ids = ids[:3]
	}
	for _, id := range ids {
		u.create(t, id, MiB)
		d := u.open(t, id)
		u.finish(t, id)
		u.restart(t)
		u.grow(t, id, 2*MiB)
		if again := u.open(t, id); again.Path != d.Path || again.Size != 2*MiB {
			t.Errorf("%s: %+v, then %+v", id, d, again)
		}
		if u.find(t, id).New {
			t.Errorf("%s is new", id)
		}
	}
	if n := len(u.list(t)); n != len(ids) {
		t.Errorf("%d volumes are listed, want %d", n, len(ids))
	}
}

func testCase(t *testing.T, u *subject) {
	upper := pool.ID{Resource: "DB"}
	u.create(t, upper, MiB)
	u.create(t, db(0), MiB)
	if d := u.open(t, upper); d != u.open(t, db(0)) {
		t.Errorf("two devices for one volume: %+v", d)
	}
	u.finish(t, db(0))
	if n := len(u.list(t)); n != 1 {
		t.Errorf("%d volumes are listed, want 1", n)
	}
	_ = wantError[*pool.ExistsError](t, "create", u.d.Create(t.Context(), upper, MiB))
	u.remove(t, upper)
	u.absent(t, db(0))
}

func testCancelled(t *testing.T, u *subject) {
	u.create(t, db(0), MiB)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, spaceErr := u.d.Space(ctx)
	_, listErr := u.d.List(ctx)
	_, openErr := u.d.Open(ctx, db(0))
	_, _, findErr := pool.Find(ctx, u.d, db(0))
	for what, err := range map[string]error{
		"space": spaceErr, "list": listErr, "open": openErr, "find": findErr, "create": u.d.Create(ctx, db(1), MiB), "finish": u.d.Finish(ctx, db(0)),
		"grow": u.d.Grow(ctx, db(0), 2*MiB), "close": u.d.Close(ctx, db(0)), "remove": u.d.Remove(ctx, db(0)),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	u.absent(t, db(1))
	if v := u.find(t, db(0)); !v.New || v.Size != MiB || v.Device.Path != "" {
		t.Errorf("%+v", v)
	}
}
