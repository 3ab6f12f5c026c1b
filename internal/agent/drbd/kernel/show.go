// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Configured is what a resource was set up with on this host.
type Configured struct {
	Name    string
	NodeID  int
	Options map[string]string // Those that differ from their defaults.
	Volumes []ConfiguredVolume
	Peers   []ConfiguredPeer
}

// ConfiguredVolume is what a volume was set up with.
type ConfiguredVolume struct {
	Number  int
	Minor   int
	Backing string // Empty: it has no disk.
	Meta    string // Path of the device that its metadata lies on. Empty: the end of the backing device.
}

// ConfiguredPeer is what a connection was set up with.
type ConfiguredPeer struct {
	NodeID int
	Name   string
	Paths  []ConfiguredPath
	Net    map[string]string // Options that differ from their defaults; secrets are left out.
}

// ConfiguredPath is a way to a peer.
type ConfiguredPath struct {
	Local, Remote netip.AddrPort
}

type showJSON struct {
	Resource *string        `json:"resource"`
	Options  map[string]any `json:"options"`
	Host     struct {
		NodeID  *int `json:"node-id"`
		Volumes []struct {
			Number  *int            `json:"volume_nr"`
			Minor   *int            `json:"device_minor"`
			Backing string          `json:"backing-disk"`
			Meta    string          `json:"meta-disk"`
			Disk    json.RawMessage `json:"disk"` // Options, or the string "none".
		} `json:"volumes"`
	} `json:"_this_host"`
	Connections []struct {
		PeerID *int            `json:"_peer_node_id"`
		Path   json.RawMessage `json:"path"` // One, or a list.
		Paths  json.RawMessage `json:"paths"`
		Net    map[string]any  `json:"net"`
	} `json:"connections"`
}

type pathJSON struct {
	Local  string `json:"_this_host"`
	Remote string `json:"_remote_host"`
}

// ParseShow reads what "drbdsetup show --json" prints: how the resources of this host are set up, by name.
func ParseShow(text []byte) ([]Configured, error) {
	var list []showJSON
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("drbdsetup's configuration: %w", err)
	}
	all := make([]Configured, 0, len(list))
	for _, s := range list {
		c, err := s.read()
		if err != nil {
			return nil, fmt.Errorf("drbdsetup's configuration: %w", err)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Configured) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (s showJSON) read() (Configured, error) {
	if s.Resource == nil || s.Host.NodeID == nil {
		return Configured{}, errors.New("a resource lacks its name or node id")
	}
	c := Configured{Name: *s.Resource, NodeID: *s.Host.NodeID, Options: words(s.Options)}
	for _, v := range s.Host.Volumes {
		if v.Number == nil || v.Minor == nil {
			return Configured{}, fmt.Errorf("a volume of %s lacks its number or minor", c.Name)
		}
		c.Volumes = append(c.Volumes, ConfiguredVolume{
			Number: *v.Number, Minor: *v.Minor, Backing: v.Backing, Meta: unless(v.Meta, "internal"),
		})
	}
	for _, p := range s.Connections {
		if p.PeerID == nil {
			return Configured{}, fmt.Errorf("a connection of %s lacks its peer", c.Name)
		}
		peer := ConfiguredPeer{NodeID: *p.PeerID, Net: words(p.Net)}
		peer.Name = peer.Net["_name"]
		delete(peer.Net, "_name")
		delete(peer.Net, "shared-secret")
		for _, raw := range []json.RawMessage{p.Path, p.Paths} {
			paths, err := pathsOf(raw)
			if err != nil {
				return Configured{}, fmt.Errorf("resource %s: a path to peer %d: %w", c.Name, *p.PeerID, err)
			}
			peer.Paths = append(peer.Paths, paths...)
		}
		c.Peers = append(c.Peers, peer)
	}
	return c, nil
}

// words are values as drbd.conf spells them: switches come as booleans, numbers as strings.
func words(values map[string]any) map[string]string {
	out := make(map[string]string, len(values))
	for key, v := range values {
		switch v := v.(type) {
		case string:
			out[key] = v
		case bool:
			out[key] = map[bool]string{true: "yes", false: "no"}[v]
		case float64:
			out[key] = fmt.Sprint(v)
		}
	}
	return out
}

func pathsOf(raw json.RawMessage) ([]ConfiguredPath, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []pathJSON
	if raw[0] != '[' {
		list = make([]pathJSON, 1)
		if err := json.Unmarshal(raw, &list[0]); err != nil {
			return nil, err
		}
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	paths := make([]ConfiguredPath, len(list))
	for i, p := range list {
		var err error
		if paths[i].Local, err = addrPort(p.Local); err != nil {
			return nil, err
		}
		if paths[i].Remote, err = addrPort(p.Remote); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// addrPort reads "ipv4 10.0.0.1:7000" and "ipv6 [fd00::1]:7000".
func addrPort(text string) (netip.AddrPort, error) {
	_, address, ok := strings.Cut(text, " ")
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.ParseAddrPort(address)
}
