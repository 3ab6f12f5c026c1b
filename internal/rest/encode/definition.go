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

// Definition shows a resource definition without its volume definitions: a [wire.ResourceDefinition].
func (e *Encoder) Definition(b *Buffer, d *schema.Definition) { e.writeDefinition(b, d, false) }

// DefinitionWithVolumes shows a resource definition with its volume definitions.
func (e *Encoder) DefinitionWithVolumes(b *Buffer, d *schema.Definition) {
	e.writeDefinition(b, d, true)
}

func (e *Encoder) writeDefinition(b *Buffer, d *schema.Definition, withVolumes bool) {
	b.Open('{')
	b.text("name", string(d.Name))
	b.optional("external_name", d.ExternalName)
	e.props(b, d.Props, property{})
	b.flags(definitionFlags(d))
	e.definitionLayers(b, d)
	b.optional("uuid", d.UUID)
	b.text("resource_group_name", e.groupOf(d.Group).name)
	if withVolumes {
		first := true
		for v := range schema.VolumesOf(e.rows, d.Name.Key()) {
			if first {
				b.under("volume_definitions", '[')
				first = false
			}
			e.volumeDefinition(b, d, &v)
		}
		if !first {
			b.Close(']')
		}
	}
	b.Close('}')
}

// definitionFlags says that a definition is being deleted, or is a clone that is not complete.
func definitionFlags(d *schema.Definition) []string {
	flags := deleteFlag(d.Deleting)
	switch {
	case d.Clone == nil:
	case d.Clone.State == schema.Cloning:
		flags = append(flags, wire.FlagCloning)
	case d.Clone.State == schema.CloneFailed:
		flags = append(flags, wire.FlagFailed)
	}
	return flags
}

func (e *Encoder) definitionLayers(b *Buffer, d *schema.Definition) {
	if len(d.Layers) == 0 {
		return
	}
	b.under("layer_data", '[')
	for _, l := range d.Layers {
		b.Open('{')
		b.text("type", string(l))
		if l == model.DRBD {
			if port, replicated := e.firstPort(d); replicated {
				drbdDefinition(b, "data", d, port)
			}
		}
		b.Close('}')
	}
	b.Close(']')
}

// firstPort returns a port for older clients, who know one for the definition as a whole: that of its first replica. It
// is false while there is no replica.
func (e *Encoder) firstPort(d *schema.Definition) (int32, bool) {
	key := d.Name.Key()
	if key < e.ports.from || key > e.ports.to {
		e.readPorts(key)
	}
	port, replicated := e.ports.first[key]
	if d.Port != 0 {
		port = d.Port
	}
	return port, replicated
}

// ports are those of the first replicas of all definitions from one to another.
type ports struct {
	from, to model.DefinitionKey
	first    map[model.DefinitionKey]int32
}

// readPorts reads the ports of a definition, and of some more after it when they were asked for one after the other so
// far: looking up each of a long list takes longer than the list.
func (e *Encoder) readPorts(key model.DefinitionKey) {
	const most = 64
	want := 1
	if key > e.ports.to {
		want = min(2*len(e.ports.first)+1, most)
	}
	first := e.ports.first
	if first == nil {
		first = make(map[model.DefinitionKey]int32, want)
	}
	clear(first)
	e.ports = ports{from: key, to: key, first: first}
	for r := range schema.Resources.From(e.rows, model.ResourceID{Definition: key}) {
		if _, known := first[r.Definition]; known {
			continue
		}
		if len(first) == want {
			return
		}
		var port int32
		if len(r.Ports) > 0 {
			port = r.Ports[0]
		}
		first[r.Definition] = port
		e.ports.to = max(key, r.Definition)
	}
}

func portOf(d *schema.Definition, ports []int32) int32 {
	if d.Port == 0 && len(ports) > 0 {
		return ports[0]
	}
	return d.Port
}

// drbdDefinition writes DRBD's part of a definition. Its secret is needed by hosts alone.
func drbdDefinition(b *Buffer, key string, d *schema.Definition, port int32) {
	b.under(key, '{')
	b.number("peer_slots", int64(peerSlots(d)))
	b.number("port", int64(port))
	b.text("transport_type", transport(d))
	b.text("secret", hidden)
	b.truth("down", false)
	b.Close('}')
}

func peerSlots(d *schema.Definition) int32 {
	if d.PeerSlots > 0 {
		return d.PeerSlots
	}
	return defaultPeerSlots
}

func transport(d *schema.Definition) string {
	if d.Transport == "" {
		return "IP"
	}
	return d.Transport
}

// VolumeDefinition returns what shows volume definitions of d: a [wire.VolumeDefinition] each.
func (e *Encoder) VolumeDefinition(d *schema.Definition) func(*Buffer, *schema.VolumeDefinition) {
	return func(b *Buffer, v *schema.VolumeDefinition) { e.volumeDefinition(b, d, v) }
}

func (e *Encoder) volumeDefinition(b *Buffer, d *schema.Definition, v *schema.VolumeDefinition) {
	b.Open('{')
	b.number("volume_number", int64(v.Number))
	b.number("size_kib", int64(wire.RoundUp(v.Size)))
	e.props(b, v.Props, property{})
	b.flags(append(deleteFlag(v.Deleting), v.Flags...))
	if len(d.Layers) > 0 {
		b.under("layer_data", '[')
		for _, l := range d.Layers {
			b.Open('{')
			b.text("type", string(l))
			if l == model.DRBD && v.Minor != nil {
				drbdVolumeDefinition(b, "data", v.Number, *v.Minor)
			}
			b.Close('}')
		}
		b.Close(']')
	}
	b.optional("uuid", v.UUID)
	b.Close('}')
}

func drbdVolumeDefinition(b *Buffer, key string, nr model.VolumeNumber, minor int32) {
	b.under(key, '{')
	b.number("volume_number", int64(nr))
	b.number("minor_number", int64(minor))
	b.Close('}')
}
