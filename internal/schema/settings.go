// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The names that exist in every cluster, as in LINSTOR.
const (
	DefaultGroup    model.GroupName = "DfltRscGrp"
	DefaultPool     model.PoolName  = "DfltStorPool"
	DisklessPool    model.PoolName  = "DfltDisklessStorPool" // on every node
	defaultReplicas int32           = 2
)

// Bootstrap makes the rows that exist in every cluster, where they are missing: the settings
// with LINSTOR's defaults, and the default group. It is idempotent and never changes a row
// that is there.
func Bootstrap(ctx context.Context, st *store.Store, groupID string) error {
	_, err := st.Update(ctx, func(tx *store.Tx) error {
		if _, ok := Settings.Get(tx, SettingsKey); !ok {
			if err := Settings.Insert(tx, ControllerSettings{Props: model.PropsOf(map[string]string{
				"DrbdOptions/auto-add-quorum-tiebreaker": "True",
				"DrbdOptions/auto-diskful-allow-cleanup": "True",
				"DrbdOptions/AutoEvictAllowEviction":     "True",
			})}); err != nil {
				return err
			}
		}
		if _, ok := Groups.Get(tx, DefaultGroup.Key()); !ok {
			count := defaultReplicas
			return Groups.Insert(tx, Group{
				Name: DefaultGroup, UUID: groupID, Filter: model.Filter{PlaceCount: &count},
			})
		}
		return nil
	})
	return err
}

// SettingsOf returns the properties of the cluster.
func SettingsOf(r store.Reader) model.Props {
	s, _ := Settings.Get(r, SettingsKey)
	return s.Props
}
