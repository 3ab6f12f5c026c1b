// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import "github.com/holdfast-storage/holdfast/internal/wire"

// Sizes and numbers.
type (
	// SizeKiB is a size in KiB.
	SizeKiB = wire.SizeKiB
	// Int32 is a number of a request.
	Int32 = wire.Int32
	// Int64 is as [Int32], with 64 bits.
	Int64 = wire.Int64
)

// Unlimited is the capacity that a diskless pool shows.
const Unlimited = wire.Unlimited

// RoundUp returns the smallest size in KiB that holds bytes.
func RoundUp(bytes int64) SizeKiB { return wire.RoundUp(bytes) }

// RoundDown returns the largest size in KiB that fits in bytes.
func RoundDown(bytes int64) SizeKiB { return wire.RoundDown(bytes) }

// Answers of calls that change something.
type (
	// RetCode is the number of an API answer: type, operation, object and code in one signed 64-bit mask.
	RetCode = wire.RetCode
	// Rc is one entry of an answer (ApiCallRc in the API): what happened to which object, why, and what to do about it.
	Rc = wire.Rc
	// RcList is the body of every answer that is not data.
	RcList = wire.RcList
)

// Codes that programs most often tell apart. A code carries its type; [Is] ignores operation and object.
const (
	FailExistsNode          = wire.FailExistsNode
	FailExistsNetIf         = wire.FailExistsNetIf
	FailExistsStorPool      = wire.FailExistsStorPool
	FailExistsRscGrp        = wire.FailExistsRscGrp
	FailExistsVlmGrp        = wire.FailExistsVlmGrp
	FailExistsRscDfn        = wire.FailExistsRscDfn
	FailExistsVlmDfn        = wire.FailExistsVlmDfn
	FailExistsRsc           = wire.FailExistsRsc
	FailExistsSnapshotDfn   = wire.FailExistsSnapshotDfn
	FailInUse               = wire.FailInUse
	FailInvldProp           = wire.FailInvldProp
	FailInvldVlmSize        = wire.FailInvldVlmSize
	FailInvldVlmSizes       = wire.FailInvldVlmSizes
	FailNotEnoughFreeSpace  = wire.FailNotEnoughFreeSpace
	FailNotEnoughNodes      = wire.FailNotEnoughNodes
	FailNotFoundCryptKey    = wire.FailNotFoundCryptKey
	FailNotFoundNode        = wire.FailNotFoundNode
	FailNotFoundRsc         = wire.FailNotFoundRsc
	FailNotFoundRscDfn      = wire.FailNotFoundRscDfn
	FailNotFoundRscGrp      = wire.FailNotFoundRscGrp
	FailNotFoundStorPool    = wire.FailNotFoundStorPool
	FailNotFoundStorPoolDfn = wire.FailNotFoundStorPoolDfn
	InfoNoRscSpawned        = wire.InfoNoRscSpawned
	WarnNotFound            = wire.WarnNotFound
	WarnRscAlreadyDeployed  = wire.WarnRscAlreadyDeployed
)

// Properties and the controller.
type (
	// Properties maps full keys, such as DrbdOptions/Net/protocol, to values.
	Properties = wire.Properties
	// PropsModify is part of every modifying request: it sets or replaces keys, deletes keys, and deletes all keys below a namespace.
	PropsModify = wire.PropsModify
	// ControllerPropsModify changes the controller's properties.
	ControllerPropsModify = wire.ControllerPropsModify
	// EffectiveProperties maps keys to the values that hold.
	EffectiveProperties = wire.EffectiveProperties
	// EffectiveProperty is the value that holds, and the values that it hides.
	EffectiveProperty = wire.EffectiveProperty
	// PropertySource is a property value and the kind of object that it comes from.
	PropertySource = wire.PropertySource
	// KeyValueStore is a named bag of properties that a client keeps for itself.
	KeyValueStore = wire.KeyValueStore
	// Job is work that goes on beyond the call that began it.
	Job = wire.Job
	// KeyValueStoreModify changes a key-value store, and makes or removes it with its first and last key.
	KeyValueStoreModify = wire.KeyValueStoreModify
	// ErrorReport is a stored report of a fault of the software.
	ErrorReport = wire.ErrorReport
	// ErrorReportDelete deletes the reports that fit all of its fields.
	ErrorReportDelete = wire.ErrorReportDelete
	// ControllerConfig is the controller's configuration, without secrets.
	ControllerConfig = wire.ControllerConfig
	// ControllerConfigLog is part of [ControllerConfig].
	ControllerConfigLog = wire.ControllerConfigLog
	// LogLevel is a level of logging.
	LogLevel = wire.LogLevel
	// SpaceReport is a text for people about the space of all pools.
	SpaceReport = wire.SpaceReport
	// RemoteList holds what backups can be shipped to, by kind.
	RemoteList = wire.RemoteList
	// ControllerVersion is the first thing that clients ask for.
	ControllerVersion = wire.ControllerVersion
)

