// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

// Span is a span.
type Span struct {
	Start, End uint64
	Owner      int
}

// Layers is layers.
func Layers(spans []Span, visit func(bytes int64, volumes, first int)) {
	var list []span
	for _, s := range spans {
		list = append(list, span{start: s.Start, end: s.End, owner: s.Owner})
	}
	layers(list, visit)
}

// ParseName returns the name of what a file's name was taken for.
func ParseName(name string) (string, bool) {
	e, ok := parse(name)
	return e.name(), ok
}
