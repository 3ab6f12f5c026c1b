// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Flags of snapshots.
const (
	FlagSuccessful       = "SUCCESSFUL"
	FlagFailedDeployment = "FAILED_DEPLOYMENT"
	FlagFailedDisconnect = "FAILED_DISCONNECT"
)

// Snapshot is a point in time of a resource on some nodes. Props repeats the two other property maps for older clients.
type Snapshot struct {
	Name                    string                     `json:"name"`
	ResourceName            string                     `json:"resource_name"`
	Nodes                   []string                   `json:"nodes,omitempty"`
	Props                   Properties                 `json:"props,omitempty"`
	SnapshotDefinitionProps Properties                 `json:"snapshot_definition_props,omitempty"`
	ResourceDefinitionProps Properties                 `json:"resource_definition_props,omitempty"`
	Flags                   []string                   `json:"flags,omitempty"`
	VolumeDefinitions       []SnapshotVolumeDefinition `json:"volume_definitions,omitempty"`
	UUID                    string                     `json:"uuid,omitempty"`
	Snapshots               []SnapshotNode             `json:"snapshots,omitempty"`
}

// SnapshotVolumeDefinition is a volume of a snapshot.
type SnapshotVolumeDefinition struct {
	VolumeNumber                  int32      `json:"volume_number"`
	Size                          SizeKiB    `json:"size_kib"`
	SnapshotVolumeDefinitionProps Properties `json:"snapshot_volume_definition_props,omitempty"`
	VolumeDefinitionProps         Properties `json:"volume_definition_props,omitempty"`
}

// SnapshotNode is a snapshot on a node.
type SnapshotNode struct {
	SnapshotName    string               `json:"snapshot_name"`
	NodeName        string               `json:"node_name"`
	CreateTimestamp *int64               `json:"create_timestamp,omitempty"` // milliseconds since the epoch
	Flags           []string             `json:"flags,omitempty"`
	UUID            string               `json:"uuid,omitempty"`
	SnapshotProps   Properties           `json:"snapshot_props,omitempty"`
	ResourceProps   Properties           `json:"resource_props,omitempty"`
	SnapshotVolumes []SnapshotVolumeNode `json:"snapshot_volumes,omitempty"`
}

// SnapshotVolumeNode is a volume of a snapshot on a node.
type SnapshotVolumeNode struct {
	UUID                string     `json:"uuid,omitempty"`
	VlmNr               int32      `json:"vlm_nr"`
	Props               Properties `json:"props,omitempty"`
	SnapshotVolumeProps Properties `json:"snapshot_volume_props,omitempty"`
	VolumeProps         Properties `json:"volume_props,omitempty"`
	State               string     `json:"state,omitempty"`
}

// SnapshotCreate takes a snapshot. Without nodes it is taken on all that have a disk.
type SnapshotCreate struct {
	Name                    string     `json:"name,omitempty"`
	ResourceName            string     `json:"resource_name,omitempty"`
	Nodes                   []string   `json:"nodes,omitempty"`
	Props                   Properties `json:"props,omitempty"`
	SnapshotDefinitionProps Properties `json:"snapshot_definition_props,omitempty"`
}

// CreateMultiSnapshotRequest takes several snapshots at one point in time.
type CreateMultiSnapshotRequest struct {
	Snapshots []SnapshotCreate `json:"snapshots,omitempty"`
}

// SnapshotModify changes a snapshot's properties.
type SnapshotModify struct {
	PropsModify
}

// SnapshotRestore restores a snapshot into another definition.
type SnapshotRestore struct {
	ToResource     string            `json:"to_resource,omitempty"`
	Nodes          []string          `json:"nodes,omitempty"`
	StorPoolRename map[string]string `json:"stor_pool_rename,omitempty"`
}

// SnapshotRollback brings a resource back to a snapshot.
type SnapshotRollback struct {
	ZFSRollbackStrategy string `json:"zfs_rollback_strategy,omitempty"`
}
