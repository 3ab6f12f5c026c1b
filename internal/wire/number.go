// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// Int32 is a number of a request. It is read from a JSON number or from a string of digits.
type Int32 int32

// Int64 is as [Int32], with 64 bits.
type Int64 int64

// UnmarshalJSON reads a whole number, plain or in a string. Null leaves the value alone.
func (n *Int32) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	v, err := strconv.ParseInt(unquote(raw), 10, 32)
	if err != nil {
		return &json.UnmarshalTypeError{Value: string(raw), Type: reflect.TypeFor[Int32]()}
	}
	*n = Int32(v)
	return nil
}

// UnmarshalJSON reads a whole number, plain or in a string. Null leaves the value alone.
func (n *Int64) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	v, err := strconv.ParseInt(unquote(raw), 10, 64)
	if err != nil {
		return &json.UnmarshalTypeError{Value: string(raw), Type: reflect.TypeFor[Int64]()}
	}
	*n = Int64(v)
	return nil
}

// unquote returns the text of a JSON string without its quotes, and other JSON as it is. Escapes stay: digits need none.
func unquote(raw []byte) string {
	if len(raw) >= 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	return string(raw)
}

// SizeKiB is a size in KiB. It is read from a whole JSON number only: a fraction, an exponent, a string or a number
// beyond 63 bits is refused and never rounded or cut.
type SizeKiB int64

// Unlimited is the capacity that a diskless pool shows.
const Unlimited SizeKiB = math.MaxInt64

const kib = 1024

// UnmarshalJSON reads a whole number. Null leaves the value alone.
func (s *SizeKiB) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return &json.UnmarshalTypeError{Value: string(raw), Type: reflect.TypeFor[SizeKiB]()}
	}
	*s = SizeKiB(v)
	return nil
}

// Bytes returns the size in bytes, or an error when 63 bits cannot hold it.
func (s SizeKiB) Bytes() (int64, error) {
	if s > math.MaxInt64/kib || s < math.MinInt64/kib {
		return 0, fmt.Errorf("size of %d KiB is out of range: the largest is %d KiB", int64(s), int64(math.MaxInt64/kib))
	}
	return int64(s) * kib, nil
}

// RoundUp returns the smallest size in KiB that holds bytes. It is for what is asked for or used.
func RoundUp(bytes int64) SizeKiB {
	q := bytes / kib
	if bytes%kib > 0 {
		q++
	}
	return SizeKiB(q)
}

// RoundDown returns the largest size in KiB that fits in bytes. It is for what is free: a promise is never rounded up.
func RoundDown(bytes int64) SizeKiB {
	q := bytes / kib
	if bytes%kib < 0 {
		q--
	}
	return SizeKiB(q)
}
