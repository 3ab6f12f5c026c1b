// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"errors"
	"testing"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

type properties = map[string]string

// replicated makes the definition Db, with DRBD, on alpha and beta: the numbers of a replica are
// those of its node.
func replicated(tx *store.Tx) error {
	insert := func(node model.NodeKey, id int32) error {
		return schema.Resources.Insert(tx, schema.Resource{
			Definition: "db", Node: node, Kind: schema.Diskful, NodeID: &id, Ports: []int32{7000 + id, 7100 + id},
			Volumes: []schema.Volume{{Pool: "data", Size: 1 << 30}},
		})
	}
	return errors.Join(
		schema.Definitions.Insert(tx, schema.Definition{
			Name: "Db", Group: "group", Layers: []model.Layer{model.DRBD, model.Storage}, Secret: "marker", PeerSlots: 3,
			Retired: []schema.RetiredNodeID{{NodeID: 5}},
			Props: model.PropsOf(properties{
				"DrbdOptions/Resource/quorum": "majority", "DrbdOptions/auto-quorum": "io-error", "FileSystem/Type": "ext4",
				"DrbdOptions/Net/max-buffers": "4000", "DrbdOptions/PeerDevice/c-max-rate": "100",
			}),
		}),
		schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{
			Definition: "db", Size: 1 << 30, Minor: new(int32(1000)), Props: model.PropsOf(properties{"DrbdOptions/Disk/al-extents": "67"}),
		}),
		schema.NetInterfaces.Insert(tx, schema.NetInterface{Node: "alpha", Name: "default", Address: "10.0.0.1", Active: true}),
		schema.NetInterfaces.Insert(tx, schema.NetInterface{Node: "alpha", Name: "fast", Address: "fd00::1"}),
		schema.NetInterfaces.Insert(tx, schema.NetInterface{Node: "beta", Name: "control", Address: "10.0.0.2", Active: true}),
		schema.NetInterfaces.Insert(tx, schema.NetInterface{Node: "beta", Name: "fast", Address: "fd00::2"}),
		insert("alpha", 0), insert("beta", 1),
		schema.Beginnings.Insert(tx, schema.Beginning{
			Definition: "db", Node: "alpha", Volumes: []schema.FirstContent{{Generation: "8000000000000002", Starts: true}},
		}),
	)
}

// db is the assignment of what replicated makes on alpha.
func db(g uint64) *agentpb.Resource {
	return &agentpb.Resource{
		Name: "Db", Generation: g, Layers: []string{"DRBD", "STORAGE"},
		Volumes: []*agentpb.Volume{{
			Pool: "Data", Size: 1 << 30, Filesystem: &agentpb.Filesystem{Type: "ext4"},
			Drbd: &agentpb.DrbdVolume{Minor: 1000, Generation: "8000000000000002", Disk: properties{"al-extents": "67"}},
		}},
		Drbd: &agentpb.Drbd{
			Secret: "marker", PeerSlots: 3, Retired: []int32{5},
			Options: properties{"quorum": "majority", "on-no-quorum": "io-error"},
			Net:     properties{"max-buffers": "4000"}, PeerDevice: properties{"c-max-rate": "100"},
			Peers: []*agentpb.DrbdPeer{{Node: "beta", NodeId: 1, Paths: []*agentpb.DrbdPath{{Local: "10.0.0.1:7000", Remote: "10.0.0.2:7001"}}}},
		},
	}
}

func TestAReplicaIsToldAllThatDRBDHasToKnow(t *testing.T) {
	in(t, func(r *rig) {
		g := r.write(replicated)
		m := r.dial("alpha").next()
		r.same(m, &agentpb.Assignments{Full: true, Pools: []*agentpb.Pool{alphaPool}, Resources: []*agentpb.Resource{db(g)}})
		// The other one is filled by its generation alone, and formats nothing.
		other := r.dial("beta").next().GetResources()[0]
		if v := other.GetVolumes()[0]; v.GetFilesystem() != nil || v.GetDrbd().GetGeneration() != "" || v.GetDrbd().GetStart() != 0 {
			r.Errorf("beta: %v", v)
		}
		if p := other.GetDrbd().GetPeers()[0].GetPaths()[0]; p.GetLocal() != "10.0.0.2:7001" || p.GetRemote() != "10.0.0.1:7000" {
			r.Errorf("beta: %v", p)
		}
	})
}

