// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// FindNode returns the node of a name, in any case, or a NotFound error.
func FindNode(r store.Reader, name string) (Node, error) {
	n, ok := Nodes.Get(r, model.NodeName(name).Key())
	if !ok {
		return n, errs.New(errs.NotFound, errs.Node, "node %s does not exist", name).
			Fix("register it first: node create %s ADDRESS", name)
	}
	return n, nil
}

// FindInterface returns a network interface of a node, or a NotFound error.
func FindInterface(r store.Reader, node model.NodeKey, name string) (NetInterface, error) {
	i, ok := NetInterfaces.Get(r, model.InterfaceID{Node: node, Interface: model.InterfaceName(name).Key()})
	if !ok {
		return i, errs.New(errs.NotFound, errs.NetInterface, "network interface %s does not exist on node %s", name, NameOfNode(r, node))
	}
	return i, nil
}

// FindPool returns the storage pool of a node, or a NotFound error about the node or the
// pool, whichever is missing.
func FindPool(r store.Reader, node, name string) (Pool, error) {
	n, err := FindNode(r, node)
	if err != nil {
		return Pool{}, err
	}
	p, ok := Pools.Get(r, model.PoolID{Node: n.Name.Key(), Pool: model.PoolName(name).Key()})
	if !ok {
		return p, errs.New(errs.NotFound, errs.StoragePool, "storage pool %s does not exist on node %s", name, n.Name)
	}
	return p, nil
}

// FindGroup returns the resource group of a name, or a NotFound error.
func FindGroup(r store.Reader, name string) (Group, error) {
	g, ok := Groups.Get(r, model.GroupName(name).Key())
	if !ok {
		return g, errs.New(errs.NotFound, errs.ResourceGroup, "resource group %s does not exist", name)
	}
	return g, nil
}

// FindVolumeGroup returns a volume group, or a NotFound error about it or its group.
func FindVolumeGroup(r store.Reader, group string, nr model.VolumeNumber) (VolumeGroup, error) {
	g, err := FindGroup(r, group)
	if err != nil {
		return VolumeGroup{}, err
	}
	v, ok := VolumeGroups.Get(r, model.VolumeGroupID{Group: g.Name.Key(), Number: nr})
	if !ok {
		return v, errs.New(errs.NotFound, errs.VolumeGroup, "resource group %s has no volume group %d", g.Name, nr)
	}
	return v, nil
}

// FindDefinition returns the resource definition of a name, or a NotFound error.
func FindDefinition(r store.Reader, name string) (Definition, error) {
	d, ok := Definitions.Get(r, model.DefinitionName(name).Key())
	if !ok {
		return d, errs.New(errs.NotFound, errs.ResourceDefinition, "resource definition %s does not exist", name)
	}
	return d, nil
}

// FindVolumeDefinition returns a volume definition, or a NotFound error about it or its
// resource definition.
func FindVolumeDefinition(r store.Reader, definition string, nr model.VolumeNumber) (VolumeDefinition, error) {
	d, err := FindDefinition(r, definition)
	if err != nil {
		return VolumeDefinition{}, err
	}
	v, ok := VolumeDefinitions.Get(r, model.VolumeDefinitionID{Definition: d.Name.Key(), Number: nr})
	if !ok {
		return v, errs.New(errs.NotFound, errs.VolumeDefinition, "resource definition %s has no volume %d", d.Name, nr)
	}
	return v, nil
}

// FindResource returns the replica of a definition on a node, or a NotFound error about the
// definition or the resource.
func FindResource(r store.Reader, definition, node string) (Resource, error) {
	d, err := FindDefinition(r, definition)
	if err != nil {
		return Resource{}, err
	}
	x, ok := Resources.Get(r, model.ResourceID{Definition: d.Name.Key(), Node: model.NodeName(node).Key()})
	if !ok {
		return x, errs.New(errs.NotFound, errs.Resource, "resource %s does not exist on node %s", d.Name, node)
	}
	return x, nil
}

// PropNotices tells what a change does to properties: each one set, removed, or asked to be
// removed while it was not there.
func PropNotices(old model.Props, c model.PropsChange, object errs.Object) []errs.Notice {
	var notices []errs.Notice
	add := func(kind errs.NoticeKind, text string) {
		notices = append(notices, errs.Notice{Kind: kind, Object: object, Message: text})
	}
	for _, k := range c.Delete {
		if _, ok := old.Get(k); !ok {
			add(errs.PropertyWasUnset, "property "+k+" was not set")
		}
	}
	changed := old.Change(c)
	for k := range old.All() {
		if _, ok := changed.Get(k); !ok {
			add(errs.PropertyRemoved, "property "+k+" removed")
		}
	}
	for k := range changed.All() {
		if _, ok := c.Set[k]; ok {
			add(errs.PropertySet, "property "+k+" set")
		}
	}
	return notices
}
