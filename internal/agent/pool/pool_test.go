// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func TestNamesOnDiskLeadBackToTheirID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := pool.ID{
			Resource: rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_-]{0,47}`).Draw(t, "resource"),
			Volume:   rapid.IntRange(0, 65534).Draw(t, "volume"),
		}
		if err := id.Validate(); err != nil {
			t.Fatal(err)
		}
		name := id.Name()
		if strings.ContainsAny(name, "/\x00.") || strings.ToLower(name) != name || len(name) > 54 {
			t.Fatalf("%s is called %q", id, name)
		}
		back, ok := pool.ParseName(name)
		if !ok || back != id.Fold() {
			t.Fatalf("%s is called %q, which is %s", id, name, back)
		}
		if id.Compare(back) != 0 {
			t.Fatalf("%s and %s differ", id, back)
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"db_00000", "db_00000_00001", "_65534", "x_65535", "X_00000", "a/b_00000", "a_0000", "a_-0001", "a_+0001", "ſ_00000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := pool.ParseName(name)
		if !ok {
			return
		}
		if err := id.Validate(); err != nil || id.Name() != name || strings.ContainsAny(name, "/.\x00") {
			t.Fatalf("%q is %s, which is called %q, %v", name, id, id.Name(), err)
		}
	})
}

func TestNamesThatAreNotOursAreNotTaken(t *testing.T) {
	for _, name := range []string{"", "_00000", "db", "db_0", "db_000000", "db_0000x", "DB_00000", "9_00000", "db-00000", "../x_00000", "db_65535", "db_99999", strings.Repeat("a", 49) + "_00000"} {
		if id, ok := pool.ParseName(name); ok {
			t.Errorf("%q was taken for %s", name, id)
		}
	}
}

func TestErrorsOfNamesSayWhatIsAllowed(t *testing.T) {
	for _, tc := range []struct {
		id   pool.ID
		text string
	}{
		{pool.ID{}, "has 0 bytes: use 1 to 48"},
		{pool.ID{Resource: strings.Repeat("x", 49)}, "has 49 bytes"},
		{pool.ID{Resource: "a/b"}, `'/' is not allowed at byte 1`},
		{pool.ID{Resource: "1a"}, `'1' is not allowed at byte 0`},
		{pool.ID{Resource: "a", Volume: -1}, "volume number -1"},
		{pool.ID{Resource: "a", Volume: 65535}, "use 0 to 65534"},
	} {
		if err := tc.id.Validate(); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%+v: got %v, want %q", tc.id, err, tc.text)
		}
	}
}

func TestRoundUpIsExactOverTheWholeRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Int64(), rapid.Int64Range(math.MaxInt64-1<<30, math.MaxInt64), rapid.Int64Range(-2, 1<<20)).Draw(t, "size")
		granularity := rapid.OneOf(rapid.Int64Range(1, math.MaxInt64), rapid.SampledFrom([]int64{1, 512, 4096, 16 << 10, 64 << 10, 4 << 20, 3, 1000})).Draw(t, "granularity")

		// What arithmetic without limits says.
		g := big.NewInt(granularity)
		want := new(big.Int).Add(big.NewInt(size), new(big.Int).Sub(g, big.NewInt(1)))
		want.Div(want, g).Mul(want, g)

		got, err := pool.RoundUp(size, granularity)
		if size <= 0 || !want.IsInt64() {
			if e, ok := errors.AsType[*pool.SizeError](err); !ok || e.Asked != size || got != 0 {
				t.Fatalf("RoundUp(%d, %d) = %d, %v", size, granularity, got, err)
			}
			return
		}
		if err != nil || got != want.Int64() {
			t.Fatalf("RoundUp(%d, %d) = %d, %v, want %d", size, granularity, got, err, want)
		}
	})
}

func TestErrorsSayWhatHappenedAndWhatToDo(t *testing.T) {
	id := pool.ID{Resource: "db", Volume: 1}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&pool.InUseError{ID: id, Holders: []pool.Holder{
			{Kind: pool.Opened, Name: "qemu", PID: 7},
			{Kind: pool.Mounted, Name: "/mnt", PID: 8},
			{Kind: pool.Stacked, Name: "dm-1"},
			{Kind: pool.Claimed, Name: "a user"},
			{Kind: pool.Opened, Name: "someone"},
			{Kind: "other", Name: "way"},
		}}, "volume db/1 is in use: open by qemu (pid 7), mounted at /mnt (seen by pid 8), below dm-1, held exclusively by the kernel (a user), open by someone, other way"},
		{&pool.NoSpaceError{Pool: "p", Asked: 3, Free: 2, Total: 5}, "pool p has not enough room: 3 bytes asked, 2 of 5 free"},
		{&pool.NotFoundError{Pool: "p"}, "this host has no pool p"},
		{&pool.NotFoundError{Pool: "p", ID: id}, "pool p has no volume db/1"},
		{&pool.ExistsError{Pool: "p", ID: id, Size: 9}, "pool p already has a finished volume db/1 of 9 bytes"},
		{&pool.LostError{Pool: "p", ID: id, Device: "/dev/x"}, "volume db/1 was removed from pool p by someone else; /dev/x still has its content: save that, then delete the volume"},
		{&pool.SizeError{Asked: -1}, "a volume of -1 bytes cannot be made: give a size above zero"},
		{&pool.SizeError{Asked: 9, Limit: 8}, "a volume of 9 bytes cannot be made: the pool's largest is 8"},
		{&pool.SizeError{Asked: 9}, "a volume of 9 bytes cannot be made: it is larger than the pool's file system admits"},
		{&pool.FaultyError{Pool: "p", Place: "/srv/p", Reason: pool.Missing}, "pool p: /srv/p is missing"},
		{
			&pool.FaultyError{Pool: "p", Place: "/srv/p", Reason: pool.ReadOnly, Detail: "probe", Err: errors.New("EROFS"), Correction: "mount it writable"},
			"pool p: /srv/p is read-only (probe): EROFS; mount it writable",
		},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
	cause := errors.New("cause")
	if !errors.Is(&pool.FaultyError{Err: cause}, cause) {
		t.Error("a fault hides its cause")
	}
}
