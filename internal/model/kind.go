// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Provider is the kind of backend of a storage pool, with LINSTOR's name for it.
type Provider string

// The providers that Holdfast knows. DisklessPool is the pool of every node for replicas
// without storage of their own.
const (
	Diskless Provider = "DISKLESS"
	LVM      Provider = "LVM"
	LVMThin  Provider = "LVM_THIN"
	ZFS      Provider = "ZFS"
	ZFSThin  Provider = "ZFS_THIN"
	File     Provider = "FILE"
	FileThin Provider = "FILE_THIN"
)

// Providers lists all providers.
func Providers() []Provider {
	return []Provider{Diskless, LVM, LVMThin, ZFS, ZFSThin, File, FileThin}
}

// ParseProvider reads a provider in any case.
func ParseProvider(s string) (Provider, error) {
	p := Provider(strings.ToUpper(s))
	if slices.Contains(Providers(), p) {
		return p, nil
	}
	return "", errs.New(errs.Invalid, errs.StoragePool, "the provider %q is not known", clip(s)).
		About(errs.Provider).Fix("use one of %s", join(Providers()))
}

// Thin tells whether a volume takes its space only as it is written.
func (p Provider) Thin() bool { return p == LVMThin || p == ZFSThin || p == FileThin }

// Layer is one layer of a resource's stack, with LINSTOR's name for it.
type Layer string

// The layers that Holdfast knows, from top to bottom.
const (
	DRBD    Layer = "DRBD"
	LUKS    Layer = "LUKS"
	Storage Layer = "STORAGE"
)

// Layers lists all layers, top first.
func Layers() []Layer { return []Layer{DRBD, LUKS, Storage} }

// ParseLayer reads a layer in any case.
func ParseLayer(s string) (Layer, error) {
	l := Layer(strings.ToUpper(s))
	if slices.Contains(Layers(), l) {
		return l, nil
	}
	return "", errs.New(errs.Invalid, errs.ResourceDefinition, "the layer %q is not known", clip(s)).
		About(errs.LayerKind).Fix("use some of %s", join(Layers()))
}

// ParseLayers reads a stack, top first. An empty list is no stack. Every stack ends in
// STORAGE, which is added when it is missing, as LINSTOR does.
func ParseLayers(list []string) ([]Layer, error) {
	var stack []Layer
	for _, s := range list {
		l, err := ParseLayer(s)
		if err != nil {
			return nil, err
		}
		stack = append(stack, l)
	}
	if len(stack) > 0 && stack[len(stack)-1] != Storage {
		stack = append(stack, Storage)
	}
	if !slices.IsSortedFunc(stack, func(a, b Layer) int { return depth(a) - depth(b) }) || hasTwice(stack) {
		return nil, errs.New(errs.Invalid, errs.ResourceDefinition, "the layer stack %s is not possible", join(stack)).
			About(errs.LayerStack).Because("each layer may occur once, and in the order %s", join(Layers()))
	}
	return stack, nil
}

func depth(l Layer) int { return slices.Index(Layers(), l) }

// hasTwice expects a sorted stack.
func hasTwice(stack []Layer) bool {
	return len(slices.Compact(slices.Clone(stack))) != len(stack)
}

// Replicates tells whether a stack keeps several replicas equal.
func Replicates(stack []Layer) bool { return slices.Contains(stack, DRBD) }

// Encrypts tells whether what a stack keeps in its pool is encrypted.
func Encrypts(stack []Layer) bool { return slices.Contains(stack, LUKS) }

// LUKSHeader is what LUKS takes at the beginning of a volume, in bytes.
const LUKSHeader = 16 << 20

// Gross returns how much of its pool a volume of a stack takes that has size bytes for its
// users, before the pool rounds it up. Both are bytes.
func Gross(stack []Layer, size int64) int64 {
	if Encrypts(stack) {
		size += LUKSHeader
	}
	return size
}

// NodeType is the role of a node, with LINSTOR's name for it.
type NodeType string

// The node types.
const (
	ControllerNode NodeType = "Controller"
	SatelliteNode  NodeType = "Satellite"
	CombinedNode   NodeType = "Combined"
	AuxiliaryNode  NodeType = "Auxiliary"
)

// ParseNodeType reads a node type in any case; an empty one is a satellite.
func ParseNodeType(s string) (NodeType, error) {
	if s == "" {
		return SatelliteNode, nil
	}
	types := []NodeType{ControllerNode, SatelliteNode, CombinedNode, AuxiliaryNode}
	for _, t := range types {
		if strings.EqualFold(s, string(t)) {
			return t, nil
		}
	}
	return "", errs.New(errs.Invalid, errs.Node, "the node type %q is not known", clip(s)).
		About(errs.NodeType).Fix("use one of %s", join(types))
}

// RunsAgent tells whether an agent is expected on a node of this type.
func (t NodeType) RunsAgent() bool { return t == SatelliteNode || t == CombinedNode }

func join[S ~string](list []S) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = string(s)
	}
	return strings.Join(parts, ", ")
}
