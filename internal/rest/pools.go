// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"iter"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// viewPools lists the pools of all nodes.
func (s *Server) viewPools(q *request) (body, error) { return s.pools(q, q.names("nodes")) }

// listPools lists the pools of one node. An unknown node has none.
func (s *Server) listPools(q *request) (body, error) {
	return s.pools(q, []string{q.PathValue("node")})
}

func (s *Server) pools(q *request, nodes []string) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	rows := poolRows(view, nodes, q.names("storage_pools"))
	rows = matching(rows, q.names("props"), func(p *schema.Pool) model.Props { return p.Props })
	return list[schema.Pool]{pageOf(p, rows), e.Pool}, nil
}

// poolRows yields the pools with these names on these nodes, in the order of nodes and names. No names mean all.
func poolRows(r store.Reader, nodes, pools []string) iter.Seq[schema.Pool] {
	if len(nodes) == 0 && len(pools) == 0 {
		return schema.Pools.All(r)
	}
	wanted := keys(pools, poolKey)
	return func(yield func(schema.Pool) bool) {
		for n := range chosen(r, schema.Nodes, nodes, nodeKey) {
			if len(wanted) == 0 {
				for p := range schema.PoolsOf(r, n.Name.Key()) {
					if !yield(p) {
						return
					}
				}
			}
			for _, k := range wanted {
				if p, ok := schema.Pools.Get(r, model.PoolID{Node: n.Name.Key(), Pool: k}); ok && !yield(p) {
					return
				}
			}
		}
	}
}

func (s *Server) getPool(q *request) (body, error) {
	e, view := s.encoder()
	p, err := schema.FindPool(view, q.PathValue("node"), q.PathValue("storagepool"))
	if err != nil {
		return nil, err
	}
	return one[schema.Pool]{p, e.Pool}, nil
}

func (s *Server) createPool(q *request) (wire.RcList, error) {
	var b wire.StoragePoolCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	node := q.PathValue("node")
	row, err := s.Inventory.CreatePool(q.Context(), node, inventory.NewPool{
		Name: b.StoragePoolName, Provider: string(b.ProviderKind), Props: b.Props, SharedSpace: sharedSpace(b),
		ExternalLocking: b.ExternalLocking != nil && *b.ExternalLocking,
	})
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, row.UUID, "storage pool %s created on node %s", row.Name, node).
		WithRef(wire.RefStorPool, string(row.Name)).WithRef(wire.RefStorPoolDfn, string(row.Name))}, nil
}

// sharedSpace reads the name of the space that a pool shares with others. Older clients send it as the name of the pool's
// own space, which is none when it has the form that a pool of its own shows there.
func sharedSpace(b wire.StoragePoolCreate) string {
	if b.SharedSpace == "" && !strings.Contains(b.FreeSpaceMgrName, ";") {
		return b.FreeSpaceMgrName
	}
	return b.SharedSpace
}

func (s *Server) modifyPool(q *request) (wire.RcList, error) {
	var b wire.StoragePoolModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	node, name := q.PathValue("node"), q.PathValue("storagepool")
	notices, err := s.Inventory.ModifyPool(q.Context(), node, name, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "storage pool %s on node %s changed", name, node), notices), nil
}

func (s *Server) deletePool(q *request) (wire.RcList, error) {
	node, name := q.PathValue("node"), q.PathValue("storagepool")
	if err := s.Inventory.DeletePool(q.Context(), node, name); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "storage pool %s on node %s deleted", name, node)}, nil
}
