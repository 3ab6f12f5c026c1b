// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/json"

// Volume is one volume of a replica.
type Volume struct {
	VolumeNumber    int32         `json:"volume_number"`
	StoragePoolName string        `json:"storage_pool_name,omitempty"`
	ProviderKind    ProviderKind  `json:"provider_kind,omitempty"`
	DevicePath      string        `json:"device_path,omitempty"`        // of the top layer
	AllocatedSize   *SizeKiB      `json:"allocated_size_kib,omitempty"` // nil: diskless or not known
	UsableSize      *SizeKiB      `json:"usable_size_kib,omitempty"`
	Props           Properties    `json:"props,omitempty"`
	Flags           []string      `json:"flags,omitempty"`
	State           *VolumeState  `json:"state,omitempty"`
	LayerDataList   []VolumeLayer `json:"layer_data_list,omitempty"` // top to bottom, storage last
	UUID            string        `json:"uuid,omitempty"`
	Reports         RcList        `json:"reports,omitempty"`
}

// Disk states, as DRBD names them.
const (
	DiskUpToDate     = "UpToDate"
	DiskDiskless     = "Diskless"
	DiskInconsistent = "Inconsistent"
	DiskOutdated     = "Outdated"
	DiskConsistent   = "Consistent"
	DiskFailed       = "Failed"
	DiskDUnknown     = "DUnknown"
)

// VolumeState is what the node last said.
type VolumeState struct {
	DiskState         string                      `json:"disk_state,omitempty"`
	ReplicationStates map[string]ReplicationState `json:"replication_states,omitempty"` // by peer node
}

// ReplicationState says what goes on between a volume and its peer.
type ReplicationState struct {
	ReplicationState string   `json:"replication_state,omitempty"`
	DonePercentage   *float64 `json:"done_percentage,omitempty"`
}

// VolumeModify changes a volume's properties.
type VolumeModify struct {
	PropsModify
}

// VolumeLayer is a layer of a volume. Data is a value, never a pointer: [DRBDVolume], [LUKSVolume], [StorageVolume],
// [NVMeVolume], [WritecacheVolume], [CacheVolume] or [BCacheVolume]; nil is left out.
type VolumeLayer struct {
	Type LayerType       `json:"type"`
	Data VolumeLayerData `json:"data,omitempty"`
}

// VolumeLayerData is the data of a volume layer.
type VolumeLayerData interface {
	layerType() LayerType
}

func (DRBDVolume) layerType() LayerType       { return LayerDRBD }
func (LUKSVolume) layerType() LayerType       { return LayerLUKS }
func (StorageVolume) layerType() LayerType    { return LayerStorage }
func (NVMeVolume) layerType() LayerType       { return LayerNVMe }
func (WritecacheVolume) layerType() LayerType { return LayerWritecache }
func (CacheVolume) layerType() LayerType      { return LayerCache }
func (BCacheVolume) layerType() LayerType     { return LayerBCache }

// NewVolumeLayer returns the layer that data belongs to.
func NewVolumeLayer(data VolumeLayerData) VolumeLayer {
	return VolumeLayer{Type: data.layerType(), Data: data}
}

// UnmarshalJSON reads a layer. The data of an unknown type is left out: one odd layer must not hide a whole list.
func (l *VolumeLayer) UnmarshalJSON(raw []byte) error {
	var shape struct {
		Type LayerType       `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return err
	}
	*l = VolumeLayer{Type: shape.Type}
	if len(shape.Data) == 0 || string(shape.Data) == "null" {
		return nil
	}
	var err error
	switch shape.Type {
	case LayerDRBD:
		l.Data, err = layerData[DRBDVolume](shape.Data)
	case LayerLUKS:
		l.Data, err = layerData[LUKSVolume](shape.Data)
	case LayerStorage:
		l.Data, err = layerData[StorageVolume](shape.Data)
	case LayerNVMe:
		l.Data, err = layerData[NVMeVolume](shape.Data)
	case LayerWritecache:
		l.Data, err = layerData[WritecacheVolume](shape.Data)
	case LayerCache:
		l.Data, err = layerData[CacheVolume](shape.Data)
	case LayerBCache:
		l.Data, err = layerData[BCacheVolume](shape.Data)
	}
	return err
}

func layerData[T VolumeLayerData](raw []byte) (VolumeLayerData, error) {
	var data T
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	return data, nil
}
