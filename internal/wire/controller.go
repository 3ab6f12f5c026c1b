// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// RestAPIVersion is the version of the API that these types follow.
const RestAPIVersion = "1.28.0"

// ControllerVersion is the first thing that clients ask for.
type ControllerVersion struct {
	Version        string `json:"version"`
	GitHash        string `json:"git_hash"`
	BuildTime      string `json:"build_time"`
	RestAPIVersion string `json:"rest_api_version"`
}

// ControllerConfig is the controller's configuration, without secrets.
type ControllerConfig struct {
	Config *ControllerConfigConfig `json:"config,omitempty"`
	Debug  *ControllerConfigDebug  `json:"debug,omitempty"`
	Log    *ControllerConfigLog    `json:"log,omitempty"`
	DB     *ControllerConfigDB     `json:"db,omitempty"`
	HTTP   *ControllerConfigHTTP   `json:"http,omitempty"`
	HTTPS  *ControllerConfigHTTP   `json:"https,omitempty"`
	LDAP   *ControllerConfigLDAP   `json:"ldap,omitempty"`
}

// ControllerConfigConfig says where configuration lies.
type ControllerConfigConfig struct {
	Dir string `json:"dir,omitempty"`
}

// ControllerConfigDebug is part of [ControllerConfig].
type ControllerConfigDebug struct {
	ConsoleEnabled *bool `json:"console_enabled,omitempty"`
}

// LogLevel is a level of logging.
type LogLevel string

// The levels of logging.
const (
	LogError LogLevel = "ERROR"
	LogWarn  LogLevel = "WARN"
	LogInfo  LogLevel = "INFO"
	LogDebug LogLevel = "DEBUG"
	LogTrace LogLevel = "TRACE"
)

// ControllerConfigLog is part of [ControllerConfig]. Levels can be changed (PUT).
type ControllerConfigLog struct {
	PrintStackTrace    *bool    `json:"print_stack_trace,omitempty"`
	Directory          string   `json:"directory,omitempty"`
	Level              LogLevel `json:"level,omitempty"`
	LevelGlobal        LogLevel `json:"level_global,omitempty"`
	LevelLinstor       LogLevel `json:"level_linstor,omitempty"`
	LevelLinstorGlobal LogLevel `json:"level_linstor_global,omitempty"`
	RestAccessLogPath  string   `json:"rest_access_log_path,omitempty"`
	RestAccessMode     string   `json:"rest_access_mode,omitempty"`
}

// SatelliteConfig is how an agent is set up, and changes the level of its log (PUT).
type SatelliteConfig struct {
	Config           *ControllerConfigConfig `json:"config,omitempty"`
	Debug            *ControllerConfigDebug  `json:"debug,omitempty"`
	Log              *SatelliteConfigLog     `json:"log,omitempty"`
	OverrideNodeName string                  `json:"stlt_override_node_name,omitempty"`
	RemoteSPDK       bool                    `json:"remote_spdk"`
	EBS              bool                    `json:"ebs"`
	Special          bool                    `json:"special_satellite"`
	KeepResPattern   string                  `json:"drbd_keep_res_pattern,omitempty"`
	Net              *SatelliteConfigNet     `json:"net,omitempty"`
}

// SatelliteConfigLog is part of [SatelliteConfig].
type SatelliteConfigLog struct {
	PrintStackTrace *bool    `json:"print_stack_trace,omitempty"`
	Directory       string   `json:"directory,omitempty"`
	Level           LogLevel `json:"level,omitempty"`
	LevelLinstor    LogLevel `json:"level_linstor,omitempty"`
}

// SatelliteConfigNet is part of [SatelliteConfig].
type SatelliteConfigNet struct {
	BindAddress string `json:"bind_address,omitempty"`
	Port        *int32 `json:"port,omitempty"`
	ComType     string `json:"com_type,omitempty"`
}

// ControllerConfigDB is part of [ControllerConfig].
type ControllerConfigDB struct {
	ConnectionURL        string                  `json:"connection_url,omitempty"`
	CACertificate        string                  `json:"ca_certificate,omitempty"`
	ClientCertificate    string                  `json:"client_certificate,omitempty"`
	InMemory             string                  `json:"in_memory,omitempty"`
	VersionCheckDisabled *bool                   `json:"version_check_disabled,omitempty"`
	Etcd                 *ControllerConfigDBEtcd `json:"etcd,omitempty"`
}

// ControllerConfigDBEtcd is part of [ControllerConfigDB].
type ControllerConfigDBEtcd struct {
	OperationsPerTransaction *int32 `json:"operations_per_transaction,omitempty"`
	Prefix                   string `json:"prefix,omitempty"`
}

