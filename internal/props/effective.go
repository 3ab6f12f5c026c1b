// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

import (
	"slices"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Level is the properties that are set at one scope that an object inherits from.
type Level struct {
	Scope Scope
	Props model.Props
}

// Value is a value with the scope that it was set at.
type Value struct {
	Text  string
	Scope Scope
}

// Effective returns the value of a key that holds for an object, given the levels that it inherits from, and the values that this one hides, in the
// order of the key's chain. The levels may come in any order; those that are not in the chain of a known key are left out. For a key
// that is not known, the levels are looked at as they come.
func Effective(key string, levels ...Level) (value Value, hidden []Value, ok bool) {
	for v := range values(key, levels) {
		if ok {
			hidden = append(hidden, v)
			continue
		}
		value, ok = v, true
	}
	return value, hidden, ok
}

// values yields the set values of a key in the order of its chain.
func values(key string, levels []Level) func(yield func(Value) bool) {
	return func(yield func(Value) bool) {
		if info, ok := Lookup(key); ok && !info.plain() {
			for _, scope := range info.Chain() {
				for _, l := range levels {
					if text, set := l.Props.Get(key); set && l.Scope == scope && !yield(Value{text, scope}) {
						return
					}
				}
			}
			return
		}
		for _, l := range levels {
			if text, set := l.Props.Get(key); set && !yield(Value{text, l.Scope}) {
				return
			}
		}
	}
}

// plain tells whether the levels are to be looked at as they come.
func (i Info) plain() bool { return i.Scopes == everywhere }

// effective returns the first value of a key that its type accepts, or else its default. A value that is not accepted was stored by a version that knew
// the property otherwise.
func effective(key string, levels []Level) (text string, ok bool) {
	info, known := Lookup(key)
	for v := range values(key, levels) {
		if !known || info.Accepts(v.Text) {
			return v.Text, true
		}
	}
	return info.Default, known && info.Default != ""
}

// Text returns the value of a key that holds, or its default, and whether there is one.
func Text(key string, levels ...Level) (string, bool) { return effective(key, levels) }

// Bool tells whether a property that holds is true or yes. Without a value and a default it is not.
func Bool(key string, levels ...Level) bool {
	text, _ := effective(key, levels)
	b, _ := parseBool(text)
	return b
}

// Int returns the number that holds, or the default, and whether there is one: a word is none.
func Int(key string, levels ...Level) (int64, bool) {
	text, _ := effective(key, levels)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Float returns the number that holds, or the default, and whether there is one.
func Float(key string, levels ...Level) (float64, bool) {
	text, _ := effective(key, levels)
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// Range returns the lowest and the highest number of the range that holds, or of the default, and whether there is one.
func Range(key string, levels ...Level) (low, high int64, ok bool) {
	text, _ := effective(key, levels)
	return parseRange(text)
}

// Part returns the part of a total that holds, or the default: of "10%" a tenth, and a size as it is. Without a value and a default it is 0.
func Part(key string, total int64, levels ...Level) int64 {
	return PortionOf(key, levels...).Of(total)
}

// Portion is a part of a total that is not known yet: a fraction of it, or a size.
type Portion struct {
	fraction float64
	size     int64
}

// PortionOf returns the portion that holds, or the default. Without a value and a default it is nothing.
func PortionOf(key string, levels ...Level) Portion {
	text, _ := effective(key, levels)
	fraction, size, ok := parseShare(text)
	if !ok {
		return Portion{}
	}
	return Portion{fraction, size}
}

// Of is the portion of a total.
func (p Portion) Of(total int64) int64 { return max(p.size, int64(p.fraction*float64(total))) }

// Namespace returns the values that hold of all keys below a namespace, such as the options for one section of DRBD's configuration: the last
// part of each key with its value. The levels are as for Effective.
func Namespace(namespace string, levels ...Level) map[string]Value {
	found := map[string]Value{}
	for _, l := range levels {
		for key := range l.Props.All() {
			name, below := below(namespace, key)
			if !below {
				continue
			}
			if v, _, ok := Effective(key, levels...); ok {
				found[name] = v
			}
		}
	}
	return found
}

func below(namespace, key string) (string, bool) {
	if len(key) > len(namespace)+1 && key[:len(namespace)] == namespace && key[len(namespace)] == '/' {
		return key[len(namespace)+1:], true
	}
	return "", false
}

// Accept checks a change as Check does, and when it is well gives its keys the form in which they are stored.
func Accept(scope Scope, change *model.PropsChange) error {
	if err := Check(scope, *change); err != nil {
		return err
	}
	*change = CleanChange(*change)
	return nil
}

// New returns the properties of a new object, or the error of Check.
func New(scope Scope, set map[string]string) (model.Props, error) {
	change := model.PropsChange{Set: set}
	if err := Accept(scope, &change); err != nil {
		return model.Props{}, err
	}
	return model.PropsOf(change.Set), nil
}

// CleanChange returns a change that Check accepted with all keys as they are stored.
func CleanChange(c model.PropsChange) model.PropsChange {
	out := model.PropsChange{Delete: slices.Clone(c.Delete), DeleteNamespaces: slices.Clone(c.DeleteNamespaces)}
	for i, key := range out.Delete {
		out.Delete[i] = Clean(key)
	}
	for i, namespace := range out.DeleteNamespaces {
		out.DeleteNamespaces[i] = Clean(namespace)
	}
	if c.Set != nil {
		out.Set = make(map[string]string, len(c.Set))
		for key, value := range c.Set {
			out.Set[Clean(key)] = value
		}
	}
	return out
}
