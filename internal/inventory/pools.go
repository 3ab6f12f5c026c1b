// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewPool is a storage pool to make known on a node.
type NewPool struct {
	Name            string
	Provider        string
	Props           map[string]string // StorDriver/StorPoolName names the backend
	SharedSpace     string
	ExternalLocking bool
}

// CreatePool makes a storage pool known on a node, after the node's agent said that the
// backend is there and works. The backend itself is not changed.
func (v *Inventory) CreatePool(ctx context.Context, node string, n NewPool) (schema.Pool, error) {
	pool, err := v.parsePool(node, n)
	if err != nil {
		return pool, err
	}
	row, err := schema.FindNode(v.Store.Snapshot(), node)
	if err != nil {
		return pool, err
	}
	if err := runsAgent(row); err != nil {
		return pool, err
	}
	// Asked first: an existing pool is refused as such, and not for what its backend says to
	// a second one. The commit below is what counts.
	id := model.PoolID{Node: pool.Node, Pool: pool.Name.Key()}
	if old, ok := schema.Pools.Get(v.Store.Snapshot(), id); ok {
		return pool, errs.New(errs.Exists, errs.StoragePool, "storage pool %s exists on node %s already", old.Name, row.Name)
	}
	if pool.Provider != model.Diskless {
		if _, err := v.Hosts.CheckPool(ctx, pool.Node, pool); err != nil {
			return pool, err
		}
	}
	if _, err = schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		if n, ok := schema.Nodes.Get(tx, pool.Node); ok { // The store refuses one that is not there.
			if err := runsAgent(n); err != nil {
				return err
			}
		}
		return schema.Pools.Insert(tx, pool)
	}); err != nil {
		return pool, err
	}
	if pool.Provider != model.Diskless {
		v.awaitSpace(ctx, id)
	}
	return pool, nil
}

// runsAgent refuses a node on which nobody would serve a pool.
func runsAgent(n schema.Node) error {
	if n.Type.RunsAgent() {
		return nil
	}
	return errs.New(errs.Invalid, errs.Node, "node %s takes no storage pools", n.Name).About(errs.NodeType).
		Because("its type is %s, and no agent is expected on such a node", n.Type).
		Fix("change its type first: node modify --node-type %s %s", model.CombinedNode, n.Name)
}

// awaitSpace waits until the room of a new pool is known, so that who has created it can
// place into it at once. A node that does not tell in time does not undo the creation.
func (v *Inventory) awaitSpace(ctx context.Context, id model.PoolID) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changes := v.Observed.Subscribe(ctx)
	if v.spaceKnown(id) {
		return
	}
	for range changes {
		if v.spaceKnown(id) || v.Observed.Node(id.Node).Connection == observed.Offline {
			return
		}
	}
}

func (v *Inventory) spaceKnown(id model.PoolID) bool {
	p, ok := v.Observed.Pool(id)
	return ok && p.Current && (p.Total != nil || len(p.Faults) > 0)
}

func (v *Inventory) parsePool(node string, n NewPool) (schema.Pool, error) {
	name, err := model.ParsePoolName(n.Name)
	if err != nil {
		return schema.Pool{}, err
	}
	provider, err := model.ParseProvider(n.Provider)
	if err != nil {
		return schema.Pool{}, err
	}
	properties, err := props.New(props.Pool, n.Props)
	if err != nil {
		return schema.Pool{}, err
	}
	return schema.Pool{
		Node: model.NodeName(node).Key(), Name: name, UUID: v.NewID(), Provider: provider,
		Props: properties, SharedSpace: n.SharedSpace, ExternalLocking: n.ExternalLocking,
	}, nil
}

// ModifyPool changes properties of a pool. Which backend it stands for cannot be changed:
// its volumes lie there.
func (v *Inventory) ModifyPool(ctx context.Context, node, pool string, c model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Pool, &c); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		p, err := schema.FindPool(tx, node, pool)
		if err != nil {
			return err
		}
		changed, node := p.Props.Change(c), schema.NameOfNode(tx, p.Node)
		if backend(p.Props) != backend(changed) {
			return errs.New(errs.Protected, errs.StoragePool, "the backend of storage pool %s on node %s cannot be changed", p.Name, node).
				Because("its volumes lie in %q", backend(p.Props)).Fix("create another pool for %q", backend(changed))
		}
		notices = schema.PropNotices(p.Props, c, errs.StoragePool)
		p.Props = changed
		return schema.Pools.Update(tx, p)
	})
	return notices, err
}

// backend is the part of a pool's properties that says where its volumes lie.
func backend(p model.Props) string {
	var parts []string
	for _, key := range props.BackendKeys() {
		if v, ok := p.Get(key); ok {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, "/")
}

// DeletePool forgets a pool that no volume and no snapshot lies in. The backend is not
// touched. The pool for replicas without storage stays as long as its node.
func (v *Inventory) DeletePool(ctx context.Context, node, pool string) error {
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		p, err := schema.FindPool(tx, node, pool)
		if err != nil {
			return err
		}
		id := model.PoolID{Node: p.Node, Pool: p.Name.Key()}
		if id.Pool == schema.DisklessPool.Key() {
			return errs.New(errs.Protected, errs.StoragePool, "storage pool %s on node %s cannot be deleted", p.Name, schema.NameOfNode(tx, p.Node)).
				Because("every node has this pool, for replicas without storage")
		}
		return schema.Pools.Delete(tx, id)
	})
	return err
}
