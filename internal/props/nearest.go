// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// suggestion names the property of a scope that is nearest to a key that is not known, or the namespace for keys of one's own.
func suggestion(scope Scope, key string) string {
	best, distance := "", len(key)/3+1
	for info := range All(scope) {
		if info.Internal || strings.ContainsAny(info.Key, "*<") {
			continue
		}
		if d := editDistance(strings.ToLower(key), strings.ToLower(info.Key), distance); d < distance {
			best, distance = info.Key, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return fmt.Sprintf("keys of your own go below Aux/, such as %q", clip("Aux/"+key))
}

// editDistance counts the bytes to insert, delete or replace to make b of a. It gives up at limit, and then returns limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		lowest := row[0]
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
			lowest = min(lowest, row[j+1])
		}
		if lowest >= limit {
			return limit
		}
	}
	return row[len(b)]
}

// isText tells whether a text is printable.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}
