// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

import "github.com/holdfast-storage/holdfast/internal/errs"

// Scope is a kind of object that has properties. Scopes can be added up.
type Scope uint16

// The scopes.
const (
	Controller Scope = 1 << iota
	Node
	Pool
	Group
	VolumeGroup
	Definition
	VolumeDefinition
	Resource
	Volume
	NodeConnection
	ResourceConnection
	Snapshot
)

// Sets of scopes that many properties share.
const (
	everywhere = Controller | Node | Pool | Group | VolumeGroup | Definition | VolumeDefinition | Resource | Volume |
		NodeConnection | ResourceConnection | Snapshot
	definitions       = Definition | Group
	volumeDefinitions = VolumeDefinition | VolumeGroup
	anyDefinition     = definitions | volumeDefinitions
)

// object is the noun that errors about a scope are about.
func (s Scope) object() (errs.Object, string) {
	switch s {
	case Controller:
		return errs.Controller, "the controller"
	case Node:
		return errs.Node, "nodes"
	case Pool:
		return errs.StoragePool, "storage pools"
	case Group:
		return errs.ResourceGroup, "resource groups"
	case VolumeGroup:
		return errs.VolumeGroup, "volume groups"
	case Definition:
		return errs.ResourceDefinition, "resource definitions"
	case VolumeDefinition:
		return errs.VolumeDefinition, "volume definitions"
	case Resource:
		return errs.Resource, "resources"
	case Volume:
		return errs.Volume, "volumes"
	case NodeConnection:
		return errs.NodeConnection, "node connections"
	case ResourceConnection:
		return errs.ResourceConnection, "resource connections"
	case Snapshot:
		return errs.Snapshot, "snapshots"
	default:
		return errs.NoObject, "objects"
	}
}

// String names the objects of the scope.
func (s Scope) String() string {
	_, noun := s.object()
	return noun
}
