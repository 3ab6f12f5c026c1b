// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/leader"
)

// unled refuses a database in etcd that a controller leads.
func unled(ctx context.Context, p Place) error {
	e, err := leader.New(leader.Settings{Etcd: p.Etcd})
	if err != nil {
		return err
	}
	now, err := e.Look(ctx)
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	if now != nil {
		return fmt.Errorf("%s is in use: controller %s leads, at %s; stop all controllers first", p, now.Name, now.API)
	}
	return nil
}
