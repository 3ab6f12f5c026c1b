// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// replica is a replica to add.
type replica struct {
	node   model.NodeKey
	pool   model.PoolKey
	kind   schema.ResourceKind
	props  model.Props
	nodeID *int32  // nil: chosen
	ports  []int32 // none: chosen
	birth  birth
	source *model.SnapshotReplicaID // nil: its volumes begin empty
}

// add inserts a replica with all volumes of its definition, and takes the numbers that its
// layers need: the one door for all of them. The store refuses it when its definition, node
// or pool is missing or closing, or when it exists.
func (s *Resources) add(tx *store.Tx, d schema.Definition, r replica) error {
	if err := accepting(tx, d, r.node); err != nil {
		return err
	}
	row := schema.Resource{
		Definition: d.Name.Key(), Node: r.node, UUID: r.birth.replica(r.node), Created: r.birth.at, Kind: r.kind, Props: r.props,
	}
	if err := s.furnish(tx, d, &row, r.pool, r.birth); err != nil {
		return err
	}
	if r.source != nil {
		for i := range row.Volumes {
			row.Volumes[i].Source = r.source
		}
	}
	if model.Replicates(d.Layers) {
		if err := s.takeNumbers(tx, &row, r); err != nil {
			return err
		}
	}
	if err := schema.Resources.Insert(tx, row); err != nil {
		return err
	}
	return begin(tx, d, row, numbersIn(row), r.source != nil, r.birth)
}

// accepting refuses a node that takes nothing new.
func accepting(tx *store.Tx, d schema.Definition, node model.NodeKey) error {
	n, ok := schema.Nodes.Get(tx, node)
	if ok && !n.Type.RunsAgent() {
		return errs.New(errs.Invalid, errs.Node, "node %s takes no replica of %s", n.Name, d.Name).About(errs.NodeType).
			Because("its type is %s, and no agent is expected on such a node", n.Type).Fix("use another node")
	}
	if !ok || !n.Leaving() {
		return nil // the store refuses one that is not there
	}
	e := errs.New(errs.Closing, errs.Node, "node %s takes no new replica of %s", n.Name, d.Name).Because("%s", whyLeaving(n))
	if n.Deleting {
		return e.Fix("use another node")
	}
	return e.Fix("use another node, or restore it first: node restore %s", n.Name)
}

// furnish gives a replica a volume in pool for each volume definition that is not going.
func (s *Resources) furnish(tx *store.Tx, d schema.Definition, row *schema.Resource, pool model.PoolKey, b birth) error {
	id := model.PoolID{Node: row.Node, Pool: pool}
	p, ok := schema.Pools.Get(tx, id)
	if !ok {
		return errs.New(errs.NotFound, errs.StoragePool, "storage pool %s does not exist on node %s", pool, schema.NameOfNode(tx, row.Node))
	}
	if row.Kind == schema.Diskful && model.Encrypts(d.Layers) { // Its host could not open it.
		if err := b.keys.Check(); err != nil {
			return err
		}
	}
	row.Volumes = nil
	for vd := range schema.VolumesOf(tx, d.Name.Key()) {
		if vd.Deleting {
			continue
		}
		v := schema.Volume{Number: vd.Number, UUID: b.volume(row.Node, vd.Number), Pool: pool}
		if row.Kind == schema.Diskful {
			v.Size = s.promise(id, model.Gross(d.Layers, vd.Size))
		}
		row.Volumes = append(row.Volumes, v)
		if err := s.equip(tx, d, vd, b); err != nil {
			return err
		}
	}
	row.Props = row.Props.With("StorPoolName", string(p.Name))
	return nil
}

// takeNumbers gives a replica its number among its peers and its ports. The definition is read
// anew: other replicas may have been added to it in the same transaction.
func (s *Resources) takeNumbers(tx *store.Tx, row *schema.Resource, r replica) error {
	d, _ := schema.Definitions.Get(tx, row.Definition)
	id, err := s.takeNodeID(tx, &d, r.nodeID)
	if err != nil {
		return err
	}
	row.NodeID = &id
	switch {
	case len(r.ports) > 0:
		row.Ports = r.ports
	case d.Port != 0:
		row.Ports = []int32{d.Port}
	default:
		port, err := s.freePort(tx, row.Node)
		if err != nil {
			return err
		}
		row.Ports = []int32{port}
	}
	return nil
}

// convert makes a replica without a disk one of another kind, in a pool; where there is none
// it adds one.
func (s *Resources) convert(tx *store.Tx, d schema.Definition, r replica) error {
	row, ok := schema.Resources.Get(tx, model.ResourceID{Definition: d.Name.Key(), Node: r.node})
	if !ok {
		return s.add(tx, d, r)
	}
	if err := accepting(tx, d, r.node); err != nil {
		return err
	}
	row.Kind = r.kind
	if err := s.furnish(tx, d, &row, r.pool, r.birth); err != nil {
		return err
	}
	if err := schema.Resources.Update(tx, row); err != nil {
		return err
	}
	return begin(tx, d, row, numbersIn(row), false, r.birth)
}
