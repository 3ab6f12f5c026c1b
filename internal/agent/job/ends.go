// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// absent tells whether an error says that a volume, snapshot or pool is not there.
func absent(err error) bool {
	_, ok := errors.AsType[*pool.NotFoundError](err)
	return ok
}

// target returns the device of the volume that is to be written. It is not in use.
func (r *run) target(ctx context.Context) (string, error) {
	_, d, v, err := r.find(ctx, idOf(r.want.GetTo()))
	if err != nil {
		return "", err
	}
	if err := unused(ctx, d, v.ID); err != nil {
		return "", err
	}
	return open(ctx, d, v)
}

// find looks for a volume and holds its pool.
func (r *run) find(ctx context.Context, id pool.ID) (name string, d pool.Driver, v pool.Volume, err error) {
	if name, d, err = r.c.Host.Pool(ctx, id); err != nil {
		return name, d, v, err
	}
	if err := r.hold(ctx, name); err != nil {
		return name, d, v, err
	}
	v, err = finished(ctx, d, name, id)
	return name, d, v, err
}

// finished returns a volume that others know.
func finished(ctx context.Context, d pool.Driver, name string, id pool.ID) (pool.Volume, error) {
	v, ok, err := pool.Find(ctx, d, id)
	if err == nil && (!ok || v.New) {
		err = &pool.NotFoundError{Pool: name, ID: id}
	}
	return v, err
}

// unused refuses a volume that someone uses.
func unused(ctx context.Context, d pool.Driver, id pool.ID) error {
	l, ok := d.(pool.HolderLister)
	if !ok {
		return nil // The worker claims the device.
	}
	holders, err := l.Holders(ctx, id)
	if err != nil {
		return fmt.Errorf("ask who uses volume %s: %w", id, err)
	}
	if len(holders) > 0 {
		return &pool.InUseError{ID: id, Holders: holders, Detail: "a job writes only to volumes that nobody uses"}
	}
	return nil
}

// open returns the device of a volume. One that is deployed has it already.
func open(ctx context.Context, d pool.Driver, v pool.Volume) (string, error) {
	if v.Device.Path == "" {
		return "", fmt.Errorf("volume %s has no device on this host: activate it first", v.ID)
	}
	dev, err := d.Open(ctx, v.ID) // As large as the volume.
	return dev.Path, err
}

// source returns the device that is to be read: of the volume when nobody uses it, else of a clone.
func (r *run) source(ctx context.Context) (string, error) {
	from := r.want.GetFrom()
	if from.GetSnapshot() != "" {
		name, d, err := r.c.Host.Keeper(ctx, snapshotOf(from))
		if err != nil {
			return "", err
		}
		return r.cloned(ctx, name, d, snapshotOf(from))
	}
	name, d, v, err := r.find(ctx, idOf(from))
	if err != nil {
		return "", err
	}
	err = unused(ctx, d, v.ID)
	if _, used := errors.AsType[*pool.InUseError](err); used || err == nil && v.Device.Path == "" {
		return r.cloned(ctx, name, d, snapshotOf(from))
	}
	if err != nil {
		return "", err
	}
	return open(ctx, d, v)
}

const clonePrefix = "holdfast-job-"

// IsClone tells whether a volume is one that a job has made for itself.
func IsClone(id pool.ID) bool { return strings.HasPrefix(id.Fold().Resource, clonePrefix) }

// cloneOf is the name of the clone that a job reads.
func cloneOf(job string) pool.ID {
	const digits = 16
	h := sha256.Sum256([]byte(job))
	return pool.ID{Resource: clonePrefix + hex.EncodeToString(h[:])[:digits]}
}

// cloned makes a clone and returns its device. It stays NEW: nobody else is ever told of it.
func (r *run) cloned(ctx context.Context, name string, d pool.Driver, from pool.SnapshotID) (string, error) {
	if err := r.hold(ctx, name); err != nil {
		return "", err
	}
	cloner, ok := d.(pool.Cloner)
	if !ok {
		return "", fmt.Errorf("volume %s is in use or not open, and pool %s cannot clone it: take a snapshot of it elsewhere, or close it", from.Of(), name)
	}
	size, err := sizeOf(ctx, d, name, from)
	if err != nil {
		return "", err
	}
	if err := r.change(r.job, true, func(n *record) { n.Clone = true }); err != nil {
		return "", err
	}
	id := cloneOf(r.want.GetId())
	if err := d.Remove(ctx, id); err != nil && !absent(err) { // Of an earlier try.
		return "", fmt.Errorf("remove an earlier clone: %w", err)
	}
	progress := func(c pool.Copied) {
		_ = r.change(r.job, false, func(n *record) { n.decoded.Done, n.decoded.Total = c.Done, c.Total })
	}
	if err := cloner.Clone(ctx, id, size, from, progress); err != nil {
		return "", fmt.Errorf("clone what is to be read: %w", err)
	}
	dev, err := d.Open(luks.CopyOf(ctx, from.Of()), id)
	return dev.Path, err
}

// sizeOf returns the size of a snapshot, or of a volume when no snapshot is named.
func sizeOf(ctx context.Context, d pool.Driver, name string, from pool.SnapshotID) (int64, error) {
	if from.Snapshot == "" {
		v, err := finished(ctx, d, name, from.Of())
		return v.Size, err
	}
	lister, ok := d.(pool.Snapshotter)
	if !ok {
		return 0, &pool.NotFoundError{Pool: name, ID: from.Of(), Snapshot: from.Snapshot}
	}
	all, err := lister.Snapshots(ctx, from.Resource)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.ID.Compare(from) == 0 && !s.New {
			return s.Size, nil
		}
	}
	return 0, &pool.NotFoundError{Pool: name, ID: from.Of(), Snapshot: from.Snapshot}
}

// removeClone removes the clone of a job, if it has one.
func (r *run) removeClone(ctx context.Context) error {
	r.mu.Lock()
	cloned := r.job.record.Clone
	r.mu.Unlock()
	if !cloned {
		return nil
	}
	id := cloneOf(r.want.GetId())
	name, d, err := r.c.Host.Pool(ctx, id)
	switch {
	case absent(err):
	case err != nil:
		return err
	default:
		if err := r.hold(ctx, name); err != nil {
			return err
		}
		if err := d.Remove(ctx, id); err != nil && !absent(err) {
			return fmt.Errorf("remove the clone: %w", err)
		}
	}
	return r.change(r.job, true, func(n *record) { n.Clone = false })
}
