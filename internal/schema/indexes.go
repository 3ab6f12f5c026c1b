// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"iter"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NodePort is a TCP port of a node.
type NodePort struct {
	Node model.NodeKey
	Port int32
}

// ReplicaNumber is DRBD's number of a replica among its peers.
type ReplicaNumber struct {
	Definition model.DefinitionKey
	NodeID     int32
}

// The names of the unique indexes, as errors show them.
const (
	minorIndex        = "minor number"
	portIndex         = "TCP port"
	nodeIDIndex       = "node id"
	externalNameIndex = "external name"
)

// The indexes. They are derived from the rows and never stored.
var (
	DefinitionsByGroup = store.By(Definitions, "definitions by group",
		func(d *Definition) []model.GroupKey { return []model.GroupKey{d.Group} })

	DefinitionsByExternalName = store.Unique(Definitions, externalNameIndex,
		func(d *Definition) []string {
			if d.ExternalName == "" {
				return nil
			}
			return []string{d.ExternalName}
		})

	ResourcesByNode = store.By(Resources, "resources by node",
		func(r *Resource) []model.NodeKey { return []model.NodeKey{r.Node} })

	ResourcesByPool = store.By(Resources, "resources by pool", poolsOf)

	// PoolsBySpace finds the pools that are one space.
	PoolsBySpace = store.By(Pools, "pools by shared space",
		func(p *Pool) []string {
			if p.SharedSpace == "" {
				return nil
			}
			return []string{p.SharedSpace}
		})

	SnapshotReplicasByNode = store.By(SnapshotReplicas, "snapshots by node",
		func(s *SnapshotReplica) []model.NodeKey { return []model.NodeKey{s.Node} })

	// ResourcesBySource finds what is being made from a snapshot on a node, or rolled back to it.
	ResourcesBySource = store.By(Resources, "resources by source", sourcesOf)

	// SnapshotsByRequest finds the snapshots that were asked for together.
	SnapshotsByRequest = store.By(Snapshots, "snapshots by request",
		func(s *Snapshot) []string { return []string{s.Request} })

	NodeConnectionsByNode = store.By(NodeConnections, "connections by node",
		func(c *NodeConnection) []model.NodeKey { return []model.NodeKey{c.Pair.A, c.Pair.B} })

	// ResourcesDeleting finds what still has to be destroyed.
	ResourcesDeleting = store.By(Resources, "deleting",
		func(r *Resource) []bool {
			if r.Deleting {
				return []bool{true}
			}
			return nil
		})

	// Minors keeps the device minor of a volume unique. A volume has the same minor on all
	// nodes, so unique in the cluster is unique on each node.
	Minors = store.Unique(VolumeDefinitions, minorIndex,
		func(v *VolumeDefinition) []int32 {
			if v.Minor == nil {
				return nil
			}
			return []int32{*v.Minor}
		})

	// Ports keeps the TCP ports unique on each node.
	Ports = store.Unique(Resources, portIndex,
		func(r *Resource) []NodePort {
			ports := make([]NodePort, len(r.Ports))
			for i, p := range r.Ports {
				ports[i] = NodePort{Node: r.Node, Port: p}
			}
			return ports
		})

	// NodeIDs keeps the replicas of a definition apart.
	NodeIDs = store.Unique(Resources, nodeIDIndex,
		func(r *Resource) []ReplicaNumber {
			if r.NodeID == nil {
				return nil
			}
			return []ReplicaNumber{{Definition: r.Definition, NodeID: *r.NodeID}}
		})

	// ReplicasByNode counts the replicas of each node.
	ReplicasByNode = store.Sum(Resources, "replicas by node",
		func(r *Resource, add func(model.NodeKey, int64)) { add(r.Node, 1) })

	// Promised sums the bytes that volumes were promised, by pool. It counts a volume until
	// its host said that it is gone.
	Promised = store.Sum(Resources, "promised bytes",
		func(r *Resource, add func(model.PoolID, int64)) {
			for _, v := range r.Volumes {
				add(model.PoolID{Node: r.Node, Pool: v.Pool}, v.Size)
			}
		})
)

// InterfacesOf yields the net interfaces of a node by name.
func InterfacesOf(r store.Reader, node model.NodeKey) iter.Seq[NetInterface] {
	return until(NetInterfaces.From(r, model.InterfaceID{Node: node}),
		func(i *NetInterface) bool { return i.Node == node })
}

// PoolsOf yields the pools of a node by name.
func PoolsOf(r store.Reader, node model.NodeKey) iter.Seq[Pool] {
	return until(Pools.From(r, model.PoolID{Node: node}), func(p *Pool) bool { return p.Node == node })
}

// VolumeGroupsOf yields the volume groups of a group by number.
func VolumeGroupsOf(r store.Reader, group model.GroupKey) iter.Seq[VolumeGroup] {
	return until(VolumeGroups.From(r, model.VolumeGroupID{Group: group}),
		func(v *VolumeGroup) bool { return v.Group == group })
}

// VolumesOf yields the volume definitions of a definition by number.
func VolumesOf(r store.Reader, d model.DefinitionKey) iter.Seq[VolumeDefinition] {
	return until(VolumeDefinitions.From(r, model.VolumeDefinitionID{Definition: d}),
		func(v *VolumeDefinition) bool { return v.Definition == d })
}

// ResourcesOf yields the replicas of a definition by node.
func ResourcesOf(r store.Reader, d model.DefinitionKey) iter.Seq[Resource] {
	return until(Resources.From(r, model.ResourceID{Definition: d}),
		func(x *Resource) bool { return x.Definition == d })
}

// SnapshotsOf yields the snapshots of a definition by name.
func SnapshotsOf(r store.Reader, d model.DefinitionKey) iter.Seq[Snapshot] {
	return until(Snapshots.From(r, model.SnapshotID{Definition: d}),
		func(s *Snapshot) bool { return s.Definition == d })
}

// SnapshotReplicasOf yields the parts of a snapshot by node.
func SnapshotReplicasOf(r store.Reader, id model.SnapshotID) iter.Seq[SnapshotReplica] {
	return until(SnapshotReplicas.From(r, model.SnapshotReplicaID{Definition: id.Definition, Snapshot: id.Snapshot}),
		func(s *SnapshotReplica) bool { return s.Definition == id.Definition && s.Snapshot == id.Snapshot })
}

// until ends seq before the first row that is not in.
func until[V any](seq iter.Seq[V], in func(*V) bool) iter.Seq[V] {
	return func(yield func(V) bool) {
		for v := range seq {
			if !in(&v) || !yield(v) {
				return
			}
		}
	}
}
