// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// ModifyConnection changes what is set for the connection of two replicas of a definition, whose
// nodes may be named in either order. A connection that nothing is set for has no row: the row
// comes with the first property, and goes with the last or with one of the replicas.
func (s *Resources) ModifyConnection(ctx context.Context, definition, a, b string, c model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.ResourceConnection, &c); err != nil {
		return nil, err
	}
	id := s.NewID()
	var notices []errs.Notice
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		key, err := connectionOf(tx, definition, a, b)
		if err != nil {
			return err
		}
		if err := inventory.CheckPaths(tx, errs.ResourceConnection, key.Pair, c); err != nil {
			return err
		}
		row, exists := schema.ResourceConnections.Get(tx, key)
		if !exists {
			row = schema.ResourceConnection{Definition: key.Definition, Pair: key.Pair, UUID: id}
		}
		notices = schema.PropNotices(row.Props, c, errs.ResourceConnection)
		row.Props = row.Props.Change(c)
		switch {
		case row.Props.Len() == 0 && !exists:
			return nil
		case row.Props.Len() == 0:
			return schema.ResourceConnections.Delete(tx, key)
		case !exists:
			return schema.ResourceConnections.Insert(tx, row)
		default:
			return schema.ResourceConnections.Update(tx, row)
		}
	})
	return notices, err
}

// connectionOf names the connection of two replicas that exist.
func connectionOf(r store.Reader, definition, a, b string) (model.ResourceConnectionID, error) {
	d, err := schema.FindDefinition(r, definition)
	if err != nil {
		return model.ResourceConnectionID{}, err
	}
	pair, err := inventory.Pair(r, errs.ResourceConnection, a, b)
	if err != nil {
		return model.ResourceConnectionID{}, err
	}
	for _, node := range []string{a, b} {
		if _, err := schema.FindResource(r, definition, node); err != nil {
			return model.ResourceConnectionID{}, err
		}
	}
	return model.ResourceConnectionID{Definition: d.Name.Key(), Pair: pair}, nil
}
