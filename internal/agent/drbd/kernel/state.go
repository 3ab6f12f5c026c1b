// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import "slices"

// Words of DRBD that decisions rest on.
const (
	Primary   = "Primary"
	Secondary = "Secondary"

	UpToDate     = "UpToDate"
	Inconsistent = "Inconsistent"
	Diskless     = "Diskless"
	Attaching    = "Attaching"
	Negotiating  = "Negotiating" // Attaching, and not agreed with the peers yet.

	Connected  = "Connected"
	StandAlone = "StandAlone"

	Established = "Established"
)

// Resource is the state of a resource on this host.
type Resource struct {
	Name            string
	NodeID          int // -1 when it is not known: events do not tell.
	Role            string
	Suspended       []string // Why I/O is held back: user, no-data, fencing, quorum. Empty: it is not.
	ForceIOFailures bool
	MayPromote      *bool // Known from events alone, like PromotionScore.
	PromotionScore  *int
	Devices         []Device     // By volume.
	Connections     []Connection // By peer.
}

// Device is a volume of a resource on this host.
type Device struct {
	Volume  int
	Minor   int
	Disk    string // State.
	Client  bool   // It has no disk on purpose. A lost disk is Diskless and no client.
	Quorum  bool
	Size    int64  // Bytes that users see; zero until the size was agreed upon.
	Backing string // Path of the backing device. Known from events alone.
}

// Connection is a peer of a resource.
type Connection struct {
	PeerID      int
	Name        string // As the configuration names it.
	State       string
	Role        string
	SplitBrain  bool // The peer's data has gone its own way, and DRBD left it to people. Known from events alone.
	PeerDevices []PeerDevice
}

// PeerDevice is a volume of a peer, as this host sees it.
type PeerDevice struct {
	Volume      int
	Replication string
	Disk        string // State.
	Client      bool
	Paused      string   // Why its resync waits: user, peer, dependency. Empty: it does not.
	OutOfSync   int64    // Bytes.
	Done        *float64 // Percent of a running resync or verify.
}

// Path returns the device file of a minor.
func (d Device) Path() string { return DevicePath(d.Minor) }

// Device returns the device of a volume.
func (r *Resource) Device(volume int) (Device, bool) {
	i := slices.IndexFunc(r.Devices, func(d Device) bool { return d.Volume == volume })
	if i < 0 {
		return Device{}, false
	}
	return r.Devices[i], true
}

// Connection returns the connection to a peer.
func (r *Resource) Connection(peer int) (Connection, bool) {
	i := slices.IndexFunc(r.Connections, func(c Connection) bool { return c.PeerID == peer })
	if i < 0 {
		return Connection{}, false
	}
	return r.Connections[i], true
}

// PeerDevice returns the volume of the peer.
func (c *Connection) PeerDevice(volume int) (PeerDevice, bool) {
	i := slices.IndexFunc(c.PeerDevices, func(d PeerDevice) bool { return d.Volume == volume })
	if i < 0 {
		return PeerDevice{}, false
	}
	return c.PeerDevices[i], true
}

// Quorum tells whether all volumes have quorum.
func (r *Resource) Quorum() bool {
	return !slices.ContainsFunc(r.Devices, func(d Device) bool { return !d.Quorum })
}
