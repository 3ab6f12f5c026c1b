// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// NodeName is the name of a node: an RFC 1123 host name of 2 to 255 characters.
type NodeName string

// InterfaceName is the name of a network interface, of 3 to 32 characters.
type InterfaceName string

// PoolName is the name of a storage pool, of 3 to 48 characters.
type PoolName string

// GroupName is the name of a resource group, of 2 to 48 characters.
type GroupName string

// DefinitionName is the name of a resource definition, of 2 to 48 characters. A resource has
// the name of its definition.
type DefinitionName string

// SnapshotName is the name of a snapshot, of 2 to 48 characters.
type SnapshotName string

// InstanceName is the name of a key-value store, of 1 to 64 characters.
type InstanceName string

// NodeKey is the identity of a node: its name folded to lower case.
type NodeKey string

// InterfaceKey is the identity of a network interface on its node.
type InterfaceKey string

// PoolKey is the identity of a storage pool on its node.
type PoolKey string

// GroupKey is the identity of a resource group.
type GroupKey string

// DefinitionKey is the identity of a resource definition.
type DefinitionKey string

// SnapshotKey is the identity of a snapshot in its definition.
type SnapshotKey string

// InstanceKey is the identity of a key-value store.
type InstanceKey string

// Key returns the identity of the name.
func (n NodeName) Key() NodeKey { return NodeKey(fold(string(n))) }

// Key returns the identity of the name.
func (n InterfaceName) Key() InterfaceKey { return InterfaceKey(fold(string(n))) }

// Key returns the identity of the name.
func (n PoolName) Key() PoolKey { return PoolKey(fold(string(n))) }

// Key returns the identity of the name.
func (n GroupName) Key() GroupKey { return GroupKey(fold(string(n))) }

// Key returns the identity of the name.
func (n DefinitionName) Key() DefinitionKey { return DefinitionKey(fold(string(n))) }

// Key returns the identity of the name.
func (n SnapshotName) Key() SnapshotKey { return SnapshotKey(fold(string(n))) }

// Key returns the identity of the name.
func (n InstanceName) Key() InstanceKey { return InstanceKey(fold(string(n))) }

// fold lowers ASCII only: no valid name holds any other letter.
func fold(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			return strings.ToLower(s)
		}
	}
	return s
}

// ParseNodeName accepts host names: letters, digits, '-' and '.', each label starting and
// ending with a letter or digit.
func ParseNodeName(s string) (NodeName, error) {
	if why := hostNameFault(s); why != "" {
		return "", badName(errs.Node, "node", s, why)
	}
	return NodeName(s), nil
}

// ParseInterfaceName accepts the name of a network interface.
func ParseInterfaceName(s string) (InterfaceName, error) {
	return parse[InterfaceName](errs.NetInterface, "network interface", s, 3, 32)
}

// ParsePoolName accepts the name of a storage pool.
func ParsePoolName(s string) (PoolName, error) {
	return parse[PoolName](errs.StoragePool, "storage pool", s, 3, 48)
}

// ParseGroupName accepts the name of a resource group.
func ParseGroupName(s string) (GroupName, error) {
	return parse[GroupName](errs.ResourceGroup, "resource group", s, 2, 48)
}

// ParseDefinitionName accepts the name of a resource definition.
func ParseDefinitionName(s string) (DefinitionName, error) {
	return parse[DefinitionName](errs.ResourceDefinition, "resource definition", s, 2, 48)
}

// ParseSnapshotName accepts the name of a snapshot.
func ParseSnapshotName(s string) (SnapshotName, error) {
	return parse[SnapshotName](errs.Snapshot, "snapshot", s, 2, 48)
}

// ParseInstanceName accepts the name of a key-value store instance. Clients use free forms
// here (a UUID, a path without slashes), so only length and printable ASCII are asked for.
func ParseInstanceName(s string) (InstanceName, error) {
	if len(s) < 1 || len(s) > 64 {
		return "", badName(errs.KeyValueStore, "key-value store", s, lengthFault(len(s), 1, 64))
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '/' {
			return "", badName(errs.KeyValueStore, "key-value store", s, "it may hold printable ASCII without blanks and slashes only")
		}
	}
	return InstanceName(s), nil
}

func parse[N ~string](object errs.Object, noun, s string, lo, hi int) (N, error) {
	if why := nameFault(s, lo, hi); why != "" {
		return "", badName(object, noun, s, why)
	}
	return N(s), nil
}
