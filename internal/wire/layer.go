// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// LayerType is a layer of a stack. It is read in any case of letters: the Python client sends small ones.
type LayerType string

// The layers, from top to bottom of a stack.
const (
	LayerDRBD       LayerType = "DRBD"
	LayerLUKS       LayerType = "LUKS"
	LayerNVMe       LayerType = "NVME"
	LayerWritecache LayerType = "WRITECACHE"
	LayerCache      LayerType = "CACHE"
	LayerBCache     LayerType = "BCACHE"
	LayerStorage    LayerType = "STORAGE"
)

// UnmarshalText reads a layer.
func (t *LayerType) UnmarshalText(text []byte) error {
	*t = LayerType(strings.ToUpper(string(text)))
	return nil
}

// ResourceLayer is a layer of a replica's stack and, as children, the layers below it. The field of its type is set.
type ResourceLayer struct {
	Children           []ResourceLayer     `json:"children,omitempty"`
	ResourceNameSuffix string              `json:"resource_name_suffix,omitempty"`
	Type               LayerType           `json:"type"`
	DRBD               *DRBDResource       `json:"drbd,omitempty"`
	LUKS               *LUKSResource       `json:"luks,omitempty"`
	Storage            *StorageResource    `json:"storage,omitempty"`
	NVMe               *NVMeResource       `json:"nvme,omitempty"`
	Writecache         *WritecacheResource `json:"writecache,omitempty"`
	Cache              *CacheResource      `json:"cache,omitempty"`
	BCache             *BCacheResource     `json:"bcache,omitempty"`
}

// Types returns the types of the stack from this layer down its first children.
func (l *ResourceLayer) Types() []LayerType {
	var types []LayerType
	for l != nil {
		types = append(types, l.Type)
		if len(l.Children) == 0 {
			break
		}
		l = &l.Children[0]
	}
	return types
}

// DRBDResource is DRBD's part of a replica. A promotion score of nil is not known; clients take it as bad.
type DRBDResource struct {
	ResourceDefinition *DRBDResourceDefinitionLayer `json:"drbd_resource_definition,omitempty"`
	NodeID             *int32                       `json:"node_id,omitempty"`
	TCPPorts           []int32                      `json:"tcp_ports,omitempty"`
	PeerSlots          *int32                       `json:"peer_slots,omitempty"`
	ALStripes          *int32                       `json:"al_stripes,omitempty"`
	ALSize             *int64                       `json:"al_size,omitempty"`
	Flags              []string                     `json:"flags,omitempty"`
	Volumes            []DRBDVolume                 `json:"drbd_volumes,omitempty"`
	Connections        map[string]DRBDConnection    `json:"connections,omitempty"` // by peer node
	PromotionScore     *int32                       `json:"promotion_score,omitempty"`
	MayPromote         *bool                        `json:"may_promote,omitempty"`
}

// DRBDConnected is the message of a connection that works.
const DRBDConnected = "Connected"

// DRBDConnection is the connection to a peer. Connected is true exactly when the message is [DRBDConnected].
type DRBDConnection struct {
	Connected bool   `json:"connected"`
	Message   string `json:"message,omitempty"`
}

// DRBDVolume is DRBD's part of a volume.
type DRBDVolume struct {
	VolumeDefinition DRBDVolumeDefinition `json:"drbd_volume_definition"`
	DevicePath       string               `json:"device_path,omitempty"`
	BackingDevice    string               `json:"backing_device,omitempty"`
	MetaDisk         string               `json:"meta_disk,omitempty"`
	AllocatedSize    *SizeKiB             `json:"allocated_size_kib,omitempty"`
	UsableSize       *SizeKiB             `json:"usable_size_kib,omitempty"` // net of DRBD's own data
	DiskState        string               `json:"disk_state,omitempty"`
	ExtMetaStorPool  string               `json:"ext_meta_stor_pool,omitempty"`
}

// LUKSResource is LUKS's part of a replica.
type LUKSResource struct {
	Volumes []LUKSVolume `json:"luks_volumes,omitempty"`
}

