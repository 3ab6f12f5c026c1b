// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// badName is the one form of every refused name.
func badName(object errs.Object, noun, name, why string) error {
	return errs.New(errs.Invalid, object, "the %s name %q is not valid", noun, clip(name)).About(errs.Name).Because("%s", why)
}

// clip keeps an absurd name from filling a log or an answer.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

func lengthFault(n, lo, hi int) string {
	return fmt.Sprintf("it has %d characters; %d to %d are allowed", n, lo, hi)
}

// nameFault tells what LINSTOR's rule for object names has against s: a length, a first
// letter or '_', then letters, digits, '-' and '_', and at least one letter.
func nameFault(s string, lo, hi int) string {
	if len(s) < lo || len(s) > hi {
		return lengthFault(len(s), lo, hi)
	}
	letters := 0
	for i := range len(s) {
		c := s[i]
		switch {
		case isLetter(c):
			letters++
		case c == '_':
		case isDigit(c), c == '-':
			if i == 0 {
				return fmt.Sprintf("it starts with %q; a letter or '_' is needed", c)
			}
		default:
			return fmt.Sprintf("the character at position %d is not allowed; letters, digits, '-' and '_' are", i+1)
		}
	}
	if letters == 0 {
		return "it has no letter"
	}
	return ""
}

func hostNameFault(s string) string {
	if len(s) < 2 || len(s) > 255 {
		return lengthFault(len(s), 2, 255)
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return "it has an empty label between dots"
		}
		if len(label) > 63 {
			return fmt.Sprintf("the label %q is longer than 63 characters", clip(label))
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Sprintf("the label %q starts or ends with '-'", label)
		}
		for i := range len(label) {
			if c := label[i]; !isLetter(c) && !isDigit(c) && c != '-' {
				return "it holds a character that host names cannot have; letters, digits, '-' and '.' are allowed"
			}
		}
	}
	return ""
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
