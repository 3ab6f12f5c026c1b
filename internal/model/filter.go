// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

// Filter is what a placement may use (LINSTOR: AutoSelectFilter). In each field nil means
// "not said"; a present empty list is said and empty. Filters are merged field by field, the
// first that says something wins.
type Filter struct {
	PlaceCount           *int32           `json:"place_count,omitempty"`
	AdditionalPlaceCount *int32           `json:"additional_place_count,omitempty"`
	Nodes                []string         `json:"nodes,omitzero"`
	Pools                []string         `json:"pools,omitzero"`
	DisklessPools        []string         `json:"diskless_pools,omitzero"`
	NotPlaceWith         []string         `json:"not_place_with,omitzero"`
	NotPlaceWithRegex    *string          `json:"not_place_with_regex,omitempty"`
	ReplicasOnSame       []string         `json:"replicas_on_same,omitzero"`
	ReplicasOnDifferent  []string         `json:"replicas_on_different,omitzero"`
	XReplicasOnDifferent map[string]int32 `json:"x_replicas_on_different,omitzero"`
	Layers               []string         `json:"layers,omitzero"`
	Providers            []string         `json:"providers,omitzero"`
	DisklessOnRemaining  *bool            `json:"diskless_on_remaining,omitempty"`
	DisklessType         *string          `json:"diskless_type,omitempty"`
	Overprovision        *float64         `json:"overprovision,omitempty"`
	PortCount            *int32           `json:"port_count,omitempty"`
}

// Over returns f with every field that f does not say taken from base.
func (f Filter) Over(base Filter) Filter {
	return Filter{
		PlaceCount:           firstOf(f.PlaceCount, base.PlaceCount),
		AdditionalPlaceCount: firstOf(f.AdditionalPlaceCount, base.AdditionalPlaceCount),
		Nodes:                firstList(f.Nodes, base.Nodes),
		Pools:                firstList(f.Pools, base.Pools),
		DisklessPools:        firstList(f.DisklessPools, base.DisklessPools),
		NotPlaceWith:         firstList(f.NotPlaceWith, base.NotPlaceWith),
		NotPlaceWithRegex:    firstOf(f.NotPlaceWithRegex, base.NotPlaceWithRegex),
		ReplicasOnSame:       firstList(f.ReplicasOnSame, base.ReplicasOnSame),
		ReplicasOnDifferent:  firstList(f.ReplicasOnDifferent, base.ReplicasOnDifferent),
		XReplicasOnDifferent: firstMap(f.XReplicasOnDifferent, base.XReplicasOnDifferent),
		Layers:               firstList(f.Layers, base.Layers),
		Providers:            firstList(f.Providers, base.Providers),
		DisklessOnRemaining:  firstOf(f.DisklessOnRemaining, base.DisklessOnRemaining),
		DisklessType:         firstOf(f.DisklessType, base.DisklessType),
		Overprovision:        firstOf(f.Overprovision, base.Overprovision),
		PortCount:            firstOf(f.PortCount, base.PortCount),
	}
}

func firstOf[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func firstList(a, b []string) []string {
	if a != nil {
		return a
	}
	return b
}

func firstMap(a, b map[string]int32) map[string]int32 {
	if a != nil {
		return a
	}
	return b
}
