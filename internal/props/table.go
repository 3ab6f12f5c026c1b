// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

// clusterTable is what belongs to nobody, the numbers that are given out, and how Holdfast keeps definitions in order.
func clusterTable() []Info {
	const limits = Controller | Node | Pool | anyDefinition | Resource | Volume
	return []Info{
		{Key: "Aux/*", Type: Free, Scopes: everywhere, Text: "Free for clients: labels of nodes, and whatever else they want to keep."},
		{Key: "AutoSnapshot/Keep", Type: Integer, Default: "10", Scopes: Controller | definitions, Text: "How many automatic snapshots are kept; 0 or less keeps all."},
		{Key: "AutoSnapshot/NextAutoId", Type: Integer, Scopes: Controller | definitions, Text: "The number of the next automatic snapshot."},
		{Key: "AutoSnapshot/RunEvery", Type: Integer, Unit: "minutes", Scopes: Controller | definitions, Text: "How often an automatic snapshot is taken; 0 or less takes none."},
		{Key: "BalanceResourcesEnabled", Type: TrueFalse, Default: "true", Scopes: Controller | definitions, Text: "Whether replicas above the place count are removed again."},
		{Key: "BalanceResourcesGracePeriod", Type: Integer, Min: 0, Max: 1 << 31, Unit: "seconds", Default: "3600", Scopes: Controller, Text: "How long a definition is left alone after its replicas changed, before they are balanced."},
		{Key: "BalanceResourcesInterval", Type: Integer, Min: 1, Max: 1 << 31, Unit: "seconds", Default: "3600", Scopes: Controller, Text: "How often it is looked whether replicas are to be balanced."},
		{Key: "BalanceResourcesSkipDiskLimit", Type: Integer, Default: "1", Scopes: Controller | definitions, Text: "How many replicas may be without their disk for a definition to be balanced all the same."},
		{Key: "CopyAllSnaps", Type: TrueFalse, Default: "false", Scopes: Controller | definitions, Text: "Whether a new replica gets the snapshots of the others."},
		{Key: "CopyAllSnapsOnEvacuate", Type: TrueFalse, Default: "true", Scopes: Controller | Node, Text: "Whether snapshots leave an evacuated node together with its replicas."},
		{Key: "Encryption/Passphrase", Type: Free, Scopes: VolumeDefinition, Secret: true, Text: "The passphrase of an encrypted volume, when its owner gives one."},
		{Key: "FileSystem/AutoGrow", Type: TrueFalse, Default: "false", Scopes: Controller | anyDefinition, Text: "Whether a file system that is mounted on the host grows with its volume."},
		{Key: "FileSystem/Group", Type: String, Scopes: anyDefinition | Resource, Text: "The group that owns the root of a new file system."},
		{Key: "FileSystem/MkfsParams", Type: String, Scopes: anyDefinition | Resource, Text: "Options for making the file system."},
		{Key: "FileSystem/Type", Type: Enum, Values: []string{"ext4", "xfs"}, Scopes: anyDefinition | Resource, Text: "The file system that a new volume is formatted with, once."},
		{Key: "FileSystem/User", Type: String, Scopes: anyDefinition | Resource, Text: "The user who owns the root of a new file system."},
		{Key: "Luks/AllowDiscards", Type: TrueFalse, Default: "false", Scopes: Controller | Node | Pool | anyDefinition | Resource, Text: "Whether discards pass the encryption, which shows which blocks are in use."},
		{Key: "MinorNrAutoRange", Type: NumberRange, Min: 0, Max: 1<<20 - 1, Default: "1000-49999", Scopes: Controller, Text: "The device minors that volumes are given."},
		{Key: "OverrideVlmId", Type: Path, Scopes: volumeDefinitions, Text: "The name that an adopted volume has in its pool."},
		{Key: "PeerSlotsNewResource", Type: Integer, Min: 1, Max: 31, Default: "7", Scopes: Controller | definitions, Text: "For how many peers a new replica keeps room in its metadata."},
		{Key: "TcpPortAutoRange", Type: NumberRange, Min: 1, Max: 65535, Default: "7000-31999", Scopes: Controller, Text: "The TCP ports that replicas are given; Linux takes those of outgoing connections from 32768 on."},
		{Key: "UpdateCacheInterval", Type: Integer, Min: 1, Max: 1 << 31, Unit: "seconds", Default: "180", Scopes: Controller, Text: "How often the space of pools is measured anew."},
		{Key: "sys/fs/blkio_throttle_read", Type: Integer, Min: 0, Max: 1 << 53, Unit: "bytes/second", Scopes: limits, Text: "How much may be read from a volume."},
		{Key: "sys/fs/blkio_throttle_read_iops", Type: Integer, Min: 0, Max: 1 << 53, Unit: "requests/second", Scopes: limits, Text: "How often may be read from a volume."},
		{Key: "sys/fs/blkio_throttle_write", Type: Integer, Min: 0, Max: 1 << 53, Unit: "bytes/second", Scopes: limits, Text: "How much may be written to a volume."},
		{Key: "sys/fs/blkio_throttle_write_iops", Type: Integer, Min: 0, Max: 1 << 53, Unit: "requests/second", Scopes: limits, Text: "How often may be written to a volume."},
	}
}

