// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Flags of definitions, and of resources and volumes where the name is the same.
const (
	FlagDelete        = "DELETE"
	FlagRestoreTarget = "RESTORE_TARGET"
	FlagCloning       = "CLONING"
	FlagFailed        = "FAILED"
	FlagEncrypted     = "ENCRYPTED"
	FlagResize        = "RESIZE"
	FlagGrossSize     = "GROSS_SIZE"
	FlagResizeShrink  = "RESIZE_SHRINK"
)

// ResourceDefinition is what all replicas of a resource share.
type ResourceDefinition struct {
	Name              string                    `json:"name"`
	ExternalName      string                    `json:"external_name,omitempty"`
	Props             Properties                `json:"props,omitempty"`
	Flags             []string                  `json:"flags,omitempty"`
	LayerData         []ResourceDefinitionLayer `json:"layer_data,omitempty"` // top to bottom
	UUID              string                    `json:"uuid,omitempty"`
	ResourceGroupName string                    `json:"resource_group_name"`
	VolumeDefinitions []VolumeDefinition        `json:"volume_definitions,omitempty"` // only where asked for
}

// ResourceDefinitionLayer is a layer of a definition. Only DRBD has data, and only once there is a resource.
type ResourceDefinitionLayer struct {
	Type LayerType                    `json:"type"`
	Data *DRBDResourceDefinitionLayer `json:"data,omitempty"`
}

// DRBDResourceDefinitionLayer is DRBD's part of a definition. Clients index peer_slots, port and secret.
type DRBDResourceDefinitionLayer struct {
	ResourceNameSuffix string   `json:"resource_name_suffix,omitempty"`
	PeerSlots          int32    `json:"peer_slots"`
	ALStripes          *int32   `json:"al_stripes,omitempty"`
	ALStripeSize       *SizeKiB `json:"al_stripe_size_kib,omitempty"`
	Port               int32    `json:"port"`
	TransportType      string   `json:"transport_type,omitempty"`
	Secret             string   `json:"secret"`
	Down               bool     `json:"down"`
}

// ResourceDefinitionCreate adds a definition.
type ResourceDefinitionCreate struct {
	DrbdPort           *Int32                `json:"drbd_port,omitempty"`
	DrbdSecret         Secret                `json:"drbd_secret,omitempty"`
	DrbdPeerSlots      *Int32                `json:"drbd_peer_slots,omitempty"`
	DrbdTransportType  string                `json:"drbd_transport_type,omitempty"`
	ResourceDefinition NewResourceDefinition `json:"resource_definition"`
}

// NewResourceDefinition is the definition to add. With an external name the name may be left to the server.
type NewResourceDefinition struct {
	Name              string         `json:"name,omitempty"`
	ExternalName      string         `json:"external_name,omitempty"`
	Props             Properties     `json:"props,omitempty"`
	LayerData         []LayerRequest `json:"layer_data,omitempty"`
	ResourceGroupName string         `json:"resource_group_name,omitempty"`
}

// LayerRequest asks for a layer.
type LayerRequest struct {
	Type LayerType `json:"type"`
}

// ResourceDefinitionModify changes what it names of a definition.
type ResourceDefinitionModify struct {
	PropsModify
	DrbdPort      *Int32      `json:"drbd_port,omitempty"`
	DrbdPeerSlots *Int32      `json:"drbd_peer_slots,omitempty"`
	LayerStack    []LayerType `json:"layer_stack,omitempty"`
	ResourceGroup string      `json:"resource_group,omitempty"`
}

// ResourceDefinitionSyncStatus says whether all replicas hold the same data.
type ResourceDefinitionSyncStatus struct {
	SyncedOnAll bool `json:"synced_on_all"`
}

// ResourceDefinitionCloneRequest starts a clone.
type ResourceDefinitionCloneRequest struct {
	Name              string      `json:"name,omitempty"`
	ExternalName      string      `json:"external_name,omitempty"`
	UseZFSClone       *bool       `json:"use_zfs_clone,omitempty"`
	LayerList         []LayerType `json:"layer_list,omitempty"`
	VolumePassphrases []Secret    `json:"volume_passphrases,omitempty"`
	ResourceGroup     string      `json:"resource_group,omitempty"`
	PropsModify
}

// ResourceDefinitionCloneStarted answers a clone request, also a refused one.
type ResourceDefinitionCloneStarted struct {
	Location   string `json:"location"`
	SourceName string `json:"source_name"`
	CloneName  string `json:"clone_name"`
	Messages   RcList `json:"messages,omitempty"`
}

// States of a clone.
const (
	CloneComplete = "COMPLETE"
	CloneCloning  = "CLONING"
	CloneFailed   = "FAILED"
)

// ResourceDefinitionCloneStatus says how far a clone is. The sizes and the problem are Holdfast's own.
type ResourceDefinitionCloneStatus struct {
	Status  string  `json:"status"`
	Done    SizeKiB `json:"done_kib"`  // of the content
	Total   SizeKiB `json:"total_kib"` // all of the content
	Problem string  `json:"problem,omitempty"`
}

// VolumeDefinition is what all replicas of a volume share.
type VolumeDefinition struct {
	VolumeNumber int32                   `json:"volume_number"`
	Size         SizeKiB                 `json:"size_kib"`
	Props        Properties              `json:"props,omitempty"`
	Flags        []string                `json:"flags,omitempty"`
	LayerData    []VolumeDefinitionLayer `json:"layer_data,omitempty"`
	UUID         string                  `json:"uuid,omitempty"`
}

// VolumeDefinitionLayer is a layer of a volume definition. Only DRBD has data.
type VolumeDefinitionLayer struct {
	Type LayerType             `json:"type"`
	Data *DRBDVolumeDefinition `json:"data,omitempty"`
}

// DRBDVolumeDefinition is DRBD's part of a volume definition.
type DRBDVolumeDefinition struct {
	ResourceNameSuffix string `json:"resource_name_suffix,omitempty"`
	VolumeNumber       int32  `json:"volume_number"`
	MinorNumber        int32  `json:"minor_number"`
}

// VolumeDefinitionCreate adds a volume definition.
type VolumeDefinitionCreate struct {
	VolumeDefinition NewVolumeDefinition `json:"volume_definition"`
	DrbdMinorNumber  *Int32              `json:"drbd_minor_number,omitempty"`
	Passphrase       Secret              `json:"passphrase,omitempty"`
}

// NewVolumeDefinition is the volume definition to add. Without a number it takes the lowest free one.
type NewVolumeDefinition struct {
	VolumeNumber *Int32     `json:"volume_number,omitempty"`
	Size         *SizeKiB   `json:"size_kib,omitempty"`
	Props        Properties `json:"props,omitempty"`
	Flags        []string   `json:"flags,omitempty"`
}

// VolumeDefinitionModify changes size, properties and flags. A flag sets; a flag with a leading minus clears.
type VolumeDefinitionModify struct {
	Size *SizeKiB `json:"size_kib,omitempty"`
	PropsModify
	Flags []string `json:"flags,omitempty"`
}

// VolumeDefinitionModifyPassphrase changes the passphrase of an encrypted volume.
type VolumeDefinitionModifyPassphrase struct {
	NewPassphrase Secret `json:"new_passphrase,omitempty"`
}
