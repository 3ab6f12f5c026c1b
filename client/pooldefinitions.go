// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
)

// StoragePoolDefinitions returns what storage pools of one name have in common.
func (c *Client) StoragePoolDefinitions(ctx context.Context) ([]StoragePoolDefinition, error) {
	return get[[]StoragePoolDefinition](ctx, c, path("storage-pool-definitions"), nil)
}

// StoragePoolDefinition returns one storage pool definition. See [IsNotFound].
func (c *Client) StoragePoolDefinition(ctx context.Context, pool string) (StoragePoolDefinition, error) {
	return get[StoragePoolDefinition](ctx, c, path("storage-pool-definitions", pool), nil)
}

// CreateStoragePoolDefinition adds a storage pool definition, before there is a pool of its name.
func (c *Client) CreateStoragePoolDefinition(ctx context.Context, create StoragePoolDefinition) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("storage-pool-definitions"), nil, create)
}

// ModifyStoragePoolDefinition changes properties of all storage pools of a name that have none of their own.
func (c *Client) ModifyStoragePoolDefinition(ctx context.Context, pool string, modify StoragePoolDefinitionModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("storage-pool-definitions", pool), nil, modify)
}

// DeleteStoragePoolDefinition deletes a storage pool definition that there is no pool of.
func (c *Client) DeleteStoragePoolDefinition(ctx context.Context, pool string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("storage-pool-definitions", pool), nil, nil)
}

// PhysicalStorage returns the unused devices of all nodes.
func (c *Client) PhysicalStorage(ctx context.Context) ([]PhysicalStorage, error) {
	return get[[]PhysicalStorage](ctx, c, path("physical-storage"), nil)
}

// SpaceReport returns a text about the space of all pools.
func (c *Client) SpaceReport(ctx context.Context) (string, error) {
	report, err := get[SpaceReport](ctx, c, path("space-report"), nil)
	return report.ReportText, err
}
