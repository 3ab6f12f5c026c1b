// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Hosts answers questions about hosts as they are now.
type Hosts interface {
	// CheckPool asks the node whether pool would work there.
	CheckPool(ctx context.Context, node model.NodeKey, pool schema.Pool) (observed.PoolStatus, error)
	// RemoveUnknown asks the node to destroy volumes that nothing knows, and returns those that
	// are gone.
	RemoveUnknown(ctx context.Context, node model.NodeKey, pool model.PoolName, volumes []string) ([]string, error)
	// Devices asks the node for its block devices that nobody uses and that have nothing on them.
	Devices(ctx context.Context, node model.NodeKey) ([]observed.Device, error)
	// CreateBackend has the node make what pools are made on.
	CreateBackend(ctx context.Context, node model.NodeKey, b dispatch.Backend) error
	// SetLogLevel changes from which level on the agent of the node logs, until it restarts.
	SetLogLevel(ctx context.Context, node model.NodeKey, level string) error
}

// Inventory is the use cases of nodes, interfaces, pools and settings.
type Inventory struct {
	Store    *store.Store
	Observed *observed.State
	Hosts    Hosts
	NewID    func() string    // makes a UUID
	Now      func() time.Time // nil: the clock of the machine
}

func (v *Inventory) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}

// ModifySettings changes properties of the whole cluster.
func (v *Inventory) ModifySettings(ctx context.Context, change model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Controller, &change); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		s, _ := schema.Settings.Get(tx, schema.SettingsKey)
		notices = schema.PropNotices(s.Props, change, errs.Controller)
		s.Props = s.Props.Change(change)
		return schema.Settings.Update(tx, s)
	})
	return notices, err
}
