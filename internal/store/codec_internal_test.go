// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"reflect"
	"strings"
	"testing"
)

type (
	label string
	count int16
	inner struct {
		Name label
		On   bool
	}
	composite struct {
		First inner
		N     count
		U     uint32
		Last  string
	}
)

func compareComposites(a, b composite) int {
	on := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		strings.Compare(string(a.First.Name), string(b.First.Name)), cmp.Compare(on(a.First.On), on(b.First.On)),
		cmp.Compare(a.N, b.N), cmp.Compare(a.U, b.U), strings.Compare(a.Last, b.Last))
}

// FuzzKeysReadBackAndSort checks that an encoded key reads back, that two keys sort as their encodings do, and that no encoding
// begins with another one.
func FuzzKeysReadBackAndSort(f *testing.F) {
	f.Add("a", true, int16(1), uint32(2), "z", "a", true, int16(-1), uint32(2), "z")
	f.Add("", false, int16(-32768), uint32(0), "\x00", "\x00", false, int16(32767), uint32(1<<31), "\x01")
	f.Add("a\x00", false, int16(0), uint32(0), "", "a\x01", false, int16(0), uint32(0), "")
	f.Add("a", false, int16(0), uint32(0), "", "a\xff", true, int16(0), uint32(0), "\xff\xff")
	k := compileKey[composite]()
	f.Fuzz(func(t *testing.T, an string, ao bool, ac int16, au uint32, al, bn string, bo bool, bc int16, bu uint32, bl string) {
		a := composite{inner{label(an), ao}, count(ac), au, al}
		b := composite{inner{label(bn), bo}, count(bc), bu, bl}
		ea, eb := k.encode(a), k.encode(b)
		if back, rest, err := k.decode(ea + "rest"); err != nil || back != a || rest != "rest" {
			t.Errorf("%+v reads back as %+v, with %q left: %v", a, back, rest, err)
		}
		if want, got := compareComposites(a, b), strings.Compare(ea, eb); want != got {
			t.Errorf("%+v and %+v compare as %d, their encodings as %d", a, b, want, got)
		}
		if a != b && (strings.HasPrefix(ea, eb) || strings.HasPrefix(eb, ea)) {
			t.Errorf("one of %q and %q begins with the other", ea, eb)
		}
	})
}

// FuzzDecodeKey checks that arbitrary bytes never make a decoder fail badly, and that what it takes encodes to the same bytes.
func FuzzDecodeKey(f *testing.F) {
	k := compileKey[composite]()
	f.Add(k.encode(composite{inner{"a\x00\x01", true}, -5, 7, "é"}))
	f.Add("a\x01")
	f.Add("a\x01\x07\x00")
	f.Add("a\x00\x02")
	f.Fuzz(func(t *testing.T, raw string) {
		v, rest, err := k.decode(raw)
		_ = k.show(raw)
		if err == nil && k.encode(v)+rest != raw {
			t.Errorf("%q reads as %+v, which is %q", raw, v, k.encode(v)+rest)
		}
	})
}

func TestKeysOfEachKindSort(t *testing.T) {
	checkOrder(t, -1<<63, -1<<40, -256, -1, 0, 1, 255, 256, 1<<40, 1<<63-1)
	checkOrder[uint64](t, 0, 1, 255, 256, 1<<63, 1<<64-1)
	checkOrder[int8](t, -128, -1, 0, 127)
	checkOrder(t, "", "\x00", "\x00\x00", "\x00\x01", "\x01", "\x01\x00", "\x02", "a", "a\x00", "a\x00b", "a\x01", "aa", "b", "\xff", "\xff\xff")
	checkOrder(t, false, true)
	checkOrder(t, struct{}{})
}

func checkOrder[T comparable](t *testing.T, values ...T) {
	t.Helper()
	k := compileKey[T]()
	last := ""
	for i, v := range values {
		e := k.encode(v)
		if i > 0 && e <= last {
			t.Errorf("%v does not sort after %v", v, values[i-1])
		}
		last = e
		if back, rest, err := k.decode(e); err != nil || back != v || rest != "" {
			t.Errorf("%v reads back as %v, with %q left: %v", v, back, rest, err)
		}
	}
}

func TestKeysAreReadableInMessages(t *testing.T) {
	k := compileKey[composite]()
	if got := k.show(k.encode(composite{inner{"alpha", true}, -3, 7, "omega"})); got != "alpha/true/-3/7/omega" {
		t.Errorf("the key is shown as %s", got)
	}
	if got := k.show("broken"); got != `"broken"` {
		t.Errorf("a broken key is shown as %s", got)
	}
}

func TestNumbersTooLargeForTheKeyTypeDoNotDecode(t *testing.T) {
	if v, _, err := compileKey[int8]().decode(compileKey[int]().encode(128)); err == nil {
		t.Errorf("128 reads as the int8 %d", v)
	}
	if v, _, err := compileKey[uint8]().decode(compileKey[uint]().encode(256)); err == nil {
		t.Errorf("256 reads as the uint8 %d", v)
	}
}

func TestUnusableKeyTypesPanic(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[float64](), reflect.TypeFor[[]string](), reflect.TypeFor[*int](), reflect.TypeFor[any](),
		reflect.TypeFor[struct{ hidden int }](), reflect.TypeFor[struct{ F float32 }](),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken as a key type", typ)
				}
			}()
			codecOf(typ)
		}()
	}
}
