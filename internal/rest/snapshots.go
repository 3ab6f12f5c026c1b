// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Snapshots are not taken yet: every definition has none.

func (s *Server) listSnapshots(q *request) (body, error) {
	if _, err := schema.FindDefinition(s.Store.Snapshot(), q.PathValue("resource")); err != nil {
		return nil, err
	}
	return value{[]wire.Snapshot{}}, nil
}

func (s *Server) getSnapshot(q *request) (body, error) { return nil, s.noSnapshot(q) }

func (s *Server) deleteSnapshot(q *request) (wire.RcList, error) { return nil, s.noSnapshot(q) }

func (s *Server) noSnapshot(q *request) error {
	d, err := schema.FindDefinition(s.Store.Snapshot(), q.PathValue("resource"))
	if err != nil {
		return err
	}
	return errs.New(errs.NotFound, errs.Snapshot, "resource definition %s has no snapshot %s", d.Name, q.PathValue("snapshot"))
}
