// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) activate(q *request) (wire.RcList, error) {
	name, node := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.Activate(q.Context(), name, node)
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(done(wire.Modified, "", "resource %s on node %s activated", name, node), notices), nil
}

func (s *Server) deactivate(q *request) (wire.RcList, error) {
	name, node := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.Deactivate(q.Context(), name, node)
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(done(wire.Modified, "", "resource %s on node %s deactivated", name, node), notices), nil
}

// addDisk is the older call that gives a replica a disk.
func (s *Server) addDisk(q *request) (wire.RcList, error) {
	var b wire.ToggleDiskDiskful
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	return s.intoDiskful(q, resources.DiskChange{Pool: q.PathValue("storagepool"), Layers: upper(b.LayerList)})
}

func (s *Server) intoDiskful(q *request, c resources.DiskChange) (wire.RcList, error) {
	name, node := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.AddDisk(q.Context(), name, node, c)
	if err != nil {
		return q.notices(notices), err
	}
	return q.moved(notices, "resource %s on node %s has a disk", name, node), nil
}

// removeDisk is the older call that takes a disk away. There is one pool for replicas without a disk on every node, so the
// one that the path may name changes nothing.
func (s *Server) removeDisk(q *request) (wire.RcList, error) { return s.intoDiskless(q, schema.Client) }

func (s *Server) intoDiskless(q *request, kind schema.ResourceKind) (wire.RcList, error) {
	name, node := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.RemoveDisk(q.Context(), name, node, kind)
	if err != nil {
		return q.notices(notices), err
	}
	return q.moved(notices, "resource %s on node %s has no disk any more", name, node), nil
}

func (s *Server) migrateDisk(q *request) (wire.RcList, error) {
	var b wire.ToggleDiskDiskful
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	return s.migrate(q, q.PathValue("fromnode"), resources.DiskChange{Pool: q.PathValue("storagepool"), Layers: upper(b.LayerList)})
}

func (s *Server) migrate(q *request, from string, c resources.DiskChange) (wire.RcList, error) {
	name, to := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.MigrateDisk(q.Context(), name, from, to, c)
	if err != nil {
		return q.notices(notices), err
	}
	return q.moved(notices, "disk of resource %s moves from node %s to node %s", name, from, to), nil
}

// moved is the outcome of a move: its own entry, unless a notice says that there was nothing to do.
func (q *request) moved(notices []errs.Notice, format string, args ...any) wire.RcList {
	for _, n := range notices {
		if n.Kind == errs.HasDiskAlready || n.Kind == errs.DisklessAlready {
			return q.notices(notices)
		}
	}
	return q.with(done(wire.Modified, "", format, args...), notices)
}

// toggleDisk is the one call for all of them.
func (s *Server) toggleDisk(q *request) (wire.RcList, error) {
	var b wire.ToggleDiskRequest
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	c := resources.DiskChange{Pool: b.StoragePool, Layers: upper(b.LayerList)}
	switch {
	case b.Operation == wire.ToggleIntoDiskful && b.MigrateFrom != "":
		return s.migrate(q, b.MigrateFrom, c)
	case b.Operation == wire.ToggleIntoDiskful:
		return s.intoDiskful(q, c)
	case b.MigrateFrom != "":
		return nil, errs.New(errs.Invalid, errs.Resource, "a disk is not migrated by the operation %q", b.Operation).About(errs.Body).
			Fix("use %s with migrate_from", wire.ToggleIntoDiskful)
	case b.Operation == wire.ToggleIntoClient, b.Operation == wire.ToggleIntoDiskless:
		return s.intoDiskless(q, schema.Client)
	}
	return nil, errs.New(errs.Invalid, errs.Resource, "the operation %q is not known", b.Operation).About(errs.Body).
		Fix("use %s, %s or %s", wire.ToggleIntoDiskful, wire.ToggleIntoDiskless, wire.ToggleIntoClient)
}