// placementTable is what decides where replicas go.
func placementTable() []Info {
	return []Info{
		{Key: "AllowMixingStoragePoolDriver", Type: TrueFalse, Default: "false", Scopes: Controller | definitions, Text: "Whether replicas may lie in block pools of different kinds."},
		{Key: "AutoplaceTarget", Type: TrueFalse, Default: "true", Scopes: Controller | Node | Pool, Text: "Whether replicas are placed there without being told so."},
		{Key: "Autoplacer/MaxThroughput", Type: Integer, Min: 0, Max: 1 << 53, Unit: "bytes/second", Scopes: Controller | Node | Pool, Text: "What a pool can do, for weighing it by what is left of that."},
		{Key: "Autoplacer/MinThinFreeSpace", Type: Share, Default: "10%", Scopes: Controller | Node | Pool | definitions, PoolFirst: true, Text: "A thin pool that can promise less than this, or this part of its size, takes nothing new."},
		{Key: "Autoplacer/PreSelectScript", Type: String, Scopes: Controller, Unused: true, Text: "A script that chooses among candidates."},
		{Key: "Autoplacer/PreSelectScriptTimeout", Type: Integer, Unit: "milliseconds", Default: "5000", Scopes: Controller, Unused: true, Text: "How long that script may take."},
		{Key: "Autoplacer/Weights/MaxFreeSpace", Type: Decimal, Min: 0, Max: 1e9, Default: "1", Scopes: Controller, Text: "How much it counts what a pool has left."},
		{Key: "Autoplacer/Weights/MaxThroughput", Type: Decimal, Min: 0, Max: 1e9, Default: "0", Scopes: Controller, Text: "How much it counts what throughput a pool has left."},
		{Key: "Autoplacer/Weights/MinReservedSpace", Type: Decimal, Min: 0, Max: 1e9, Default: "0", Scopes: Controller, Text: "How much it counts how little a pool has promised."},
		{Key: "Autoplacer/Weights/MinRscCount", Type: Decimal, Min: 0, Max: 1e9, Default: "0", Scopes: Controller, Text: "How much it counts how few replicas a node has."},
		{Key: "Clone/BalanceAfterClone", Type: TrueFalse, Default: "true", Scopes: Controller | definitions, Text: "Whether replicas of a clone move to where the placer wants them."},
		{Key: "MaxFreeCapacityOversubscriptionRatio", Type: Decimal, Min: 0.001, Max: 1000, Scopes: Controller | Pool, Text: "How many times its free space a thin pool may promise."},
		{Key: "MaxOversubscriptionRatio", Type: Decimal, Min: 0.001, Max: 1000, Default: "20", Scopes: Controller | Pool, Text: "The ratio for free and for total space, where they have none of their own."},
		{Key: "MaxTotalCapacityOversubscriptionRatio", Type: Decimal, Min: 0.001, Max: 1000, Scopes: Controller | Pool, Text: "How many times its size a thin pool may promise over all its volumes."},
		{Key: "Site", Type: Free, Scopes: Controller | Node, Text: "The site of a node."},
		{Key: "Snapshot/BalanceAfterRestore", Type: TrueFalse, Default: "true", Scopes: Controller | definitions, Text: "Whether restored replicas move to where the placer wants them."},
		{Key: "StorPoolName", Type: Name, Scopes: Node | anyDefinition | Resource | Volume, Text: "The pool that volumes lie in."},
		{Key: "StorPoolNameDrbdMeta", Type: Name, Values: []string{"", ".internal"}, Scopes: Node | anyDefinition | Resource | Volume, Text: "The pool for DRBD's metadata; .internal keeps it with the data."},
	}
}

