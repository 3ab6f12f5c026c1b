// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// SettingsKey is the key of the one row of Settings.
const SettingsKey = "controller"

// The collections. They are values of the program's text: nothing changes them once the
// package is loaded.
var (
	Settings = store.Define("settings", func(*ControllerSettings) string { return SettingsKey })

	Nodes = store.Define("node", func(n *Node) model.NodeKey { return n.Name.Key() },
		store.Closing(func(n *Node) bool { return n.Deleting }))

	NetInterfaces = store.Define("net-interface",
		func(i *NetInterface) model.InterfaceID {
			return model.InterfaceID{Node: i.Node, Interface: i.Name.Key()}
		},
		store.ChildOf(Nodes, func(i *NetInterface) []model.NodeKey { return []model.NodeKey{i.Node} }))

	Pools = store.Define("pool",
		func(p *Pool) model.PoolID { return model.PoolID{Node: p.Node, Pool: p.Name.Key()} },
		store.ChildOf(Nodes, func(p *Pool) []model.NodeKey { return []model.NodeKey{p.Node} }))

	Groups = store.Define("group", func(g *Group) model.GroupKey { return g.Name.Key() })

	VolumeGroups = store.Define("volume-group",
		func(v *VolumeGroup) model.VolumeGroupID {
			return model.VolumeGroupID{Group: v.Group, Number: v.Number}
		},
		store.ChildOf(Groups, func(v *VolumeGroup) []model.GroupKey { return []model.GroupKey{v.Group} }))

	Definitions = store.Define("definition",
		func(d *Definition) model.DefinitionKey { return d.Name.Key() },
		store.ChildOf(Groups, func(d *Definition) []model.GroupKey { return []model.GroupKey{d.Group} }),
		store.Closing(func(d *Definition) bool { return d.Deleting }))

	VolumeDefinitions = store.Define("volume-definition",
		func(v *VolumeDefinition) model.VolumeDefinitionID {
			return model.VolumeDefinitionID{Definition: v.Definition, Number: v.Number}
		},
		store.ChildOf(Definitions, func(v *VolumeDefinition) []model.DefinitionKey {
			return []model.DefinitionKey{v.Definition}
		}),
		store.Closing(func(v *VolumeDefinition) bool { return v.Deleting }))

	Resources = store.Define("resource", (*Resource).ID,
		store.ChildOf(Definitions, func(r *Resource) []model.DefinitionKey {
			return []model.DefinitionKey{r.Definition}
		}),
		store.ChildOf(Nodes, func(r *Resource) []model.NodeKey { return []model.NodeKey{r.Node} }),
		store.ChildOf(VolumeDefinitions, volumeDefinitionsOf),
		store.ChildOf(Pools, poolsOf),
		store.ChildOf(SnapshotReplicas, sourcesOf),
		store.ChildOf(Snapshots, sourceSnapshotsOf),
		store.Closing(func(r *Resource) bool { return r.Deleting }))

	Beginnings = store.Define("beginning", (*Beginning).ID,
		store.ChildOf(Resources, func(b *Beginning) []model.ResourceID { return []model.ResourceID{b.ID()} }))

	Snapshots = store.Define("snapshot", (*Snapshot).ID,
		store.ChildOf(Definitions, func(s *Snapshot) []model.DefinitionKey {
			return []model.DefinitionKey{s.Definition}
		}),
		store.Closing(func(s *Snapshot) bool { return s.Deleting }))

	SnapshotReplicas = store.Define("snapshot-replica", (*SnapshotReplica).ID,
		store.ChildOf(Snapshots, func(s *SnapshotReplica) []model.SnapshotID {
			return []model.SnapshotID{{Definition: s.Definition, Snapshot: s.Snapshot}}
		}),
		store.ChildOf(Nodes, func(s *SnapshotReplica) []model.NodeKey { return []model.NodeKey{s.Node} }),
		store.ChildOf(Pools, func(s *SnapshotReplica) []model.PoolID {
			ids := make([]model.PoolID, len(s.Volumes))
			for i, v := range s.Volumes {
				ids[i] = model.PoolID{Node: s.Node, Pool: v.Pool}
			}
			return ids
		}),
		store.Closing(func(s *SnapshotReplica) bool { return s.Deleting }))

	NodeConnections = store.Define("node-connection",
		func(c *NodeConnection) model.NodePairID { return c.Pair },
		store.ChildOf(Nodes, func(c *NodeConnection) []model.NodeKey {
			return []model.NodeKey{c.Pair.A, c.Pair.B}
		}))

	ResourceConnections = store.Define("resource-connection",
		func(c *ResourceConnection) model.ResourceConnectionID {
			return model.ResourceConnectionID{Definition: c.Definition, Pair: c.Pair}
		},
		store.ChildOf(Resources, func(c *ResourceConnection) []model.ResourceID {
			return []model.ResourceID{
				{Definition: c.Definition, Node: c.Pair.A},
				{Definition: c.Definition, Node: c.Pair.B},
			}
		}))

	KeyValues = store.Define("key-value",
		func(k *KeyValueInstance) model.InstanceKey { return k.Name.Key() })
)

func volumeDefinitionsOf(r *Resource) []model.VolumeDefinitionID {
	ids := make([]model.VolumeDefinitionID, len(r.Volumes))
	for i, v := range r.Volumes {
		ids[i] = model.VolumeDefinitionID{Definition: r.Definition, Number: v.Number}
	}
	return ids
}

func poolsOf(r *Resource) []model.PoolID {
	ids := make([]model.PoolID, len(r.Volumes))
	for i, v := range r.Volumes {
		ids[i] = model.PoolID{Node: r.Node, Pool: v.Pool}
	}
	return ids
}

// sourcesOf returns the snapshots, on the replica's own node, that its volumes are being made
// from or rolled back to.
func sourcesOf(r *Resource) []model.SnapshotReplicaID {
	var ids []model.SnapshotReplicaID
	for _, v := range r.Volumes {
		if v.Source != nil {
			ids = append(ids, *v.Source)
		}
		if v.RollBack != nil {
			ids = append(ids, model.SnapshotReplicaID{Definition: r.Definition, Snapshot: v.RollBack.Snapshot, Node: r.Node})
		}
	}
	return ids
}

func sourceSnapshotsOf(r *Resource) []model.SnapshotID {
	var ids []model.SnapshotID
	for _, id := range sourcesOf(r) {
		ids = append(ids, model.SnapshotID{Definition: id.Definition, Snapshot: id.Snapshot})
	}
	return ids
}

// Collections lists all collections, parents before their children.
func Collections() []store.Registered {
	return []store.Registered{
		Settings, Nodes, NetInterfaces, PoolDefinitions, Pools, Groups, VolumeGroups, Definitions, VolumeDefinitions,
		Snapshots, SnapshotReplicas, Resources, Beginnings, NodeConnections, ResourceConnections, KeyValues, Authorities, Memberships,
		Jobs,
	}
}
