// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
)

// Host is what jobs need of the host that they run on.
type Host interface {
	// Pool returns the name and the driver of the pool that a volume lies in. A volume that is not there is a *pool.NotFoundError.
	Pool(ctx context.Context, id pool.ID) (name string, d pool.Driver, err error)

	// Keeper returns likewise the pool that a snapshot lies in.
	Keeper(ctx context.Context, id pool.SnapshotID) (name string, d pool.Driver, err error)

	// Hold keeps a pool where it is until release is called, which never fails and does not wait. The hold has an id: one that an earlier process has
	// left is taken over.
	Hold(ctx context.Context, pool, id string) (release func(), err error)

	// Folder returns where the files of a pool that is held lie. A pool that has no files is an Invalid error.
	Folder(ctx context.Context, pool string) (worker.Place, error)
}
