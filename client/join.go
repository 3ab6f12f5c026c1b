// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// JoinTokenCreate is the body of the call that makes join tokens.
type JoinTokenCreate = wire.JoinTokenCreate

// JoinToken lets one host join as a node, once.
type JoinToken = wire.JoinToken

// CreateJoinToken makes a token by which one host can join as a node, once. It replaces the one before. LINSTOR controllers
// have no such call.
func (c *Client) CreateJoinToken(ctx context.Context, node string, create JoinTokenCreate) (JoinToken, error) {
	return post[JoinToken](ctx, c, path("nodes", node, "join-token"), create)
}
