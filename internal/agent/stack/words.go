// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"errors"
	"strings"
)

// splitWords splits a line as a POSIX shell splits it: at blanks, with single quotes, double quotes and backslashes. Nothing is
// expanded: dollars, backquotes and wildcards stand for themselves, and so do the shell's operators.
func splitWords(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
		quote  byte // The quote that is open, or zero.
	)
	if strings.IndexByte(line, 0) >= 0 {
		return nil, errors.New("a zero byte cannot be part of a word")
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			quote = 0
		case quote == '\'':
			word.WriteByte(c)
		case c == '\\':
			i++
			switch {
			case i == len(line):
				return nil, errors.New("the line ends with a backslash")
			case line[i] == '\n': // The line goes on.
				continue
			case quote == '"' && !strings.ContainsRune("$`\"\\", rune(line[i])):
				word.WriteByte('\\')
			}
			word.WriteByte(line[i])
			inWord = true
		case quote == '"':
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("the quote " + string(quote) + " is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
