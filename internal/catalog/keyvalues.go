// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// ModifyInstance changes keys of a key-value store. The store comes to be with its first key
// and goes with its last.
func (c *Catalog) ModifyInstance(ctx context.Context, name string, ch model.PropsChange) ([]errs.Notice, error) {
	parsed, err := model.ParseInstanceName(name)
	if err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err = schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		k, exists := schema.KeyValues.Get(tx, parsed.Key())
		if !exists {
			k.Name = parsed
		}
		notices = schema.PropNotices(k.Props, ch, errs.KeyValueStore)
		k.Props = k.Props.Change(ch)
		switch {
		case k.Props.Len() == 0 && !exists:
			return nil
		case k.Props.Len() == 0:
			return schema.KeyValues.Delete(tx, parsed.Key())
		case !exists:
			return schema.KeyValues.Insert(tx, k)
		default:
			return schema.KeyValues.Update(tx, k)
		}
	})
	return notices, err
}

// DeleteInstance deletes a key-value store with all its keys.
func (c *Catalog) DeleteInstance(ctx context.Context, name string) error {
	_, err := schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		key := model.InstanceName(name).Key()
		if _, ok := schema.KeyValues.Get(tx, key); !ok {
			return errs.New(errs.NotFound, errs.KeyValueStore, "key-value store %s does not exist", name)
		}
		return schema.KeyValues.Delete(tx, key)
	})
	return err
}
