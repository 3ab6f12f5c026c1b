// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
)

// CreateDevicePool makes a volume group, a thin pool or a ZFS pool on unused devices of a node, and a storage pool on it when
// asked for. Devices that hold something are refused.
func (c *Client) CreateDevicePool(ctx context.Context, node string, create PhysicalStorageCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("physical-storage", node), nil, create)
}

// BackupDatabase makes a copy of the controller's database under a name, on the controller's host.
func (c *Client) BackupDatabase(ctx context.Context, name string) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("controller", "backup", "db"), nil, map[string]string{"backup_name": name})
}

// ModifyNodeConfig changes what can be changed of an agent that runs: the level of its log.
func (c *Client) ModifyNodeConfig(ctx context.Context, node string, modify ControllerConfig) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("nodes", node, "config"), nil, modify)
}

// Remotes returns what backups can be shipped to, by kind, as the controller sends it.
func (c *Client) Remotes(ctx context.Context) (RemoteList, error) {
	return get[RemoteList](ctx, c, path("remotes"), nil)
}
