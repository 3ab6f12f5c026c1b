// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// ModifyResource changes properties of a replica.
func (s *Resources) ModifyResource(ctx context.Context, definition, node string, c model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Resource, &c); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		r, err := schema.FindResource(tx, definition, node)
		if err != nil {
			return err
		}
		notices = schema.PropNotices(r.Props, c, errs.Resource)
		r.Props = r.Props.Change(c)
		return schema.Resources.Update(tx, r)
	})
	return notices, err
}

// ModifyVolume changes properties of one volume of a replica.
func (s *Resources) ModifyVolume(ctx context.Context, definition, node string, nr int32, c model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Volume, &c); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		r, err := schema.FindResource(tx, definition, node)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Volumes, func(v schema.Volume) bool { return v.Number == model.VolumeNumber(nr) })
		if i < 0 {
			return errs.New(errs.NotFound, errs.Volume, "resource %s on node %s has no volume %d", definition, node, nr)
		}
		r.Volumes = slices.Clone(r.Volumes)
		v := &r.Volumes[i]
		notices = schema.PropNotices(v.Props, c, errs.Volume)
		v.Props = v.Props.Change(c)
		return schema.Resources.Update(tx, r)
	})
	return notices, err
}
