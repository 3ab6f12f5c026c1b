// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Flags of resources. Each is sent with the flags that it implies: a tie-breaker is DISKLESS, DRBD_DISKLESS and
// TIE_BREAKER.
const (
	FlagClean                 = "CLEAN"
	FlagDiskless              = "DISKLESS"
	FlagDRBDDiskless          = "DRBD_DISKLESS"
	FlagTieBreaker            = "TIE_BREAKER"
	FlagNVMeInitiator         = "NVME_INITIATOR"
	FlagDiskAddRequested      = "DISK_ADD_REQUESTED"
	FlagDiskAdding            = "DISK_ADDING"
	FlagDiskRemoveRequested   = "DISK_REMOVE_REQUESTED"
	FlagDiskRemoving          = "DISK_REMOVING"
	FlagInactive              = "INACTIVE"
	FlagReactivate            = "REACTIVATE"
	FlagInactivePermanently   = "INACTIVE_PERMANENTLY"
	FlagInactivating          = "INACTIVATING"
	FlagRestoreFromSnapshot   = "RESTORE_FROM_SNAPSHOT"
	FlagDRBDDelete            = "DRBD_DELETE"
	FlagInactiveBeforeEvicted = "INACTIVE_BEFORE_EVICTION"
)

// Resource is a replica of a definition on a node. LayerObject must be set: clients dereference it.
type Resource struct {
	Name            string              `json:"name"`
	NodeName        string              `json:"node_name"`
	Props           Properties          `json:"props,omitempty"`
	EffectiveProps  EffectiveProperties `json:"effective_props,omitempty"`
	Flags           []string            `json:"flags,omitempty"`
	LayerObject     *ResourceLayer      `json:"layer_object,omitempty"`
	State           *ResourceState      `json:"state,omitempty"` // nil: the node has not reported
	UUID            string              `json:"uuid,omitempty"`
	CreateTimestamp *int64              `json:"create_timestamp,omitempty"` // milliseconds since the epoch
}

// ResourceState is what the node last said.
type ResourceState struct {
	InUse *bool `json:"in_use,omitempty"` // nil: not known
}

// ResourceWithVolumes is a replica as the view of all resources shows it.
type ResourceWithVolumes struct {
	Resource

	Volumes    []Volume `json:"volumes,omitempty"`
	SharedName string   `json:"shared_name,omitempty"`
}

// ResourceCreate adds a replica.
type ResourceCreate struct {
	Resource         NewResource `json:"resource"`
	LayerList        []LayerType `json:"layer_list,omitempty"`
	DrbdNodeID       *Int32      `json:"drbd_node_id,omitempty"`
	DrbdTCPPortCount *Int32      `json:"drbd_tcp_port_count,omitempty"`
	DrbdTCPPorts     []Int32     `json:"drbd_tcp_ports,omitempty"`
	SnapNames        []string    `json:"snap_names,omitempty"`
	CopyAllSnaps     *bool       `json:"copy_all_snaps,omitempty"`
	DrbdClient       *bool       `json:"drbd_client,omitempty"`
}

// NewResource is the replica to add. The path of the call may name resource and node instead.
type NewResource struct {
	Name     string     `json:"name,omitempty"`
	NodeName string     `json:"node_name,omitempty"`
	Props    Properties `json:"props,omitempty"`
	Flags    []string   `json:"flags,omitempty"`
}

// ResourceModify changes a replica.
type ResourceModify struct {
	PropsModify
	DrbdTiebreaker *bool `json:"drbd_tiebreaker,omitempty"`
	DrbdClient     *bool `json:"drbd_client,omitempty"`
}

// ResourceMakeAvailable asks that a resource can be used on a node, with a disk or without.
type ResourceMakeAvailable struct {
	LayerList    []LayerType `json:"layer_list,omitempty"`
	Diskful      *bool       `json:"diskful,omitempty"`
	DrbdTCPPorts []Int32     `json:"drbd_tcp_ports,omitempty"`
	SnapNames    []string    `json:"snap_names,omitempty"`
	CopyAllSnaps *bool       `json:"copy_all_snaps,omitempty"`
}

// Operations of [ToggleDiskRequest].
const (
	ToggleIntoDiskful  = "INTO_DRBD_DISKFUL"
	ToggleIntoClient   = "INTO_DRBD_CLIENT"
	ToggleIntoDiskless = "INTO_DRBD_DISKLESS"
)

// ToggleDiskRequest gives a replica a disk or takes it away.
type ToggleDiskRequest struct {
	Operation   string      `json:"operation,omitempty"`
	StoragePool string      `json:"storage_pool,omitempty"`
	MigrateFrom string      `json:"migrate_from,omitempty"`
	LayerList   []LayerType `json:"layer_list,omitempty"`
}

// ToggleDiskDiskful is the body of the older calls that give a replica a disk.
type ToggleDiskDiskful struct {
	LayerList []LayerType `json:"layer_list,omitempty"`
}

// NodeConnection is what all resources between two nodes share.
type NodeConnection struct {
	NodeA string     `json:"node_a"`
	NodeB string     `json:"node_b"`
	Props Properties `json:"props,omitempty"`
}

// NodeConnectionModify changes a node connection.
type NodeConnectionModify struct {
	PropsModify
}

// ResourceConnection is the connection of two replicas.
type ResourceConnection struct {
	NodeA          string     `json:"node_a"`
	NodeB          string     `json:"node_b"`
	Props          Properties `json:"props,omitempty"`
	Flags          []string   `json:"flags,omitempty"`
	Port           *int32     `json:"port,omitempty"`
	DrbdProxyPortA *int32     `json:"drbd_proxy_port_a,omitempty"`
	DrbdProxyPortB *int32     `json:"drbd_proxy_port_b,omitempty"`
}

// ResourceConnectionModify changes a resource connection.
type ResourceConnectionModify struct {
	PropsModify
}
