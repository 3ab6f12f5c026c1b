// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Buffer is JSON that grows value by value. Each value ends with a comma, which the end of the list or object around it
// takes the place of; the one after the last value of all is Trim's.
//
// The rows of long lists are written with it member by member, which takes a third of the time that encoding/json takes
// for the same text. Tests hold the text against the types of package wire. The methods for members that may be
// empty leave them out as these types do.
type Buffer []byte

// Open begins a list or an object.
func (b *Buffer) Open(bracket byte) { *b = append(*b, bracket) }

// Close ends what Open began.
func (b *Buffer) Close(bracket byte) {
	b.Trim()
	*b = append(*b, bracket, ',')
}

// Trim removes the comma at the end, if there is one.
func (b *Buffer) Trim() {
	if n := len(*b); n > 0 && (*b)[n-1] == ',' {
		*b = (*b)[:n-1]
	}
}

// Value writes a value of package wire.
func (b *Buffer) Value(v any) {
	text, err := wire.Encode(v)
	if err != nil {
		// Only a number without a text, such as NaN, does that, and no row can hold one: they are stored as JSON.
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	*b = append(append(*b, text...), ',')
}

func (b *Buffer) key(key string) {
	*b = append(*b, '"')
	*b = append(*b, key...)
	*b = append(*b, '"', ':')
}

// under begins a list or an object that is a member.
func (b *Buffer) under(key string, bracket byte) {
	b.key(key)
	b.Open(bracket)
}

// member writes a member that wire has a type for.
func (b *Buffer) member(key string, v any) {
	b.key(key)
	b.Value(v)
}

func (b *Buffer) text(key, s string) {
	b.key(key)
	b.quote(s)
}

// optional writes a text that is left out when it is empty.
func (b *Buffer) optional(key, s string) {
	if s != "" {
		b.text(key, s)
	}
}

func (b *Buffer) number(key string, n int64) {
	b.key(key)
	*b = append(strconv.AppendInt(*b, n, 10), ',')
}

// space writes bytes that are there: a promise is never rounded up. Unknown ones are left out.
func (b *Buffer) space(key string, bytes *int64) {
	if bytes != nil {
		b.number(key, int64(wire.RoundDown(*bytes)))
	}
}

// allocated writes how many bytes are used. Unknown ones are left out.
func (b *Buffer) allocated(bytes *int64) {
	if bytes != nil {
		b.number("allocated_size_kib", int64(wire.RoundUp(*bytes)))
	}
}

func (b *Buffer) truth(key string, is bool) {
	b.key(key)
	*b = append(strconv.AppendBool(*b, is), ',')
}

// flags writes flags, none are left out.
func (b *Buffer) flags(list []string) {
	if len(list) == 0 {
		return
	}
	b.under("flags", '[')
	for _, s := range list {
		b.quote(s)
	}
	b.Close(']')
}

func (b *Buffer) numbers(key string, list []int32) {
	if len(list) == 0 {
		return
	}
	b.under(key, '[')
	for _, n := range list {
		*b = append(strconv.AppendInt(*b, int64(n), 10), ',')
	}
	b.Close(']')
}

// quote writes a string. What needs an escape is left to encoding/json.
func (b *Buffer) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b.Value(s)
			return
		}
	}
	*b = append(*b, '"')
	*b = append(*b, s...)
	*b = append(*b, '"', ',')
}

// property is a key with its value.
type property struct{ key, value string }

// props writes properties in the order of their keys, without the values of secret ones. The server may add one of its
// own, unless it is set or has no value.
func (e *Encoder) props(b *Buffer, p model.Props, own property) {
	add := own.value != ""
	if add {
		_, set := p.Get(own.key)
		add = !set
	}
	if p.Len() == 0 && !add {
		return
	}
	b.under("props", '{')
	for k, v := range p.All() {
		if add && own.key < k {
			b.pair(own)
			add = false
		}
		if e.secret(k) {
			v = hidden
		}
		b.pair(property{k, v})
	}
	if add {
		b.pair(own)
	}
	b.Close('}')
}

func (b *Buffer) pair(p property) {
	b.quote(p.key)
	(*b)[len(*b)-1] = ':'
	b.quote(p.value)
}
