// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// PendingDelete is a replica that is to go, and that its host has not confirmed to be gone. It
// is tried again for ever, by its host, and at once when the delete is repeated.
type PendingDelete struct {
	Definition model.DefinitionName
	Node       model.NodeName
	Since      time.Time         // when it was first asked for; zero when that is not known
	Connected  bool              // the host can work on it now
	Failure    *observed.Failure // why the newest try failed, and when the next is due; nil when none has
}

// PendingDeletes lists the replicas that are being deleted, by definition and node.
func (s *Resources) PendingDeletes() []PendingDelete {
	view := s.Store.Snapshot()
	var list []PendingDelete
	for r := range schema.ResourcesDeleting.Get(view, true) {
		st, _ := s.Observed.Resource(r.ID())
		list = append(list, PendingDelete{
			Definition: schema.NameOfDefinition(view, r.Definition), Node: schema.NameOfNode(view, r.Node),
			Since:     r.DeletingFrom,
			Connected: s.Observed.Node(r.Node).Connection != observed.Offline, Failure: st.Failure,
		})
	}
	return list
}

// askedFrom is when a deletion that is asked for now was first asked for.
func (s *Resources) askedFrom(before time.Time) time.Time {
	if before.IsZero() {
		return s.Now()
	}
	return before
}
