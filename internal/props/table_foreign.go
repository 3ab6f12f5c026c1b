// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

// foreignTable is what belongs to parts of LINSTOR that Holdfast does not have. Clients may set it, so that their scripts keep working.
func foreignTable() []Info {
	return []Info{
		{Key: "Auth/TokenAuthenticationEnabled", Type: TrueFalse, Default: "false", Scopes: Controller, Unused: true, Text: "Whether requests need a token."},
		{Key: "BackupShipping/AllowForceRestore", Type: TrueFalse, Default: "false", Scopes: Controller | definitions, Unused: true, Text: "Whether a backup may replace what is there."},
		{Key: "BackupShipping/BackupTimeout", Type: Integer, Unit: "seconds", Default: "5", Scopes: Controller, Unused: true, Text: "How long a backup waits for its store."},
		{Key: "BackupShipping/L2LReceiveStartedTimeout", Type: Integer, Unit: "milliseconds", Default: "300000", Scopes: Controller | Node | definitions, Unused: true, Text: "How long a shipment waits for its receiver."},
		{Key: "BackupShipping/L2LSkipWaitForStart", Type: TrueFalse, Default: "false", Scopes: Controller | Node | definitions, Unused: true, Text: "Whether it does not wait."},
		{Key: "BackupShipping/MaxConcurrentBackupsPerNode", Type: Integer, Default: "-1", Scopes: Controller | Node, Unused: true, Text: "How many backups a node makes at once."},
		{Key: "BackupShipping/S3KeySuffix", Type: String, Scopes: Controller, Unused: true, Text: "What names of backups end in."},
		{Key: "DrbdOptions/Disk/diskless", Type: YesNo, Default: "no", Scopes: Controller | Node | anyDefinition | Resource | Volume, Unused: true, Text: "Whether a replica is without a disk on purpose, which its flags say."},
		{Key: "DrbdOptions/Proxy/memlimit", Type: Integer, Min: 16777216, Max: 1 << 62, Unit: "bytes", Default: "16777216", Scopes: Controller | definitions, Unused: true, Text: "The memory of a proxy."},
		{Key: "DrbdOptions/Proxy/ping-timeout", Type: Integer, Min: 1, Max: 300, Unit: "1/10 seconds", Default: "200", Scopes: Controller | definitions, Unused: true, Text: "How long a proxy waits for an answer."},
		{Key: "DrbdOptions/Proxy/rcvbuf-size", Type: Integer, Min: 0, Max: 10485760, Unit: "bytes", Default: "0", Scopes: Controller | definitions, Unused: true, Text: "The buffer of a proxy for receiving."},
		{Key: "DrbdOptions/Proxy/read-loops", Type: Integer, Min: 0, Max: 2147483647, Default: "0", Scopes: Controller | definitions, Unused: true, Text: "How often a proxy reads in a row."},
		{Key: "DrbdOptions/Proxy/sndbuf-size", Type: Integer, Min: 0, Max: 10485760, Unit: "bytes", Default: "0", Scopes: Controller | definitions, Unused: true, Text: "The buffer of a proxy for sending."},
		{Key: "DrbdOptions/ProxyCompression/*", Type: String, Scopes: Controller | definitions, Unused: true, Text: "How a proxy packs data."},
		{Key: "DrbdProxy/AutoEnable", Type: TrueFalse, Default: "false", Scopes: Controller | Node, Unused: true, Text: "Whether connections between sites go through a proxy."},
		{Key: "DrbdProxy/CompressionType", Type: Enum, Values: []string{"zlib", "lzma", "lz4", "zstd"}, Scopes: definitions, Unused: true, Text: "What a proxy packs data with."},
		{Key: "EBS/*", Type: String, Scopes: Controller | Node | Pool | anyDefinition, Unused: true, Text: "For volumes in a cloud."},
		{Key: "ExtCmd/IoPollInterval", Type: Integer, Unit: "milliseconds", Scopes: Controller | Node, Unused: true, Text: "How often the input and output of a program is looked at."},
		{Key: "ExtCmd/IoStallTimeout", Type: Integer, Unit: "milliseconds", Scopes: Controller | Node, Unused: true, Text: "How long a program may do no input and output."},
		{Key: "ExtCmd/KillTimeout", Type: Integer, Unit: "milliseconds", Scopes: Controller | Node, Unused: true, Text: "How long a program has to end when killed."},
		{Key: "ExtCmd/TermTimeout", Type: Integer, Unit: "milliseconds", Scopes: Controller | Node, Unused: true, Text: "How long a program has to end when asked to."},
		{Key: "ExtCmd/WaitTimeout", Type: Integer, Unit: "milliseconds", Scopes: Controller | Node, Unused: true, Text: "How long a program may run."},
		{Key: "ExtCmdWaitTimeout", Type: Integer, Unit: "milliseconds", Scopes: Controller, Unused: true, Text: "How long a program may run; an older name."},
		{Key: "NVMe/Port", Type: Integer, Min: 1, Max: 65535, Scopes: Controller | definitions, Unused: true, Text: "The port of an NVMe target."},
		{Key: "NVMe/PrefNic", Type: Name, Scopes: Controller | Pool | Resource, Unused: true, Text: "The network interface of an NVMe target."},
		{Key: "NVMe/TRType", Type: Enum, Values: []string{"rdma", "tcp"}, Default: "rdma", Scopes: Controller | definitions, Unused: true, Text: "The transport of an NVMe target."},
		{Key: "NetCom/*", Type: String, Scopes: Controller, Unused: true, Text: "Where the controller talked to its nodes."},
		{Key: "REST/AutoHTTPS", Type: TrueFalse, Scopes: Controller, Unused: true, Text: "Whether the API makes itself a certificate."},
		{Key: "REST/bindAddress", Type: String, Scopes: Controller, Unused: true, Text: "The address of the API, which the configuration file says here."},
		{Key: "REST/disable-http-metrics", Type: TrueFalse, Scopes: Controller, Unused: true, Text: "Whether requests are not measured."},
		{Key: "REST/port", Type: Integer, Min: 1, Max: 65535, Scopes: Controller, Unused: true, Text: "The port of the API, which the configuration file says here."},
		{Key: "SED/*", Type: Free, Scopes: Pool, Unused: true, Text: "For drives that encrypt themselves."},
		{Key: "SearchDomain", Type: String, Scopes: Controller, Unused: true, Text: "The domain of node names."},
		{Key: "SpecStltPortAutoRange", Type: NumberRange, Min: 1, Max: 65535, Scopes: Controller, Unused: true, Text: "The ports for special nodes."},
		{Key: "StorDriver/EBS/Remote", Type: Name, Scopes: Pool, Unused: true, Text: "The cloud of a pool."},
		{Key: "StorDriver/RemoteSpdk/ApiHost", Type: String, Scopes: Controller | Node | Pool, Unused: true, Text: "The host of a remote SPDK."},
		{Key: "StorDriver/RemoteSpdk/ApiPort", Type: String, Scopes: Controller | Node | Pool, Unused: true, Text: "The port of a remote SPDK."},
		{Key: "StorDriver/RemoteSpdk/UserName", Type: String, Scopes: Controller | Node | Pool, Unused: true, Text: "The user of a remote SPDK."},
		{Key: "StorDriver/RemoteSpdk/UserNameEnv", Type: String, Scopes: Controller | Node | Pool, Unused: true, Text: "The variable with the user of a remote SPDK."},
		{Key: "StorDriver/RemoteSpdk/UserPassword", Type: String, Scopes: Controller | Node | Pool, Secret: true, Unused: true, Text: "The password of a remote SPDK."},
		{Key: "StorDriver/RemoteSpdk/UserPasswordEnv", Type: String, Scopes: Controller | Node | Pool, Unused: true, Text: "The variable with the password of a remote SPDK."},
	}
}

