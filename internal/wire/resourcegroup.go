// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// DefaultResourceGroup always exists and cannot be deleted.
const DefaultResourceGroup = "DfltRscGrp"

// ResourceGroup is a template for resource definitions.
type ResourceGroup struct {
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Props        Properties        `json:"props,omitempty"`
	SelectFilter *AutoSelectFilter `json:"select_filter,omitempty"`
	UUID         string            `json:"uuid,omitempty"`
	PeerSlots    *int32            `json:"peer_slots,omitempty"`
}

// ResourceGroupCreate adds a group.
type ResourceGroupCreate struct {
	Name         string            `json:"name,omitempty"`
	Description  *string           `json:"description,omitempty"`
	Props        Properties        `json:"props,omitempty"`
	SelectFilter *AutoSelectFilter `json:"select_filter,omitempty"`
	PeerSlots    *Int32            `json:"peer_slots,omitempty"`
}

// ResourceGroupModify changes what it names of a group, and of the group's filter.
type ResourceGroupModify struct {
	Description *string `json:"description,omitempty"`
	PropsModify
	SelectFilter *AutoSelectFilter `json:"select_filter,omitempty"`
	PeerSlots    *Int32            `json:"peer_slots,omitempty"`
	SnapNames    []string          `json:"snap_names,omitempty"`
	CopyAllSnaps *bool             `json:"copy_all_snaps,omitempty"`
}

// ResourceGroupSpawn makes a definition, its volume definitions and its replicas from a group.
type ResourceGroupSpawn struct {
	ResourceDefinitionName         string            `json:"resource_definition_name,omitempty"`
	ResourceDefinitionExternalName string            `json:"resource_definition_external_name,omitempty"`
	VolumeSizes                    []SizeKiB         `json:"volume_sizes,omitempty"`
	SelectFilter                   *AutoSelectFilter `json:"select_filter,omitempty"`
	Partial                        *bool             `json:"partial,omitempty"`
	DefinitionsOnly                *bool             `json:"definitions_only,omitempty"`
	PeerSlots                      *Int32            `json:"peer_slots,omitempty"`
	VolumePassphrases              []Secret          `json:"volume_passphrases,omitempty"`
	ResourceDefinitionProps        Properties        `json:"resource_definition_props,omitempty"`
}

// ResourceGroupAdjust brings the resources of a group to the group's filter.
type ResourceGroupAdjust struct {
	SelectFilter *AutoSelectFilter `json:"select_filter,omitempty"`
	SnapNames    []string          `json:"snap_names,omitempty"`
	CopyAllSnaps *bool             `json:"copy_all_snaps,omitempty"`
}

// VolumeGroup is a template for one volume of each definition that a group spawns.
type VolumeGroup struct {
	VolumeNumber int32      `json:"volume_number"`
	Props        Properties `json:"props,omitempty"`
	UUID         string     `json:"uuid,omitempty"`
	Flags        []string   `json:"flags,omitempty"`
}

// VolumeGroupCreate adds a volume group. Without a number it takes the lowest free one.
type VolumeGroupCreate struct {
	VolumeNumber *Int32     `json:"volume_number,omitempty"`
	Props        Properties `json:"props,omitempty"`
	Flags        []string   `json:"flags,omitempty"`
}

// VolumeGroupModify changes properties and flags. A flag sets; a flag with a leading minus clears.
type VolumeGroupModify struct {
	PropsModify
	Flags []string `json:"flags,omitempty"`
}
