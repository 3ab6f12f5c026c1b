// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

// drbdTable is how replicas are kept by DRBD. The bounds and defaults are those of drbdsetup 9.
func drbdTable() []Info {
	const (
		disk    = Controller | Node | anyDefinition | Resource | Volume
		options = Controller | Node | definitions | Resource
	)
	return []Info{
		{Key: "DrbdOptions/Disk/al-extents", Type: Integer, Min: 67, Max: 65534, Default: "1237", Scopes: disk, Text: "How many extents the activity log holds."},
		{Key: "DrbdOptions/Disk/al-updates", Type: YesNo, Default: "yes", Scopes: disk, Text: "Whether the activity log is kept up to date on disk."},
		{Key: "DrbdOptions/Disk/bitmap", Type: YesNo, Default: "yes", Scopes: disk, Text: "Whether a bitmap of differing blocks is kept."},
		{Key: "DrbdOptions/Disk/block-size", Type: Integer, Min: 512, Max: 4096, Unit: "bytes", Default: "512", Scopes: disk, Text: "The logical block size of the device."},
		{Key: "DrbdOptions/Disk/disable-write-same", Type: YesNo, Default: "no", Scopes: disk, Text: "Whether write-same requests are not offered."},
		{Key: "DrbdOptions/Disk/discard-granularity", Type: Integer, Min: 0, Max: 134217728, Unit: "bytes", Scopes: disk, Text: "The granularity of discards that the device offers."},
		{Key: "DrbdOptions/Disk/discard-zeroes-if-aligned", Type: YesNo, Default: "yes", Scopes: disk, Text: "Whether aligned discards are taken to leave zeros."},
		{Key: "DrbdOptions/Disk/disk-barrier", Type: YesNo, Default: "no", Scopes: disk, Text: "Whether writes are ordered by barriers."},
		{Key: "DrbdOptions/Disk/disk-drain", Type: YesNo, Default: "yes", Scopes: disk, Text: "Whether writes are ordered by waiting for those before."},
		{Key: "DrbdOptions/Disk/disk-flushes", Type: YesNo, Default: "yes", Scopes: disk, Text: "Whether writes are ordered by flushes."},
		{Key: "DrbdOptions/Disk/disk-timeout", Type: Integer, Min: 0, Max: 6000, Unit: "1/10 seconds", Default: "0", Scopes: disk, Text: "After what time a disk that does not answer counts as failed."},
		{Key: "DrbdOptions/Disk/max-bio-size", Type: Integer, Min: 512, Max: 1048576, Unit: "bytes", Default: "1048576", Scopes: disk, Text: "The largest request that the device takes."},
		{Key: "DrbdOptions/Disk/md-flushes", Type: YesNo, Default: "yes", Scopes: disk, Text: "Whether metadata is flushed."},
		{Key: "DrbdOptions/Disk/on-io-error", Type: Enum, Values: []string{"pass_on", "call-local-io-error", "detach"}, Scopes: disk, Text: "What happens when the disk fails."},
		{Key: "DrbdOptions/Disk/read-balancing", Type: Enum, Values: []string{"prefer-local", "prefer-remote", "round-robin", "least-pending", "when-congested-remote", "32K-striping", "64K-striping", "128K-striping", "256K-striping", "512K-striping", "1M-striping"}, Scopes: disk, Text: "Which replica reads go to."},
		{Key: "DrbdOptions/Disk/resync-after", Type: String, Scopes: disk, Text: "The device whose resync goes first."},
		{Key: "DrbdOptions/Disk/rs-discard-granularity", Type: Integer, Min: 0, Max: 1048576, Unit: "bytes", Default: "0", Scopes: disk, Text: "The size of zero blocks that a resync discards instead of writing."},
		{Key: "DrbdOptions/Resource/auto-promote", Type: YesNo, Default: "yes", Scopes: options, Text: "Whether opening the device makes a replica primary."},
		{Key: "DrbdOptions/Resource/auto-promote-timeout", Type: Integer, Min: 0, Max: 600, Unit: "1/10 seconds", Default: "20", Scopes: options, Text: "How long opening waits to be able to."},
		{Key: "DrbdOptions/Resource/cpu-mask", Type: String, Scopes: options, Text: "The processors that DRBD may run on."},
		{Key: "DrbdOptions/Resource/drbd8-api-compatibility", Type: YesNo, Default: "no", Scopes: options, Text: "Whether the device answers like DRBD 8."},
		{Key: "DrbdOptions/Resource/max-io-depth", Type: Integer, Min: 4, Max: 4294967295, Default: "8000", Scopes: options, Text: "How many requests may be under way."},
		{Key: "DrbdOptions/Resource/on-no-data-accessible", Type: Enum, Values: []string{"io-error", "suspend-io"}, Scopes: options, Text: "What becomes of requests when no replica with data can be reached."},
		{Key: "DrbdOptions/Resource/on-no-quorum", Type: Enum, Values: []string{"io-error", "suspend-io"}, Scopes: options, Text: "What becomes of requests when quorum is lost."},
		{Key: "DrbdOptions/Resource/on-suspended-primary-outdated", Type: Enum, Values: []string{"disconnect", "force-secondary"}, Scopes: options, Text: "What a primary does that waits and finds itself outdated."},
		{Key: "DrbdOptions/Resource/peer-ack-delay", Type: Integer, Min: 1, Max: 10000, Unit: "milliseconds", Default: "100", Scopes: options, Text: "How long acknowledgements to other peers may wait."},
		{Key: "DrbdOptions/Resource/peer-ack-window", Type: Integer, Min: 2048, Max: 204800, Unit: "sectors", Default: "4096", Scopes: options, Text: "After how much written data peers are told what the others have."},
		{Key: "DrbdOptions/Resource/quorum", Type: IntegerOr, Min: 1, Max: 32, Values: []string{"off", "majority", "all"}, Default: "off", Scopes: options, Text: "How many votes are needed to write."},
		{Key: "DrbdOptions/Resource/quorum-minimum-redundancy", Type: IntegerOr, Min: 1, Max: 32, Values: []string{"off", "majority", "all"}, Default: "off", Scopes: options, Text: "How many votes must come from up-to-date disks."},
		{Key: "DrbdOptions/Resource/twopc-retry-timeout", Type: Integer, Min: 1, Max: 50, Unit: "1/10 seconds", Default: "1", Scopes: options, Text: "How long a cluster-wide change waits before it is tried again."},
		{Key: "DrbdOptions/Resource/twopc-timeout", Type: Integer, Min: 50, Max: 600, Unit: "1/10 seconds", Default: "300", Scopes: options, Text: "How long a cluster-wide change may take."},
	}
}

