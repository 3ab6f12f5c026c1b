// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// AllResources returns the replicas, with their volumes, that the filter selects.
func (c *Client) AllResources(ctx context.Context, filter ResourceFilter) ([]ResourceWithVolumes, error) {
	return get[[]ResourceWithVolumes](ctx, c, path("view", "resources"), filter.query())
}

// Resources returns the replicas of a definition, without volumes.
func (c *Client) Resources(ctx context.Context, resource string) ([]Resource, error) {
	return get[[]Resource](ctx, c, path("resource-definitions", resource, "resources"), nil)
}

// Resource returns the replica on a node. See [IsNotFound].
func (c *Client) Resource(ctx context.Context, resource, node string) (Resource, error) {
	return get[Resource](ctx, c, path("resource-definitions", resource, "resources", node), nil)
}

// CreateResources adds replicas to a definition: all of them or none.
func (c *Client) CreateResources(ctx context.Context, resource string, create []ResourceCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "resources"), nil, create)
}

// CreateResource adds a replica on a node.
func (c *Client) CreateResource(ctx context.Context, resource, node string, create ResourceCreate) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "resources", node), nil, create)
}

// ModifyResource changes a replica.
func (c *Client) ModifyResource(ctx context.Context, resource, node string, modify ResourceModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-definitions", resource, "resources", node), nil, modify)
}

// DeleteResource deletes the replica on a node with its data. A tie-breaker can be told to stay.
func (c *Client) DeleteResource(ctx context.Context, resource, node string, keepTiebreaker bool) (RcList, error) {
	var query url.Values
	if keepTiebreaker {
		query = url.Values{"keep_tiebreaker": {"true"}}
	}
	return c.change(ctx, http.MethodDelete, path("resource-definitions", resource, "resources", node), query, nil)
}

// AutoPlace adds replicas where the controller finds best. Being deployed already is a warning.
func (c *Client) AutoPlace(ctx context.Context, resource string, ask AutoPlaceRequest) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "autoplace"), nil, ask)
}

// Volumes returns the volumes of the replica on a node.
func (c *Client) Volumes(ctx context.Context, resource, node string) ([]Volume, error) {
	return get[[]Volume](ctx, c, path("resource-definitions", resource, "resources", node, "volumes"), nil)
}

// Volume returns one volume of the replica on a node. See [IsNotFound].
func (c *Client) Volume(ctx context.Context, resource, node string, number int) (Volume, error) {
	return get[Volume](ctx, c, path("resource-definitions", resource, "resources", node, "volumes", strconv.Itoa(number)), nil)
}

// ModifyVolume changes a volume of the replica on a node.
func (c *Client) ModifyVolume(ctx context.Context, resource, node string, number int, modify VolumeModify) (RcList, error) {
	return c.change(ctx, http.MethodPut,
		path("resource-definitions", resource, "resources", node, "volumes", strconv.Itoa(number)), nil, modify)
}

// MakeAvailable makes a resource usable on a node: it adds a replica when there is none, and keeps one that is being deleted.
func (c *Client) MakeAvailable(ctx context.Context, resource, node string, ask ResourceMakeAvailable) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("resource-definitions", resource, "resources", node, "make-available"), nil, ask)
}
