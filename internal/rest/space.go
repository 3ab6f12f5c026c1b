// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// spaceReport answers with a text for people: the room of every pool, and the sums of them all. A pool of which nothing is
// heard is counted in no sum, and the text says so.
func (s *Server) spaceReport(*request) (body, error) {
	view := s.Store.Snapshot()
	var text strings.Builder
	fmt.Fprintf(&text, "Space of the storage pools at %s\n\n", s.Now().UTC().Format(time.RFC3339))
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	row("Pool", "Node", "Provider", "Capacity", "Free", "Allocated", "Promised", "Room")
	var sum struct{ capacity, free, allocated, promised int64 }
	unknown, seen := 0, map[string]bool{}
	for p := range schema.Pools.All(view) {
		if p.Provider == model.Diskless {
			continue
		}
		sp, room, known := s.Resources.Space(view, p)
		names := []string{string(p.Name), string(schema.NameOfNode(view, p.Node)), string(p.Provider)}
		if !known {
			unknown++
			row(append(names, "unknown", "unknown", "unknown", model.FormatSize(sp.Promised), "unknown")...)
			continue
		}
		row(append(names, model.FormatSize(sp.Total), model.FormatSize(sp.Free), model.FormatSize(sp.Allocated),
			model.FormatSize(sp.Promised), model.FormatSize(room))...)
		if p.SharedSpace != "" && seen[p.SharedSpace] {
			continue // It is the same space as one before.
		}
		seen[p.SharedSpace] = true
		sum.capacity, sum.free = sum.capacity+sp.Total, sum.free+sp.Free
		sum.allocated, sum.promised = sum.allocated+sp.Allocated, sum.promised+sp.Promised
	}
	row("All", "", "", model.FormatSize(sum.capacity), model.FormatSize(sum.free), model.FormatSize(sum.allocated), model.FormatSize(sum.promised), "")
	_ = t.Flush() // A builder takes everything.
	if unknown > 0 {
		fmt.Fprintf(&text, "\nThe space of %s is not known and not counted.\n", counted(unknown, "pool"))
	}
	return value{wire.SpaceReport{ReportText: text.String()}}, nil
}
