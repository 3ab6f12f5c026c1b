// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Snapshots, clones, and disks that come, go and move.
type (
	// Snapshot is the state of a resource's volumes at one moment.
	Snapshot = wire.Snapshot
	// SnapshotNode is a snapshot on a node.
	SnapshotNode = wire.SnapshotNode
	// SnapshotCreate takes a snapshot. Without nodes it is taken on all that have the data.
	SnapshotCreate = wire.SnapshotCreate
	// SnapshotModify changes a snapshot's properties.
	SnapshotModify = wire.SnapshotModify
	// SnapshotRestore says what a snapshot is restored to.
	SnapshotRestore = wire.SnapshotRestore
	// CloneRequest begins a clone.
	CloneRequest = wire.ResourceDefinitionCloneRequest
	// CloneStatus says how far a clone is.
	CloneStatus = wire.ResourceDefinitionCloneStatus
	// ToggleDiskRequest gives a replica a disk, takes it away, or moves it.
	ToggleDiskRequest = wire.ToggleDiskRequest
)

// States of a clone.
const (
	CloneComplete = wire.CloneComplete
	CloneCloning  = wire.CloneCloning
	CloneFailed   = wire.CloneFailed
)

// Operations of [ToggleDiskRequest].
const (
	ToggleIntoDiskful  = wire.ToggleIntoDiskful
	ToggleIntoDiskless = wire.ToggleIntoDiskless
)

// SnapshotFilter selects snapshots: those of these resources, with a part on one of these nodes. None mean all.
type SnapshotFilter struct {
	Page

	Nodes     []string
	Resources []string
}

func (f SnapshotFilter) query() url.Values {
	return query(f.Page, map[string][]string{"nodes": f.Nodes, "resources": f.Resources})
}

// AllSnapshots returns the snapshots that the filter selects.
func (c *Client) AllSnapshots(ctx context.Context, filter SnapshotFilter) ([]Snapshot, error) {
	return get[[]Snapshot](ctx, c, path("view", "snapshots"), filter.query())
}

// Snapshots returns the snapshots of a resource.
func (c *Client) Snapshots(ctx context.Context, resource string) ([]Snapshot, error) {
	return get[[]Snapshot](ctx, c, path("resource-definitions", resource, "snapshots"), nil)
}

// Snapshot returns one snapshot. See [IsNotFound].
func (c *Client) Snapshot(ctx context.Context, resource, name string) (Snapshot, error) {
	return get[Snapshot](ctx, c, path("resource-definitions", resource, "snapshots", name), nil)
}

// CreateSnapshot takes a snapshot of a resource.
func (c *Client) CreateSnapshot(ctx context.Context, resource string, create SnapshotCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "snapshots"), nil, create)
}

// CreateSnapshots takes snapshots of several resources at one moment, all of them or none.
func (c *Client) CreateSnapshots(ctx context.Context, create []SnapshotCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("actions", "snapshot", "multi"), nil, wire.CreateMultiSnapshotRequest{Snapshots: create})
}

// ModifySnapshot changes properties of a snapshot.
func (c *Client) ModifySnapshot(ctx context.Context, resource, name string, modify SnapshotModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-definitions", resource, "snapshots", name), nil, modify)
}

// DeleteSnapshot deletes a snapshot, on these nodes or, without any, on all. A snapshot that does not exist is a warning.
func (c *Client) DeleteSnapshot(ctx context.Context, resource, name string, nodes ...string) (RcList, error) {
	var query url.Values
	if len(nodes) > 0 {
		query = url.Values{"nodes": nodes}
	}
	return c.change(ctx, http.MethodDelete, path("resource-definitions", resource, "snapshots", name), query, nil)
}

// RestoreVolumeDefinitions gives a definition without volumes the volumes of a snapshot.
func (c *Client) RestoreVolumeDefinitions(ctx context.Context, resource, snapshot string, restore SnapshotRestore) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "snapshot-restore-volume-definition", snapshot), nil, restore)
}

// RestoreResource makes the replicas of a definition from a snapshot.
func (c *Client) RestoreResource(ctx context.Context, resource, snapshot string, restore SnapshotRestore) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "snapshot-restore-resource", snapshot), nil, restore)
}

// RollBack gives a resource that nobody uses the content that it has in a snapshot.
func (c *Client) RollBack(ctx context.Context, resource, snapshot string) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "snapshot-rollback", snapshot), nil, nil)
}

// Clone begins a clone of a resource, which then goes on: see [Client.CloneStatus].
func (c *Client) Clone(ctx context.Context, resource string, ask CloneRequest) (ResourceDefinitionCloneStarted, error) {
	return post[ResourceDefinitionCloneStarted](ctx, c, path("resource-definitions", resource, "clone"), ask)
}

// CloneStatus tells how far a clone is. See [IsNotFound].
func (c *Client) CloneStatus(ctx context.Context, resource, clone string) (CloneStatus, error) {
	return get[CloneStatus](ctx, c, path("resource-definitions", resource, "clone", clone), nil)
}

// ToggleDisk gives the replica on a node a disk, takes it away, or moves one there from another node.
func (c *Client) ToggleDisk(ctx context.Context, resource, node string, ask ToggleDiskRequest) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-definitions", resource, "resources", node, "toggle-disk"), nil, ask)
}

// ActivateResource makes a replica usable that was deactivated.
func (c *Client) ActivateResource(ctx context.Context, resource, node string) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "resources", node, "activate"), nil, nil)
}

// DeactivateResource takes the devices of a replica away and keeps its data.
func (c *Client) DeactivateResource(ctx context.Context, resource, node string) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "resources", node, "deactivate"), nil, nil)
}
