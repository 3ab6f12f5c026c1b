// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "fmt"

// VolumeNumber numbers the volumes of a definition or group, from 0 to MaxVolumeNumber.
type VolumeNumber int32

// MaxVolumeNumber is the highest number that DRBD 9 gives a volume (DRBD manual: 65535
// volumes a resource).
const MaxVolumeNumber VolumeNumber = 65534

// InterfaceID names a network interface.
type InterfaceID struct {
	Node      NodeKey
	Interface InterfaceKey
}

// PoolID names a storage pool on a node.
type PoolID struct {
	Node NodeKey
	Pool PoolKey
}

// VolumeGroupID names a volume group of a resource group.
type VolumeGroupID struct {
	Group  GroupKey
	Number VolumeNumber
}

// VolumeDefinitionID names a volume definition.
type VolumeDefinitionID struct {
	Definition DefinitionKey
	Number     VolumeNumber
}

// ResourceID names a resource: the replica of a definition on a node.
type ResourceID struct {
	Definition DefinitionKey
	Node       NodeKey
}

// SnapshotID names a snapshot of a definition.
type SnapshotID struct {
	Definition DefinitionKey
	Snapshot   SnapshotKey
}

// SnapshotReplicaID names a snapshot on one node.
type SnapshotReplicaID struct {
	Definition DefinitionKey
	Snapshot   SnapshotKey
	Node       NodeKey
}

// NodePairID names the connection of two nodes. A is never greater than B.
type NodePairID struct {
	A NodeKey
	B NodeKey
}

// PairOf returns the id of the connection of two nodes, whichever comes first.
func PairOf(a, b NodeKey) NodePairID {
	if b < a {
		a, b = b, a
	}
	return NodePairID{A: a, B: b}
}

// ResourceConnectionID names the connection of two replicas of a definition.
type ResourceConnectionID struct {
	Definition DefinitionKey
	Pair       NodePairID
}

func (id PoolID) String() string     { return fmt.Sprintf("%s on node %s", id.Pool, id.Node) }
func (id ResourceID) String() string { return fmt.Sprintf("%s on node %s", id.Definition, id.Node) }
func (id VolumeDefinitionID) String() string {
	return fmt.Sprintf("%s/%d", id.Definition, id.Number)
}
