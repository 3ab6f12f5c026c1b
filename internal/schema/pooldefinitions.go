// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// PoolDefinition is what the storage pools of one name have in common. Every name that a pool
// has is a definition by that alone; a row is there for one that was created by itself, or that
// something was set for. Written by inventory.
type PoolDefinition struct {
	Name  model.PoolName `json:"name"`
	UUID  string         `json:"uuid"`
	Props model.Props    `json:"props,omitzero"` // that hold for all pools of the name that have none of their own
}

// PoolDefinitions are the rows of pool definitions.
var PoolDefinitions = store.Define("pool-definition", func(d *PoolDefinition) model.PoolKey { return d.Name.Key() })

// PoolDefinitionsOf lists all pool definitions by name, those without a row included.
func PoolDefinitionsOf(r store.Reader) []PoolDefinition {
	known := map[model.PoolKey]PoolDefinition{
		DefaultPool.Key(): {Name: DefaultPool}, DisklessPool.Key(): {Name: DisklessPool},
	}
	for p := range Pools.All(r) {
		if _, ok := known[p.Name.Key()]; !ok {
			known[p.Name.Key()] = PoolDefinition{Name: p.Name}
		}
	}
	for d := range PoolDefinitions.All(r) {
		known[d.Name.Key()] = d
	}
	list := make([]PoolDefinition, 0, len(known))
	for _, d := range known {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b PoolDefinition) int { return cmp.Compare(a.Name.Key(), b.Name.Key()) })
	return list
}

// FindPoolDefinition returns the pool definition of a name, with or without a row, or a
// NotFound error.
func FindPoolDefinition(r store.Reader, name string) (PoolDefinition, error) {
	key := model.PoolName(name).Key()
	for _, d := range PoolDefinitionsOf(r) {
		if d.Name.Key() == key {
			return d, nil
		}
	}
	return PoolDefinition{}, errs.New(errs.NotFound, errs.StoragePoolDefinition, "storage pool definition %s does not exist", name).
		Because("no node has a storage pool of that name")
}

// PropsOfPools returns what is set for all pools of a name.
func PropsOfPools(r store.Reader, name model.PoolKey) model.Props {
	d, _ := PoolDefinitions.Get(r, name)
	return d.Props
}
