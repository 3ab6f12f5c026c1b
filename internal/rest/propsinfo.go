// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// propsInfo makes the read of the properties that may be set at a scope.
func propsInfo(scope props.Scope) reader {
	return func(_ *Server, q *request) (body, error) { return q.propsInfo(describe(scope)), nil }
}

// noPropsInfo describes the properties of what has none.
func noPropsInfo(_ *Server, q *request) (body, error) { return q.propsInfo(wire.PropsInfoMap{}), nil }

// poolDefinitionInfo describes what may be set for all pools of a name: what may be set for one, but for where its volumes
// lie.
func (s *Server) poolDefinitionInfo(q *request) (body, error) {
	info := describe(props.Pool)
	for _, key := range props.BackendKeys() {
		delete(info, key)
	}
	return q.propsInfo(info), nil
}

// allPropsInfo describes the properties of every kind of object, under the names that the API has for them.
func (s *Server) allPropsInfo(q *request) (body, error) {
	out := make(wire.PropsInfoAll)
	all := make(wire.PropsInfoMap)
	for name, scope := range map[string]props.Scope{
		"controller": props.Controller, "node": props.Node, "storagepool": props.Pool, "resource-group": props.Group,
		"volume-group": props.VolumeGroup, "resource-definition": props.Definition, "volume-definition": props.VolumeDefinition,
		"resource": props.Resource, "volume": props.Volume, "node-connection": props.NodeConnection,
		"resource-connection": props.ResourceConnection,
	} {
		out[name] = describe(scope)
		maps.Copy(all, out[name])
	}
	if q.wantsLists() {
		return q.propsInfo(all), nil
	}
	return value{out}, nil
}

func describe(scope props.Scope) wire.PropsInfoMap {
	out := make(wire.PropsInfoMap)
	for info := range props.All(scope) {
		if !info.Internal {
			out[info.Key] = wire.PropsInfo{
				Info: info.Text, PropType: info.Type.String(), Value: info.Allowed(), Dflt: info.Default, Unit: info.Unit,
			}
		}
	}
	return out
}

// propsInfo answers with descriptions, as the client reads them.
func (q *request) propsInfo(info wire.PropsInfoMap) body {
	if !q.wantsLists() {
		return value{info}
	}
	list := make([]wire.PropsInfo, 0, len(info))
	for _, key := range slices.Sorted(maps.Keys(info)) {
		described := info[key]
		described.Key = key
		list = append(list, described)
	}
	return value{list}
}

// wantsLists tells whether the client reads descriptions of properties as a list: the API's specification has a map, and
// clients made of it read that; golinstor alone reads a list. It is known by the name that it gives itself, which is Go's
// own or that of the program around it.
func (q *request) wantsLists() bool {
	agent := strings.ToLower(q.Header.Get("User-Agent"))
	return strings.HasPrefix(agent, "go-http-client") || strings.HasPrefix(agent, "linstor-") ||
		strings.HasPrefix(agent, "piraeus-") || strings.Contains(agent, "golinstor")
}
