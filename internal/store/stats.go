// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync/atomic"
	"time"
)

// Stats is what a store has done since it was opened.
type Stats struct {
	Updates   int64         // made durable
	Refused   int64         // their function, or a limit, refused them
	Failed    int64         // could not be made durable
	Commits   int64         // of the engine; each makes one or more updates durable
	Rows      int64         // written by these commits
	Appending time.Duration // spent in the engine
	Waiting   time.Duration // of all updates together, from their call until they were durable
	Queued    int           // updates that wait now
	Watchers  int
	Aside     int            // rows set aside
	Held      map[string]int // rows now, by collection
}

type counters struct {
	updates, refused, failed, commits, rows, appending, waited, watchers atomic.Int64
}

func (c *counters) committed(updates, rows int) {
	c.updates.Add(int64(updates))
	c.commits.Add(1)
	c.rows.Add(int64(rows))
}

// Stats returns what the store has done, for metrics.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	queued := len(s.queue)
	s.mu.Unlock()
	v := s.Snapshot()
	st := Stats{
		Updates:   s.count.updates.Load(),
		Refused:   s.count.refused.Load(),
		Failed:    s.count.failed.Load(),
		Commits:   s.count.commits.Load(),
		Rows:      s.count.rows.Load(),
		Appending: time.Duration(s.count.appending.Load()),
		Waiting:   time.Duration(s.count.waited.Load()),
		Queued:    queued,
		Watchers:  int(s.count.watchers.Load()),
		Aside:     len(v.state.aside),
		Held:      v.Held(),
	}
	return st
}

// Held is the number of rows by collection.
func (v *View) Held() map[string]int {
	held := make(map[string]int, len(v.state.tables))
	for i, d := range v.state.layout.defs {
		held[d.name] = v.state.tables[i].rows.Len()
	}
	return held
}
