// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"strconv"
)

// ResourceDefinitions returns the resource definitions that the filter selects.
func (c *Client) ResourceDefinitions(ctx context.Context, filter ResourceDefinitionFilter) ([]ResourceDefinition, error) {
	return get[[]ResourceDefinition](ctx, c, path("resource-definitions"), filter.query())
}

// ResourceDefinition returns one resource definition, without volume definitions. See [IsNotFound].
func (c *Client) ResourceDefinition(ctx context.Context, resource string) (ResourceDefinition, error) {
	return get[ResourceDefinition](ctx, c, path("resource-definitions", resource), nil)
}

// CreateResourceDefinition adds a resource definition.
func (c *Client) CreateResourceDefinition(ctx context.Context, create ResourceDefinitionCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions"), nil, create)
}

// ModifyResourceDefinition changes a resource definition.
func (c *Client) ModifyResourceDefinition(ctx context.Context, resource string, modify ResourceDefinitionModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-definitions", resource), nil, modify)
}

// DeleteResourceDefinition deletes a definition with all its replicas and their data.
func (c *Client) DeleteResourceDefinition(ctx context.Context, resource string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("resource-definitions", resource), nil, nil)
}

// VolumeDefinitions returns the volume definitions of a resource definition.
func (c *Client) VolumeDefinitions(ctx context.Context, resource string) ([]VolumeDefinition, error) {
	return get[[]VolumeDefinition](ctx, c, path("resource-definitions", resource, "volume-definitions"), nil)
}

// VolumeDefinition returns one volume definition. See [IsNotFound].
func (c *Client) VolumeDefinition(ctx context.Context, resource string, number int) (VolumeDefinition, error) {
	return get[VolumeDefinition](ctx, c, path("resource-definitions", resource, "volume-definitions", strconv.Itoa(number)), nil)
}

// CreateVolumeDefinition adds a volume to a definition, and to its replicas where there are any.
func (c *Client) CreateVolumeDefinition(ctx context.Context, resource string, create VolumeDefinitionCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "volume-definitions"), nil, create)
}

// ModifyVolumeDefinition changes a volume definition, such as its size.
func (c *Client) ModifyVolumeDefinition(ctx context.Context, resource string, number int, modify VolumeDefinitionModify) (RcList, error) {
	return c.change(ctx, http.MethodPut,
		path("resource-definitions", resource, "volume-definitions", strconv.Itoa(number)), nil, modify)
}

// DeleteVolumeDefinition deletes a volume with its data on all nodes.
func (c *Client) DeleteVolumeDefinition(ctx context.Context, resource string, number int) (RcList, error) {
	return c.change(ctx, http.MethodDelete,
		path("resource-definitions", resource, "volume-definitions", strconv.Itoa(number)), nil, nil)
}

// SyncStatus tells whether all replicas of a definition that have a disk hold the same data.
func (c *Client) SyncStatus(ctx context.Context, resource string) (bool, error) {
	status, err := get[ResourceDefinitionSyncStatus](ctx, c, path("resource-definitions", resource, "sync-status"), nil)
	return status.SyncedOnAll, err
}