func TestWhatDRBDHasToKnowChangesWithTheRowsThatItComesFrom(t *testing.T) {
	set := func(p properties) model.Props { return model.PropsOf(p) }
	for _, c := range []struct {
		name   string
		write  func(*store.Tx) error
		change func(*agentpb.Resource)
	}{
		{"the replica has begun", func(tx *store.Tx) error {
			return schema.Beginnings.Delete(tx, model.ResourceID{Definition: "db", Node: "alpha"})
		}, func(m *agentpb.Resource) {
			m.Volumes[0].Filesystem, m.Volumes[0].Drbd.Generation = nil, ""
		}},
		{"disks differ", func(tx *store.Tx) error {
			return schema.Beginnings.Update(tx, schema.Beginning{Definition: "db", Node: "alpha", Volumes: []schema.FirstContent{{Starts: true}}})
		}, func(m *agentpb.Resource) {
			m.Volumes[0].Drbd.Generation, m.Volumes[0].Drbd.Start = "", agentpb.DrbdVolume_HERE
		}},
		{"the peer loses its disk", func(tx *store.Tx) error {
			x, _ := schema.Resources.Get(tx, model.ResourceID{Definition: "db", Node: "beta"})
			x.Kind = schema.Client
			return schema.Resources.Update(tx, x)
		}, func(m *agentpb.Resource) { m.Drbd.Peers[0].Diskless = true }},
		{"the peer goes", func(tx *store.Tx) error {
			return schema.Resources.Delete(tx, model.ResourceID{Definition: "db", Node: "beta"})
		}, func(m *agentpb.Resource) { m.Drbd.Peers = nil }},
		{"a node prefers an interface", func(tx *store.Tx) error {
			n, _ := schema.Nodes.Get(tx, "beta")
			n.Props = set(properties{"PrefNic": "fast"})
			m, _ := schema.Nodes.Get(tx, "alpha")
			m.Props = n.Props
			return errors.Join(schema.Nodes.Update(tx, n), schema.Nodes.Update(tx, m))
		}, func(m *agentpb.Resource) {
			m.Drbd.Peers[0].Paths[0] = &agentpb.DrbdPath{Local: "[fd00::1]:7000", Remote: "[fd00::2]:7001"}
		}},
		{"an address changes", func(tx *store.Tx) error {
			return schema.NetInterfaces.Update(tx, schema.NetInterface{Node: "beta", Name: "control", Address: "10.0.0.9", Active: true})
		}, func(m *agentpb.Resource) { m.Drbd.Peers[0].Paths[0].Remote = "10.0.0.9:7001" }},
		{"paths are set", func(tx *store.Tx) error {
			return schema.NodeConnections.Insert(tx, schema.NodeConnection{Pair: model.PairOf("alpha", "beta"), Props: set(properties{
				"Paths/a/Alpha": "default", "Paths/a/beta": "control", "Paths/b/alpha": "fast", "Paths/b/beta": "fast",
				"DrbdOptions/Net/max-buffers": "9000", "DrbdOptions/Net/ping-int": "5",
			})})
		}, func(m *agentpb.Resource) {
			m.Drbd.Peers[0].Paths = []*agentpb.DrbdPath{
				{Local: "10.0.0.1:7000", Remote: "10.0.0.2:7001"}, {Local: "[fd00::1]:7100", Remote: "[fd00::2]:7101"},
			}
			m.Drbd.Peers[0].Net = properties{"ping-int": "5"} // The definition's own value goes before that of the nodes.
		}},
		{"a connection of the replicas", func(tx *store.Tx) error {
			return schema.ResourceConnections.Insert(tx, schema.ResourceConnection{
				Definition: "db", Pair: model.PairOf("alpha", "beta"), Props: set(properties{"DrbdOptions/Net/max-buffers": "9000"}),
			})
		}, func(m *agentpb.Resource) { m.Drbd.Peers[0].Net = properties{"max-buffers": "9000"} }},
		{"the cluster", func(tx *store.Tx) error {
			return schema.Settings.Insert(tx, schema.ControllerSettings{Props: set(properties{
				"DrbdOptions/Disk/disk-flushes": "no", "DrbdOptions/Handlers/split-brain": "/bin/true", "DrbdOptions/Resource/on-no-quorum": "suspend-io",
			})})
		}, func(m *agentpb.Resource) {
			m.Drbd.Disk, m.Drbd.Handlers = properties{"disk-flushes": "no"}, properties{"split-brain": "/bin/true"}
			m.Drbd.Options["on-no-quorum"] = "suspend-io"
		}},
		{"the group", func(tx *store.Tx) error {
			return schema.Groups.Update(tx, schema.Group{Name: "Group", Props: set(properties{"DrbdOptions/Net/protocol": "A"})})
		}, func(m *agentpb.Resource) { m.Drbd.Net["protocol"] = "A" }},
		{"the volume group", func(tx *store.Tx) error {
			return schema.VolumeGroups.Insert(tx, schema.VolumeGroup{Group: "group", Props: set(properties{"DrbdOptions/Disk/md-flushes": "no"})})
		}, func(m *agentpb.Resource) { m.Volumes[0].Drbd.Disk["md-flushes"] = "no" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				g := r.write(replicated)
				client := r.dial("alpha")
				client.next()
				was := g
				g = r.write(c.write)
				m := client.next()
				want := db(g)
				c.change(want)
				if m.GetResources()[0].GetGeneration() == was { // a row that went took its revision with it
					want.Generation = was
				}
				r.same(m, &agentpb.Assignments{Resources: []*agentpb.Resource{want}})
			})
		})
	}
}
