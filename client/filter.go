// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/url"
	"strconv"
	"time"
)

// Page is a part of a list. A limit of zero is the whole list.
type Page struct {
	Offset int
	Limit  int
}

func (p Page) into(q url.Values) {
	if p.Limit > 0 {
		q.Set("offset", strconv.Itoa(p.Offset))
		q.Set("limit", strconv.Itoa(p.Limit))
	}
}

// NodeFilter selects nodes. Names are alternatives; each property, as key or key=value, must match.
type NodeFilter struct {
	Nodes []string
	Props []string
	Page
}

func (f NodeFilter) query() url.Values {
	return query(f.Page, map[string][]string{"nodes": f.Nodes, "props": f.Props})
}

// StoragePoolFilter selects storage pools.
type StoragePoolFilter struct {
	Nodes        []string
	StoragePools []string
	Props        []string
	Page
}

func (f StoragePoolFilter) query() url.Values {
	return query(f.Page, map[string][]string{"nodes": f.Nodes, "storage_pools": f.StoragePools, "props": f.Props})
}

// ResourceGroupFilter selects resource groups.
type ResourceGroupFilter struct {
	ResourceGroups []string
	Props          []string
	Page
}

func (f ResourceGroupFilter) query() url.Values {
	return query(f.Page, map[string][]string{"resource_groups": f.ResourceGroups, "props": f.Props})
}

// ResourceDefinitionFilter selects resource definitions, and says whether they come with their volume definitions.
type ResourceDefinitionFilter struct {
	ResourceDefinitions   []string
	Props                 []string
	WithVolumeDefinitions bool
	Page
}

func (f ResourceDefinitionFilter) query() url.Values {
	q := query(f.Page, map[string][]string{"resource_definitions": f.ResourceDefinitions, "props": f.Props})
	if f.WithVolumeDefinitions {
		q.Set("with_volume_definitions", "true")
	}
	return q
}

// ResourceFilter selects resources.
type ResourceFilter struct {
	Nodes        []string
	Resources    []string
	StoragePools []string
	Props        []string
	Page
}

func (f ResourceFilter) query() url.Values {
	return query(f.Page, map[string][]string{
		"nodes": f.Nodes, "resources": f.Resources, "storage_pools": f.StoragePools, "props": f.Props,
	})
}

// ErrorReportFilter selects error reports. A zero time is no bound.
type ErrorReportFilter struct {
	Nodes    []string
	Since    time.Time
	To       time.Time
	WithText bool
	Page
}

func (f ErrorReportFilter) query() url.Values {
	q := query(f.Page, map[string][]string{"node": f.Nodes})
	if !f.Since.IsZero() {
		q.Set("since", strconv.FormatInt(f.Since.UnixMilli(), 10))
	}
	if !f.To.IsZero() {
		q.Set("to", strconv.FormatInt(f.To.UnixMilli(), 10))
	}
	if f.WithText {
		q.Set("withContent", "true")
	}
	return q
}

func query(page Page, lists map[string][]string) url.Values {
	q := url.Values{}
	for key, values := range lists {
		for _, v := range values {
			q.Add(key, v)
		}
	}
	page.into(q)
	return q
}
