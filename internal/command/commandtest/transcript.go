// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// Entry is one recorded call.
type Entry struct {
	Line   string // The command line, as Line makes it.
	Stdout []byte
	Stderr []byte
	Code   int
}

// Line returns the command line of c with secret arguments replaced and all arguments quoted where a shell would need it.
func Line(c command.Command) string {
	words := append([]string{c.Program}, c.Shown()...)
	for i, w := range words {
		if w == "" || strings.Trim(w, plain) != "" {
			words[i] = "'" + strings.NewReplacer("'", `'\''`, "\n", `'$'\n''`).Replace(w) + "'"
		}
	}
	return strings.Join(words, " ")
}

// plain is what a shell takes as it is.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%"

// Parse reads a transcript.
func Parse(text string) ([]Entry, error) {
	var entries []Entry
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		mark, rest := line[0], strings.TrimPrefix(line[1:], " ")
		if mark == '$' {
			entries = append(entries, Entry{Line: rest})
			continue
		}
		if len(entries) == 0 {
			return nil, fmt.Errorf("line %d: %q comes before any command", i+1, line)
		}
		last := &entries[len(entries)-1]
		switch mark {
		case '>':
			last.Stdout = append(append(last.Stdout, rest...), '\n')
		case '!':
			last.Stderr = append(append(last.Stderr, rest...), '\n')
		case '=':
			code, err := strconv.Atoi(rest)
			if err != nil || code < 0 || code > 255 {
				return nil, fmt.Errorf("line %d: %q is not an exit code", i+1, rest)
			}
			last.Code = code
		default:
			return nil, fmt.Errorf("line %d: %q begins with none of # $ > ! =", i+1, line)
		}
	}
	return entries, nil
}

// Format is the inverse of Parse, for output that ends with a newline.
func Format(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "$ %s\n", e.Line)
		lines(&b, '>', e.Stdout)
		lines(&b, '!', e.Stderr)
		if e.Code != 0 {
			fmt.Fprintf(&b, "= %d\n", e.Code)
		}
	}
	return b.String()
}

func lines(b *strings.Builder, mark byte, text []byte) {
	if len(text) == 0 {
		return
	}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		b.WriteByte(mark)
		if len(line) > 0 {
			b.WriteByte(' ')
			b.Write(line)
		}
		b.WriteByte('\n')
	}
}
