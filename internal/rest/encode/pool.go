// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Pool shows a storage pool: a [wire.StoragePool].
func (e *Encoder) Pool(b *Buffer, p *schema.Pool) { b.Value(e.wirePool(p)) }

func (e *Encoder) wirePool(p *schema.Pool) wire.StoragePool {
	n := e.node(p.Node)
	seen, known := e.seen.Pool(model.PoolID{Node: p.Node, Pool: p.Name.Key()})
	out := wire.StoragePool{
		StoragePoolName:   string(p.Name),
		NodeName:          n.name,
		ProviderKind:      wire.ProviderKind(p.Provider),
		Props:             e.properties(p.Props),
		FreeSpaceMgrName:  n.name + ";" + string(p.Name),
		UUID:              p.UUID,
		SupportsSnapshots: snapshots(p.Provider, seen, known),
		SharedSpace:       p.SharedSpace,
		ExternalLocking:   p.ExternalLocking,
	}
	if p.SharedSpace != "" {
		out.FreeSpaceMgrName = p.SharedSpace
	}
	out.StaticTraits = traits(p.Provider, out.SupportsSnapshots, seen.Granularity)
	if p.Provider == model.Diskless {
		unlimited := wire.Unlimited
		out.FreeCapacity, out.TotalCapacity = &unlimited, &unlimited
		return out
	}
	out.FreeCapacity, out.TotalCapacity = roundedDown(seen.Free), roundedDown(seen.Total)
	out.Reports = poolReports(n, p, seen)
	return out
}

// snapshots tells whether a pool can take snapshots: as its host said, or as its provider can, when the host has said
// nothing yet.
func snapshots(p model.Provider, seen observed.PoolStatus, known bool) bool {
	if known {
		return seen.SupportsSnapshots
	}
	return p.Thin() || p == model.ZFS
}

func traits(p model.Provider, snapshots bool, granularity int64) map[string]string {
	out := map[string]string{wire.TraitSupportsSnapshots: strconv.FormatBool(snapshots)}
	switch {
	case p == model.Diskless:
	case p.Thin():
		out[wire.TraitProvisioning] = "Thin"
	default:
		out[wire.TraitProvisioning] = "Fat"
	}
	if granularity > 0 {
		out[wire.TraitAllocationUnit] = strconv.FormatInt(int64(wire.RoundUp(granularity)), 10)
	}
	return out
}

// poolReports says why a pool cannot be used now.
func poolReports(n node, p *schema.Pool, seen observed.PoolStatus) wire.RcList {
	var out wire.RcList
	add := func(code wire.RetCode, message, correction string) {
		out = append(out, wire.NewRc(code|wire.ObjStorPool, message).WithCorrection(correction).
			WithRef(wire.RefNode, n.name).WithRef(wire.RefStorPool, string(p.Name)))
	}
	if n.offline {
		add(wire.WarnNotConnected, "node "+n.name+" is offline: the space of storage pool "+string(p.Name)+" is not known",
			"start the agent of the node")
	}
	for _, fault := range seen.Faults {
		add(wire.FailStorPoolConfigurationError, "storage pool "+string(p.Name)+" on node "+n.name+" cannot be used: "+
			strings.TrimSuffix(fault, "."), "")
	}
	return out
}

// roundedDown shows space that is there, nil when that is not known.
func roundedDown(bytes *int64) *wire.SizeKiB {
	if bytes == nil {
		return nil
	}
	size := wire.RoundDown(*bytes)
	return &size
}

// PoolDefinition shows what the pools of one name have in common: a [wire.StoragePoolDefinition].
func (e *Encoder) PoolDefinition(b *Buffer, d *schema.PoolDefinition) {
	b.Value(wire.StoragePoolDefinition{StoragePoolName: string(d.Name), Props: e.properties(d.Props)})
}
