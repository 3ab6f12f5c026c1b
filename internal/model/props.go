// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Props is an immutable set of properties. Changes make a new one, so that a row that was
// read can never change under its reader or change the store. The zero value is empty.
type Props struct {
	m map[string]string
}

// PropsOf returns the properties of m, which is copied.
func PropsOf(m map[string]string) Props {
	if len(m) == 0 {
		return Props{}
	}
	return Props{m: maps.Clone(m)}
}

// Get returns the value of key and whether it is set.
func (p Props) Get(key string) (string, bool) {
	v, ok := p.m[key]
	return v, ok
}

// Len is the number of properties.
func (p Props) Len() int { return len(p.m) }

// Map returns the properties as a map of the caller's own; nil when there are none.
func (p Props) Map() map[string]string {
	if len(p.m) == 0 {
		return nil
	}
	return maps.Clone(p.m)
}

// All yields the properties in the order of their keys.
func (p Props) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(p.m)) {
			if !yield(k, p.m[k]) {
				return
			}
		}
	}
}

// With returns p with key set to value.
func (p Props) With(key, value string) Props {
	return p.Change(PropsChange{Set: map[string]string{key: value}})
}

// Without returns p without key.
func (p Props) Without(key string) Props {
	return p.Change(PropsChange{Delete: []string{key}})
}

// PropsChange is an edit of some properties that leaves all others alone, so that edits of
// different keys by many clients all survive (LINSTOR: override_props, delete_props,
// delete_namespaces).
type PropsChange struct {
	Set              map[string]string
	Delete           []string
	DeleteNamespaces []string // each removes the key itself and all keys below "namespace/"
}

// Empty tells whether the change changes nothing, whatever it is applied to.
func (c PropsChange) Empty() bool {
	return len(c.Set) == 0 && len(c.Delete) == 0 && len(c.DeleteNamespaces) == 0
}

// Change returns p after c. Deletions come first, so that a key both deleted and set is set.
func (p Props) Change(c PropsChange) Props {
	if c.Empty() {
		return p
	}
	m := maps.Clone(p.m)
	if m == nil {
		m = make(map[string]string, len(c.Set))
	}
	for _, k := range c.Delete {
		delete(m, k)
	}
	for _, ns := range c.DeleteNamespaces {
		ns = strings.TrimSuffix(ns, "/")
		maps.DeleteFunc(m, func(k, _ string) bool {
			return k == ns || strings.HasPrefix(k, ns+"/")
		})
	}
	maps.Copy(m, c.Set)
	if len(m) == 0 {
		return Props{}
	}
	return Props{m: m}
}

// Matches tells whether every one of the filters holds: "key" is set, or "key=value" has
// that value (the props query parameter of LINSTOR's lists).
func (p Props) Matches(filters []string) bool {
	for _, f := range filters {
		key, want, valued := strings.Cut(f, "=")
		got, ok := p.m[key]
		if !ok || valued && got != want {
			return false
		}
	}
	return true
}

// Equal tells whether p and q hold the same properties.
func (p Props) Equal(q Props) bool { return maps.Equal(p.m, q.m) }

// IsZero tells encoding/json's omitzero that there is nothing to write.
func (p Props) IsZero() bool { return len(p.m) == 0 }

// MarshalJSON writes the properties as an object with sorted keys.
func (p Props) MarshalJSON() ([]byte, error) {
	if p.m == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(p.m)
}

// UnmarshalJSON reads an object of strings.
func (p *Props) UnmarshalJSON(b []byte) error {
	var m map[string]string
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*p = PropsOf(m)
	return nil
}
