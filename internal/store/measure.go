// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
)

// A measure is what is known of the JSON of a row before it is written: no more than so many bytes, or the reason why it cannot
// be written. It makes it safe to encode rows after their update has taken its place in the queue, where it can no longer be
// refused alone.
type measure struct {
	bytes int
	bad   string
}

type measurer func(m *measure, v reflect.Value)

// measurerOf compiles the measurer of a row type. It panics for a type with something in it that would be lost between writing
// and reading.
func measurerOf(collection string, t reflect.Type) measurer {
	c := measureCompiler{done: map[reflect.Type]*measurer{}}
	return c.compile(collection+": "+t.String(), t)
}

// measureCompiler remembers types, so that a type may contain itself.
type measureCompiler struct{ done map[reflect.Type]*measurer }

func (c *measureCompiler) compile(where string, t reflect.Type) measurer {
	if m, ok := c.done[t]; ok {
		return func(sum *measure, v reflect.Value) { (*m)(sum, v) }
	}
	m := new(measurer)
	c.done[t] = m
	*m = c.build(where, t)
	return *m
}

func (c *measureCompiler) build(where string, t reflect.Type) measurer {
	if m := customMeasurer(where, t); m != nil {
		return m
	}
	switch t.Kind() {
	case reflect.Bool:
		return fixed(5)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fixed(22)
	case reflect.Float32, reflect.Float64:
		return measureFloat
	case reflect.String:
		return func(m *measure, v reflect.Value) { m.text(v.String()) }
	case reflect.Pointer:
		return c.pointer(where, t)
	case reflect.Slice, reflect.Array:
		return c.list(where, t)
	case reflect.Map:
		return c.dict(where, t)
	case reflect.Struct:
		return c.fields(where, t)
	default:
		panic(fmt.Sprintf("store: %s: a %s would not read back as it was written", where, t.Kind()))
	}
}

// customMeasurer is for types that write themselves. They are asked: what they write, or whether they do, depends on the value.
func customMeasurer(where string, t reflect.Type) measurer {
	pt := reflect.PointerTo(t)
	need := func(i reflect.Type, have string) {
		if t.Kind() != reflect.Pointer && !pt.Implements(i) {
			panic(fmt.Sprintf("store: %s: %s has %s but cannot be read back", where, t, have))
		}
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return measureTime
	case t.Kind() == reflect.Pointer:
		return nil // its element decides
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		need(reflect.TypeFor[json.Unmarshaler](), "MarshalJSON")
		return func(m *measure, v reflect.Value) {
			raw, err := v.Interface().(json.Marshaler).MarshalJSON()
			m.custom(t, raw, err)
		}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		need(reflect.TypeFor[encoding.TextUnmarshaler](), "MarshalText")
		return func(m *measure, v reflect.Value) {
			raw, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			m.custom(t, raw, err)
		}
	case pt.Implements(reflect.TypeFor[json.Marshaler]()) || pt.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		panic(fmt.Sprintf("store: %s: %s marshals by its pointer only, so its form depends on where it stands: give the methods value receivers", where, t))
	default:
		return nil
	}
}

func fixed(n int) measurer { return func(m *measure, _ reflect.Value) { m.bytes += n } }

func measureFloat(m *measure, v reflect.Value) {
	if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
		m.bad = "it has a number that is not finite"
	}
	m.bytes += 32
}

func measureTime(m *measure, v reflect.Value) {
	if _, err := v.Interface().(time.Time).MarshalText(); err != nil {
		m.bad = err.Error()
	}
	m.bytes += 40
}

// text counts a string. Six bytes are the longest escape of a byte.
func (m *measure) text(s string) {
	if !utf8.ValidString(s) {
		m.bad = fmt.Sprintf("it has the string %q, which is not UTF-8", s)
	}
	m.bytes += 6*len(s) + 3
}

func (m *measure) custom(t reflect.Type, raw []byte, err error) {
	if err != nil {
		m.bad = fmt.Sprintf("%s: %v", t, err)
	}
	m.bytes += 6*len(raw) + 3
}

func (c *measureCompiler) pointer(where string, t reflect.Type) measurer {
	elem := c.compile(where, t.Elem())
	return func(m *measure, v reflect.Value) {
		if v.IsNil() {
			m.bytes += 5
			return
		}
		elem(m, v.Elem())
	}
}

func (c *measureCompiler) list(where string, t reflect.Type) measurer {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return func(m *measure, v reflect.Value) { m.bytes += v.Len()*4/3 + 8 }
	}
	elem := c.compile(where+" element", t.Elem())
	return func(m *measure, v reflect.Value) {
		m.bytes += 5
		for i := range v.Len() {
			elem(m, v.Index(i))
			m.bytes++
		}
	}
}

func (c *measureCompiler) dict(where string, t reflect.Type) measurer {
	key := c.compile(where+" key", t.Key())
	elem := c.compile(where+" element", t.Elem())
	return func(m *measure, v reflect.Value) {
		m.bytes += 5
		if v.Len() == 0 {
			return
		}
		k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for it := v.MapRange(); it.Next(); {
			k.SetIterKey(it)
			e.SetIterValue(it)
			key(m, k)
			elem(m, e)
			m.bytes += 4
		}
	}
}

func (c *measureCompiler) fields(where string, t reflect.Type) measurer {
	all := make([]measurer, t.NumField())
	names := 2
	for i := range all {
		f := t.Field(i)
		at := where + "." + f.Name
		if !f.IsExported() {
			panic(fmt.Sprintf("store: %s is not exported, so it would not be stored", at))
		}
		tag := f.Tag.Get("json")
		if tag == "-" {
			panic(fmt.Sprintf("store: %s is hidden from JSON, so it would not be stored", at))
		}
		names += 6*max(len(f.Name), len(tag)) + 6
		all[i] = c.compile(at, f.Type)
	}
	return func(m *measure, v reflect.Value) {
		m.bytes += names
		for i, field := range all {
			field(m, v.Field(i))
		}
	}
}
