// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// ResourceGroups returns the resource groups that the filter selects.
func (c *Client) ResourceGroups(ctx context.Context, filter ResourceGroupFilter) ([]ResourceGroup, error) {
	return get[[]ResourceGroup](ctx, c, path("resource-groups"), filter.query())
}

// ResourceGroup returns one resource group. See [IsNotFound].
func (c *Client) ResourceGroup(ctx context.Context, group string) (ResourceGroup, error) {
	return get[ResourceGroup](ctx, c, path("resource-groups", group), nil)
}

// CreateResourceGroup adds a resource group.
func (c *Client) CreateResourceGroup(ctx context.Context, create ResourceGroupCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-groups"), nil, create)
}

// ModifyResourceGroup changes a resource group.
func (c *Client) ModifyResourceGroup(ctx context.Context, group string, modify ResourceGroupModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-groups", group), nil, modify)
}

// DeleteResourceGroup deletes a resource group that no definition belongs to.
func (c *Client) DeleteResourceGroup(ctx context.Context, group string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("resource-groups", group), nil, nil)
}

// VolumeGroups returns the volume groups of a resource group.
func (c *Client) VolumeGroups(ctx context.Context, group string) ([]VolumeGroup, error) {
	return get[[]VolumeGroup](ctx, c, path("resource-groups", group, "volume-groups"), nil)
}

// VolumeGroup returns one volume group.
func (c *Client) VolumeGroup(ctx context.Context, group string, number int) (VolumeGroup, error) {
	return get[VolumeGroup](ctx, c, path("resource-groups", group, "volume-groups", strconv.Itoa(number)), nil)
}

// CreateVolumeGroup adds a volume group to a resource group.
func (c *Client) CreateVolumeGroup(ctx context.Context, group string, create VolumeGroupCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-groups", group, "volume-groups"), nil, create)
}

// ModifyVolumeGroup changes a volume group.
func (c *Client) ModifyVolumeGroup(ctx context.Context, group string, number int, modify VolumeGroupModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-groups", group, "volume-groups", strconv.Itoa(number)), nil, modify)
}

// DeleteVolumeGroup deletes a volume group.
func (c *Client) DeleteVolumeGroup(ctx context.Context, group string, number int) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("resource-groups", group, "volume-groups", strconv.Itoa(number)), nil, nil)
}

// Spawn makes a definition, its volumes and its replicas from a resource group: all of it or nothing.
func (c *Client) Spawn(ctx context.Context, group string, spawn ResourceGroupSpawn) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-groups", group, "spawn"), nil, spawn)
}

// QuerySizeInfo returns how large a volume the group could spawn now. A group that could spawn none is not an error: the
// answer then has reports and no space information.
func (c *Client) QuerySizeInfo(ctx context.Context, group string, ask QuerySizeInfoRequest) (QuerySizeInfoResponse, error) {
	return post[QuerySizeInfoResponse](ctx, c, path("resource-groups", group, "query-size-info"), ask)
}

// AdjustResourceGroup places what the definitions of a group lack, as the group says and a filter over it.
func (c *Client) AdjustResourceGroup(ctx context.Context, group string, adjust ResourceGroupAdjust) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-groups", group, "adjust"), nil, adjust)
}

// AdjustAllResourceGroups is AdjustResourceGroup for every group that has definitions.
func (c *Client) AdjustAllResourceGroups(ctx context.Context, adjust ResourceGroupAdjust) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-groups", "adjustall"), nil, adjust)
}

// QueryAllSizeInfo is QuerySizeInfo for every group, by name.
func (c *Client) QueryAllSizeInfo(ctx context.Context, ask QueryAllSizeInfoRequest) (QueryAllSizeInfoResponse, error) {
	return post[QueryAllSizeInfoResponse](ctx, c, "/v1/queries/resource-groups/query-all-size-info", ask)
}

// MaxVolumeSizes tells, for each name of a pool, how large a volume of the group can be that lies in pools of that name.
func (c *Client) MaxVolumeSizes(ctx context.Context, group string) (MaxVolumeSizes, error) {
	return get[MaxVolumeSizes](ctx, c, path("resource-groups", group, "query-max-volume-size"), nil)
}

// MaxVolumeSizesFor tells the same for a filter alone, without a group.
func (c *Client) MaxVolumeSizesFor(ctx context.Context, filter AutoSelectFilter) (MaxVolumeSizes, error) {
	encoded, err := wire.Encode(filter)
	if err != nil {
		return MaxVolumeSizes{}, fmt.Errorf("encode request: %w", err)
	}
	return exchange[MaxVolumeSizes](ctx, c, request{method: http.MethodOptions, path: path("query-max-volume-size"), body: encoded})
}