// Nodes and their network interfaces.
type (
	// Node is a host.
	Node = wire.Node
	// NodeType is what runs on a node.
	NodeType = wire.NodeType
	// NodeCreate registers a node.
	NodeCreate = wire.NodeCreate
	// NodeModify changes a node's type or properties.
	NodeModify = wire.NodeModify
	// NodeEvacuate moves all resources away from a node.
	NodeEvacuate = wire.NodeEvacuate
	// NodeRestore takes back an eviction or an evacuation.
	NodeRestore = wire.NodeRestore
	// NodeConnection is what all resources between two nodes share.
	NodeConnection = wire.NodeConnection
	// NodeConnectionModify changes a node connection.
	NodeConnectionModify = wire.NodeConnectionModify
	// ConnectionStatus says how the controller stands with a node's agent.
	ConnectionStatus = wire.ConnectionStatus
	// NetInterface is a named address of a node.
	NetInterface = wire.NetInterface
	// NetInterfaceCreate adds an interface.
	NetInterfaceCreate = wire.NetInterfaceCreate
	// NetInterfaceModify changes what it names of an interface.
	NetInterfaceModify = wire.NetInterfaceModify
)

// Types of nodes, and the one status of a node that works.
const (
	NodeController = wire.NodeController
	NodeSatellite  = wire.NodeSatellite
	NodeCombined   = wire.NodeCombined
	NodeAuxiliary  = wire.NodeAuxiliary
	ConnOnline     = wire.ConnOnline
)

// Storage pools.
type (
	// ProviderKind is the kind of storage behind a pool.
	ProviderKind = wire.ProviderKind
	// StoragePool is a place for volumes on one node.
	StoragePool = wire.StoragePool
	// StoragePoolCreate adds a pool to a node.
	StoragePoolCreate = wire.StoragePoolCreate
	// StoragePoolModify changes a pool's properties.
	StoragePoolModify = wire.StoragePoolModify
	// StoragePoolDefinition is what pools of one name on different nodes share.
	StoragePoolDefinition = wire.StoragePoolDefinition
	// StoragePoolDefinitionModify changes a pool definition's properties.
	StoragePoolDefinitionModify = wire.StoragePoolDefinitionModify
	// PhysicalStorage is a size and kind of unused device and the nodes that have such.
	PhysicalStorage = wire.PhysicalStorage
	// PhysicalStorageCreate makes backing storage of unused devices, and a storage pool on it.
	PhysicalStorageCreate = wire.PhysicalStorageCreate
	// PhysicalStoragePoolRequest is the storage pool to make with it.
	PhysicalStoragePoolRequest = wire.PhysicalStoragePoolRequest
	// Orphan is a volume on a host that the controller knows nothing of.
	Orphan = wire.Orphan
)

// Kinds of storage.
const (
	Diskless = wire.Diskless
	LVM      = wire.LVM
	LVMThin  = wire.LVMThin
	ZFS      = wire.ZFS
	ZFSThin  = wire.ZFSThin
	File     = wire.File
	FileThin = wire.FileThin
)

// PropBackingPool is the property of a storage pool that names what lies behind it: a volume group, a volume group and
// a thin pool (vg/thin), a ZFS pool or dataset, or a directory.
const PropBackingPool = "StorDriver/StorPoolName"

