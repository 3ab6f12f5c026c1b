// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// People know objects by the names that they were created with, rows by folded keys. These
// functions lead back; a key whose row is gone stands for itself.

// NameOfNode returns the name that a node was created with.
func NameOfNode(r store.Reader, key model.NodeKey) model.NodeName {
	if n, ok := Nodes.Get(r, key); ok {
		return n.Name
	}
	return model.NodeName(key)
}

// NameOfPool returns the name that a storage pool was created with.
func NameOfPool(r store.Reader, id model.PoolID) model.PoolName {
	if p, ok := Pools.Get(r, id); ok {
		return p.Name
	}
	return model.PoolName(id.Pool)
}

// NameOfGroup returns the name that a resource group was created with.
func NameOfGroup(r store.Reader, key model.GroupKey) model.GroupName {
	if g, ok := Groups.Get(r, key); ok {
		return g.Name
	}
	return model.GroupName(key)
}

// NameOfDefinition returns the name that a resource definition was created with.
func NameOfDefinition(r store.Reader, key model.DefinitionKey) model.DefinitionName {
	if d, ok := Definitions.Get(r, key); ok {
		return d.Name
	}
	return model.DefinitionName(key)
}

func nameOfInterface(r store.Reader, id model.InterfaceID) string {
	if i, ok := NetInterfaces.Get(r, id); ok {
		return string(i.Name)
	}
	return string(id.Interface)
}

func nameOfSnapshot(r store.Reader, id model.SnapshotID) string {
	if s, ok := Snapshots.Get(r, id); ok {
		return string(s.Name)
	}
	return string(id.Snapshot)
}

func nameOfInstance(r store.Reader, key model.InstanceKey) string {
	if k, ok := KeyValues.Get(r, key); ok {
		return string(k.Name)
	}
	return string(key)
}