// drbdPolicyTable is what Holdfast does about DRBD, and what DRBD runs when something happens.
func drbdPolicyTable() []Info {
	const (
		handler = Controller | definitions
		policy  = Controller | definitions
	)
	return []Info{
		{Key: "DrbdOptions/AutoEvictAfterTime", Type: Integer, Min: 1, Max: 1 << 31, Unit: "minutes", Default: "60", Scopes: Controller | Node, Text: "How long a node may be offline before it is evicted."},
		{Key: "DrbdOptions/AutoEvictAllowEviction", Type: TrueFalse, Default: "true", Scopes: Controller | Node, Text: "Whether a node is evicted when it stays offline."},
		{Key: "DrbdOptions/AutoEvictMaxDisconnectedNodes", Type: Integer, Min: 0, Max: 100, Unit: "percent", Default: "34", Scopes: Controller, Text: "No node is evicted while more of them are offline."},
		{Key: "DrbdOptions/AutoEvictMinReplicaCount", Type: Integer, Min: 0, Max: 1 << 16, Scopes: policy, Text: "How many replicas an evicted one leaves before it is replaced; not set: the place count."},
		{Key: "DrbdOptions/ExactSize", Type: TrueFalse, Default: "false", Scopes: definitions, Text: "Whether the size on all nodes is the one asked for to the byte, for migrating into it."},
		{Key: "DrbdOptions/ForceInitialSync", Type: TrueFalse, Default: "false", Scopes: policy, Text: "Whether new replicas are synced even where they are known to be equal."},
		{Key: "DrbdOptions/Handlers/after-resync-target", Type: String, Scopes: handler, Text: "The command that runs when a resync to this node ended."},
		{Key: "DrbdOptions/Handlers/before-resync-source", Type: String, Scopes: handler, Text: "The command that runs before a resync from this node."},
		{Key: "DrbdOptions/Handlers/before-resync-target", Type: String, Scopes: handler, Text: "The command that runs before a resync to this node."},
		{Key: "DrbdOptions/Handlers/fence-peer", Type: String, Scopes: handler, Text: "The command that runs to fence a peer."},
		{Key: "DrbdOptions/Handlers/initial-split-brain", Type: String, Scopes: handler, Text: "The command that runs when a split brain was found."},
		{Key: "DrbdOptions/Handlers/local-io-error", Type: String, Scopes: handler, Text: "The command that runs when the disk failed."},
		{Key: "DrbdOptions/Handlers/out-of-sync", Type: String, Scopes: handler, Text: "The command that runs when a verify found differences."},
		{Key: "DrbdOptions/Handlers/pri-lost", Type: String, Scopes: handler, Text: "The command that runs when a primary is to be a secondary and cannot."},
		{Key: "DrbdOptions/Handlers/pri-lost-after-sb", Type: String, Scopes: handler, Text: "The command that runs when a primary is the victim of a split brain."},
		{Key: "DrbdOptions/Handlers/pri-on-incon-degr", Type: String, Scopes: handler, Text: "The command that runs when a primary has no consistent data left."},
		{Key: "DrbdOptions/Handlers/quorum-lost", Type: String, Scopes: handler, Text: "The command that runs when quorum was lost."},
		{Key: "DrbdOptions/Handlers/split-brain", Type: String, Scopes: handler, Text: "The command that runs when a split brain is left to be solved."},
		{Key: "DrbdOptions/Handlers/unfence-peer", Type: String, Scopes: handler, Text: "The command that runs to lift the fence of a peer."},
		{Key: "DrbdOptions/SkipDisk", Type: TrueFalse, Default: "false", Scopes: Controller | Node | Pool | definitions | Resource, Text: "Whether replicas leave their disk alone, so that DRBD starts without it."},
		{Key: "DrbdOptions/auto-add-quorum-tiebreaker", Type: TrueFalse, Default: "true", Scopes: policy, Text: "Whether a tie-breaker is added where it gives quorum."},
		{Key: "DrbdOptions/auto-diskful", Type: Integer, Min: 0, Max: 1 << 31, Unit: "minutes", Scopes: Controller | Node | definitions | Resource, Text: "After how long in use a client gets a disk; not set: never."},
		{Key: "DrbdOptions/auto-diskful-allow-cleanup", Type: TrueFalse, Default: "true", Scopes: Controller | Node | definitions | Resource, Text: "Whether another replica goes when a client got a disk."},
		{Key: "DrbdOptions/auto-quorum", Type: Enum, Values: []string{"io-error", "suspend-io", "disabled"}, Scopes: policy, Text: "What becomes of requests without quorum, or that quorum is left to its own options."},
		{Key: "DrbdOptions/auto-resync-after-disable", Type: TrueFalse, Default: "true", Scopes: Controller, Text: "Whether resyncs from one pool may all run at once."},
		{Key: "DrbdOptions/auto-rs-discard-granularity", Type: TrueFalse, Default: "true", Scopes: policy | volumeDefinitions, Text: "Whether the resync discard granularity is taken from the backends."},
		{Key: "DrbdOptions/auto-verify-algo-allowed-user-list", Type: String, Scopes: Controller, Text: "The verify algorithms to choose from, best first, with semicolons between."},
		{Key: "DrbdOptions/auto-verify-algo-disable", Type: TrueFalse, Default: "false", Scopes: policy, Text: "Whether no verify algorithm is chosen."},
		{Key: "Linstor/Drbd/OutsideAddress", Type: String, Scopes: Controller | Node | Pool | definitions | Resource, Unused: true, Text: "The address under which a replica is reached from outside."},
		{Key: "Linstor/Drbd/auto-block-size", Type: String, Scopes: policy | volumeDefinitions, Text: "How the block size is chosen from those of the backends."},
		{Key: "Linstor/Drbd/auto-discard-granularity", Type: TrueFalse, Default: "true", Scopes: policy | volumeDefinitions, Text: "Whether the discard granularity is taken from the backends."},
		{Key: "Linstor/Drbd/freeze-block-size", Type: TrueFalse, Scopes: volumeDefinitions, Text: "Whether the block size stays as it is."},
	}
}
