// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// toYAML returns JSON as YAML, with the keys in the order in which they came.
func toYAML(body []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	w := yamlWriter{plain: regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)}
	if err := w.value(d, 0, "\n"); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimPrefix(w.out.String(), "\n"), nil
}

type yamlWriter struct {
	out   strings.Builder
	plain *regexp.Regexp // strings that need no quotes
}

// value writes the next value of d. Before is what stands between a key or a dash and a value that has lines of its own.
func (w *yamlWriter) value(d *json.Decoder, depth int, before string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		if !d.More() {
			w.out.WriteString(" " + map[json.Delim]string{'{': "{}", '[': "[]"}[token] + "\n")
		} else if err := w.elements(d, token == '{', depth, before); err != nil {
			return err
		}
		_, err = d.Token() // The end of it.
		return err
	case string:
		w.out.WriteString(" " + w.text(token) + "\n")
	case nil:
		w.out.WriteString(" null\n")
	default:
		fmt.Fprintf(&w.out, " %v\n", token)
	}
	return nil
}

// elements writes those of an object or a list, which has some.
func (w *yamlWriter) elements(d *json.Decoder, object bool, depth int, before string) error {
	indent := strings.Repeat("  ", depth)
	w.out.WriteString(before)
	for first := true; d.More(); first = false {
		if before == "\n" || !first {
			w.out.WriteString(indent)
		}
		if !object {
			w.out.WriteString("-")
			if err := w.value(d, depth+1, " "); err != nil {
				return err
			}
			continue
		}
		key, err := d.Token()
		if err != nil {
			return err
		}
		w.out.WriteString(w.text(fmt.Sprint(key)) + ":")
		if err := w.value(d, depth+1, "\n"); err != nil {
			return err
		}
	}
	return nil
}

// text returns a string, in quotes where it could be taken for something else. Quoted strings of JSON are those of YAML.
func (w *yamlWriter) text(s string) string {
	words := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if w.plain.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // A string always encodes.
		return s
	}
	return strings.TrimSpace(quoted.String())
}
