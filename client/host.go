// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// The work of hosts and their pools on mounts, which LINSTOR does not have.
type (
	// HostJob is work on volumes and files of the pools of one host.
	HostJob = wire.HostJob
	// HostJobCreate begins a job.
	HostJobCreate = wire.HostJobCreate
	// JobEnd is a volume, a snapshot of one, or a file in a pool.
	JobEnd = wire.JobEnd
	// HeldPool is a storage pool that lies on a mount.
	HeldPool = wire.HeldPool
	// Hold is a claim of one user on a pool that lies on a mount.
	Hold = wire.Hold
	// HoldCreate acquires a hold.
	HoldCreate = wire.HoldCreate
)

// HostJobs returns the jobs of a node, the oldest first.
func (c *Client) HostJobs(ctx context.Context, node string, filter JobFilter) ([]HostJob, error) {
	return get[[]HostJob](ctx, c, path("nodes", node, "jobs"), query(filter.Page, map[string][]string{"states": filter.States}))
}

// HostJob returns one job of a node. See [IsNotFound].
func (c *Client) HostJob(ctx context.Context, node, id string) (HostJob, error) {
	return get[HostJob](ctx, c, path("nodes", node, "jobs", id), nil)
}

// StartHostJob begins a job on a node, or joins the one that has its id. It goes on by itself.
func (c *Client) StartHostJob(ctx context.Context, node string, job HostJobCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("nodes", node, "jobs"), nil, job)
}

// EndHostJob cancels a job that goes on, and forgets one that has ended.
func (c *Client) EndHostJob(ctx context.Context, node, id string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node, "jobs", id), nil, nil)
}

// HeldPools returns what a node said last of its pools on mounts.
func (c *Client) HeldPools(ctx context.Context, node string) ([]HeldPool, error) {
	return get[[]HeldPool](ctx, c, path("nodes", node, "held-pools"), nil)
}

// InspectPool returns what is mounted for a pool and who holds it, as its node has it now.
func (c *Client) InspectPool(ctx context.Context, node, pool string) (HeldPool, error) {
	return get[HeldPool](ctx, c, path("nodes", node, "storage-pools", pool, "holds"), nil)
}

// AcquireHold has a node hold a pool until the hold is released.
func (c *Client) AcquireHold(ctx context.Context, node, pool string, hold HoldCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("nodes", node, "storage-pools", pool, "holds"), nil, hold)
}

// ReleaseHold releases a hold. What became of the mount is in the details of the answer.
func (c *Client) ReleaseHold(ctx context.Context, node, pool, id string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node, "storage-pools", pool, "holds"), url.Values{"id": {id}}, nil)
}