// Resource groups and placement.
type (
	// ResourceGroup is a template for resource definitions.
	ResourceGroup = wire.ResourceGroup
	// ResourceGroupCreate adds a group.
	ResourceGroupCreate = wire.ResourceGroupCreate
	// ResourceGroupModify changes what it names of a group, and of the group's filter.
	ResourceGroupModify = wire.ResourceGroupModify
	// ResourceGroupAdjust brings the resources of a group to the group's filter.
	ResourceGroupAdjust = wire.ResourceGroupAdjust
	// ResourceGroupSpawn makes a definition, its volume definitions and its replicas from a group.
	ResourceGroupSpawn = wire.ResourceGroupSpawn
	// VolumeGroup is a template for one volume of each definition that a group spawns.
	VolumeGroup = wire.VolumeGroup
	// VolumeGroupCreate adds a volume group.
	VolumeGroupCreate = wire.VolumeGroupCreate
	// VolumeGroupModify changes properties and flags.
	VolumeGroupModify = wire.VolumeGroupModify
	// AutoSelectFilter says where replicas may go.
	AutoSelectFilter = wire.AutoSelectFilter
	// AutoPlaceRequest adds replicas of a resource where the placer finds best.
	AutoPlaceRequest = wire.AutoPlaceRequest
	// QuerySizeInfoRequest asks how large a volume a resource group could spawn now, or with another filter.
	QuerySizeInfoRequest = wire.QuerySizeInfoRequest
	// QuerySizeInfoResponse has either space information or reports that say why there is none.
	QuerySizeInfoResponse = wire.QuerySizeInfoResponse
	// QueryAllSizeInfoRequest asks the same of all groups.
	QueryAllSizeInfoRequest = wire.QueryAllSizeInfoRequest
	// QueryAllSizeInfoResponse maps groups to their answers.
	QueryAllSizeInfoResponse = wire.QueryAllSizeInfoResponse
	// MaxVolumeSizes lists, largest first, the pools that fit a filter.
	MaxVolumeSizes = wire.MaxVolumeSizes
	// Candidate is a pool name, the nodes that a volume would use, and the largest volume that fits.
	Candidate = wire.Candidate
	// ExplainRequest asks what the next spawn from a group would do, with a filter over that of the group.
	ExplainRequest = wire.ExplainRequest
	// Explanation tells what the next spawn from a group would do, and why.
	Explanation = wire.Explanation
	// ExplainedPick is where a replica would go.
	ExplainedPick = wire.ExplainedPick
	// ExplainedPool tells whether a pool could take a replica.
	ExplainedPool = wire.ExplainedPool
	// SpaceInfo is what a group could spawn.
	SpaceInfo = wire.SpaceInfo
	// SpawnResult is a pool that the next spawn would use.
	SpawnResult = wire.SpawnResult
)

// Resource and volume definitions.
type (
	// ResourceDefinition is what all replicas of a resource share.
	ResourceDefinition = wire.ResourceDefinition
	// ResourceDefinitionLayer is a layer of a definition.
	ResourceDefinitionLayer = wire.ResourceDefinitionLayer
	// ResourceDefinitionCreate adds a definition.
	ResourceDefinitionCreate = wire.ResourceDefinitionCreate
	// ResourceDefinitionModify changes what it names of a definition.
	ResourceDefinitionModify = wire.ResourceDefinitionModify
	// ResourceDefinitionSyncStatus tells whether all replicas hold the same data.
	ResourceDefinitionSyncStatus = wire.ResourceDefinitionSyncStatus
	// ResourceDefinitionCloneStarted answers a clone request, also a refused one.
	ResourceDefinitionCloneStarted = wire.ResourceDefinitionCloneStarted
	// NewResourceDefinition is the definition to add.
	NewResourceDefinition = wire.NewResourceDefinition
	// LayerRequest asks for a layer.
	LayerRequest = wire.LayerRequest
	// LayerType is a layer of a stack.
	LayerType = wire.LayerType
	// VolumeDefinition is what all replicas of a volume share.
	VolumeDefinition = wire.VolumeDefinition
	// VolumeDefinitionLayer is a layer of a volume definition.
	VolumeDefinitionLayer = wire.VolumeDefinitionLayer
	// VolumeDefinitionCreate adds a volume definition.
	VolumeDefinitionCreate = wire.VolumeDefinitionCreate
	// VolumeDefinitionModify changes size, properties and flags.
	VolumeDefinitionModify = wire.VolumeDefinitionModify
	// NewVolumeDefinition is the volume definition to add.
	NewVolumeDefinition = wire.NewVolumeDefinition
	// DRBDResourceDefinitionLayer is DRBD's part of a definition.
	DRBDResourceDefinitionLayer = wire.DRBDResourceDefinitionLayer
	// DRBDVolumeDefinition is DRBD's part of a volume definition.
	DRBDVolumeDefinition = wire.DRBDVolumeDefinition
	// Secret is a passphrase or key of a request.
	Secret = wire.Secret
)

