// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// ControllerSettings is the one row of properties that hold for the whole cluster.
type ControllerSettings struct {
	Props     model.Props `json:"props,omitzero"`
	MasterKey *SealedKey  `json:"master_key,omitempty"` // none until there is a passphrase; written by passphrase
}

// SealedKey is the master key of the cluster, encrypted under its passphrase.
type SealedKey struct {
	Salt   []byte `json:"salt"`
	Rounds int    `json:"rounds"`
	Sealed []byte `json:"sealed"`
}

// Node is a host that was registered. Written by inventory.
type Node struct {
	Name     model.NodeName `json:"name"`
	UUID     string         `json:"uuid"`
	Type     model.NodeType `json:"type"`
	Props    model.Props    `json:"props,omitzero"`
	Deleting bool           `json:"deleting,omitempty"` // it is lost: all of it goes, and it takes nothing new

	// An evacuated node loses its replicas once others have their data. An evicted one, which
	// was away for too long, keeps them until it is restored or lost; they do not count any more.
	// Neither takes anything new.
	Evacuating bool      `json:"evacuating,omitempty"`
	Evicted    bool      `json:"evicted,omitempty"`
	LeftAt     time.Time `json:"left_at,omitzero"` // when it was evacuated or evicted
}

// Leaving tells whether the node takes nothing new and its replicas do not count.
func (n Node) Leaving() bool { return n.Deleting || n.Evacuating || n.Evicted }

// NetInterface is an address of a node. Written by inventory.
type NetInterface struct {
	Node       model.NodeKey       `json:"node"`
	Name       model.InterfaceName `json:"name"`
	UUID       string              `json:"uuid"`
	Address    string              `json:"address"` // a literal IP address
	Port       int32               `json:"port,omitempty"`
	Encryption string              `json:"encryption,omitempty"` // PLAIN or SSL
	Active     bool                `json:"active,omitempty"`     // exactly one of a node with interfaces
}

// Pool is a storage pool on a node. Written by inventory.
type Pool struct {
	Node            model.NodeKey  `json:"node"`
	Name            model.PoolName `json:"name"`
	UUID            string         `json:"uuid"`
	Provider        model.Provider `json:"provider"`
	Props           model.Props    `json:"props,omitzero"`
	SharedSpace     string         `json:"shared_space,omitempty"` // pools of one name are one space
	ExternalLocking bool           `json:"external_locking,omitempty"`
}

// Group is a resource group: how definitions that name it are placed and configured.
// Written by catalog.
type Group struct {
	Name        model.GroupName `json:"name"`
	UUID        string          `json:"uuid"`
	Description string          `json:"description,omitempty"`
	Props       model.Props     `json:"props,omitzero"`
	Filter      model.Filter    `json:"filter,omitzero"`
	PeerSlots   int32           `json:"peer_slots,omitempty"`
}

// VolumeGroup is what a volume definition that is spawned under its number inherits.
// Written by catalog.
type VolumeGroup struct {
	Group  model.GroupKey     `json:"group"`
	Number model.VolumeNumber `json:"number"`
	UUID   string             `json:"uuid"`
	Props  model.Props        `json:"props,omitzero"`
	Flags  []string           `json:"flags,omitempty"` // LINSTOR's volume definition flags
}

// Definition is a resource definition: what all replicas have in common. Written by catalog;
// Deleting by resources.
type Definition struct {
	Name         model.DefinitionName `json:"name"`
	ExternalName string               `json:"external_name,omitempty"`
	UUID         string               `json:"uuid"`
	Group        model.GroupKey       `json:"group"`
	Created      time.Time            `json:"created"`
	Props        model.Props          `json:"props,omitzero"`
	Layers       []model.Layer        `json:"layers,omitempty"` // top first; none until it is said or the first replica decides
	PeerSlots    int32                `json:"peer_slots,omitempty"`
	Port         int32                `json:"port,omitempty"` // asked for by the client; 0: chosen per node
	Secret       string               `json:"secret,omitempty"`
	Transport    string               `json:"transport,omitempty"`
	Deleting     bool                 `json:"deleting,omitempty"`     // goes when its last replica went
	DeletingFrom time.Time            `json:"deleting_from,omitzero"` // when that was first asked for
	Retired      []RetiredNodeID      `json:"retired,omitempty"`      // by node id; written by resources
	Clone        *Clone               `json:"clone,omitempty"`        // of one that was cloned; written by snapshots
}

// CloneState is how far a clone came.
type CloneState string

// The states of clones. What failed stays until it is deleted.
const (
	Cloning     CloneState = "cloning"
	CloneDone   CloneState = "complete"
	CloneFailed CloneState = "failed"
)

