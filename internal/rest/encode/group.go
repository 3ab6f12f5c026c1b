// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Group shows a resource group: a [wire.ResourceGroup]. Its filter is shown as it is stored, in the order it is stored:
// clients compare it with what they want it to be.
func (e *Encoder) Group(b *Buffer, g *schema.Group) { b.Value(e.wireGroup(g)) }

func (e *Encoder) wireGroup(g *schema.Group) wire.ResourceGroup {
	filter := Filter(g.Filter).Shown()
	out := wire.ResourceGroup{
		Name:         string(g.Name),
		Description:  g.Description,
		Props:        e.properties(g.Props),
		SelectFilter: &filter,
		UUID:         g.UUID,
	}
	if g.PeerSlots > 0 {
		slots := g.PeerSlots
		out.PeerSlots = &slots
	}
	return out
}

// VolumeGroup shows a volume group: a [wire.VolumeGroup].
func (e *Encoder) VolumeGroup(b *Buffer, v *schema.VolumeGroup) {
	b.Value(wire.VolumeGroup{
		VolumeNumber: int32(v.Number),
		Props:        e.properties(v.Props),
		UUID:         v.UUID,
		Flags:        v.Flags,
	})
}

// Filter shows a filter, field by field.
func Filter(f model.Filter) wire.AutoSelectFilter {
	out := wire.AutoSelectFilter{
		PlaceCount:              (*wire.Int32)(f.PlaceCount),
		AdditionalPlaceCount:    (*wire.Int32)(f.AdditionalPlaceCount),
		NodeNameList:            f.Nodes,
		StoragePoolList:         f.Pools,
		StoragePoolDisklessList: f.DisklessPools,
		NotPlaceWithRsc:         f.NotPlaceWith,
		NotPlaceWithRscRegex:    f.NotPlaceWithRegex,
		ReplicasOnSame:          f.ReplicasOnSame,
		ReplicasOnDifferent:     f.ReplicasOnDifferent,
		LayerStack:              converted[wire.LayerType](f.Layers),
		ProviderList:            converted[wire.ProviderKind](f.Providers),
		DisklessOnRemaining:     f.DisklessOnRemaining,
		Overprovision:           f.Overprovision,
		PortCount:               (*wire.Int32)(f.PortCount),
	}
	if f.DisklessType != nil {
		out.DisklessType = *f.DisklessType
	}
	if f.XReplicasOnDifferent != nil {
		out.XReplicasOnDifferent = make(map[string]wire.Int32, len(f.XReplicasOnDifferent))
		for k, n := range f.XReplicasOnDifferent {
			out.XReplicasOnDifferent[k] = wire.Int32(n)
		}
	}
	return out
}

// KeyValue shows a key-value store: a [wire.KeyValueStore].
func (e *Encoder) KeyValue(b *Buffer, k *schema.KeyValueInstance) {
	b.Value(wire.KeyValueStore{Name: string(k.Name), Props: k.Props.Map()})
}

// Properties shows a set of properties: [wire.Properties].
func (e *Encoder) Properties(b *Buffer, p *model.Props) { b.Value(e.properties(*p)) }
