// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// deviceKind is what devices are listed together by.
type deviceKind struct {
	size       int64
	rotational bool
}

// listDevices lists the free devices of all connected nodes, the largest first. The nodes are asked: only they know.
func (s *Server) listDevices(q *request) (body, error) {
	p, err := q.page()
	if err != nil {
		return nil, err
	}
	nodes := map[deviceKind]map[string][]wire.PhysicalStorageDevice{}
	var kinds []deviceKind
	for _, n := range s.Inventory.Devices(q.Context()) {
		for _, d := range n.Devices {
			kind := deviceKind{d.Size, d.Rotational}
			if nodes[kind] == nil {
				nodes[kind] = map[string][]wire.PhysicalStorageDevice{}
				kinds = append(kinds, kind)
			}
			nodes[kind][string(n.Node)] = append(nodes[kind][string(n.Node)], wire.PhysicalStorageDevice{
				Device: d.Path, Model: d.Model, Serial: d.Serial, WWN: d.WWN,
			})
		}
	}
	slices.SortFunc(kinds, func(a, b deviceKind) int {
		if a.size == b.size && a.rotational != b.rotational {
			if a.rotational {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.size, a.size)
	})
	return values(pageOf(p, slices.Values(kinds)), func(k *deviceKind) wire.PhysicalStorage {
		return wire.PhysicalStorage{Size: k.size, Rotational: k.rotational, Nodes: nodes[*k]}
	}), nil
}

// listDevicesOf lists the free devices of one node, as it says now.
func (s *Server) listDevicesOf(q *request) (body, error) {
	list, err := s.Inventory.DevicesOf(q.Context(), q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return values(slices.Values(list), func(d *observed.Device) wire.PhysicalStorageNode {
		return wire.PhysicalStorageNode{
			Size: d.Size, Rotational: d.Rotational, Device: d.Path, Model: d.Model, Serial: d.Serial, WWN: d.WWN,
		}
	}), nil
}

// createBackend makes a volume group, a thin pool or a zpool of devices of a node, and a storage pool on it where the request
// names one. What it asks for beyond that is refused, and not left out.
func (s *Server) createBackend(q *request) (wire.RcList, error) {
	var b wire.PhysicalStorageCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if what := beyond(b); what != "" {
		return nil, errs.New(errs.Unsupported, errs.Node, "%s cannot be asked for", what).
			Because("a backend is made in one way").Fix("make it on the host as it shall be, then use storage-pool create")
	}
	n := inventory.NewBackend{Provider: string(b.ProviderKind), Name: b.PoolName, Devices: b.DevicePaths, RAIDLevel: b.RaidLevel}
	if w := b.WithStoragePool; w != nil && w.Name != "" {
		n.Pool = &inventory.NewPool{
			Name: w.Name, Props: w.Props, SharedSpace: w.SharedSpace, ExternalLocking: w.ExternalLocking != nil && *w.ExternalLocking,
		}
	}
	node := q.PathValue("node")
	name, pool, err := s.Inventory.CreateBackend(q.Context(), node, n)
	if err != nil {
		return nil, err
	}
	l := wire.RcList{done(wire.Created, "", "%s was made on node %s of %s", name, node, counted(len(b.DevicePaths), "device"))}
	if n.Pool != nil {
		l = append(l, done(wire.Created, pool.UUID, "storage pool %s created on node %s", pool.Name, node).
			WithRef(wire.RefStorPool, string(pool.Name)).WithRef(wire.RefStorPoolDfn, string(pool.Name)))
	}
	return l, nil
}

// beyond names what a request asks for that no backend is made with; empty when there is nothing of that kind.
func beyond(b wire.PhysicalStorageCreate) string {
	switch {
	case b.VDOEnable != nil && *b.VDOEnable:
		return "VDO"
	case b.SED != nil && *b.SED:
		return "the encryption of self-encrypting drives"
	case len(b.PVCreateArguments)+len(b.VGCreateArguments)+len(b.LVCreateArguments)+len(b.ZpoolCreateArguments) > 0:
		return "arguments for pvcreate, vgcreate, lvcreate or zpool"
	}
	return ""
}
