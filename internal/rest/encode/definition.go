// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// defaultPeerSlots is how many peers a DRBD replica has room for when nobody said a number, as in LINSTOR.
const defaultPeerSlots int32 = 7

// Definition shows a resource definition, with its volume definitions when they are wanted.
func (e *Encoder) Definition(d schema.Definition, withVolumes bool) wire.ResourceDefinition {
	out := wire.ResourceDefinition{
		Name:              string(d.Name),
		ExternalName:      d.ExternalName,
		Props:             e.properties(d.Props),
		Flags:             deleteFlag(d.Deleting),
		UUID:              d.UUID,
		ResourceGroupName: e.group(d.Group),
	}
	if len(d.Layers) > 0 {
		out.LayerData = make([]wire.ResourceDefinitionLayer, len(d.Layers))
		for i, l := range d.Layers {
			out.LayerData[i].Type = wire.LayerType(l)
			if l == model.DRBD {
				out.LayerData[i].Data = e.drbdDefinition(d)
			}
		}
	}
	if withVolumes {
		for v := range schema.VolumesOf(e.rows, d.Name.Key()) {
			out.VolumeDefinitions = append(out.VolumeDefinitions, e.VolumeDefinition(d, v))
		}
	}
	return out
}

// drbdDefinition shows DRBD's part of a definition, nil before there is a replica. Each replica has its own port; the one
// that older clients read here is that of the first.
func (e *Encoder) drbdDefinition(d schema.Definition) *wire.DRBDResourceDefinitionLayer {
	for r := range schema.ResourcesOf(e.rows, d.Name.Key()) {
		data := drbdData(d)
		if data.Port == 0 && len(r.Ports) > 0 {
			data.Port = r.Ports[0]
		}
		return data
	}
	return nil
}

func drbdData(d schema.Definition) *wire.DRBDResourceDefinitionLayer {
	return &wire.DRBDResourceDefinitionLayer{
		PeerSlots:     peerSlots(d),
		Port:          d.Port,
		TransportType: transport(d),
		Secret:        hidden,
	}
}

func peerSlots(d schema.Definition) int32 {
	if d.PeerSlots > 0 {
		return d.PeerSlots
	}
	return defaultPeerSlots
}

func transport(d schema.Definition) string {
	if d.Transport == "" {
		return "IP"
	}
	return d.Transport
}

// VolumeDefinition shows a volume definition of d.
func (e *Encoder) VolumeDefinition(d schema.Definition, v schema.VolumeDefinition) wire.VolumeDefinition {
	out := wire.VolumeDefinition{
		VolumeNumber: int32(v.Number),
		Size:         wire.RoundUp(v.Size),
		Props:        e.properties(v.Props),
		Flags:        append(deleteFlag(v.Deleting), v.Flags...),
		UUID:         v.UUID,
	}
	for _, l := range d.Layers {
		layer := wire.VolumeDefinitionLayer{Type: wire.LayerType(l)}
		if l == model.DRBD && v.Minor != nil {
			layer.Data = &wire.DRBDVolumeDefinition{VolumeNumber: int32(v.Number), MinorNumber: *v.Minor}
		}
		out.LayerData = append(out.LayerData, layer)
	}
	return out
}