// ControllerConfigHTTP is a listener.
type ControllerConfigHTTP struct {
	Enabled       bool   `json:"enabled"`
	ListenAddress string `json:"listen_address,omitempty"`
	Port          *int32 `json:"port,omitempty"`
}

// ControllerConfigLDAP is part of [ControllerConfig].
type ControllerConfigLDAP struct {
	Enabled             bool   `json:"enabled"`
	PublicAccessAllowed bool   `json:"public_access_allowed"`
	URI                 string `json:"uri,omitempty"`
	DN                  string `json:"dn,omitempty"`
	SearchBase          string `json:"search_base,omitempty"`
	SearchFilter        string `json:"search_filter,omitempty"`
}

// Stats is the answer of every call that counts objects.
type Stats struct {
	Count int64 `json:"count"`
}

// SpaceReport is a text for people about the space of all pools.
type SpaceReport struct {
	ReportText string `json:"reportText"`
}

// Modules of error reports.
const (
	ModuleController = "CONTROLLER"
	ModuleSatellite  = "SATELLITE"
)

// ErrorReport is a stored report of a fault of the software. Lists leave the text out unless it is asked for.
type ErrorReport struct {
	NodeName         string `json:"node_name,omitempty"`
	ErrorTime        int64  `json:"error_time"`         // milliseconds since the epoch
	Filename         string `json:"filename,omitempty"` // ErrorReport-<id>.log
	Text             string `json:"text,omitempty"`
	Module           string `json:"module,omitempty"`
	Version          string `json:"version,omitempty"`
	Peer             string `json:"peer,omitempty"`
	Exception        string `json:"exception,omitempty"`
	ExceptionMessage string `json:"exception_message,omitempty"`
	OriginFile       string `json:"origin_file,omitempty"`
	OriginMethod     string `json:"origin_method,omitempty"`
	OriginLine       *int32 `json:"origin_line,omitempty"`
}

// ErrorReportDelete deletes the reports that fit all of its fields.
type ErrorReportDelete struct {
	Since     *Int64   `json:"since,omitempty"` // milliseconds since the epoch
	To        *Int64   `json:"to,omitempty"`    // milliseconds since the epoch
	Nodes     []string `json:"nodes,omitempty"`
	Exception string   `json:"exception,omitempty"`
	Version   string   `json:"version,omitempty"`
	IDs       []string `json:"ids,omitempty"`
}

// RemoteList holds the remotes by kind. Secrets are never shown.
type RemoteList struct {
	S3Remotes      []S3Remote      `json:"s3_remotes,omitempty"`
	LinstorRemotes []LinstorRemote `json:"linstor_remotes,omitempty"`
	EBSRemotes     []EBSRemote     `json:"ebs_remotes,omitempty"`
}

// S3Remote is a bucket for backups.
type S3Remote struct {
	RemoteName   string `json:"remote_name"`
	Endpoint     string `json:"endpoint,omitempty"`
	Bucket       string `json:"bucket,omitempty"`
	Region       string `json:"region,omitempty"`
	UsePathStyle bool   `json:"use_path_style"`
}

// LinstorRemote is another cluster.
type LinstorRemote struct {
	RemoteName string `json:"remote_name"`
	URL        string `json:"url,omitempty"`
	ClusterID  string `json:"cluster_id,omitempty"`
}

// EBSRemote is an Amazon EBS account.
type EBSRemote struct {
	RemoteName       string `json:"remote_name"`
	Endpoint         string `json:"endpoint,omitempty"`
	Region           string `json:"region,omitempty"`
	AvailabilityZone string `json:"availability_zone,omitempty"`
}

// Names of server-sent events.
const (
	EventNameMayPromote    = "may-promote-change"
	EventNameNodeCreate    = "node-create"
	EventNameNodeDelete    = "node-delete"
	EventNameNodeEvacuate  = "node-evacuate"
	EventNameNodeEvicted   = "node-evicted"
	EventNameNodeRestored  = "node-restored"
	EventNameNodeModified  = "node-modified"
	EventNameError         = "error"
	EventLastIDForSnapshot = "current" // Last-Event-ID that asks for the present state first
)

// EventMayPromoteChange says that a replica may, or may no longer, be promoted.
type EventMayPromoteChange struct {
	ResourceName string `json:"resource_name"`
	NodeName     string `json:"node_name"`
	MayPromote   bool   `json:"may_promote"`
}

// EventNode is the data of events about a node.
type EventNode struct {
	Node Node `json:"node"`
}

// EventNodeModified is the data of the event that a node has changed.
type EventNodeModified struct {
	OldNode Node `json:"old_node"`
	NewNode Node `json:"new_node"`
}
