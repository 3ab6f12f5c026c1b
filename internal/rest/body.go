// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"io"
	"iter"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// body is the data that a read answers with.
type body interface {
	write(w io.Writer) error
}

// value is one JSON value.
type value struct{ v any }

func (v value) write(w io.Writer) error {
	b, err := wire.Encode(v.v)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// list is a JSON array, made while it is sent.
type list[T any] iter.Seq[T]

// chunk is how many elements of a list are encoded at once.
const chunk = 64

func (l list[T]) write(w io.Writer) error {
	var failed error
	sep := []byte{'['}
	some := make([]T, 0, chunk)
	put := func() bool {
		var b []byte
		if b, failed = wire.Encode(some); failed != nil {
			return false
		}
		b[0] = sep[0]
		sep[0] = ','
		some = some[:0]
		_, failed = w.Write(b[:len(b)-1])
		return failed == nil
	}
	for v := range l {
		if some = append(some, v); len(some) == chunk && !put() {
			return failed
		}
	}
	if len(some) > 0 && !put() {
		return failed
	}
	end := []byte("]")
	if sep[0] == '[' {
		end = []byte("[]")
	}
	_, failed = w.Write(end)
	return failed
}

// mapped yields f of each element.
func mapped[A, B any](seq iter.Seq[A], f func(A) B) list[B] {
	return func(yield func(B) bool) {
		for a := range seq {
			if !yield(f(a)) {
				return
			}
		}
	}
}

// array is a JSON array of what is there already.
func array[T any](elements ...T) body {
	return value{append([]T{}, elements...)}
}
