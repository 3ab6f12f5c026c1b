// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// propSkipDisk is the property whose effective value clients look for in lists.
const propSkipDisk = "DrbdOptions/SkipDisk"

// origin is a level that a replica inherits properties from: the kind of object, as clients know it, and which one it is. They
// know five kinds and fail on any other; what comes from a group or the controller is shown as coming from the kind that
// passes it on.
type origin struct {
	props.Level

	kind, descr string
}

// The kinds of objects that clients know effective properties from.
const (
	fromResource   = "RESOURCE"
	fromDefinition = "RESOURCE_DEFINITION"
	fromPool       = "STORAGEPOOL"
	fromNode       = "NODE"
	fromController = "SATELLITE" // LINSTOR's satellites have the properties of the controller
)

// origins lists the levels that a replica inherits from.
func (e *Encoder) origins(x *replica) []origin {
	list := []origin{
		{props.Level{Scope: props.Resource, Props: x.row.Props}, fromResource, "resource " + string(x.of.row.Name) + " on node " + x.node.name},
		{props.Level{Scope: props.Definition, Props: x.of.row.Props}, fromDefinition, "resource definition " + string(x.of.row.Name)},
	}
	g := e.groupOf(x.of.row.Group)
	list = append(list, origin{props.Level{Scope: props.Group, Props: g.props}, fromDefinition, "resource group " + g.name})
	if len(x.row.Volumes) > 0 {
		p := e.pool(model.PoolID{Node: x.row.Node, Pool: x.row.Volumes[0].Pool})
		list = append(list,
			origin{props.Level{Scope: props.Pool, Props: p.props}, fromPool, "storage pool " + p.name + " on node " + x.node.name},
			origin{props.Level{Scope: props.Pool, Props: p.common}, fromPool, "storage pool definition " + p.name})
	}
	return append(list,
		origin{props.Level{Scope: props.Node, Props: x.node.props}, fromNode, "node " + x.node.name},
		origin{props.Level{Scope: props.Controller, Props: e.settings()}, fromController, "controller"})
}

// settings is the properties of the cluster.
func (e *Encoder) settings() model.Props {
	if e.cluster == nil {
		p := schema.SettingsOf(e.rows)
		e.cluster = &p
	}
	return *e.cluster
}

// effective returns the values of a key that a replica inherits, the one that holds first. There are none of a key that
// replicas do not inherit.
func effective(key string, from []origin) []wire.PropertySource {
	info, known := props.Lookup(key)
	if !known || info.Scopes&(props.Definition|props.Resource) == 0 || info.Scopes&props.Snapshot != 0 {
		return nil
	}
	var list []wire.PropertySource
	for _, scope := range info.Chain() {
		for _, o := range from {
			value, set := o.Props.Get(key)
			if !set || o.Scope != scope {
				continue
			}
			if info.Secret {
				value = hidden
			}
			list = append(list, wire.PropertySource{Type: o.kind, Value: value, Descr: o.descr})
		}
	}
	return list
}

// effectiveProps returns the properties that hold for a replica, by key, with where each comes from and what it hides.
func (e *Encoder) effectiveProps(x *replica) wire.EffectiveProperties {
	from := e.origins(x)
	keys := map[string]bool{}
	for _, o := range from {
		for key := range o.Props.All() {
			keys[key] = true
		}
	}
	out := make(wire.EffectiveProperties)
	for key := range keys {
		if values := effective(key, from); len(values) > 0 {
			out[key] = wire.EffectiveProperty{PropertySource: values[0], Other: values[1:]}
		}
	}
	return out
}

// listedProps is effectiveProps for long lists: only what their readers look for. It costs next to nothing for a replica that
// has nothing of that.
func (e *Encoder) listedProps(x *replica) wire.EffectiveProperties {
	listed := x.of.listed || x.node.listed || isListed(x.row.Props)
	if !listed && len(x.row.Volumes) > 0 {
		listed = e.pool(model.PoolID{Node: x.row.Node, Pool: x.row.Volumes[0].Pool}).listed
	}
	if !listed {
		return nil
	}
	values := effective(propSkipDisk, e.origins(x))
	return wire.EffectiveProperties{propSkipDisk: {PropertySource: values[0], Other: values[1:]}}
}

// isListed tells whether properties have the one that listedProps shows.
func isListed(p model.Props) bool {
	_, ok := p.Get(propSkipDisk)
	return ok
}