// cacheTable is the same for the layers that cache.
func cacheTable() []Info {
	const caching = Controller | Node | anyDefinition
	return []Info{
		{Key: "BCache/Blocksize", Type: Integer, Scopes: caching, Unused: true, Text: "The block size of a bcache."},
		{Key: "BCache/Bucketsize", Type: Integer, Scopes: caching, Unused: true, Text: "The bucket size of a bcache."},
		{Key: "BCache/CacheReplacementPolicy", Type: Enum, Values: []string{"lru", "fifo"}, Scopes: caching, Unused: true, Text: "What a bcache drops first."},
		{Key: "BCache/DataOffset", Type: Integer, Scopes: caching, Unused: true, Text: "Where the data of a bcache begins."},
		{Key: "BCache/Discard", Type: TrueFalse, Scopes: caching, Unused: true, Text: "Whether a bcache discards."},
		{Key: "BCache/PoolName", Type: Name, Scopes: caching, Unused: true, Text: "The pool of a bcache."},
		{Key: "BCache/Size", Type: String, Default: "5%", Scopes: caching, Unused: true, Text: "The size of a bcache."},
		{Key: "BCache/Writeback", Type: TrueFalse, Scopes: caching, Unused: true, Text: "Whether a bcache delays writes."},
		{Key: "Cache/Blocksize", Type: Integer, Default: "4096", Scopes: caching, Unused: true, Text: "The block size of a dm-cache."},
		{Key: "Cache/CachePool", Type: Name, Scopes: caching, Unused: true, Text: "The pool of a dm-cache."},
		{Key: "Cache/Cachesize", Type: String, Default: "5%", Scopes: caching, Unused: true, Text: "The size of a dm-cache."},
		{Key: "Cache/FlushTimeout", Type: Integer, Unit: "milliseconds", Default: "180000", Scopes: caching, Unused: true, Text: "How long a dm-cache may take to flush."},
		{Key: "Cache/MetaPool", Type: Name, Scopes: caching, Unused: true, Text: "The pool for its metadata."},
		{Key: "Cache/Metasize", Type: String, Default: "12288", Scopes: caching, Unused: true, Text: "The size of its metadata."},
		{Key: "Cache/OpMode", Type: Enum, Values: []string{"writeback", "writethrough", "passthrough"}, Default: "writethrough", Scopes: caching, Unused: true, Text: "How a dm-cache writes."},
		{Key: "Cache/Policy", Type: Enum, Values: []string{"mq", "smq", "cleaner"}, Default: "smq", Scopes: caching, Unused: true, Text: "What a dm-cache keeps."},
		{Key: "Writecache/Options/Additional", Type: String, Scopes: caching, Unused: true, Text: "More options for a dm-writecache."},
		{Key: "Writecache/Options/AutocommitBlocks", Type: Integer, Scopes: caching, Unused: true, Text: "After how many blocks a dm-writecache commits."},
		{Key: "Writecache/Options/AutocommitTime", Type: Integer, Scopes: caching, Unused: true, Text: "After what time a dm-writecache commits."},
		{Key: "Writecache/Options/Fua", Type: Enum, Values: []string{"On", "Off"}, Default: "On", Scopes: caching, Unused: true, Text: "Whether a dm-writecache forces blocks out."},
		{Key: "Writecache/Options/HighWatermark", Type: Integer, Scopes: caching, Unused: true, Text: "When a dm-writecache begins to write back."},
		{Key: "Writecache/Options/LowWatermark", Type: Integer, Scopes: caching, Unused: true, Text: "When it stops."},
		{Key: "Writecache/Options/StartSector", Type: Integer, Scopes: caching, Unused: true, Text: "Where a dm-writecache begins."},
		{Key: "Writecache/Options/WritebackJobs", Type: Integer, Scopes: caching, Unused: true, Text: "How many blocks it writes back at once."},
		{Key: "Writecache/PoolName", Type: Name, Scopes: caching, Unused: true, Text: "The pool of a dm-writecache."},
		{Key: "Writecache/Size", Type: String, Scopes: caching, Unused: true, Text: "The size of a dm-writecache."},
	}
}
