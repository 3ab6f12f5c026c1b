// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/client"
)

// propColumns are properties that a list shows in columns of their own.
type propColumns struct{ keys list }

func (p *propColumns) addTo(f *pflag.FlagSet, short string) {
	p.keys.addTo(f, "show-props", short, "show these properties, each in a column of its own")
}

// into adds the columns to a table.
func (p *propColumns) into(t *table) { t.add(p.keys...) }

// values returns a row with the properties at its end.
func (p *propColumns) values(props client.Properties, row ...any) []any {
	for _, key := range p.keys {
		row = append(row, props[key])
	}
	return row
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// auxProps returns the properties that are free for all uses, a line for each.
func auxProps(props client.Properties) string {
	var lines []string
	for _, key := range sortedKeys(props) {
		if strings.HasPrefix(key, auxPrefix) {
			lines = append(lines, key+"="+props[key])
		}
	}
	return strings.Join(lines, "\n")
}
