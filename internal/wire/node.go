// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// NodeType is what runs on a node. It is read in any case of letters.
type NodeType string

// The types of nodes.
const (
	NodeController NodeType = "Controller"
	NodeSatellite  NodeType = "Satellite"
	NodeCombined   NodeType = "Combined"
	NodeAuxiliary  NodeType = "Auxiliary"
)

// UnmarshalText reads a type. One that is not known stays as it is.
func (t *NodeType) UnmarshalText(text []byte) error {
	*t = NodeType(text)
	for _, known := range []NodeType{NodeController, NodeSatellite, NodeCombined, NodeAuxiliary} {
		if strings.EqualFold(string(text), string(known)) {
			*t = known
		}
	}
	return nil
}

// ConnectionStatus says how the controller stands with a node's agent. Only ONLINE means that it works.
type ConnectionStatus string

// The statuses that clients can show. Others of the API (AUTHENTICATED, DUPLICATE_UNAME) make the reference command line
// fail and are not offered.
const (
	ConnOffline             ConnectionStatus = "OFFLINE"
	ConnConnected           ConnectionStatus = "CONNECTED"
	ConnOnline              ConnectionStatus = "ONLINE"
	ConnVersionMismatch     ConnectionStatus = "VERSION_MISMATCH"
	ConnFullSyncFailed      ConnectionStatus = "FULL_SYNC_FAILED"
	ConnAuthenticationError ConnectionStatus = "AUTHENTICATION_ERROR"
	ConnUnknown             ConnectionStatus = "UNKNOWN"
	ConnHostnameMismatch    ConnectionStatus = "HOSTNAME_MISMATCH"
	ConnOtherController     ConnectionStatus = "OTHER_CONTROLLER"
	ConnNoStltConn          ConnectionStatus = "NO_STLT_CONN"
)

// Node flags.
const (
	FlagEvicted  = "EVICTED"
	FlagEvacuate = "EVACUATE"
)

// Node is a host.
type Node struct {
	Name                 string              `json:"name"`
	Type                 NodeType            `json:"type"`
	Flags                []string            `json:"flags,omitempty"`
	Props                Properties          `json:"props,omitempty"`
	NetInterfaces        []NetInterface      `json:"net_interfaces,omitempty"`
	ConnectionStatus     ConnectionStatus    `json:"connection_status,omitempty"`
	UUID                 string              `json:"uuid,omitempty"`
	StorageProviders     []ProviderKind      `json:"storage_providers,omitempty"`
	ResourceLayers       []LayerType         `json:"resource_layers,omitempty"`
	UnsupportedProviders map[string][]string `json:"unsupported_providers,omitempty"` // provider to reasons
	UnsupportedLayers    map[string][]string `json:"unsupported_layers,omitempty"`    // layer to reasons
	EvictionTimestamp    *int64              `json:"eviction_timestamp,omitempty"`    // milliseconds since the epoch
	Platform             string              `json:"platform,omitempty"`
	OSVariant            string              `json:"os_variant,omitempty"`
}

// NodeCreate registers a node.
type NodeCreate struct {
	Name          string               `json:"name"`
	Type          NodeType             `json:"type,omitempty"`
	Flags         []string             `json:"flags,omitempty"`
	Props         Properties           `json:"props,omitempty"`
	NetInterfaces []NetInterfaceCreate `json:"net_interfaces,omitempty"`
}

// NodeModify changes a node's type or properties.
type NodeModify struct {
	NodeType NodeType `json:"node_type,omitempty"`
	PropsModify
}

// NodeRestore takes back an eviction or an evacuation.
type NodeRestore struct {
	DeleteResources *bool `json:"delete_resources,omitempty"`
	DeleteSnapshots *bool `json:"delete_snapshots,omitempty"`
}

// NodeEvacuate moves all resources away from a node.
type NodeEvacuate struct {
	Target      []string `json:"target,omitempty"`
	DoNotTarget []string `json:"do_not_target,omitempty"`
}

// Encryption of the connection to a node's agent. Requests name it in any case of letters.
const (
	EncryptionPlain = "PLAIN"
	EncryptionSSL   = "SSL"
)

// NetInterface is a named address of a node. Exactly one interface of a node is active, and it has a port and an
// encryption type: clients show that one.
type NetInterface struct {
	Name                    string `json:"name"`
	Address                 string `json:"address"` // a literal IP address, never a host name
	SatellitePort           *int32 `json:"satellite_port,omitempty"`
	SatelliteEncryptionType string `json:"satellite_encryption_type,omitempty"`
	IsActive                bool   `json:"is_active"`
	UUID                    string `json:"uuid,omitempty"`
}

// NetInterfaceCreate adds an interface.
type NetInterfaceCreate struct {
	Name                    string `json:"name,omitempty"`
	Address                 string `json:"address,omitempty"`
	SatellitePort           *Int32 `json:"satellite_port,omitempty"`
	SatelliteEncryptionType string `json:"satellite_encryption_type,omitempty"`
	IsActive                *bool  `json:"is_active,omitempty"`
}

// NetInterfaceModify changes what it names of an interface.
type NetInterfaceModify struct {
	Name                    string `json:"name,omitempty"`
	Address                 string `json:"address,omitempty"`
	SatellitePort           *Int32 `json:"satellite_port,omitempty"`
	SatelliteEncryptionType string `json:"satellite_encryption_type,omitempty"`
	IsActive                *bool  `json:"is_active,omitempty"`
}
