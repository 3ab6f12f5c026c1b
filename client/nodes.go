// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
)

// Nodes returns the nodes that the filter selects.
func (c *Client) Nodes(ctx context.Context, filter NodeFilter) ([]Node, error) {
	return get[[]Node](ctx, c, path("nodes"), filter.query())
}

// Node returns one node. See [IsNotFound].
func (c *Client) Node(ctx context.Context, node string) (Node, error) {
	return get[Node](ctx, c, path("nodes", node), nil)
}

// CreateNode registers a node.
func (c *Client) CreateNode(ctx context.Context, create NodeCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("nodes"), nil, create)
}

// ModifyNode changes a node.
func (c *Client) ModifyNode(ctx context.Context, node string, modify NodeModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node), nil, modify)
}

// DeleteNode deletes a node that has no resources. Deleting one that does not exist is a warning, as in all deletions.
func (c *Client) DeleteNode(ctx context.Context, node string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node), nil, nil)
}

// NetInterfaces returns the network interfaces of a node.
func (c *Client) NetInterfaces(ctx context.Context, node string) ([]NetInterface, error) {
	return get[[]NetInterface](ctx, c, path("nodes", node, "net-interfaces"), nil)
}

// NetInterface returns one network interface of a node.
func (c *Client) NetInterface(ctx context.Context, node, name string) (NetInterface, error) {
	return get[NetInterface](ctx, c, path("nodes", node, "net-interfaces", name), nil)
}

// CreateNetInterface adds a network interface to a node.
func (c *Client) CreateNetInterface(ctx context.Context, node string, create NetInterfaceCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("nodes", node, "net-interfaces"), nil, create)
}

// ModifyNetInterface changes a network interface.
func (c *Client) ModifyNetInterface(ctx context.Context, node, name string, modify NetInterfaceModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "net-interfaces", name), nil, modify)
}

// DeleteNetInterface takes a network interface away from a node.
func (c *Client) DeleteNetInterface(ctx context.Context, node, name string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node, "net-interfaces", name), nil, nil)
}

// StoragePools returns the storage pools of all nodes that the filter selects.
func (c *Client) StoragePools(ctx context.Context, filter StoragePoolFilter) ([]StoragePool, error) {
	return get[[]StoragePool](ctx, c, path("view", "storage-pools"), filter.query())
}

// NodeStoragePools returns the storage pools of one node.
func (c *Client) NodeStoragePools(ctx context.Context, node string) ([]StoragePool, error) {
	return get[[]StoragePool](ctx, c, path("nodes", node, "storage-pools"), nil)
}

// StoragePool returns one storage pool of a node. See [IsNotFound].
func (c *Client) StoragePool(ctx context.Context, node, pool string) (StoragePool, error) {
	return get[StoragePool](ctx, c, path("nodes", node, "storage-pools", pool), nil)
}

// CreateStoragePool adds a storage pool to a node.
func (c *Client) CreateStoragePool(ctx context.Context, node string, create StoragePoolCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("nodes", node, "storage-pools"), nil, create)
}

// ModifyStoragePool changes a storage pool.
func (c *Client) ModifyStoragePool(ctx context.Context, node, pool string, modify StoragePoolModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "storage-pools", pool), nil, modify)
}

// DeleteStoragePool removes a storage pool in which nothing lies from Holdfast's care. What backs it stays.
func (c *Client) DeleteStoragePool(ctx context.Context, node, pool string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node, "storage-pools", pool), nil, nil)
}
