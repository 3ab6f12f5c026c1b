// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kib is drbdsetup's unit of sizes.
const kib = 1024

// DevicePath returns the device file of a minor.
func DevicePath(minor int) string { return "/dev/drbd" + strconv.Itoa(minor) }

type statusJSON struct {
	Name       *string `json:"name"`
	NodeID     *int    `json:"node-id"`
	Role       string  `json:"role"`
	User       bool    `json:"suspended-user"`
	NoData     bool    `json:"suspended-no-data"`
	Fencing    bool    `json:"suspended-fencing"`
	Quorum     bool    `json:"suspended-quorum"`
	IOFailures bool    `json:"force-io-failures"`
	Devices    []struct {
		Volume *int   `json:"volume"`
		Minor  *int   `json:"minor"`
		Disk   string `json:"disk-state"`
		Client bool   `json:"client"`
		Quorum bool   `json:"quorum"`
		Size   int64  `json:"size"`
	} `json:"devices"`
	Connections []connectionJSON `json:"connections"`
}

type connectionJSON struct {
	PeerID      *int   `json:"peer-node-id"`
	Name        string `json:"name"`
	State       string `json:"connection-state"`
	Role        string `json:"peer-role"`
	PeerDevices []struct {
		Volume      *int     `json:"volume"`
		Replication string   `json:"replication-state"`
		Disk        string   `json:"peer-disk-state"`
		Client      bool     `json:"peer-client"`
		Paused      string   `json:"resync-suspended"`
		OutOfSync   int64    `json:"out-of-sync"`
		Details     bool     `json:"has-sync-details"`
		Done        *float64 `json:"percent-resync-done"`
		InSync      *float64 `json:"percent-in-sync"`
	} `json:"peer_devices"`
}

// ParseStatus reads what "drbdsetup status --json" prints: the resources of this host, by name.
func ParseStatus(text []byte) ([]Resource, error) {
	var list []statusJSON
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("drbdsetup's status: %w", err)
	}
	resources := make([]Resource, 0, len(list))
	for _, s := range list {
		if s.Name == nil || s.NodeID == nil || s.Role == "" {
			return nil, errors.New("drbdsetup's status: a resource lacks its name, node id or role")
		}
		r := Resource{Name: *s.Name, NodeID: *s.NodeID, Role: s.Role, ForceIOFailures: s.IOFailures}
		for why, is := range map[string]bool{"user": s.User, "no-data": s.NoData, "fencing": s.Fencing, "quorum": s.Quorum} {
			if is {
				r.Suspended = append(r.Suspended, why)
			}
		}
		for _, d := range s.Devices {
			if d.Volume == nil || d.Minor == nil || d.Disk == "" || d.Size < 0 || d.Size > math.MaxInt64/kib {
				return nil, fmt.Errorf("drbdsetup's status: a volume of %s lacks its number, minor, disk state or size", r.Name)
			}
			r.Devices = append(r.Devices, Device{
				Volume: *d.Volume, Minor: *d.Minor, Disk: d.Disk, Client: d.Client, Quorum: d.Quorum, Size: d.Size * kib,
			})
		}
		for _, c := range s.Connections {
			connection, err := c.read()
			if err != nil {
				return nil, fmt.Errorf("drbdsetup's status: resource %s: %w", r.Name, err)
			}
			r.Connections = append(r.Connections, connection)
		}
		r.sort()
		resources = append(resources, r)
	}
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return resources, nil
}

func (c connectionJSON) read() (Connection, error) {
	if c.PeerID == nil || c.State == "" {
		return Connection{}, errors.New("a connection lacks its peer or state")
	}
	connection := Connection{PeerID: *c.PeerID, Name: c.Name, State: c.State, Role: c.Role}
	for _, d := range c.PeerDevices {
		if d.Volume == nil || d.OutOfSync < 0 || d.OutOfSync > math.MaxInt64/kib {
			return Connection{}, fmt.Errorf("a volume of peer %d lacks its number, or what is out of sync", *c.PeerID)
		}
		p := PeerDevice{
			Volume: *d.Volume, Replication: d.Replication, Disk: d.Disk, Client: d.Client, Paused: unless(d.Paused, "no"), OutOfSync: d.OutOfSync * kib,
		}
		if d.Details {
			if p.Done = d.Done; p.Done == nil {
				p.Done = d.InSync
			}
		}
		connection.PeerDevices = append(connection.PeerDevices, p)
	}
	return connection, nil
}

// sort puts lists into the order that they are promised in.
func (r *Resource) sort() {
	slices.Sort(r.Suspended)
	slices.SortFunc(r.Devices, func(a, b Device) int { return cmp.Compare(a.Volume, b.Volume) })
	slices.SortFunc(r.Connections, func(a, b Connection) int { return cmp.Compare(a.PeerID, b.PeerID) })
	for i := range r.Connections {
		slices.SortFunc(r.Connections[i].PeerDevices, func(a, b PeerDevice) int { return cmp.Compare(a.Volume, b.Volume) })
	}
}

// unless returns text, and nothing when it is the word for nothing.
func unless(text, nothing string) string {
	if text == nothing {
		return ""
	}
	return text
}
