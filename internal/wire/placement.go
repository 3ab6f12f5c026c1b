// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// AutoSelectFilter says where replicas may go. In a request a nil field is absent, and takes the group's value; a list
// that was sent empty is present, and overrides it.
type AutoSelectFilter struct {
	PlaceCount              *Int32           `json:"place_count,omitempty"`
	AdditionalPlaceCount    *Int32           `json:"additional_place_count,omitempty"`
	NodeNameList            []string         `json:"node_name_list,omitzero"`
	StoragePool             string           `json:"storage_pool,omitempty"`
	StoragePoolList         []string         `json:"storage_pool_list,omitzero"`
	StoragePoolDisklessList []string         `json:"storage_pool_diskless_list,omitzero"`
	NotPlaceWithRsc         []string         `json:"not_place_with_rsc,omitzero"`
	NotPlaceWithRscRegex    *string          `json:"not_place_with_rsc_regex,omitempty"`
	ReplicasOnSame          []string         `json:"replicas_on_same,omitzero"`
	ReplicasOnDifferent     []string         `json:"replicas_on_different,omitzero"`
	XReplicasOnDifferent    map[string]Int32 `json:"x_replicas_on_different_map,omitzero"`
	LayerStack              []LayerType      `json:"layer_stack,omitzero"`
	ProviderList            []ProviderKind   `json:"provider_list,omitzero"`
	DisklessOnRemaining     *bool            `json:"diskless_on_remaining,omitempty"`
	DisklessType            string           `json:"diskless_type,omitempty"`
	Overprovision           *float64         `json:"overprovision,omitempty"`
	PortCount               *Int32           `json:"port_count,omitempty"`
}

// Pools returns the storage pools asked for: the list, or the older single name where there is no list. It is nil when
// the request named none.
func (f AutoSelectFilter) Pools() []string {
	if f.StoragePoolList == nil && f.StoragePool != "" {
		return []string{f.StoragePool}
	}
	return f.StoragePoolList
}

// Shown returns the filter as responses show it: without empty lists, and with the single pool name where the list has
// one element.
func (f AutoSelectFilter) Shown() AutoSelectFilter {
	f.StoragePoolList = filled(f.Pools())
	f.StoragePool = ""
	if len(f.StoragePoolList) == 1 {
		f.StoragePool = f.StoragePoolList[0]
	}
	f.NodeNameList = filled(f.NodeNameList)
	f.StoragePoolDisklessList = filled(f.StoragePoolDisklessList)
	f.NotPlaceWithRsc = filled(f.NotPlaceWithRsc)
	f.ReplicasOnSame = filled(f.ReplicasOnSame)
	f.ReplicasOnDifferent = filled(f.ReplicasOnDifferent)
	f.LayerStack = filled(f.LayerStack)
	f.ProviderList = filled(f.ProviderList)
	if len(f.XReplicasOnDifferent) == 0 {
		f.XReplicasOnDifferent = nil
	}
	if f.NotPlaceWithRscRegex != nil && *f.NotPlaceWithRscRegex == "" {
		f.NotPlaceWithRscRegex = nil
	}
	return f
}

func filled[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// AutoPlaceRequest adds replicas of a resource where the placer finds best.
type AutoPlaceRequest struct {
	DisklessOnRemaining *bool             `json:"diskless_on_remaining,omitempty"`
	SelectFilter        *AutoSelectFilter `json:"select_filter,omitempty"`
	LayerList           []LayerType       `json:"layer_list,omitzero"`
	SnapNames           []string          `json:"snap_names,omitempty"`
	CopyAllSnaps        *bool             `json:"copy_all_snaps,omitempty"`
}

// QuerySizeInfoRequest asks how large a volume a resource group could spawn now, or with another filter.
type QuerySizeInfoRequest struct {
	SelectFilter            *AutoSelectFilter `json:"select_filter,omitempty"`
	IgnoreCacheOlderThanSec *Int32            `json:"ignore_cache_older_than_sec,omitempty"`
}

// QuerySizeInfoResponse has either space information or reports that say why there is none.
type QuerySizeInfoResponse struct {
	SpaceInfo *SpaceInfo `json:"space_info,omitempty"`
	Reports   RcList     `json:"reports,omitempty"`
}

// SpaceInfo is what a group could spawn.
type SpaceInfo struct {
	MaxVlmSize                            SizeKiB       `json:"max_vlm_size_in_kib"`
	AvailableSize                         *SizeKiB      `json:"available_size_in_kib,omitempty"`
	Capacity                              *SizeKiB      `json:"capacity_in_kib,omitempty"`
	DefaultMaxOversubscriptionRatio       *float64      `json:"default_max_oversubscription_ratio,omitempty"`
	MaxOversubscriptionRatio              *float64      `json:"max_oversubscription_ratio,omitempty"`
	MaxFreeCapacityOversubscriptionRatio  *float64      `json:"max_free_capacity_oversubscription_ratio,omitempty"`
	MaxTotalCapacityOversubscriptionRatio *float64      `json:"max_total_capacity_oversubscription_ratio,omitempty"`
	NextSpawnResult                       []SpawnResult `json:"next_spawn_result,omitempty"`
}

// SpawnResult is a pool that the next spawn would use.
type SpawnResult struct {
	NodeName                      string   `json:"node_name"`
	StorPoolName                  string   `json:"stor_pool_name"`
	OversubscriptionRatio         *float64 `json:"stor_pool_oversubscription_ratio,omitempty"`
	FreeCapacityOversubscription  *float64 `json:"stor_pool_free_capacity_oversubscription_ratio,omitempty"`
	TotalCapacityOversubscription *float64 `json:"stor_pool_total_capacity_oversubscription_ratio,omitempty"`
}

// QueryAllSizeInfoRequest asks the same of all groups.
type QueryAllSizeInfoRequest struct {
	SelectFilter            *AutoSelectFilter `json:"select_filter,omitempty"`
	IgnoreCacheOlderThanSec *Int32            `json:"ignore_cache_older_than_sec,omitempty"`
}

// QueryAllSizeInfoResponse maps groups to their answers.
type QueryAllSizeInfoResponse struct {
	Result  map[string]QuerySizeInfoResponse `json:"result,omitempty"`
	Reports RcList                           `json:"reports,omitempty"`
}

// MaxVolumeSizes lists, largest first, the pools that fit a filter.
type MaxVolumeSizes struct {
	Candidates                      []Candidate `json:"candidates,omitempty"`
	DefaultMaxOversubscriptionRatio *float64    `json:"default_max_oversubscription_ratio,omitempty"`
}

// Candidate is a pool name, the nodes that a volume would use, and the largest volume that fits.
type Candidate struct {
	StoragePool   string   `json:"storage_pool,omitempty"`
	MaxVolumeSize SizeKiB  `json:"max_volume_size_kib"`
	NodeNames     []string `json:"node_names,omitempty"`
	AllThin       bool     `json:"all_thin"`
}
