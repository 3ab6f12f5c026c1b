// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestRequestNumbersMayBeStrings(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{`2`, 2, true},
		{`"2"`, 2, true},
		{`-1`, -1, true},
		{`"-1"`, -1, true},
		{`0`, 0, true},
		{`2147483647`, math.MaxInt32, true},
		{`2147483648`, 0, false},
		{`"2147483648"`, 0, false},
		{`""`, 0, false},
		{`" 2"`, 0, false},
		{`"two"`, 0, false},
		{`2.0`, 0, false},
		{`2e0`, 0, false},
		{`true`, 0, false},
		{`[2]`, 0, false},
		{`{}`, 0, false},
	} {
		var n wire.Int32
		err := json.Unmarshal([]byte(c.in), &n)
		if (err == nil) != c.ok || (c.ok && int64(n) != c.want) {
			t.Errorf("%s is read as %d, error %v", c.in, n, err)
		}
	}
	n := wire.Int64(7)
	if err := json.Unmarshal([]byte(`null`), &n); err != nil || n != 7 {
		t.Errorf("null is read as %d, error %v", n, err)
	}
	if err := json.Unmarshal([]byte(`"9223372036854775807"`), &n); err != nil || n != math.MaxInt64 {
		t.Errorf("the largest number is read as %d, error %v", n, err)
	}
}

func TestSizesAreWholeNumbersOnly(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{
		{`0`, true},
		{`-1`, true},
		{`9223372036854775807`, true},
		{`9223372036854775808`, false},
		{`1e30`, false},
		{`1e3`, false},
		{`1.5`, false},
		{`1.0`, false},
		{`"10"`, false},
		{`true`, false},
		{`[]`, false},
		{`{}`, false},
	} {
		var s wire.SizeKiB
		if err := json.Unmarshal([]byte(c.in), &s); (err == nil) != c.ok {
			t.Errorf("%s is read as %d, error %v", c.in, s, err)
		}
	}
}

func TestSizesConvert(t *testing.T) {
	for _, c := range []struct {
		bytes    int64
		up, down wire.SizeKiB
	}{
		{0, 0, 0},
		{1, 1, 0},
		{1023, 1, 0},
		{1024, 1, 1},
		{1025, 2, 1},
		{1e9, 976563, 976562},
		{math.MaxInt64, math.MaxInt64/1024 + 1, math.MaxInt64 / 1024},
		{-1, 0, -1},
		{-1024, -1, -1},
		{-1025, -1, -2},
		{math.MinInt64, math.MinInt64 / 1024, math.MinInt64 / 1024},
	} {
		if up, down := wire.RoundUp(c.bytes), wire.RoundDown(c.bytes); up != c.up || down != c.down {
			t.Errorf("%d bytes are %d KiB up, %d down; want %d, %d", c.bytes, up, down, c.up, c.down)
		}
	}
	for _, s := range []wire.SizeKiB{math.MaxInt64/1024 + 1, wire.Unlimited, math.MinInt64} {
		if b, err := s.Bytes(); err == nil {
			t.Errorf("%d KiB are %d bytes", s, b)
		}
	}
}

func TestRoundingLosesLessThanOneKiB(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(math.MinInt64+1024, math.MaxInt64-1024).Draw(t, "bytes")
		up, errUp := wire.RoundUp(n).Bytes()
		down, errDown := wire.RoundDown(n).Bytes()
		if errUp != nil || errDown != nil || up < n || up-n > 1023 || down > n || n-down > 1023 {
			t.Fatalf("%d bytes: up %d %v, down %d %v", n, up, errUp, down, errDown)
		}
	})
}
