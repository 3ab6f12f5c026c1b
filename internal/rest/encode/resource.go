// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// replica is a resource with all that its body needs.
type replica struct {
	row  *schema.Resource
	of   *definition
	node node
	seen observed.ResourceStatus
	told bool // the node has said something of it, now or before
}

func (e *Encoder) replica(r *schema.Resource) replica {
	x := replica{row: r, of: e.definitionOf(r.Definition), node: e.node(r.Node)}
	x.seen, x.told = e.seen.Resource(r.ID())
	return x
}

// Resource shows a replica without its volumes, with all properties that hold for it and where they come from: a
// [wire.Resource].
func (e *Encoder) Resource(b *Buffer, r *schema.Resource) {
	x := e.replica(r)
	b.Open('{')
	e.writeResource(b, &x, e.effectiveProps(&x))
	b.Close('}')
}

// ResourceWithVolumes shows a replica with its volumes: a [wire.ResourceWithVolumes]. Of the properties that hold for it, it has
// those that clients look for in the long lists that it is made for.
func (e *Encoder) ResourceWithVolumes(b *Buffer, r *schema.Resource) {
	x := e.replica(r)
	b.Open('{')
	e.writeResource(b, &x, e.listedProps(&x))
	if len(r.Volumes) > 0 {
		b.under("volumes", '[')
		for i := range r.Volumes {
			e.writeVolume(b, &x, &r.Volumes[i])
		}
		b.Close(']')
	}
	b.Close('}')
}

func (e *Encoder) writeResource(b *Buffer, x *replica, holding wire.EffectiveProperties) {
	b.text("name", string(x.of.row.Name))
	b.text("node_name", x.node.name)
	e.props(b, x.row.Props, e.poolProp(x))
	if len(holding) > 0 {
		b.member("effective_props", holding)
	}
	b.flags(x.flags())
	b.key("layer_object")
	e.writeLayers(b, x, x.of.layers)
	x.writeState(b)
	b.optional("uuid", x.row.UUID)
	if !x.row.Created.IsZero() {
		b.number("create_timestamp", x.row.Created.UnixMilli())
	}
}

// poolProp names the pool of a replica among its properties, where clients look for it.
func (e *Encoder) poolProp(x *replica) property {
	if len(x.row.Volumes) == 0 {
		return property{}
	}
	return property{"StorPoolName", e.pool(model.PoolID{Node: x.row.Node, Pool: x.row.Volumes[0].Pool}).name}
}

// flags lists the flags of a replica, each with the flags that it implies.
func (x *replica) flags() []string {
	flags := append(deleteFlag(x.row.Deleting), x.node.leaving...)
	if x.row.Inactive {
		flags = append(flags, wire.FlagInactive)
	}
	if x.row.Adding {
		flags = append(flags, wire.FlagDiskAdding)
	}
	if x.row.Becomes != "" {
		flags = append(flags, wire.FlagDiskRemoving)
	}
	if x.diskful() {
		return flags
	}
	flags = append(flags, wire.FlagDiskless)
	if model.Replicates(x.of.layers) {
		flags = append(flags, wire.FlagDRBDDiskless)
	}
	if x.row.Kind == schema.TieBreaker {
		flags = append(flags, wire.FlagTieBreaker)
	}
	return flags
}

func (x *replica) diskful() bool { return x.row.Kind == schema.Diskful }

// writeState writes what the node says of the replica now, and nothing when it says nothing.
func (x *replica) writeState(b *Buffer) {
	if !x.told || !x.seen.Current {
		return
	}
	b.under("state", '{')
	if inUse, known := x.seen.InUse(); known {
		b.truth("in_use", inUse)
	}
	b.Close('}')
}

// writeLayers writes a stack, top first, each layer the parent of the next.
func (e *Encoder) writeLayers(b *Buffer, x *replica, layers []model.Layer) {
	b.Open('{')
	if len(layers) > 1 {
		b.under("children", '[')
		e.writeLayers(b, x, layers[1:])
		b.Close(']')
	}
	b.text("type", string(layers[0]))
	switch layers[0] {
	case model.DRBD:
		e.writeDRBD(b, x)
	case model.LUKS:
		b.under("luks", '{')
		x.writeVolumes(b, "luks_volumes", (*replica).writeLUKSVolume)
		b.Close('}')
	case model.Storage:
		b.under("storage", '{')
		x.writeVolumes(b, "storage_volumes", (*replica).writeStorageVolume)
		b.Close('}')
	}
	b.Close('}')
}

// writeVolumes writes one layer of each volume of a replica.
func (x *replica) writeVolumes(b *Buffer, key string, one func(*replica, *Buffer, *schema.Volume)) {
	if len(x.row.Volumes) == 0 {
		return
	}
	b.under(key, '[')
	for i := range x.row.Volumes {
		one(x, b, &x.row.Volumes[i])
	}
	b.Close(']')
}

// Synced tells whether a replica holds the data that all others have. One without a disk has nothing to hold; one of
// which nothing is heard is not known to.
func (e *Encoder) Synced(r *schema.Resource) bool {
	x := e.replica(r)
	switch {
	case r.Deleting || !x.diskful():
		return true
	case !x.seen.Current || x.seen.Phase != observed.Ready:
		return false
	case !model.Replicates(x.of.layers):
		return true
	}
	for i := range r.Volumes {
		if x.diskState(&r.Volumes[i]) != wire.DiskUpToDate {
			return false
		}
	}
	return true
}

// ResourceConnection returns what shows what is set for the connection of two replicas, a [wire.ResourceConnection] each. The
// first node of a pair is the given one, where it is one of them.
func (e *Encoder) ResourceConnection(first model.NodeKey) func(*Buffer, *schema.ResourceConnection) {
	return func(b *Buffer, c *schema.ResourceConnection) {
		a, z := e.ends(c.Pair, first)
		b.Value(wire.ResourceConnection{NodeA: a, NodeB: z, Props: e.properties(c.Props)})
	}
}
