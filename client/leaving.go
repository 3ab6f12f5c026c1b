// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
)

// ReconnectNode asks for a new connection to a node's agent.
func (c *Client) ReconnectNode(ctx context.Context, node string) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "reconnect"), nil, nil)
}

// EvacuateNode begins to move all replicas away from a node. It answers at once; see [Client.Jobs].
func (c *Client) EvacuateNode(ctx context.Context, node string, evacuate NodeEvacuate) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "evacuate"), nil, evacuate)
}

// EvictNode gives up waiting for a node that is not connected: its replicas do not count, and are replaced. It answers at once.
func (c *Client) EvictNode(ctx context.Context, node string) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "evict"), nil, nil)
}

// RestoreNode takes an evacuation or an eviction back.
func (c *Client) RestoreNode(ctx context.Context, node string, restore NodeRestore) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "restore"), nil, restore)
}

// LoseNode gives up a node that does not come back, with all data that lies there alone.
func (c *Client) LoseNode(ctx context.Context, node string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("nodes", node, "lost"), nil, nil)
}
