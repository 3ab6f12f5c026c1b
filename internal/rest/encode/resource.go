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
	row  schema.Resource
	of   *definition
	node node
	seen observed.ResourceStatus
	told bool // the node has said something of it, now or before
}

func (e *Encoder) replica(r schema.Resource) replica {
	x := replica{row: r, of: e.definitionOf(r.Definition), node: e.node(r.Node)}
	x.seen, x.told = e.seen.Resource(r.ID())
	return x
}

// Resource shows a replica without its volumes.
func (e *Encoder) Resource(r schema.Resource) wire.Resource { return e.resource(e.replica(r)) }

// ResourceWithVolumes shows a replica with its volumes.
func (e *Encoder) ResourceWithVolumes(r schema.Resource) wire.ResourceWithVolumes {
	x := e.replica(r)
	return wire.ResourceWithVolumes{Resource: e.resource(x), Volumes: e.volumes(x)}
}

// Synced tells whether a replica holds the data that all others have. One without a disk has nothing to hold; one of
// which nothing is heard is not known to.
func (e *Encoder) Synced(r schema.Resource) bool {
	x := e.replica(r)
	switch {
	case r.Deleting || r.Kind != schema.Diskful:
		return true
	case !x.seen.Current || x.seen.Phase != observed.Ready:
		return false
	case !model.Replicates(x.of.layers):
		return true
	}
	for _, v := range r.Volumes {
		if x.diskState(v) != wire.DiskUpToDate {
			return false
		}
	}
	return true
}

// ResourceConnection shows what is set for the connection of two replicas.
func (e *Encoder) ResourceConnection(c schema.ResourceConnection) wire.ResourceConnection {
	return wire.ResourceConnection{NodeA: e.node(c.Pair.A).name, NodeB: e.node(c.Pair.B).name, Props: e.properties(c.Props)}
}

func (e *Encoder) resource(x replica) wire.Resource {
	return wire.Resource{
		Name:            string(x.of.row.Name),
		NodeName:        x.node.name,
		Props:           e.resourceProps(x),
		Flags:           x.flags(),
		LayerObject:     e.layers(x),
		State:           x.state(),
		UUID:            x.row.UUID,
		CreateTimestamp: milliseconds(x.row.Created),
	}
}

// resourceProps names the pool of the replica among its properties, where clients look for it.
func (e *Encoder) resourceProps(x replica) wire.Properties {
	const key = "StorPoolName"
	p := e.properties(x.row.Props)
	if _, said := p[key]; said || len(x.row.Volumes) == 0 {
		return p
	}
	if p == nil {
		p = make(wire.Properties, 1)
	}
	p[key] = e.pool(model.PoolID{Node: x.row.Node, Pool: x.row.Volumes[0].Pool}).name
	return p
}

// flags lists the flags of a replica, each with the flags that it implies.
func (x replica) flags() []string {
	flags := deleteFlag(x.row.Deleting)
	if x.row.Kind == schema.Diskful {
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

// state is what the node says of the replica now, nil when it says nothing.
func (x replica) state() *wire.ResourceState {
	if !x.told || !x.seen.Current {
		return nil
	}
	out := &wire.ResourceState{}
	if inUse, known := x.seen.InUse(); known {
		out.InUse = &inUse
	}
	return out
}

// volumeSeen returns what the node said of a volume.
func (x replica) volumeSeen(nr model.VolumeNumber) (observed.VolumeStatus, bool) {
	for _, v := range x.seen.Volumes {
		if v.Number == nr {
			return v, true
		}
	}
	return observed.VolumeStatus{}, false
}

// layers shows the stack of a replica, top first, each layer the parent of the next. It is never nil: clients dereference it.
func (e *Encoder) layers(x replica) *wire.ResourceLayer {
	var below *wire.ResourceLayer
	for i := len(x.of.layers) - 1; i >= 0; i-- {
		l := &wire.ResourceLayer{Type: wire.LayerType(x.of.layers[i])}
		switch x.of.layers[i] {
		case model.DRBD:
			l.DRBD = e.drbd(x)
		case model.LUKS:
			l.LUKS = &wire.LUKSResource{Volumes: volumesOf(x, luksVolume)}
		case model.Storage:
			l.Storage = &wire.StorageResource{Volumes: volumesOf(x, storageVolume)}
		}
		if below != nil {
			l.Children = []wire.ResourceLayer{*below}
		}
		below = l
	}
	return below
}

func (e *Encoder) drbd(x replica) *wire.DRBDResource {
	slots := peerSlots(x.of.row)
	data := drbdData(x.of.row)
	if data.Port == 0 && len(x.row.Ports) > 0 {
		data.Port = x.row.Ports[0]
	}
	return &wire.DRBDResource{
		ResourceDefinition: data,
		NodeID:             x.row.NodeID,
		TCPPorts:           x.row.Ports,
		PeerSlots:          &slots,
		Volumes:            volumesOf(x, drbdVolume),
	}
}

// volumesOf shows one layer of each volume of a replica.
func volumesOf[T any](x replica, show func(replica, schema.Volume) T) []T {
	if len(x.row.Volumes) == 0 {
		return nil
	}
	out := make([]T, len(x.row.Volumes))
	for i, v := range x.row.Volumes {
		out[i] = show(x, v)
	}
	return out
}
