// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package luks

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// copier is what a pool must be for its encrypted volumes to be copied.
type copier interface {
	pool.Driver
	pool.Snapshotter
	pool.Cloner
	pool.RollBacker
}

// Copier is a Driver that implements pool.Snapshotter, pool.Cloner and pool.RollBacker too. A copy has the header of its source, and so its key: Config.Key must give
// that one for a clone.
type Copier struct {
	*Driver
	below copier
}

type copyKey struct{}

// CopyOf returns a context for Open of a NEW volume that was made from another and has no key of its own: it opens with the key of that one, and is not given a new
// header when it does not.
func CopyOf(ctx context.Context, source pool.ID) context.Context {
	return context.WithValue(ctx, copyKey{}, source)
}

func isCopy(ctx context.Context) bool {
	_, is := ctx.Value(copyKey{}).(pool.ID)
	return is
}

// key returns the key of a volume, or of what it was made from.
func (d *Driver) key(ctx context.Context, id pool.ID) ([]byte, error) {
	if source, is := ctx.Value(copyKey{}).(pool.ID); is {
		id = source
	}
	return d.c.Key(ctx, id)
}

// TakeSnapshot implements pool.Snapshotter.
func (d *Copier) TakeSnapshot(ctx context.Context, id pool.SnapshotID, progress pool.Progress) error {
	return inNet(d.below.TakeSnapshot(ctx, id, progress))
}

// FinishSnapshot implements pool.Snapshotter.
func (d *Copier) FinishSnapshot(ctx context.Context, id pool.SnapshotID) error {
	return d.below.FinishSnapshot(ctx, id)
}

// Snapshots implements pool.Snapshotter.
func (d *Copier) Snapshots(ctx context.Context, resource string) ([]pool.Snapshot, error) {
	list, err := d.below.Snapshots(ctx, resource)
	for i := range list {
		list[i].Size = max(0, list[i].Size-HeaderSize)
	}
	return list, err
}

// RemoveSnapshot implements pool.Snapshotter.
func (d *Copier) RemoveSnapshot(ctx context.Context, id pool.SnapshotID) error {
	return d.below.RemoveSnapshot(ctx, id)
}

// Clone implements pool.Cloner.
func (d *Copier) Clone(ctx context.Context, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
	release, err := d.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	gross, err := add(size)
	if err != nil {
		return err
	}
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil {
		return err
	}
	if ok && v.New { // It will be replaced.
		if err := d.shut(ctx, id); err != nil {
			return err
		}
	}
	return inNet(d.below.Clone(ctx, id, gross, from, progress))
}

// RollBack implements pool.RollBacker.
func (d *Copier) RollBack(ctx context.Context, to pool.SnapshotID, token string, progress pool.Progress) error {
	release, err := d.take(ctx, to.Of())
	if err != nil {
		return err
	}
	defer release()
	if err := to.Validate(); err != nil {
		return err
	}
	v, ok, err := pool.Find(ctx, d.below, to.Of())
	if err != nil {
		return err
	}
	if ok && v.RolledBack != token && v.Device.Path != "" && pool.ValidateToken(token) == nil {
		if err := d.shut(ctx, to.Of()); err != nil {
			return err
		}
	}
	return inNet(d.below.RollBack(ctx, to, token, progress))
}