// storageTable is how pools make volumes.
func storageTable() []Info {
	const making = Controller | Node | Pool | anyDefinition
	return []Info{
		{Key: "Clone/DdBlocksize", Type: String, Default: "64k", Scopes: Controller | Pool | definitions, Text: "The block size that volumes are copied with."},
		{Key: "StorDriver/DMStats", Type: TrueFalse, Default: "false", Scopes: Controller, Unused: true, Text: "Whether device mapper statistics are kept."},
		{Key: "StorDriver/FileDir", Type: Path, Scopes: Pool, Text: "The directory of a file pool; an older name of StorDriver/StorPoolName."},
		{Key: "StorDriver/LuksFormatOptions", Type: String, Scopes: making | Resource, Text: "More options for cryptsetup luksFormat."},
		{Key: "StorDriver/LuksOpenOptions", Type: String, Scopes: making | Resource, Text: "More options for cryptsetup open."},
		{Key: "StorDriver/LvcreateOptions", Type: String, Scopes: making, Text: "More options for lvcreate."},
		{Key: "StorDriver/LvcreatePvSelection", Type: String, Scopes: making, Text: "How the physical volumes for lvcreate are chosen: options for pvs."},
		{Key: "StorDriver/LvcreateSnapshotOptions", Type: String, Scopes: making, Text: "More options for lvcreate when it makes a snapshot."},
		{Key: "StorDriver/LvcreateType", Type: Enum, Values: []string{"linear", "striped", "mirror", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "lzma", "lz4"}, Default: "linear", Scopes: Pool | anyDefinition, Text: "The segment type of logical volumes."},
		{Key: "StorDriver/LvmVg", Type: Path, Scopes: Pool, Text: "The volume group of an LVM pool; an older name of StorDriver/StorPoolName."},
		{Key: "StorDriver/Mount/Options", Type: String, Scopes: Pool, Text: "Options for mounting what the folder of a pool lies on, as in fstab; those that all such mounts have come on top."},
		{Key: "StorDriver/Mount/Residency", Type: Enum, Values: []string{"always", "while-used"}, Default: "while-used", Scopes: Pool, Text: "When what the folder of a pool lies on is mounted."},
		{Key: "StorDriver/Mount/Source", Type: String, Scopes: Pool, Text: "What the folder of a pool lies on: SERVER:/EXPORT, a block device, a folder, or the mount point of what the operator mounts. StorDriver/StorPoolName is a folder in it then; without that, the pool gets one of its own."},
		{Key: "StorDriver/Mount/Type", Type: Enum, Values: []string{"nfs", "block", "bind", "existing"}, Default: "nfs", Scopes: Pool, Text: "What StorDriver/Mount/Source names."},
		{Key: "StorDriver/SizesCacheTime", Type: Integer, Unit: "milliseconds", Scopes: Controller | Node, Unused: true, Text: "How long listed sizes may be used again."},
		{Key: "StorDriver/StorPoolName", Type: Path, Scopes: Pool, Text: "Where the volumes of a pool lie: a volume group, VG/THINPOOL, a dataset, a directory."},
		{Key: "StorDriver/ThinPool", Type: Path, Scopes: Pool, Text: "The thin pool of an LVM pool, beside StorDriver/LvmVg."},
		{Key: "StorDriver/WaitTimeoutAfterCreate", Type: Integer, Min: 0, Max: 1 << 31, Unit: "milliseconds", Scopes: Controller | Pool, Text: "How long the device of a new volume is waited for."},
		{Key: "StorDriver/ZPool", Type: Path, Scopes: Pool, Text: "The dataset of a ZFS pool; an older name of StorDriver/StorPoolName."},
		{Key: "StorDriver/ZPoolThin", Type: Path, Scopes: Pool, Text: "The dataset of a thin ZFS pool; an older name of StorDriver/StorPoolName."},
		{Key: "StorDriver/Zfs/DeleteStrategy", Type: Enum, Values: []string{"Delete", "Rename", "Dynamic"}, Default: "Dynamic", Scopes: Controller | definitions, Unused: true, Text: "What becomes of a volume that others depend on."},
		{Key: "StorDriver/Zfs/RollbackStrategy", Type: Enum, Values: []string{"Rollback", "Clone", "Dynamic"}, Default: "Dynamic", Scopes: Controller | definitions, Unused: true, Text: "How a volume goes back to a snapshot."},
		{Key: "StorDriver/ZfsSnapshotOptions", Type: String, Scopes: making, Text: "More options for zfs snapshot."},
		{Key: "StorDriver/ZfscreateOptions", Type: String, Scopes: making, Text: "More options for zfs create."},
		{Key: "UseZFSClone", Type: TrueFalse, Default: "false", Scopes: Controller | definitions, Text: "Whether a clone stays tied to its source where that saves copying."},
	}
}