// LUKSVolume is LUKS's part of a volume.
type LUKSVolume struct {
	VolumeNumber  int32    `json:"volume_number"`
	DevicePath    string   `json:"device_path,omitempty"`
	BackingDevice string   `json:"backing_device,omitempty"`
	AllocatedSize *SizeKiB `json:"allocated_size_kib,omitempty"`
	UsableSize    *SizeKiB `json:"usable_size_kib,omitempty"`
	DiskState     string   `json:"disk_state,omitempty"`
	Opened        bool     `json:"opened"`
	CorruptedKey  bool     `json:"corrupted_key"`
}

// StorageResource is the storage part of a replica.
type StorageResource struct {
	Volumes []StorageVolume `json:"storage_volumes,omitempty"`
}

// StorageVolume is the storage part of a volume.
type StorageVolume struct {
	VolumeNumber  int32    `json:"volume_number"`
	DevicePath    string   `json:"device_path,omitempty"`
	AllocatedSize *SizeKiB `json:"allocated_size_kib,omitempty"`
	UsableSize    *SizeKiB `json:"usable_size_kib,omitempty"`
	DiskState     string   `json:"disk_state,omitempty"`
}

// NVMeResource is NVMe-oF's part of a replica.
type NVMeResource struct {
	Volumes []NVMeVolume `json:"nvme_volumes,omitempty"`
}

// NVMeVolume is NVMe-oF's part of a volume.
type NVMeVolume struct {
	VolumeNumber  int32    `json:"volume_number"`
	DevicePath    string   `json:"device_path,omitempty"`
	BackingDevice string   `json:"backing_device,omitempty"`
	AllocatedSize *SizeKiB `json:"allocated_size_kib,omitempty"`
	UsableSize    *SizeKiB `json:"usable_size_kib,omitempty"`
	DiskState     string   `json:"disk_state,omitempty"`
}

// WritecacheResource is the write cache's part of a replica.
type WritecacheResource struct {
	Volumes []WritecacheVolume `json:"writecache_volumes,omitempty"`
}

// WritecacheVolume is the write cache's part of a volume.
type WritecacheVolume struct {
	VolumeNumber    int32    `json:"volume_number"`
	DevicePath      string   `json:"device_path,omitempty"`
	DevicePathCache string   `json:"device_path_cache,omitempty"`
	AllocatedSize   *SizeKiB `json:"allocated_size_kib,omitempty"`
	UsableSize      *SizeKiB `json:"usable_size_kib,omitempty"`
	DiskState       string   `json:"disk_state,omitempty"`
}

// CacheResource is the cache's part of a replica.
type CacheResource struct {
	Volumes []CacheVolume `json:"cache_volumes,omitempty"`
}

// CacheVolume is the cache's part of a volume.
type CacheVolume struct {
	VolumeNumber    int32    `json:"volume_number"`
	DevicePath      string   `json:"device_path,omitempty"`
	DevicePathCache string   `json:"device_path_cache,omitempty"`
	DeviceMetaCache string   `json:"device_meta_cache,omitempty"`
	AllocatedSize   *SizeKiB `json:"allocated_size_kib,omitempty"`
	UsableSize      *SizeKiB `json:"usable_size_kib,omitempty"`
	DiskState       string   `json:"disk_state,omitempty"`
}

// BCacheResource is bcache's part of a replica.
type BCacheResource struct {
	Volumes []BCacheVolume `json:"bcache_volumes,omitempty"`
}

// BCacheVolume is bcache's part of a volume.
type BCacheVolume struct {
	VolumeNumber    int32    `json:"volume_number"`
	DevicePath      string   `json:"device_path,omitempty"`
	DevicePathCache string   `json:"device_path_cache,omitempty"`
	AllocatedSize   *SizeKiB `json:"allocated_size_kib,omitempty"`
	UsableSize      *SizeKiB `json:"usable_size_kib,omitempty"`
	DiskState       string   `json:"disk_state,omitempty"`
}
