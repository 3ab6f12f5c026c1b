// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// filterOf reads a filter, field by field: what the request does not say stays unsaid. Layers and providers are kept in
// the upper case that clients compare them in.
func filterOf(f *wire.AutoSelectFilter) model.Filter {
	if f == nil {
		return model.Filter{}
	}
	out := model.Filter{
		PlaceCount:           (*int32)(f.PlaceCount),
		AdditionalPlaceCount: (*int32)(f.AdditionalPlaceCount),
		Nodes:                f.NodeNameList,
		Pools:                f.Pools(),
		DisklessPools:        f.StoragePoolDisklessList,
		NotPlaceWith:         f.NotPlaceWithRsc,
		NotPlaceWithRegex:    f.NotPlaceWithRscRegex,
		ReplicasOnSame:       f.ReplicasOnSame,
		ReplicasOnDifferent:  f.ReplicasOnDifferent,
		Layers:               upper(f.LayerStack),
		Providers:            upper(f.ProviderList),
		DisklessOnRemaining:  f.DisklessOnRemaining,
		Overprovision:        f.Overprovision,
		PortCount:            (*int32)(f.PortCount),
	}
	if f.DisklessType != "" {
		out.DisklessType = &f.DisklessType
	}
	if f.XReplicasOnDifferent != nil {
		out.XReplicasOnDifferent = make(map[string]int32, len(f.XReplicasOnDifferent))
		for k, n := range f.XReplicasOnDifferent {
			out.XReplicasOnDifferent[k] = int32(n)
		}
	}
	return out
}

// upper turns names into plain strings in upper case; nil stays nil.
func upper[S ~string](list []S) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ToUpper(string(s))
	}
	return out
}
