// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

func TestWordsAreSplitAsAShellSplitsThem(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  \t\r\n ", nil},
		{"-i 8192  -m 0", []string{"-i", "8192", "-m", "0"}},
		{`-L 'two words'`, []string{"-L", "two words"}},
		{`-L "two words"`, []string{"-L", "two words"}},
		{`-L two\ words`, []string{"-L", "two words"}},
		{`a'b'"c"\d`, []string{"abcd"}},
		{`'' ""`, []string{"", ""}},
		{`'a"b\c'`, []string{`a"b\c`}},
		{`"a'b\"c\\d\$e\f"`, []string{`a'b"c\d$e\f`}},
		{"a\\\nb", []string{"ab"}},
		{`$(reboot) ${HOME} * ;|& #x` + " `id`", []string{"$(reboot)", "${HOME}", "*", ";|&", "#x", "`id`"}},
		{"ä\u00a0b", []string{"ä\u00a0b"}},
	} {
		got, err := stack.SplitWords(tc.line)
		if err != nil {
			t.Errorf("%q: %v", tc.line, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q: %s", tc.line, diff)
		}
	}
	for _, line := range []string{`'`, `"`, `a 'b`, `a "b\"`, `a\`, "a\x00b", `"\`} {
		if got, err := stack.SplitWords(line); err == nil {
			t.Errorf("%q was split into %q", line, got)
		}
	}
}

// quote writes a word so that a shell reads it as it is.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func TestQuotedWordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[^\x00]*`)).Draw(t, "words")
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = quote(w)
		}
		got, err := stack.SplitWords(strings.Join(quoted, " "))
		if err != nil {
			t.Fatal(err)
		}
		if len(got)+len(words) > 0 {
			if diff := cmp.Diff(words, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func FuzzSplitWords(f *testing.F) {
	for _, seed := range []string{"", "-i 8192", `-L "a b"`, `a\ b 'c"d' "e\"f"`, "'", "a\\\nb", "`x` $y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := stack.SplitWords(line)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		total := 0
		for i, w := range words {
			quoted[i] = quote(w)
			total += len(w)
		}
		if total > len(line) {
			t.Fatalf("%q became longer: %q", line, words)
		}
		again, err := stack.SplitWords(strings.Join(quoted, "\t"))
		if err != nil {
			t.Fatal(err)
		}
		if len(again)+len(words) > 0 {
			if diff := cmp.Diff(words, again); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
