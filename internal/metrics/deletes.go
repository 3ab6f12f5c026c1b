// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/schema"
)

// kindDeleted is a kind of object whose deletion takes time.
type kindDeleted string

const (
	kindNode             kindDeleted = "node"
	kindDefinition       kindDeleted = "resource_definition"
	kindVolumeDefinition kindDeleted = "volume_definition"
	kindResource         kindDeleted = "resource"
	kindVolume           kindDeleted = "volume"
	kindSnapshot         kindDeleted = "snapshot"
	kindSnapshotReplica  kindDeleted = "snapshot_replica"
)

// pending is a deletion that was asked for and is not done.
type pending struct {
	kind kindDeleted
	uuid string // of the row
}

// deleting notes a deletion that is pending, since a time that is zero when its row does not say.
func (s *scrape) deleting(is bool, kind kindDeleted, uuid string, since time.Time) {
	switch {
	case !is:
	case since.IsZero():
		s.found.deleting = append(s.found.deleting, pending{kind, uuid})
	default:
		s.found.dated[kind]++
		s.found.oldest = max(s.found.oldest, s.now.Sub(since))
	}
}

// deletes writes the deletions that are pending: none at rest.
func (s *scrape) deletes() {
	for x := range schema.Snapshots.All(s.view) {
		s.deleting(x.Deleting, kindSnapshot, x.UUID, time.Time{})
	}
	for x := range schema.SnapshotReplicas.All(s.view) {
		s.deleting(x.Deleting, kindSnapshotReplica, x.UUID, time.Time{})
	}
	counts := maps.Clone(s.found.dated)
	dated := len(counts) > 0
	for _, p := range s.found.deleting {
		counts[p.kind]++
	}
	s.family("holdfast_pending_deletes", gauge, "Objects that are to be deleted and are still there.")
	for _, k := range []kindDeleted{
		kindNode, kindDefinition, kindVolumeDefinition, kindResource, kindVolume, kindSnapshot, kindSnapshotReplica,
	} {
		s.count(counts[k], "kind", string(k))
	}
	s.family("holdfast_pending_delete_oldest_age_seconds", gauge,
		"Time since the oldest pending deletion was asked for or, of nodes, single volumes and snapshots, was first seen by a scrape; nothing when none is pending.")
	if age, any := s.ages.oldest(s.found.deleting, s.now); any || dated {
		s.measure(max(age, s.found.oldest).Seconds())
	}
}

// ages remembers when each pending deletion whose row does not say since when was first seen. Such
// an age is never too high, and begins anew with the process.
type ages struct {
	mu    sync.Mutex
	since map[pending]time.Time
}

// oldest returns the age of the oldest of the deletions that are pending now, and forgets all
// others.
func (a *ages) oldest(now []pending, at time.Time) (age time.Duration, any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := make(map[pending]time.Time, len(now))
	for _, p := range now {
		first, ok := a.since[p]
		if !ok {
			first = at
		}
		since[p] = first
		age = max(age, at.Sub(first))
	}
	a.since = since
	return age, len(now) > 0
}
