// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// noun is how an error calls the rows of a collection. The label makes of the parts of a key
// what people call the row.
type noun struct {
	object errs.Object
	text   string
	parts  int // of a key
	label  func(r store.Reader, parts []string) string
}

// named is the row of a key, with its noun: "resource Vol on node Alpha". Without a reader, or
// for a key that is not one of the collection, the key stands for itself.
func (n noun) named(r store.Reader, key string) string { return n.text + " " + n.short(r, key) }

// short is named without the noun.
func (n noun) short(r store.Reader, key string) string {
	parts := strings.Split(key, "/")
	if r == nil || n.label == nil || len(parts) != n.parts {
		return key
	}
	return n.label(r, parts)
}

func nodeText(r store.Reader, key string) string {
	return string(NameOfNode(r, model.NodeKey(key)))
}

func groupText(r store.Reader, key string) string {
	return string(NameOfGroup(r, model.GroupKey(key)))
}

func definitionText(r store.Reader, key string) string {
	return string(NameOfDefinition(r, model.DefinitionKey(key)))
}

func snapshotText(r store.Reader, definition, snapshot string) string {
	id := model.SnapshotID{Definition: model.DefinitionKey(definition), Snapshot: model.SnapshotKey(snapshot)}
	return nameOfSnapshot(r, id) + " of " + definitionText(r, definition)
}

// nounOf names the rows of a collection.
func nounOf(collection string) noun {
	for _, of := range []func(string) (noun, bool){hostNoun, catalogNoun, replicaNoun} {
		if n, ok := of(collection); ok {
			return n
		}
	}
	return noun{object: errs.NoObject, text: collection}
}

func hostNoun(collection string) (noun, bool) {
	switch collection {
	case Settings.Name():
		return noun{object: errs.Controller, text: "the settings"}, true
	case Nodes.Name():
		return noun{errs.Node, "node", 1, func(r store.Reader, p []string) string { return nodeText(r, p[0]) }}, true
	case NetInterfaces.Name():
		return noun{errs.NetInterface, "network interface", 2, func(r store.Reader, p []string) string {
			id := model.InterfaceID{Node: model.NodeKey(p[0]), Interface: model.InterfaceKey(p[1])}
			return nameOfInterface(r, id) + " of node " + nodeText(r, p[0])
		}}, true
	case Pools.Name():
		return noun{errs.StoragePool, "storage pool", 2, func(r store.Reader, p []string) string {
			id := model.PoolID{Node: model.NodeKey(p[0]), Pool: model.PoolKey(p[1])}
			return string(NameOfPool(r, id)) + " on node " + nodeText(r, p[0])
		}}, true
	case Jobs.Name():
		return noun{object: errs.Controller, text: "job"}, true
	case NodeConnections.Name():
		return noun{errs.NodeConnection, "connection of the nodes", 2, func(r store.Reader, p []string) string {
			return nodeText(r, p[0]) + " and " + nodeText(r, p[1])
		}}, true
	}
	return noun{}, false
}

func catalogNoun(collection string) (noun, bool) {
	switch collection {
	case Groups.Name():
		return noun{errs.ResourceGroup, "resource group", 1, func(r store.Reader, p []string) string { return groupText(r, p[0]) }}, true
	case VolumeGroups.Name():
		return noun{errs.VolumeGroup, "volume group", 2, func(r store.Reader, p []string) string {
			return p[1] + " of " + groupText(r, p[0])
		}}, true
	case Definitions.Name():
		return noun{errs.ResourceDefinition, "resource definition", 1, func(r store.Reader, p []string) string {
			return definitionText(r, p[0])
		}}, true
	case VolumeDefinitions.Name():
		return noun{errs.VolumeDefinition, "volume definition", 2, func(r store.Reader, p []string) string {
			return p[1] + " of " + definitionText(r, p[0])
		}}, true
	case KeyValues.Name():
		return noun{errs.KeyValueStore, "key-value store", 1, func(r store.Reader, p []string) string {
			return nameOfInstance(r, model.InstanceKey(p[0]))
		}}, true
	}
	return noun{}, false
}

func replicaNoun(collection string) (noun, bool) {
	switch collection {
	case Resources.Name():
		return noun{errs.Resource, "resource", 2, func(r store.Reader, p []string) string {
			return definitionText(r, p[0]) + " on node " + nodeText(r, p[1])
		}}, true
	case Snapshots.Name():
		return noun{errs.Snapshot, "snapshot", 2, func(r store.Reader, p []string) string { return snapshotText(r, p[0], p[1]) }}, true
	case SnapshotReplicas.Name():
		return noun{errs.Snapshot, "snapshot", 3, func(r store.Reader, p []string) string {
			return snapshotText(r, p[0], p[1]) + " on node " + nodeText(r, p[2])
		}}, true
	case ResourceConnections.Name():
		return noun{errs.ResourceConnection, "connection of resource", 3, func(r store.Reader, p []string) string {
			return definitionText(r, p[0]) + " between " + nodeText(r, p[1]) + " and " + nodeText(r, p[2])
		}}, true
	}
	return noun{}, false
}
