// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// listOrphans lists the volumes that hosts told of and nothing knows, on these nodes and in pools of these names.
func (s *Server) listOrphans(q *request) (body, error) {
	p, err := q.page()
	if err != nil {
		return nil, err
	}
	nodes, pools := keys(q.names("nodes"), nodeKey), keys(q.names("storage_pools"), poolKey)
	rows := where(slices.Values(s.Inventory.Orphans()), func(o *inventory.Orphan) bool {
		return (len(nodes) == 0 || slices.Contains(nodes, o.Node.Key())) && (len(pools) == 0 || slices.Contains(pools, o.Pool.Key()))
	})
	return values(pageOf(p, rows), func(o *inventory.Orphan) wire.Orphan {
		return wire.Orphan{NodeName: string(o.Node), StoragePoolName: string(o.Pool), Volume: o.Volume}
	}), nil
}

// removeOrphans destroys the orphans that the request names, and no others.
func (s *Server) removeOrphans(q *request) (wire.RcList, error) {
	volumes := q.names("volume")
	node, pool := q.PathValue("node"), q.PathValue("storagepool")
	if len(volumes) == 0 {
		return nil, errs.New(errs.Invalid, errs.Volume, "no volume was named").About(errs.Query).
			Because("orphans are destroyed only by their names").Fix("give each as volume=NAME; GET /v1/orphans lists them")
	}
	removed, err := s.Inventory.RemoveOrphans(q.Context(), node, pool, volumes)
	var l wire.RcList
	if len(removed) > 0 {
		l = append(l, done(wire.Deleted, "", "%s in storage pool %s on node %s destroyed: %s",
			counted(len(removed), "volume"), pool, node, strings.Join(removed, ", ")))
	}
	if len(l) == 0 && err == nil {
		l = append(l, wire.NewRc(wire.InfoNoop, "the host has none of these volumes any more"))
	}
	return l, err
}
