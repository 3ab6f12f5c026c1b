// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Orphan is a volume that lies on a host, carries our mark, and is known to nothing in the
// database: left by a database that was lost, by a node that was lost and came back, or by hand.
type Orphan struct {
	Node   model.NodeName
	Pool   model.PoolName
	Volume string // its name on the host
}

// Orphans lists the orphans that connected hosts told of, by node, pool and name. Nothing is
// ever done about them but by RemoveOrphans.
func (v *Inventory) Orphans() []Orphan {
	view := v.Store.Snapshot()
	var list []Orphan
	for key := range v.Observed.Nodes() {
		for name, st := range v.Observed.Pools(key) {
			if !st.Current {
				continue
			}
			id := model.PoolID{Node: key, Pool: name}
			for _, volume := range st.Unknown {
				if !inSpace(view, id, volume) {
					list = append(list, Orphan{schema.NameOfNode(view, key), schema.NameOfPool(view, id), volume})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Volume, b.Volume))
	})
	return list
}

// inSpace tells whether a volume that one node does not know is one that another node has in
// the same shared space.
func inSpace(r store.Reader, id model.PoolID, volume string) bool {
	p, ok := schema.Pools.Get(r, id)
	definition, number, parsed := volumeOf(volume)
	if !ok || p.SharedSpace == "" || !parsed {
		return false
	}
	for x := range schema.ResourcesOf(r, definition) {
		for _, v := range x.Volumes {
			other, _ := schema.Pools.Get(r, model.PoolID{Node: x.Node, Pool: v.Pool})
			if v.Number == number && other.SharedSpace == p.SharedSpace {
				return true
			}
		}
	}
	return false
}

// volumeOf reads the name that a volume has on its host: that of the definition, an
// underscore, and the volume's number.
func volumeOf(name string) (model.DefinitionKey, model.VolumeNumber, bool) {
	i := strings.LastIndexByte(name, '_')
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	return model.DefinitionName(name[:i]).Key(), model.VolumeNumber(n), err == nil
}

// RemoveOrphans destroys volumes that are orphans of a pool, by the names that they have on
// the host, and returns those that are gone, also with an error about others. Their data is
// lost. The host looks again first: one that is assigned by now, or in use, stays.
func (v *Inventory) RemoveOrphans(ctx context.Context, node, pool string, volumes []string) (removed []string, err error) {
	id := model.PoolID{Node: model.NodeName(node).Key(), Pool: model.PoolName(pool).Key()}
	if _, err := schema.FindNode(v.Store.Snapshot(), node); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, o := range v.Orphans() {
		if o.Node.Key() == id.Node && o.Pool.Key() == id.Pool {
			known[o.Volume] = true
			node, pool = string(o.Node), string(o.Pool)
		}
	}
	for _, name := range volumes {
		if !known[name] {
			return nil, errs.New(errs.NotFound, errs.Volume, "volume %s is no orphan of pool %s on node %s", name, pool, node).
				Because("the node does not tell of an unknown volume of that name there").Fix("list the orphans: holdfast orphans")
		}
	}
	if len(volumes) == 0 {
		return nil, nil
	}
	return v.Hosts.RemoveUnknown(ctx, id.Node, model.PoolName(pool), volumes)
}
