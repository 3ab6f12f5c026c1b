// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"iter"

	"github.com/holdfast-storage/holdfast/internal/rest/encode"
)

// body is the data that a read answers with.
type body interface {
	write(o *output)
}

// value is one JSON value of a type of package wire.
type value struct{ v any }

func (v value) write(o *output) { o.Value(v.v) }

// shower writes a row.
type shower[T any] func(*encode.Buffer, *T)

// one is a row.
type one[T any] struct {
	row  T
	show shower[T]
}

func (x one[T]) write(o *output) { x.show(&o.Buffer, &x.row) }

// list is a JSON array of rows. It is sent while it is made.
type list[T any] struct {
	rows iter.Seq[T]
	show shower[T]
}

func (l list[T]) write(o *output) {
	o.Open('[')
	var row T // One for all: the encoder keeps none.
	for v := range l.rows {
		row = v
		l.show(&o.Buffer, &row)
		if !o.spill() {
			return
		}
	}
	o.Close(']')
}

// values makes a list of values of a type of package wire.
func values[A, B any](rows iter.Seq[A], f func(*A) B) body {
	return list[A]{rows, func(b *encode.Buffer, v *A) { b.Value(f(v)) }}
}
