// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"crypto/rand"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func (u *subject) space(t *testing.T) pool.Space {
	t.Helper()
	s, err := u.d.Space(t.Context())
	if err != nil {
		t.Fatalf("space: %v", err)
	}
	if s.Total <= 0 || s.Free < 0 || s.Free > s.Total {
		t.Errorf("space %+v", s)
	}
	return s
}

// sameTotal tells whether a pool is still as large as it was. Some keep room for what they note of themselves, which changes a little.
func sameTotal(before, after int64) bool { return max(before-after, after-before) <= MiB }

func testNoSpace(t *testing.T, u *subject) {
	if u.Thin {
		t.Skip("the pool promises more than it has")
	}
	before := u.space(t)
	refused := func(what string, asked int64, err error) {
		t.Helper()
		e := wantError[*pool.NoSpaceError](t, what, err)
		if e.Asked < asked || e.Free >= e.Asked || !sameTotal(before.Total, e.Total) || e.Pool == "" {
			t.Errorf("%s: %+v", what, e)
		}
	}
	for range 2 {
		refused("create", before.Total+1, u.d.Create(t.Context(), db(0), before.Total+1))
		u.absent(t, db(0))
	}
	u.create(t, db(0), MiB)
	u.finish(t, db(0))
	d := u.open(t, db(0))
	refused("grow", before.Total, u.d.Grow(t.Context(), db(0), before.Total+MiB))
	if v, again := u.find(t, db(0)), u.open(t, db(0)); v.Size != MiB || again != d {
		t.Errorf("after a refused grow: %+v, %+v", v, again)
	}
	u.remove(t, db(0))
}

func testSpace(t *testing.T, u *subject) {
	before := u.space(t)
	const size = 128 * MiB
	u.create(t, db(0), size)
	u.finish(t, db(0))
	taken := before.Free - u.space(t).Free
	// Other users of the pool's place may come and go meanwhile, so this is no exact account.
	if u.Thin && taken > size/2 || !u.Thin && taken < size/2 {
		t.Errorf("a volume of %d bytes took %d", size, taken)
	}
	if after := u.space(t); !sameTotal(before.Total, after.Total) {
		t.Errorf("total was %d and is %d", before.Total, after.Total)
	}
}

func testAllocated(t *testing.T, u *subject) {
	const size = 64 * MiB
	u.create(t, db(0), size)
	empty := u.find(t, db(0)).Allocated
	if !u.Thin {
		if empty < size || empty > size+size/8 {
			t.Errorf("%d of %d bytes are allocated", empty, size)
		}
		return
	}
	if empty > MiB {
		t.Errorf("%d bytes are allocated before anything was written", empty)
	}
	if !u.RealDevices {
		return
	}
	content := make([]byte, 8*MiB)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	d := u.open(t, db(0))
	header := u.find(t, db(0)).Allocated // What an encrypted volume has before anything was written to it.
	if !u.Encrypted && header > MiB {
		t.Errorf("%d bytes are allocated by opening", header)
	}
	if err := writeDevice(d.Path, content); err != nil {
		t.Fatal(err)
	}
	u.finish(t, db(0))
	if got := u.find(t, db(0)).Allocated - header; got < 8*MiB || got > 10*MiB {
		t.Errorf("%d bytes are allocated after %d were written", got, len(content))
	}
}
