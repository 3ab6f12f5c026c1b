// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// ProviderKind is the kind of storage behind a pool. It is read in any case of letters.
type ProviderKind string

// The kinds of storage.
const (
	Diskless  ProviderKind = "DISKLESS"
	LVM       ProviderKind = "LVM"
	LVMThin   ProviderKind = "LVM_THIN"
	ZFS       ProviderKind = "ZFS"
	ZFSThin   ProviderKind = "ZFS_THIN"
	File      ProviderKind = "FILE"
	FileThin  ProviderKind = "FILE_THIN"
	SPDK      ProviderKind = "SPDK"
	EBSTarget ProviderKind = "EBS_TARGET"
	EBSInit   ProviderKind = "EBS_INIT"
)

// UnmarshalText reads a kind.
func (k *ProviderKind) UnmarshalText(text []byte) error {
	*k = ProviderKind(strings.ToUpper(string(text)))
	return nil
}

// Keys of [StoragePool.StaticTraits].
const (
	TraitProvisioning      = "Provisioning" // Thin or Fat
	TraitSupportsSnapshots = "SupportsSnapshots"
	TraitAllocationUnit    = "AllocationUnit" // KiB, as a decimal string
)

// StoragePool is a place for volumes on one node.
type StoragePool struct {
	StoragePoolName   string            `json:"storage_pool_name"`
	NodeName          string            `json:"node_name,omitempty"`
	ProviderKind      ProviderKind      `json:"provider_kind"`
	Props             Properties        `json:"props,omitempty"`
	StaticTraits      map[string]string `json:"static_traits,omitempty"`
	FreeCapacity      *SizeKiB          `json:"free_capacity,omitempty"`  // nil: not known
	TotalCapacity     *SizeKiB          `json:"total_capacity,omitempty"` // nil: not known
	FreeSpaceMgrName  string            `json:"free_space_mgr_name"`      // <node>;<pool>, or the shared name
	UUID              string            `json:"uuid,omitempty"`
	Reports           RcList            `json:"reports,omitempty"`
	SupportsSnapshots bool              `json:"supports_snapshots"`
	SharedSpace       string            `json:"shared_space,omitempty"`
	ExternalLocking   bool              `json:"external_locking"`
}

// StoragePoolCreate adds a pool to a node. FreeSpaceMgrName is an older name for SharedSpace.
type StoragePoolCreate struct {
	StoragePoolName  string       `json:"storage_pool_name,omitempty"`
	ProviderKind     ProviderKind `json:"provider_kind,omitempty"`
	Props            Properties   `json:"props,omitempty"`
	FreeSpaceMgrName string       `json:"free_space_mgr_name,omitempty"`
	SharedSpace      string       `json:"shared_space,omitempty"`
	ExternalLocking  *bool        `json:"external_locking,omitempty"`
}

// StoragePoolModify changes a pool's properties.
type StoragePoolModify struct {
	PropsModify
}

// StoragePoolDefinition is what pools of one name on different nodes share.
type StoragePoolDefinition struct {
	StoragePoolName string     `json:"storage_pool_name"`
	Props           Properties `json:"props,omitempty"`
}

// StoragePoolDefinitionModify changes a pool definition's properties.
type StoragePoolDefinitionModify struct {
	PropsModify
}

// PhysicalStorage is a size and kind of unused device and the nodes that have such.
type PhysicalStorage struct {
	Size       int64                              `json:"size"` // bytes
	Rotational bool                               `json:"rotational"`
	Nodes      map[string][]PhysicalStorageDevice `json:"nodes,omitempty"`
}

// PhysicalStorageDevice is one unused device.
type PhysicalStorageDevice struct {
	Device string `json:"device,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
}

// PhysicalStorageNode is one unused device of a known node.
type PhysicalStorageNode struct {
	Size       int64  `json:"size"` // bytes
	Rotational bool   `json:"rotational"`
	Device     string `json:"device,omitempty"`
	Model      string `json:"model,omitempty"`
	Serial     string `json:"serial,omitempty"`
	WWN        string `json:"wwn,omitempty"`
}

// PhysicalStorageCreate makes a backing pool of devices and, when WithStoragePool names one, a storage pool on it.
type PhysicalStorageCreate struct {
	ProviderKind         ProviderKind                `json:"provider_kind,omitempty"`
	DevicePaths          []string                    `json:"device_paths,omitempty"`
	RaidLevel            string                      `json:"raid_level,omitempty"`
	PoolName             string                      `json:"pool_name,omitempty"`
	VDOEnable            *bool                       `json:"vdo_enable,omitempty"`
	VDOSlabSizeKiB       *SizeKiB                    `json:"vdo_slab_size_kib,omitempty"`
	VDOLogicalSizeKiB    *SizeKiB                    `json:"vdo_logical_size_kib,omitempty"`
	WithStoragePool      *PhysicalStoragePoolRequest `json:"with_storage_pool,omitempty"`
	SED                  *bool                       `json:"sed,omitempty"`
	PVCreateArguments    []string                    `json:"pv_create_arguments,omitempty"`
	VGCreateArguments    []string                    `json:"vg_create_arguments,omitempty"`
	LVCreateArguments    []string                    `json:"lv_create_arguments,omitempty"`
	ZpoolCreateArguments []string                    `json:"zpool_create_arguments,omitempty"`
}

// PhysicalStoragePoolRequest is the storage pool to make on new backing. An empty name asks for none.
type PhysicalStoragePoolRequest struct {
	Name            string     `json:"name,omitempty"`
	Props           Properties `json:"props,omitempty"`
	SharedSpace     string     `json:"shared_space,omitempty"`
	ExternalLocking *bool      `json:"external_locking,omitempty"`
}
