// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

import (
	"iter"
	"slices"
	"strings"
	"sync"
)

// Info describes one property.
type Info struct {
	Key       string   // Exact, or a pattern.
	Type      Type     // What its values look like.
	Min, Max  float64  // Of a number, or of the numbers in a range. A whole number is not bounded when both are 0.
	Values    []string // Of an Enum, and the words that are allowed besides numbers and names.
	Unit      string   // Of a number.
	Default   string   // What holds when no scope has a value; empty: nothing.
	Scopes    Scope    // Where it may be set.
	PoolFirst bool     // The pool's value wins over that of the replica.
	Secret    bool     // Its value must not be shown.
	Internal  bool     // Only Holdfast itself sets it.
	Unused    bool     // Known to LINSTOR's clients and accepted, but without effect.
	Text      string   // What it is for.
}

// Chain is the scopes that a value is inherited from, the first one that has it wins.
func (i Info) Chain() []Scope {
	order := inheritance()
	if i.PoolFirst {
		order = append([]Scope{Pool}, slices.DeleteFunc(order, func(s Scope) bool { return s == Pool })...)
	}
	return slices.DeleteFunc(order, func(s Scope) bool { return i.Scopes&s == 0 })
}

// inheritance is the order of all scopes, the most particular first.
func inheritance() []Scope {
	return []Scope{
		Volume, Resource, VolumeDefinition, VolumeGroup, ResourceConnection, Definition, NodeConnection, Group, Pool, Node, Controller, Snapshot,
	}
}

// table is all properties, made ready for looking up.
type table struct {
	all      []Info // By key.
	exact    map[string]Info
	patterns []Info
}

// known returns the table. It is built once and never changed.
//
//nolint:gochecknoglobals // It is a constant that Go has no literal for.
var known = sync.OnceValue(func() *table {
	t := &table{exact: map[string]Info{}}
	for _, list := range [][]Info{
		clusterTable(), placementTable(), storageTable(), drbdTable(), drbdPolicyTable(), drbdNetTable(), foreignTable(), cacheTable(), internalTable(),
	} {
		t.all = append(t.all, list...)
	}
	slices.SortFunc(t.all, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	for _, info := range t.all {
		if strings.ContainsAny(info.Key, "*<") {
			t.patterns = append(t.patterns, info)
		} else {
			t.exact[info.Key] = info
		}
	}
	return t
})

// All yields every property that may be set at a scope, by key, with patterns among them.
func All(scope Scope) iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for _, info := range known().all {
			if info.Scopes&scope != 0 && !yield(info) {
				return
			}
		}
	}
}

// Lookup finds the property that a key names, whatever the scope.
func Lookup(key string) (Info, bool) {
	key = Clean(key)
	t := known()
	if info, ok := t.exact[key]; ok {
		return info, true
	}
	for _, info := range t.patterns {
		if matches(info.Key, key) {
			return info, true
		}
	}
	return Info{}, false
}

// matches tells whether a key is one that a pattern stands for.
func matches(pattern, key string) bool {
	if namespace, all := strings.CutSuffix(pattern, "*"); all {
		return len(key) > len(namespace) && strings.HasPrefix(key, namespace)
	}
	for {
		want, restPattern, more := strings.Cut(pattern, "/")
		got, restKey, moreKey := strings.Cut(key, "/")
		if more != moreKey || got == "" || !strings.HasPrefix(want, "<") && want != got {
			return false
		}
		if !more {
			return true
		}
		pattern, key = restPattern, restKey
	}
}

// Clean returns a key as it is stored: without the slash that some clients put before it.
func Clean(key string) string { return strings.TrimPrefix(key, "/") }

// Secret tells whether the value of a key must not be shown.
func Secret(key string) bool {
	info, ok := Lookup(key)
	return ok && info.Secret
}

// BackendKeys is the keys that say where the volumes of a pool lie, today's first.
func BackendKeys() []string {
	return []string{
		"StorDriver/StorPoolName", "StorDriver/LvmVg", "StorDriver/ThinPool", "StorDriver/ZPool", "StorDriver/ZPoolThin", "StorDriver/FileDir",
		"StorDriver/Mount/Type", "StorDriver/Mount/Source",
	}
}
