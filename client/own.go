// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
)

// What Holdfast serves beyond LINSTOR's API. LINSTOR controllers do not know these calls.

// JobFilter selects jobs by their states, such as running.
type JobFilter struct {
	States []string
	Page
}

// Jobs returns the work that goes on beyond the calls that began it, and the newest that has ended, the oldest first.
func (c *Client) Jobs(ctx context.Context, filter JobFilter) ([]Job, error) {
	return get[[]Job](ctx, c, path("jobs"), query(filter.Page, map[string][]string{"states": filter.States}))
}

// Job returns one job. See [IsNotFound].
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return get[Job](ctx, c, path("jobs", id), nil)
}

// OrphanFilter selects orphans by where they lie.
type OrphanFilter struct {
	Nodes        []string
	StoragePools []string
	Page
}

// Orphans returns the volumes that hosts have and the controller knows nothing of.
func (c *Client) Orphans(ctx context.Context, filter OrphanFilter) ([]Orphan, error) {
	return get[[]Orphan](ctx, c, path("orphans"),
		query(filter.Page, map[string][]string{"nodes": filter.Nodes, "storage_pools": filter.StoragePools}))
}

// RemoveOrphans destroys orphans of a storage pool by their names. Their data is lost.
func (c *Client) RemoveOrphans(ctx context.Context, node, pool string, volumes []string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node, "storage-pools", pool, "orphans"), url.Values{"volume": volumes}, nil)
}

// Explain tells what the next spawn from a resource group would do, and of every pool whether it could take a replica, or why
// not. It changes nothing. That the replicas could not be placed is no error: the answer has reports then.
func (c *Client) Explain(ctx context.Context, group string, ask ExplainRequest) (Explanation, error) {
	return post[Explanation](ctx, c, path("resource-groups", group, "explain"), ask)
}

// PendingDeletes returns the replicas that are to go, with why they have not gone yet.
func (c *Client) PendingDeletes(ctx context.Context) ([]PendingDelete, error) {
	return get[[]PendingDelete](ctx, c, path("pending-deletes"), nil)
}