// Layers of a stack.
const (
	LayerDRBD    = wire.LayerDRBD
	LayerLUKS    = wire.LayerLUKS
	LayerStorage = wire.LayerStorage
)

// Resources and volumes.
type (
	// Resource is a replica of a definition on a node.
	Resource = wire.Resource
	// ResourceWithVolumes is a replica as the view of all resources shows it.
	ResourceWithVolumes = wire.ResourceWithVolumes
	// ResourceState is what the node last said.
	ResourceState = wire.ResourceState
	// ResourceCreate adds a replica.
	ResourceCreate = wire.ResourceCreate
	// ResourceModify changes a replica.
	ResourceModify = wire.ResourceModify
	// ResourceMakeAvailable asks that a resource can be used on a node, with a disk or without.
	ResourceMakeAvailable = wire.ResourceMakeAvailable
	// ResourceConnection is the connection of two replicas.
	ResourceConnection = wire.ResourceConnection
	// ResourceConnectionModify changes a resource connection.
	ResourceConnectionModify = wire.ResourceConnectionModify
	// PendingDelete is a replica that is to go.
	PendingDelete = wire.PendingDelete
	// NewResource is the replica to add.
	NewResource = wire.NewResource
	// ResourceLayer is a layer of a replica's stack and, as children, the layers below it.
	ResourceLayer = wire.ResourceLayer
	// Volume is one volume of a replica.
	Volume = wire.Volume
	// VolumeModify changes a volume's properties.
	VolumeModify = wire.VolumeModify
	// VolumeState is what the node last said.
	VolumeState = wire.VolumeState
	// VolumeLayer is a layer of a volume.
	VolumeLayer = wire.VolumeLayer
	// VolumeLayerData is the data of a volume layer.
	VolumeLayerData = wire.VolumeLayerData
	// ReplicationState says what goes on between a volume and its peer.
	ReplicationState = wire.ReplicationState
	// DRBDResource is DRBD's part of a replica.
	DRBDResource = wire.DRBDResource
	// DRBDConnection is the connection to a peer.
	DRBDConnection = wire.DRBDConnection
	// DRBDVolume is DRBD's part of a volume.
	DRBDVolume = wire.DRBDVolume
	// LUKSResource is LUKS's part of a replica.
	LUKSResource = wire.LUKSResource
	// LUKSVolume is LUKS's part of a volume.
	LUKSVolume = wire.LUKSVolume
	// StorageResource is the storage part of a replica.
	StorageResource = wire.StorageResource
	// StorageVolume is the storage part of a volume.
	StorageVolume = wire.StorageVolume
)

// Flags that programs most often look for.
const (
	FlagDelete       = wire.FlagDelete
	FlagDiskless     = wire.FlagDiskless
	FlagDRBDDiskless = wire.FlagDRBDDiskless
	FlagTieBreaker   = wire.FlagTieBreaker
	FlagInactive     = wire.FlagInactive
	FlagEvicted      = wire.FlagEvicted
	FlagEvacuate     = wire.FlagEvacuate
)