// Clone tells what a definition was cloned from. While it is Cloning, a job sees to it, and the
// hidden snapshot that it is made from exists or is still to be taken.
type Clone struct {
	Source   model.DefinitionName `json:"source"`
	Snapshot model.SnapshotKey    `json:"snapshot"` // of the source, hidden; it goes when the clone has ended
	State    CloneState           `json:"state"`
	Problem  string               `json:"problem,omitempty"` // why it failed
	Ended    time.Time            `json:"ended,omitzero"`    // zero while it is Cloning
}

// RetiredNodeID is the node id of a replica that is gone. Peers remember it until they have
// carried out an assignment of a generation from Since on.
type RetiredNodeID struct {
	NodeID int32  `json:"node_id"`
	Since  uint64 `json:"since"` // the revision at which the replica went
}

// VolumeDefinition is a volume that every replica of a definition has. Written by catalog.
type VolumeDefinition struct {
	Definition model.DefinitionKey `json:"definition"`
	Number     model.VolumeNumber  `json:"number"`
	UUID       string              `json:"uuid"`
	Size       int64               `json:"size"` // usable bytes
	Props      model.Props         `json:"props,omitzero"`
	Flags      []string            `json:"flags,omitempty"`
	Minor      *int32              `json:"minor,omitempty"`    // of the device; given with the first replica that needs one
	Key        []byte              `json:"key,omitempty"`      // sealed; given with the first replica that lies encrypted, or by the snapshot that it is made from
	Deleting   bool                `json:"deleting,omitempty"` // goes when it went from every replica
}

// ResourceKind tells what part a replica has.
type ResourceKind string

// The kinds of replicas.
const (
	Diskful    ResourceKind = "diskful"
	Client     ResourceKind = "client"      // uses the data over the network
	TieBreaker ResourceKind = "tie-breaker" // votes for quorum only
)

// Resource is the replica of a definition on a node, with its volumes. Written by resources.
type Resource struct {
	Definition   model.DefinitionKey `json:"definition"`
	Node         model.NodeKey       `json:"node"`
	UUID         string              `json:"uuid"`
	Created      time.Time           `json:"created"`
	Kind         ResourceKind        `json:"kind"`
	Props        model.Props         `json:"props,omitzero"`
	NodeID       *int32              `json:"node_id,omitempty"`      // of the replica among its peers
	Ports        []int32             `json:"ports,omitempty"`        // on its node
	Volumes      []Volume            `json:"volumes,omitempty"`      // by number
	Deleting     bool                `json:"deleting,omitempty"`     // the row goes when the node said that nothing is left
	DeletingFrom time.Time           `json:"deleting_from,omitzero"` // when that was first asked for
	ReplacedBy   model.NodeKey       `json:"replaced_by,omitempty"`  // on a node that leaves: where its replacement was put
	Inactive     bool                `json:"inactive,omitempty"`     // its data stays, and nobody can use it: it has no devices
	Adding       bool                `json:"adding,omitempty"`       // it is getting a disk, until its node said that it has it
	Becomes      ResourceKind        `json:"becomes,omitempty"`      // what it is once its volumes, which are Deleting, are gone
}

// ID returns the key of the row.
func (r *Resource) ID() model.ResourceID {
	return model.ResourceID{Definition: r.Definition, Node: r.Node}
}

// Volume is the part of a replica that one volume definition asks for.
type Volume struct {
	Number   model.VolumeNumber       `json:"number"`
	UUID     string                   `json:"uuid"`
	Pool     model.PoolKey            `json:"pool"`
	Size     int64                    `json:"size,omitempty"` // bytes promised in the pool; 0 without storage
	Props    model.Props              `json:"props,omitzero"`
	Source   *model.SnapshotReplicaID `json:"source,omitempty"`    // what it is made from, its volume of the same number; until it was ready once
	RollBack *RollBack                `json:"roll_back,omitempty"` // until it is done
	Deleting bool                     `json:"deleting,omitempty"`
}

// Beginning is how the new disks of a replica under DRBD get their first content. Written by
// resources; it goes when the replica was ready once. A disk that comes when its volume may have
// been used has none: it is filled by its peers.
type Beginning struct {
	Definition model.DefinitionKey `json:"definition"`
	Node       model.NodeKey       `json:"node"`
	Volumes    []FirstContent      `json:"volumes"` // by number
}

// ID returns the key of the row, which is that of the replica.
func (b *Beginning) ID() model.ResourceID {
	return model.ResourceID{Definition: b.Definition, Node: b.Node}
}

// FirstContent is what one new disk begins with.
type FirstContent struct {
	Number model.VolumeNumber `json:"number"`
	// Generation is that of the data, as DRBD counts it: 16 hexadecimal digits. The disks that have
	// the same are equal. None: the disk differs from the others.
	Generation string `json:"generation,omitempty"`
	// Starts tells that this replica begins the volume: it makes the filesystem and, where disks
	// differ, its disk is sent to the others. One of them does.
	Starts bool `json:"starts,omitempty"`
}

