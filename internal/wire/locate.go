// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// locate finds the value that encoding/json refused: its path with list positions, and where its text starts and ends. It
// runs only for refused bodies, which are valid JSON.
//
// The decoder's own errors carry an offset that lies within a plain value or just behind the bracket that opens a list or
// an object. The errors of this package's number types carry none, but the name of the field and the value's text.
func locate(body []byte, refused *json.UnmarshalTypeError) (path string, start, end int64, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	_, field := cutLast(refused.Field, ".")
	l := locator{body: body, dec: dec, matches: func(v located) bool {
		if refused.Offset > 0 {
			return v.start < refused.Offset && refused.Offset <= v.end
		}
		return strings.EqualFold(v.key, field) && string(body[v.start:v.end]) == refused.Value
	}}
	l.value("", "")
	return l.found.path, l.found.start, l.found.end, l.done
}

// located is one value of a body. The end of a list or an object is that of its opening bracket. The key of a list's
// element is the list's.
type located struct {
	path, key  string
	start, end int64
}

type locator struct {
	body    []byte
	dec     *json.Decoder
	matches func(located) bool
	found   located
	done    bool
}

// value reads one value and, depth first, all in it, until one matches. The body's depth is bounded by MaxDepth.
func (l *locator) value(path, key string) {
	start := l.next()
	token, err := l.dec.Token()
	if err != nil || l.done {
		return
	}
	if v := (located{path, key, start, l.dec.InputOffset()}); l.matches(v) {
		l.found, l.done = v, true
		return
	}
	switch token {
	case json.Delim('{'):
		for l.more() {
			name, err := l.dec.Token()
			if err != nil {
				return
			}
			key, _ := name.(string)
			l.value(join(path, key), key)
		}
	case json.Delim('['):
		for i := 0; l.more(); i++ {
			l.value(path+"["+strconv.Itoa(i)+"]", key)
		}
	default:
		return
	}
	if !l.done {
		_, _ = l.dec.Token() // The closing bracket of a body that was valid.
	}
}

func (l *locator) more() bool { return !l.done && l.dec.More() }

// next returns where the next value starts.
func (l *locator) next() int64 {
	at := l.dec.InputOffset()
	for at < int64(len(l.body)) && strings.IndexByte(" \t\r\n,:", l.body[at]) >= 0 {
		at++
	}
	return at
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// cutLast splits s around the last sep; before is empty when there is none.
func cutLast(s, sep string) (before, after string) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s
	}
	return s[:i], s[i+len(sep):]
}
