// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Type is what the values of a property look like. Words are compared without case only where it says so.
type Type int

// The types.
const (
	Free        Type = iota // any text
	String                  // text for a configuration file or a command line: printable, without double quotes and backslashes
	TrueFalse               // True or False, also yes and no, in any case
	YesNo                   // yes or no, in any case
	Integer                 // a whole number
	Decimal                 // a number with or without a fraction
	Enum                    // one of some words, as they are written
	IntegerOr               // a whole number or one of some words
	NumberRange             // two whole numbers with a hyphen between, the lower one first
	Share                   // a part of something: "10%", or a size such as "5GiB", which without a unit is in KiB
	Name                    // the name of a pool or a network interface
	Path                    // a directory, a volume group, a dataset: printable, without blanks, quotes and backslashes
	Hex16                   // sixteen hexadecimal digits
)

// String is the name that LINSTOR's API has for the type.
func (t Type) String() string {
	switch t {
	case TrueFalse:
		return "boolean_true_false"
	case YesNo:
		return "boolean"
	case Integer:
		return "range"
	case Decimal:
		return "range_float"
	case Enum:
		return "symbol"
	case IntegerOr:
		return "numeric_or_symbol"
	case NumberRange, Share, Name, Path, Hex16:
		return "regex"
	default:
		return "string"
	}
}

// maxValue is the longest value, in bytes.
const maxValue = 32 << 10

// Allowed says in words what values the property may have.
func (i Info) Allowed() string {
	switch i.Type {
	case TrueFalse:
		return "True or False"
	case YesNo:
		return "yes or no"
	case Integer:
		return "a whole number" + i.bounds()
	case Decimal:
		return "a number" + i.bounds()
	case Enum:
		return "one of " + strings.Join(i.Values, ", ")
	case IntegerOr:
		return "a whole number" + i.bounds() + ", or one of " + strings.Join(i.Values, ", ")
	case NumberRange:
		return "two numbers" + i.bounds() + " such as 7000-7999"
	case Share:
		return "a percentage such as 10%, or a size such as 5GiB"
	case Name:
		return "a name of 3 to 48 letters, digits, '-' and '_'"
	case Path:
		return "a path without blanks, quotes and backslashes that does not start with '-'"
	case Hex16:
		return "16 hexadecimal digits"
	case String:
		return "printable text without double quotes and backslashes"
	default:
		return "any text"
	}
}

func (i Info) bounds() string {
	if i.Min == 0 && i.Max == 0 {
		return ""
	}
	text := fmt.Sprintf(" from %s to %s", number(i.Min), number(i.Max))
	if i.Unit != "" {
		text += " (" + i.Unit + ")"
	}
	return text
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Accepts tells whether the property may have the value.
func (i Info) Accepts(value string) bool {
	if len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return false
	}
	switch i.Type {
	case TrueFalse:
		_, ok := parseBool(value)
		return ok
	case YesNo:
		return strings.EqualFold(value, "yes") || strings.EqualFold(value, "no")
	case Integer:
		return i.acceptsInteger(value)
	case Decimal:
		f, err := strconv.ParseFloat(value, 64)
		return err == nil && f >= i.Min && f <= i.Max
	case Enum:
		return slices.Contains(i.Values, value)
	case IntegerOr:
		return slices.Contains(i.Values, value) || i.acceptsInteger(value)
	case NumberRange:
		low, high, ok := parseRange(value)
		return ok && i.holds(low) && i.holds(high)
	case Share:
		_, _, ok := parseShare(value)
		return ok
	case Name:
		return isName(value) || slices.Contains(i.Values, value)
	case Path:
		return value != "" && value[0] != '-' && isPlain(value, " '`")
	case Hex16:
		return len(value) == 16 && strings.TrimLeft(value, "0123456789abcdefABCDEF") == ""
	case String:
		return isPlain(value, "")
	default:
		return true
	}
}

func (i Info) acceptsInteger(value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && i.holds(n)
}

// holds tells whether a whole number is inside the bounds, exactly.
func (i Info) holds(n int64) bool {
	return i.Min == 0 && i.Max == 0 || n >= int64(i.Min) && n <= int64(i.Max)
}

func parseBool(value string) (b, ok bool) {
	switch strings.ToLower(value) {
	case "true", "yes":
		return true, true
	case "false", "no":
		return false, true
	default:
		return false, false
	}
}

func parseRange(value string) (low, high int64, ok bool) {
	a, b, ok := strings.Cut(value, "-")
	if !ok {
		return 0, 0, false
	}
	low, errLow := strconv.ParseInt(a, 10, 64)
	high, errHigh := strconv.ParseInt(b, 10, 64)
	return low, high, errLow == nil && errHigh == nil && low >= 0 && low <= high
}

// parseShare reads a percentage as a fraction, or else a size in bytes.
func parseShare(value string) (fraction float64, size int64, ok bool) {
	digits := strings.TrimRight(value, "%kKmMgGtTibBsS ")
	unit := strings.TrimSpace(value[len(digits):])
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || strings.ContainsAny(digits, "xX_eEnN+") {
		return 0, 0, false
	}
	if unit == "%" {
		return n / 100, 0, n <= 100
	}
	scale, ok := shareUnit(unit)
	if n *= scale; n > 1<<60 {
		return 0, 0, false
	}
	return 0, int64(n), ok
}

// shareUnit is the bytes of a unit. Only the form with "i", or without "B", is binary.
func shareUnit(unit string) (float64, bool) {
	switch unit = strings.ToLower(unit); unit {
	case "":
		return 1 << 10, true
	case "b":
		return 1, true
	case "s":
		return 512, true
	}
	power := strings.IndexByte("kmgt", unit[0]) + 1
	switch {
	case power == 0:
		return 0, false
	case unit[1:] == "b":
		return math.Pow(1000, float64(power)), true
	case unit[1:] == "", unit[1:] == "i", unit[1:] == "ib":
		return math.Pow(1024, float64(power)), true
	default:
		return 0, false
	}
}

// isName accepts what names of pools and network interfaces have in common.
func isName(s string) bool {
	if len(s) < 3 || len(s) > 48 || s[0] == '-' {
		return false
	}
	return strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isPlain tells whether a text has no control characters, double quotes and backslashes, and none of the others.
func isPlain(s, others string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return unicode.IsControl(c) || c == '"' || c == '\\' || strings.ContainsRune(others, c)
	})
}
