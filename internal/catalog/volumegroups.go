// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewVolumeGroup is a volume group to create.
type NewVolumeGroup struct {
	Number *int32 // nil: the lowest free one
	Props  map[string]string
	Flags  []string
}

// CreateVolumeGroup adds a volume group to a resource group.
func (c *Catalog) CreateVolumeGroup(ctx context.Context, group string, n NewVolumeGroup) (schema.VolumeGroup, error) {
	v := schema.VolumeGroup{UUID: c.NewID()}
	var err error
	if v.Props, err = props.New(props.VolumeGroup, n.Props); err != nil {
		return v, err
	}
	if v.Flags, err = changeFlags(errs.VolumeGroup, nil, n.Flags); err != nil {
		return v, err
	}
	_, err = schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		g, err := schema.FindGroup(tx, group)
		if err != nil {
			return err
		}
		v.Group = g.Name.Key()
		count := 0
		for range schema.VolumeGroupsOf(tx, v.Group) {
			count++
		}
		if count >= MaxVolumes {
			return errs.New(errs.Exhausted, errs.VolumeGroup, "resource group %s takes no more volume groups", g.Name).
				About(errs.VolumeNumber).Because("it has %d, the most that is possible", count)
		}
		v.Number, err = volumeNumber(errs.VolumeGroup, n.Number, func(nr model.VolumeNumber) bool {
			_, taken := schema.VolumeGroups.Get(tx, model.VolumeGroupID{Group: v.Group, Number: nr})
			return taken
		})
		if err != nil {
			return err
		}
		return schema.VolumeGroups.Insert(tx, v)
	})
	return v, err
}

// ModifyVolumeGroup changes properties and flags of a volume group. Volumes that were
// spawned from it before keep what they have.
func (c *Catalog) ModifyVolumeGroup(ctx context.Context, group string, nr int32, p model.PropsChange, flags []string) ([]errs.Notice, error) {
	if err := props.Accept(props.VolumeGroup, &p); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		v, err := schema.FindVolumeGroup(tx, group, model.VolumeNumber(nr))
		if err != nil {
			return err
		}
		if v.Flags, err = changeFlags(errs.VolumeGroup, v.Flags, flags); err != nil {
			return err
		}
		notices = schema.PropNotices(v.Props, p, errs.VolumeGroup)
		v.Props = v.Props.Change(p)
		return schema.VolumeGroups.Update(tx, v)
	})
	return notices, err
}

// DeleteVolumeGroup removes a volume group. Volumes that were spawned from it stay.
func (c *Catalog) DeleteVolumeGroup(ctx context.Context, group string, nr int32) error {
	_, err := schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		v, err := schema.FindVolumeGroup(tx, group, model.VolumeNumber(nr))
		if err != nil {
			return err
		}
		return schema.VolumeGroups.Delete(tx, model.VolumeGroupID{Group: v.Group, Number: v.Number})
	})
	return err
}
