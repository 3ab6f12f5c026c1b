// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Encode returns v as JSON, on one line without a line end. A nil list becomes [] and a nil map {}, so that a body is
// never null. It fails only for a number that JSON cannot express (NaN, infinity).
func Encode(v any) ([]byte, error) {
	if value := reflect.ValueOf(v); isNil(value) {
		if value.Kind() == reflect.Slice {
			return []byte("[]"), nil
		}
		return []byte("{}"), nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func isNil(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	kind := v.Kind()
	return (kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer) && v.IsNil()
}
