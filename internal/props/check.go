// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// The longest key, in bytes, and the most properties that one change sets.
const (
	maxKey = 256
	maxSet = 1000
)

// Check refuses a change that sets a property which is not known at the scope, or to a value that it cannot have. The error is errs.Invalid about
// errs.Property. It names the first such key, what is allowed, and in its details all others. Nothing of a refused change may be applied.
func Check(scope Scope, change model.PropsChange) error {
	object, noun := scope.object()
	if len(change.Set) > maxSet {
		return errs.New(errs.Invalid, object, "%d properties of %s cannot be set at once", len(change.Set), noun).
			About(errs.Property).Because("at most %d are allowed", maxSet).Fix("set them in several steps")
	}
	var faults []fault
	for _, key := range slices.Sorted(maps.Keys(change.Set)) {
		f, bad := check(scope, key, change.Set[key])
		if _, twice := change.Set[Clean(key)]; twice && Clean(key) != key {
			f, bad = fault{what: fmt.Sprintf("the property %q of %s cannot be set", Clean(key), scope), why: "it is given twice, with a slash before it and without"}, true
		}
		if bad {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	first := faults[0]
	err := errs.New(errs.Invalid, object, "%s", first.what).About(errs.Property).Because("%s", first.why)
	if first.fix != "" {
		err = err.Fix("%s", first.fix)
	}
	if len(faults) > 1 {
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = f.what + ": " + f.why
		}
		err = err.Detail(strings.Join(texts, "\n"))
	}
	return err
}

// fault is what is wrong with one property of a change.
type fault struct{ what, why, fix string }

// check tells what is wrong with setting one property.
func check(scope Scope, key, value string) (fault, bool) {
	stored := Clean(key)
	if why := keyFault(stored); why != "" {
		return fault{what: fmt.Sprintf("the property key %q is not valid", clip(key)), why: why}, true
	}
	info, ok := Lookup(stored)
	f := fault{what: fmt.Sprintf("the property %q of %s cannot be set", stored, scope)}
	switch {
	case !ok:
		f.why, f.fix = "no such property is known", suggestion(scope, stored)
	case info.Scopes&scope == 0:
		f.why = "it is a property of " + scopes(info.Scopes)
	case info.Internal:
		f.why = "it is kept by the controller itself"
	case !info.Accepts(value):
		f.what = fmt.Sprintf("the property %q of %s cannot be set to %q", stored, scope, clip(value))
		if info.Secret {
			f.what = fmt.Sprintf("the property %q of %s cannot be set to this value", stored, scope)
		}
		f.why, f.fix = "the value is not allowed", "use "+info.Allowed()
		if len(value) > maxValue {
			f.why, f.fix = fmt.Sprintf("the value has %d bytes, and at most %d are allowed", len(value), maxValue), ""
		}
	default:
		return fault{}, false
	}
	return f, true
}

// keyFault tells what no key may have.
func keyFault(key string) string {
	switch {
	case key == "":
		return "it is empty"
	case len(key) > maxKey:
		return fmt.Sprintf("it has %d bytes, and at most %d are allowed", len(key), maxKey)
	case strings.HasPrefix(key, "/"), strings.HasSuffix(key, "/"), strings.Contains(key, "//"):
		return "it has an empty part between slashes"
	case !isText(key):
		return "it has a character that cannot be printed"
	default:
		return ""
	}
}

func scopes(set Scope) string {
	var nouns []string
	for scope := Controller; scope <= Snapshot; scope <<= 1 {
		if set&scope != 0 {
			nouns = append(nouns, scope.String())
		}
	}
	return strings.Join(nouns, ", ")
}

// clip keeps an absurd text from filling an answer.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
