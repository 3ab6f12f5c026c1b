// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// revive cancels the deletion of a replica: it is as if it had been created anew where it was.
// Whatever its host has destroyed of it is made again.
func (c *creating) revive(tx *store.Tx, node schema.Node, old schema.Resource, n NewResource) error {
	d := c.out.Definition
	if d.Deleting {
		return errs.New(errs.Closing, errs.ResourceDefinition, "resource definition %s takes no new replicas", d.Name).
			Because("it is being deleted")
	}
	if err := c.revivable(tx, d, node, old, n); err != nil {
		return err
	}
	old.Deleting, old.DeletingFrom = false, time.Time{}
	old.Props = old.Props.Change(model.PropsChange{Set: n.Props})
	if err := c.refurnish(tx, d, &old); err != nil {
		return err
	}
	if err := schema.Resources.Update(tx, old); err != nil {
		return err
	}
	// Whether its host has destroyed a disk is not known.
	if err := begin(tx, d, old, numbersIn(old), true, c.birth); err != nil {
		return err
	}
	id := old.ID()
	c.put = append(c.put, touched{id: id})
	c.note(errs.SuccessNote, "resource %s on node %s was being deleted, and is kept", d.Name, node.Name)
	if c.Observed.Node(id.Node).Connection == observed.Offline {
		c.note(errs.NodeNotConnected, "node %s is not connected: resource %s is ready there when it is back", node.Name, d.Name)
		return nil
	}
	c.wait = append(c.wait, id)
	return nil
}

// revivable refuses a replica that is asked for as another than it was: what it was has to go
// first.
func (c *creating) revivable(tx *store.Tx, d schema.Definition, node schema.Node, old schema.Resource, n NewResource) error {
	closing := errs.New(errs.Closing, errs.Resource, "resource %s on node %s is still being deleted", d.Name, node.Name).
		Fix("wait until it is gone, or create it as it was")
	if old.Kind != n.Kind {
		return closing.Because("it is %s, and %s was asked for", kindText(old.Kind), kindText(n.Kind))
	}
	if name, ok := n.Props["StorPoolName"]; ok && old.Kind == schema.Diskful {
		was, err := c.poolOf(tx, old)
		if err != nil {
			return err
		}
		if model.PoolName(name).Key() != was.Name.Key() {
			return closing.Because("it lies in storage pool %s, and %s was asked for", was.Name, name)
		}
	}
	if n.NodeID != nil && old.NodeID != nil && *n.NodeID != *old.NodeID {
		return closing.Because("it has the node id %d, and %d was asked for", *old.NodeID, *n.NodeID)
	}
	return nil
}

func kindText(k schema.ResourceKind) string {
	switch k {
	case schema.Client:
		return "one without a disk"
	case schema.TieBreaker:
		return "a tie-breaker"
	default:
		return "one with a disk"
	}
}

// refurnish gives a replica what its definition got while it was being deleted: volumes and
// larger sizes. It is refused when its pool has no room for that.
func (c *creating) refurnish(tx *store.Tx, d schema.Definition, row *schema.Resource) error {
	pool, err := c.poolOf(tx, *row)
	if err != nil {
		return err
	}
	id := model.PoolID{Node: row.Node, Pool: pool.Name.Key()}
	row.Volumes = slices.Clone(row.Volumes)
	var more []int64
	for vd := range schema.VolumesOf(tx, d.Name.Key()) {
		if vd.Deleting {
			continue
		}
		i := slices.IndexFunc(row.Volumes, func(v schema.Volume) bool { return v.Number == vd.Number })
		if i < 0 {
			i = len(row.Volumes)
			row.Volumes = append(row.Volumes, schema.Volume{Number: vd.Number, UUID: c.birth.volume(row.Node, vd.Number), Pool: id.Pool})
		}
		gross := model.Gross(d.Layers, vd.Size)
		if promise := c.promise(id, gross); row.Kind == schema.Diskful && row.Volumes[i].Size < gross {
			more = append(more, promise-row.Volumes[i].Size)
			row.Volumes[i].Size = promise
		}
		if err := c.equip(tx, d, vd, c.birth); err != nil {
			return err
		}
	}
	slices.SortFunc(row.Volumes, func(a, b schema.Volume) int { return int(a.Number - b.Number) })
	if len(more) == 0 {
		return nil
	}
	return c.fitsNow(tx, pool, more)
}
