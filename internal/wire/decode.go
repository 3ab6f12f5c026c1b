// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"
)

// Bounds of a request body. A larger or deeper one is refused before it is decoded.
const (
	MaxBody  = 1 << 20 // bytes
	MaxDepth = 64      // nested objects and lists
)

// DecodeKind says in which way a body was refused.
type DecodeKind int

const (
	// Malformed is not JSON, or JSON followed by something else, or not UTF-8, or nothing at all.
	Malformed DecodeKind = iota + 1
	// Mismatch is JSON with a value that the field cannot take.
	Mismatch
	// TooDeep is nested deeper than [MaxDepth].
	TooDeep
	// TooLarge is longer than [MaxBody].
	TooLarge
)

// DecodeError says why a request body was refused and where.
type DecodeError struct {
	Kind    DecodeKind
	Field   string // path of the offending field, such as volume_sizes[1]; empty for the body as a whole
	Offset  int64  // byte at which the offending value or character stands, from 0
	Problem string // what is wrong there
}

// Error names the field, the place and the problem.
func (e *DecodeError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("request body at byte %d: %s", e.Offset, e.Problem)
	}
	return fmt.Sprintf("request field %s at byte %d: %s", e.Field, e.Offset, e.Problem)
}

// Status returns the HTTP status to answer with: 413 for [TooLarge], otherwise 400.
func (e *DecodeError) Status() int {
	if e.Kind == TooLarge {
		return 413
	}
	return statusBadRequest
}

// Decode reads one JSON value from r, whole, into v, which points to a request type. Unknown fields are ignored: newer
// clients must keep working. A body that is refused is a [*DecodeError]; any other error comes from r.
func Decode(r io.Reader, v any) error {
	present, err := DecodeOptional(r, v)
	if err == nil && !present {
		return &DecodeError{Kind: Malformed, Problem: "the body is empty, a JSON value is required"}
	}
	return err
}

// DecodeOptional is as [Decode] for calls that may come without a body: present is false, and v untouched, when there is
// nothing but white space.
func DecodeOptional(r io.Reader, v any) (present bool, err error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	if err != nil {
		return false, fmt.Errorf("read request body: %w", err)
	}
	if len(body) > MaxBody {
		return true, &DecodeError{Kind: TooLarge, Offset: MaxBody, Problem: fmt.Sprintf("the body is longer than %d bytes", MaxBody)}
	}
	text := bytes.TrimLeft(body, " \t\r\n")
	if len(text) == 0 {
		return false, nil
	}
	if at := invalidUTF8(body); at >= 0 {
		return true, &DecodeError{Kind: Malformed, Offset: int64(at), Problem: "the body is not UTF-8"}
	}
	if at := tooDeep(body); at >= 0 {
		return true, &DecodeError{Kind: TooDeep, Offset: int64(at), Problem: fmt.Sprintf("the body is nested deeper than %d levels", MaxDepth)}
	}
	if bytes.Equal(bytes.TrimRight(text, " \t\r\n"), []byte("null")) {
		return true, &DecodeError{Kind: Mismatch, Offset: int64(len(body) - len(text)), Problem: "the body is null"}
	}
	if err := json.Unmarshal(body, v); err != nil {
		return true, explain(body, err)
	}
	return true, nil
}

// invalidUTF8 returns the offset of the first byte that is not part of UTF-8 text, or -1.
func invalidUTF8(body []byte) int {
	if utf8.Valid(body) {
		return -1
	}
	for at := 0; at < len(body); {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// tooDeep returns the offset at which body exceeds MaxDepth, or -1. It need not understand broken JSON, which the decoder
// refuses anyway.
func tooDeep(body []byte) int {
	depth, inString := 0, false
	for at := 0; at < len(body); at++ {
		switch c := body[at]; {
		case inString && c == '\\':
			at++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return at
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// explain turns an error of encoding/json into one that names field and place.
func explain(body []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &DecodeError{Kind: Malformed, Offset: max(syntax.Offset-1, 0), Problem: syntax.Error()}
	}
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return &DecodeError{Kind: Malformed, Problem: err.Error()}
	}
	found := &DecodeError{Kind: Mismatch, Field: mismatch.Field, Offset: mismatch.Offset}
	path, start, end, ok := locate(body, mismatch)
	if !ok {
		found.Problem = "it must be " + expected(mismatch.Type)
		return found
	}
	found.Field, found.Offset = path, start
	found.Problem = fmt.Sprintf("it must be %s, not %s", expected(mismatch.Type), shorten(body[start:end]))
	return found
}

// expected says in words what a field of type t takes.
func expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[SizeKiB]():
		return "a whole number of KiB of at most 63 bits"
	case reflect.TypeFor[Int32]():
		return "a whole number of at most 31 bits"
	case reflect.TypeFor[Int64]():
		return "a whole number of at most 63 bits"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

// shorten quotes the start of an offending value: enough to recognise it, never a whole body.
func shorten(raw []byte) string {
	const most = 40
	switch {
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "a list"
	case len(raw) <= most:
		return string(raw)
	}
	cut := most
	for !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return string(raw[:cut]) + "…"
}