// RollBack gives a volume the content of a snapshot of its own definition, once for each token.
type RollBack struct {
	Snapshot model.SnapshotKey `json:"snapshot"`
	Token    string            `json:"token"`
}

// SnapshotState is how far a snapshot came.
type SnapshotState string

// The states of snapshots and of their parts on nodes. A snapshot that failed has nothing left
// on any node that does not go; its row stays until it is deleted or made anew.
const (
	SnapshotPlanned SnapshotState = "planned" // of a part: its node is not told of it yet
	SnapshotTaking  SnapshotState = "taking"
	SnapshotTaken   SnapshotState = "taken"
	SnapshotFailed  SnapshotState = "failed"  // a node could not
	SnapshotCutOff  SnapshotState = "cut off" // a node or the controller went away meanwhile
)

// Snapshot is the state of a definition's volumes at one moment. Written by snapshots.
//
// One that is Deleting is an intent: its parts become Deleting as soon as nothing is being made
// from them, and go on their nodes' word; the row goes with the last of them.
type Snapshot struct {
	Definition model.DefinitionKey        `json:"definition"`
	Name       model.SnapshotName         `json:"name"`
	UUID       string                     `json:"uuid"`
	Created    time.Time                  `json:"created"`
	Props      model.Props                `json:"props,omitzero"`
	Inherited  model.Props                `json:"inherited,omitzero"` // of the definition at that moment
	Layers     []model.Layer              `json:"layers,omitempty"`   // of the definition at that moment
	Volumes    []SnapshotVolumeDefinition `json:"volumes,omitempty"`
	Request    string                     `json:"request"`          // id; those that were asked for together are taken at one moment, all or none
	Hidden     bool                       `json:"hidden,omitempty"` // made for a clone; users neither see nor name it
	Auto       bool                       `json:"auto,omitempty"`   // taken because of AutoSnapshot/RunEvery
	State      SnapshotState              `json:"state"`
	Problem    string                     `json:"problem,omitempty"` // why it failed
	Deleting   bool                       `json:"deleting,omitempty"`
}

// SnapshotVolumeDefinition is a volume definition as it was at the moment of a snapshot.
type SnapshotVolumeDefinition struct {
	Number model.VolumeNumber `json:"number"`
	Size   int64              `json:"size"` // usable bytes
	Props  model.Props        `json:"props,omitzero"`
	Flags  []string           `json:"flags,omitempty"`
	Key    []byte             `json:"key,omitempty"` // sealed, as it was: the snapshot outlives its volume
}

// SnapshotReplica is a snapshot on one node. Written by snapshots. It needs no resource there
// once it is taken: it outlives its replica.
//
// Its node is told of it unless it is planned: to take it, or, when it is taken, to keep it and
// never to take another in its place, or, when it is Deleting, to destroy it.
type SnapshotReplica struct {
	Definition model.DefinitionKey `json:"definition"`
	Snapshot   model.SnapshotKey   `json:"snapshot"`
	Node       model.NodeKey       `json:"node"`
	UUID       string              `json:"uuid"`
	Created    time.Time           `json:"created"`
	Taken      time.Time           `json:"taken,omitzero"` // when its last part was, by the clock of the node
	State      SnapshotState       `json:"state"`
	Volumes    []SnapshotVolume    `json:"volumes,omitempty"`
	Deleting   bool                `json:"deleting,omitempty"` // the row goes when the node said that nothing is left
}

// ID returns the key of the row.
func (s *SnapshotReplica) ID() model.SnapshotReplicaID {
	return model.SnapshotReplicaID{Definition: s.Definition, Snapshot: s.Snapshot, Node: s.Node}
}

// SnapshotVolume is where one volume of a snapshot lies.
type SnapshotVolume struct {
	Number model.VolumeNumber `json:"number"`
	UUID   string             `json:"uuid"`
	Pool   model.PoolKey      `json:"pool"`
}

// ID returns the key of the row.
func (s *Snapshot) ID() model.SnapshotID {
	return model.SnapshotID{Definition: s.Definition, Snapshot: s.Name.Key()}
}

// NodeConnection holds what is particular to two nodes. Written by inventory.
type NodeConnection struct {
	Pair  model.NodePairID `json:"pair"`
	UUID  string           `json:"uuid"`
	Props model.Props      `json:"props,omitzero"`
}

// ResourceConnection holds what is particular to two replicas. Written by resources.
type ResourceConnection struct {
	Definition model.DefinitionKey `json:"definition"`
	Pair       model.NodePairID    `json:"pair"`
	UUID       string              `json:"uuid"`
	Props      model.Props         `json:"props,omitzero"`
}

// KeyValueInstance is a bag of keys that a client keeps here. It exists while it has keys.
// Written by catalog.
type KeyValueInstance struct {
	Name  model.InstanceName `json:"name"`
	Props model.Props        `json:"props,omitzero"`
}
