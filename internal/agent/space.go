// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// spaceOf asks d for all that there is to know of its pool. It is all or nothing. Volumes come
// and go meanwhile: what is free is the less of before and after they were listed, so that
// nothing counts both as free and as taken by a volume.
func spaceOf(ctx context.Context, d pool.Driver) (Space, error) {
	before, err := d.Space(ctx)
	if err != nil {
		return Space{}, err
	}
	volumes, err := d.List(ctx)
	if err != nil {
		return Space{}, err
	}
	snapshots, err := snapshotsIn(ctx, d)
	if err != nil {
		return Space{}, err
	}
	after, err := d.Space(ctx)
	if err != nil {
		return Space{}, err
	}
	s := Space{Total: after.Total, Free: min(before.Free, after.Free), Volumes: volumes, Snapshots: snapshots}
	_, s.CanSnapshot = d.(pool.Snapshotter)
	if d, ok := d.(identifier); ok {
		if s.Identity, err = d.Identity(ctx); err != nil {
			return Space{}, err
		}
	}
	if d, ok := d.(granular); ok {
		s.Granularity = d.Granularity()
	}
	for _, v := range volumes {
		s.Allocated += v.Allocated
	}
	for _, v := range snapshots {
		s.Allocated += v.Allocated
	}
	return s, nil
}

// snapshotsIn lists the snapshots of a pool; none when it cannot have any.
func snapshotsIn(ctx context.Context, d pool.Driver) ([]pool.Snapshot, error) {
	s, ok := d.(pool.Snapshotter)
	if !ok {
		return nil, nil
	}
	return s.Snapshots(ctx, "")
}
