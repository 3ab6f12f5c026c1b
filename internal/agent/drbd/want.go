// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
)

// Want is the wish for one resource on this host.
type Want struct {
	Name   string
	Down   bool // It is not to run here. All that is needed then is Name.
	Host   string
	NodeID int

	Volumes []Volume
	Peers   []config.Peer // All of them: who is missing here and runs is left alone, and then nothing is changed.
	Retired []int         // Node ids of peers that are gone for good: they are removed, and forgotten.

	Secret    string
	Transport string
	Options   config.Options // The sections of package config.
	Net       config.Options
	Disk      config.Options
	// PeerDevice are the options of what is sent to peers.
	PeerDevice config.Options
	Handlers   config.Options
}

// Volume is the wish for one volume of a resource.
type Volume struct {
	Number  int
	Minor   int
	Destroy bool   // This volume is to go from the resource, the others stay.
	Disk    string // Path of the backing device. Empty: this host is to have none, and gives up one that it has.
	Meta    string // Path of the device that its metadata lies on. Empty: the end of the backing device.
	Size    int64  // Usable bytes, at least. A volume never shrinks.
	Options config.Options
	Start   Start
}

// Start says how the first content of a new volume comes about. It is said to one host only, until that host said that the volume is up to date. It does
// nothing on a volume that had content once: the kernel keeps the generation of its data.
type Start int

// The ways to start.
const (
	// StartNone waits for others: content comes from a peer, or is there.
	StartNone Start = iota
	// StartEqual declares the disks of all replicas equal. They are, when all of them read as zeros, or are copies of one moment.
	StartEqual
	// StartHere makes this host's disk the content that is sent to all peers.
	StartHere
)

// down tells whether nothing of the resource is to run here.
func (w *Want) down() bool {
	return w.Down || !slices.ContainsFunc(w.Volumes, func(v Volume) bool { return !v.Destroy })
}

// volume returns the wish for a volume.
func (w *Want) volume(number int) (Volume, bool) {
	i := slices.IndexFunc(w.Volumes, func(v Volume) bool { return v.Number == number })
	if i < 0 {
		return Volume{}, false
	}
	return w.Volumes[i], true
}

// hasPeer tells whether a peer is wanted.
func (w *Want) hasPeer(id int) bool {
	return slices.ContainsFunc(w.Peers, func(p config.Peer) bool { return p.NodeID == id })
}

// diskful returns the peers that have disks, in order of their ids.
func (w *Want) diskful() []config.Peer {
	peers := slices.DeleteFunc(slices.Clone(w.Peers), func(p config.Peer) bool { return p.Diskless })
	slices.SortFunc(peers, func(a, b config.Peer) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return peers
}

// file is what the configuration says.
func (w *Want) file() *config.Resource {
	r := &config.Resource{
		Name: w.Name, Host: w.Host, NodeID: w.NodeID, Peers: w.Peers, Secret: w.Secret, Transport: w.Transport,
		Options: w.Options, Net: w.Net, Disk: w.Disk, PeerDevice: w.PeerDevice, Handlers: w.Handlers,
	}
	for _, v := range w.Volumes {
		if !v.Destroy {
			r.Volumes = append(r.Volumes, config.Volume{Number: v.Number, Minor: v.Minor, Disk: v.Disk, Meta: v.Meta, Options: v.Options})
		}
	}
	return r
}

// Have is what was observed of one resource.
type Have struct {
	File       bool             // There is a configuration file of ours.
	Current    bool             // And it is the one that is wanted.
	State      *kernel.Resource // Nil: the resource does not run.
	Adjust     []Command        // What drbdadm would do to bring the kernel to the file. Known when the file is current.
	Untouched  map[int]bool     // Volumes with a start whose disk never had content.
	Connecting bool             // Peers were told to connect a short while ago.
	Forgotten  map[int]bool     // Retired peers that are surely forgotten.
	Resting    map[string]bool  // Attempts that failed a short while ago; they are not made again yet.
}
