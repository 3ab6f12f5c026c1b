// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// A codec writes values of one type as bytes that sort as the values do, field by field for a struct, and reads them back.
//
//	string    its bytes, with 0x00 as 01 01 and 0x01 as 01 02, then 00
//	integer   8 bytes, big-endian, the sign flipped
//	bool      1 byte
//	struct    its fields, one after the other
//
// No encoding is the beginning of another one of the same type, so whatever follows an encoded value cannot be taken for a part
// of it, and all entries of one value in an index are exactly those with its encoding in front.
type codec struct {
	append func(dst []byte, v reflect.Value) []byte
	read   func(src string, v reflect.Value) (rest string, err error)
	text   func(v reflect.Value) string
}

var errShortKey = errors.New("key ends in the middle of a value")

// codecOf compiles the codec of a type. It panics for a type that cannot be a key: that is a mistake in a declaration.
func codecOf(t reflect.Type) *codec {
	switch t.Kind() {
	case reflect.String:
		return &codec{appendString, readString, func(v reflect.Value) string { return v.String() }}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &codec{appendInt, readInt, func(v reflect.Value) string { return strconv.FormatInt(v.Int(), 10) }}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &codec{appendUint, readUint, func(v reflect.Value) string { return strconv.FormatUint(v.Uint(), 10) }}
	case reflect.Bool:
		return &codec{appendBool, readBool, func(v reflect.Value) string { return strconv.FormatBool(v.Bool()) }}
	case reflect.Struct:
		return structCodec(t)
	default:
		panic(fmt.Sprintf("store: %s cannot be a key or an index value: it is neither a string, an integer, a bool nor a struct of these", t))
	}
}

func structCodec(t reflect.Type) *codec {
	fields := make([]*codec, t.NumField())
	for i := range fields {
		if f := t.Field(i); !f.IsExported() {
			panic(fmt.Sprintf("store: %s cannot be a key or an index value: its field %s is not exported", t, f.Name))
		}
		fields[i] = codecOf(t.Field(i).Type)
	}
	return &codec{
		append: func(dst []byte, v reflect.Value) []byte {
			for i, f := range fields {
				dst = f.append(dst, v.Field(i))
			}
			return dst
		},
		read: func(src string, v reflect.Value) (string, error) {
			var err error
			for i, f := range fields {
				if src, err = f.read(src, v.Field(i)); err != nil {
					return "", err
				}
			}
			return src, nil
		},
		text: func(v reflect.Value) string {
			parts := make([]string, len(fields))
			for i, f := range fields {
				parts[i] = f.text(v.Field(i))
			}
			return strings.Join(parts, "/")
		},
	}
}

func appendString(dst []byte, v reflect.Value) []byte {
	s := v.String()
	for i := range len(s) {
		if s[i] <= 1 {
			dst = append(dst, 1, s[i]+1)
		} else {
			dst = append(dst, s[i])
		}
	}
	return append(dst, 0)
}

func readString(src string, v reflect.Value) (string, error) {
	s, rest, whole := strings.Cut(src, "\x00")
	if !whole {
		return "", errShortKey
	}
	if strings.IndexByte(s, 1) >= 0 {
		var b strings.Builder
		for i := 0; i < len(s); i++ {
			if s[i] != 1 {
				b.WriteByte(s[i])
				continue
			}
			i++
			if i == len(s) || s[i] != 1 && s[i] != 2 {
				return "", errors.New("key has a broken escape")
			}
			b.WriteByte(s[i] - 1)
		}
		s = b.String()
	}
	v.SetString(s)
	return rest, nil
}

const signBit = 1 << 63

func appendInt(dst []byte, v reflect.Value) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v.Int())^signBit)
}

func appendUint(dst []byte, v reflect.Value) []byte {
	return binary.BigEndian.AppendUint64(dst, v.Uint())
}

func readInt(src string, v reflect.Value) (string, error) {
	u, rest, err := readWord(src)
	if err != nil {
		return "", err
	}
	n := int64(u ^ signBit)
	if v.OverflowInt(n) {
		return "", fmt.Errorf("key has %d, which does not fit in %s", n, v.Type())
	}
	v.SetInt(n)
	return rest, nil
}

func readUint(src string, v reflect.Value) (string, error) {
	u, rest, err := readWord(src)
	if err != nil {
		return "", err
	}
	if v.OverflowUint(u) {
		return "", fmt.Errorf("key has %d, which does not fit in %s", u, v.Type())
	}
	v.SetUint(u)
	return rest, nil
}

func readWord(src string) (uint64, string, error) {
	if len(src) < 8 {
		return 0, "", errShortKey
	}
	return binary.BigEndian.Uint64([]byte(src[:8])), src[8:], nil
}

func appendBool(dst []byte, v reflect.Value) []byte {
	if v.Bool() {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func readBool(src string, v reflect.Value) (string, error) {
	if src == "" {
		return "", errShortKey
	}
	if src[0] > 1 {
		return "", errors.New("key has a bool that is neither 0 nor 1")
	}
	v.SetBool(src[0] == 1)
	return src[1:], nil
}

// keyOf is the codec of a key or index value of type T.
type keyOf[T any] struct{ *codec }

func compileKey[T any]() keyOf[T] { return keyOf[T]{codecOf(reflect.TypeFor[T]())} }

// encode returns the bytes of v.
func (k keyOf[T]) encode(v T) string { return k.before(v, "") }

// before returns the bytes of v with others behind them.
func (k keyOf[T]) before(v T, others string) string {
	var space [96]byte
	return string(append(k.append(space[:0], reflect.ValueOf(&v).Elem()), others...))
}

// decode reads a value from the front of src.
func (k keyOf[T]) decode(src string) (v T, rest string, err error) {
	rest, err = k.read(src, reflect.ValueOf(&v).Elem())
	return v, rest, err
}

// show gives the value at the front of src as text for messages.
func (k keyOf[T]) show(src string) string {
	v, _, err := k.decode(src)
	if err != nil {
		return strconv.Quote(src)
	}
	return k.text(reflect.ValueOf(&v).Elem())
}
