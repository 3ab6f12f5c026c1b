// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// CreatePoolDefinition makes a storage pool definition, before there is any pool of its name.
// The pools themselves are created on their nodes.
func (v *Inventory) CreatePoolDefinition(ctx context.Context, name string, set map[string]string) (schema.PoolDefinition, error) {
	var none schema.PoolDefinition
	parsed, err := model.ParsePoolName(name)
	if err != nil {
		return none, err
	}
	change := model.PropsChange{Set: set}
	if err := acceptForPools(&change); err != nil {
		return none, err
	}
	d := schema.PoolDefinition{Name: parsed, UUID: v.NewID(), Props: model.PropsOf(change.Set)}
	_, err = schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		if old, err := schema.FindPoolDefinition(tx, name); err == nil {
			return errs.New(errs.Exists, errs.StoragePoolDefinition, "storage pool definition %s exists already", old.Name)
		}
		return schema.PoolDefinitions.Insert(tx, d)
	})
	return d, err
}

// ModifyPoolDefinition changes properties of all storage pools of a name. A pool that has a
// value of its own keeps it.
func (v *Inventory) ModifyPoolDefinition(ctx context.Context, name string, c model.PropsChange) ([]errs.Notice, error) {
	if err := acceptForPools(&c); err != nil {
		return nil, err
	}
	id := v.NewID()
	var notices []errs.Notice
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		d, err := schema.FindPoolDefinition(tx, name)
		if err != nil {
			return err
		}
		notices = schema.PropNotices(d.Props, c, errs.StoragePoolDefinition)
		d.Props = d.Props.Change(c)
		if d.UUID == "" {
			d.UUID = id
			return schema.PoolDefinitions.Insert(tx, d)
		}
		return schema.PoolDefinitions.Update(tx, d)
	})
	return notices, err
}

// DeletePoolDefinition forgets a storage pool definition that no node has a pool of.
func (v *Inventory) DeletePoolDefinition(ctx context.Context, name string) error {
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		d, err := schema.FindPoolDefinition(tx, name)
		if err != nil {
			return err
		}
		key := d.Name.Key()
		var nodes []string
		for p := range schema.Pools.All(tx) {
			if p.Name.Key() == key {
				nodes = append(nodes, string(schema.NameOfNode(tx, p.Node)))
			}
		}
		refused := errs.New(errs.HasChildren, errs.StoragePoolDefinition, "storage pool definition %s cannot be deleted", d.Name)
		if len(nodes) > 0 {
			return refused.Because("there are pools of that name on %s", strings.Join(nodes, ", ")).Fix("delete those first")
		}
		if key == schema.DefaultPool.Key() || key == schema.DisklessPool.Key() {
			return errs.New(errs.Protected, errs.StoragePoolDefinition, "storage pool definition %s cannot be deleted", d.Name).
				Because("every cluster has it")
		}
		return schema.PoolDefinitions.Delete(tx, key)
	})
	return err
}

// acceptForPools checks properties that are to hold for all pools of a name. Where its volumes
// lie is a matter of each pool alone.
func acceptForPools(c *model.PropsChange) error {
	if err := props.Accept(props.Pool, c); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		if slices.Contains(props.BackendKeys(), key) {
			return errs.New(errs.Invalid, errs.StoragePoolDefinition, "the property %q cannot be set for all storage pools of a name", key).
				About(errs.Property).Because("it says where the volumes of one pool lie").Fix("give it when the pool is created")
		}
	}
	return nil
}
