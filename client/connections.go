// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
)

// NodeConnections returns what is set for the connections of nodes: of all pairs, of those with a node, or of one pair, which
// is always answered. An empty name is any node.
func (c *Client) NodeConnections(ctx context.Context, a, b string) ([]NodeConnection, error) {
	query := url.Values{}
	for key, name := range map[string]string{"node_a": a, "node_b": b} {
		if name != "" {
			query.Set(key, name)
		}
	}
	return get[[]NodeConnection](ctx, c, path("node-connections"), query)
}

// ModifyNodeConnection changes properties of the connection of two nodes.
func (c *Client) ModifyNodeConnection(ctx context.Context, a, b string, modify NodeConnectionModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("node-connections", a, b), nil, modify)
}

// ResourceConnections returns the connections of all replicas of a definition with each other.
func (c *Client) ResourceConnections(ctx context.Context, resource string) ([]ResourceConnection, error) {
	return get[[]ResourceConnection](ctx, c, path("resource-definitions", resource, "resource-connections"), nil)
}

// ResourceConnection returns the connection of two replicas. See [IsNotFound].
func (c *Client) ResourceConnection(ctx context.Context, resource, a, b string) (ResourceConnection, error) {
	return get[ResourceConnection](ctx, c, path("resource-definitions", resource, "resource-connections", a, b), nil)
}

// ModifyResourceConnection changes properties of the connection of two replicas.
func (c *Client) ModifyResourceConnection(ctx context.Context, resource, a, b string, modify ResourceConnectionModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-definitions", resource, "resource-connections", a, b), nil, modify)
}
