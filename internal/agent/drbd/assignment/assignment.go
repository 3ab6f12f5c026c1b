// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package assignment turns what the controller assigns into the wishes of package drbd, and what was observed into what is reported.
//
// It is pure. It refuses what it cannot read; what DRBD cannot have is refused by package config.
package assignment

import (
	"fmt"
	"net/netip"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
)

// Device returns the device that a volume lies on, below DRBD. Empty: it is not there.
type Device func(number int32) string

// Want is the wish for a resource that is assigned with the layer DRBD. Host is the name that uname prints.
//
// A volume that is to be destroyed goes from DRBD as well, unless the replica becomes diskless: then its device stays.
func Want(r *agentpb.Resource, host string, device Device) (drbd.Want, error) {
	a := r.GetDrbd()
	w := drbd.Want{
		Name: r.GetName(), Host: host, NodeID: int(a.GetNodeId()), Down: r.GetDestroy() || r.GetInactive(),
		Secret: a.GetSecret(), Transport: a.GetTransport(), Options: a.GetOptions(), Net: a.GetNet(), Disk: a.GetDisk(),
		PeerDevice: a.GetPeerDevice(), Handlers: a.GetHandlers(),
	}
	if w.Down {
		return w, nil
	}
	if a == nil {
		return w, fmt.Errorf("resource %s is assigned with the layer DRBD and without what DRBD has to know", r.GetName())
	}
	for _, id := range a.GetRetired() {
		w.Retired = append(w.Retired, int(id))
	}
	for _, v := range r.GetVolumes() {
		if v.GetDrbd() == nil {
			return w, fmt.Errorf("volume %d of resource %s is assigned without a minor", v.GetNumber(), r.GetName())
		}
		volume := drbd.Volume{
			Number: int(v.GetNumber()), Minor: int(v.GetDrbd().GetMinor()), Destroy: v.GetDestroy() && !a.GetDiskless(), Size: v.GetSize(),
			Options: v.GetDrbd().GetDisk(), Start: start(v.GetDrbd().GetStart()),
		}
		if !a.GetDiskless() && v.GetPool() != "" {
			if volume.Disk = device(v.GetNumber()); volume.Disk == "" && !volume.Destroy {
				return w, fmt.Errorf("volume %d of resource %s has no device below DRBD yet", v.GetNumber(), r.GetName())
			}
		}
		w.Volumes = append(w.Volumes, volume)
	}
	for _, p := range a.GetPeers() {
		peer := config.Peer{Name: p.GetNode(), NodeID: int(p.GetNodeId()), Diskless: p.GetDiskless(), Net: p.GetNet(), PeerDevice: p.GetPeerDevice()}
		for _, path := range p.GetPaths() {
			local, err := netip.ParseAddrPort(path.GetLocal())
			if err != nil {
				return w, fmt.Errorf("resource %s: a path to %s: %w", r.GetName(), p.GetNode(), err)
			}
			remote, err := netip.ParseAddrPort(path.GetRemote())
			if err != nil {
				return w, fmt.Errorf("resource %s: a path to %s: %w", r.GetName(), p.GetNode(), err)
			}
			peer.Paths = append(peer.Paths, config.Path{Local: local, Remote: remote})
		}
		w.Peers = append(w.Peers, peer)
	}
	return w, nil
}

func start(s agentpb.DrbdVolume_Start) drbd.Start {
	switch s {
	case agentpb.DrbdVolume_EQUAL:
		return drbd.StartEqual
	case agentpb.DrbdVolume_HERE:
		return drbd.StartHere
	case agentpb.DrbdVolume_START_UNSPECIFIED:
	}
	return drbd.StartNone
}

// Metadata is what new metadata of a volume is made with.
func Metadata(r *agentpb.Resource, v *agentpb.Volume) drbd.Metadata {
	m := drbd.Metadata{Peers: int(r.GetDrbd().GetPeerSlots()), Generation: v.GetDrbd().GetGeneration()}
	if m.Peers == 0 {
		m.Peers = metadata.DefaultPeers
	}
	return m
}

// Backing returns how large the device below DRBD has to be, in bytes, for a volume that is assigned with storage.
func Backing(r *agentpb.Resource, v *agentpb.Volume) int64 {
	return metadata.Backing(v.GetSize(), Metadata(r, v).Peers)
}

// Status is what is reported of a resource that runs. What the events alone tell is taken from those, where they are known.
func Status(s kernel.Resource, events *kernel.Resource) *agentpb.DrbdStatus {
	split := map[int]bool{}
	if events != nil {
		s.MayPromote, s.PromotionScore = events.MayPromote, events.PromotionScore
		for _, c := range events.Connections {
			split[c.PeerID] = c.SplitBrain
		}
	}
	m := &agentpb.DrbdStatus{Role: s.Role, MayPromote: s.MayPromote, Quorum: new(s.Quorum()), Suspended: len(s.Suspended) > 0}
	if s.PromotionScore != nil {
		m.PromotionScore = new(int32(*s.PromotionScore))
	}
	connections := make([]kernel.Connection, len(s.Connections))
	for i, c := range s.Connections {
		c.SplitBrain = c.SplitBrain || split[c.PeerID]
		connections[i] = c
		reported := &agentpb.DrbdConnection{Node: c.Name, State: c.State, Role: c.Role}
		for _, d := range c.PeerDevices {
			if reported.DiskStates == nil {
				reported.DiskStates, reported.Replication = map[int32]string{}, map[int32]string{}
			}
			reported.DiskStates[int32(d.Volume)] = d.Disk
			reported.Replication[int32(d.Volume)] = d.Replication
		}
		m.Connections = append(m.Connections, reported)
	}
	s.Connections = connections
	m.Problems = drbd.Problems(s)
	return m
}

// Volume completes the status of a volume with what DRBD says of it: its device, its size, its disk, and how far it is filled by a peer.
func Volume(to *agentpb.VolumeStatus, s kernel.Resource) {
	d, ok := s.Device(int(to.GetNumber()))
	if !ok {
		to.DevicePath, to.Usable = "", nil
		return
	}
	to.DevicePath, to.DiskState, to.Usable = d.Path(), d.Disk, nil
	if d.Size > 0 {
		to.Usable = new(d.Size)
	}
	for _, c := range s.Connections {
		p, ok := c.PeerDevice(d.Volume)
		if ok && p.Done != nil && target(p.Replication) && (to.ResyncDone == nil || to.GetResyncDone() < *p.Done) {
			to.ResyncDone = p.Done
		}
	}
}

// target tells whether this host is filled by the peer.
func target(replication string) bool {
	return replication == "SyncTarget" || replication == "PausedSyncT"
}
