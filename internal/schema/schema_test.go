// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func open(t *testing.T, engine kv.Engine) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), engine, schema.Collections(), store.Paranoid())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func closed(t *testing.T, st *store.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

func update(t *testing.T, st *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if _, err := schema.Update(t.Context(), st, fn); err != nil {
		t.Fatal(err)
	}
}

// full is one row of each kind with every field set, which refer to each other.
type full struct {
	settings   schema.ControllerSettings
	nodes      []schema.Node
	iface      schema.NetInterface
	pools      []schema.Pool
	group      schema.Group
	vgroup     schema.VolumeGroup
	definition schema.Definition
	volume     schema.VolumeDefinition
	snapshot   schema.Snapshot
	replica    schema.SnapshotReplica
	resources  []schema.Resource
	nodeConn   schema.NodeConnection
	rscConn    schema.ResourceConnection
	keys       schema.KeyValueInstance
	authority  schema.Authority
	membership schema.Membership
	job        schema.Job
	beginning  schema.Beginning
}

func fullRows() full {
	p := model.PropsOf(map[string]string{"Aux/a": "1", "Aux/ä <&>\n": "ü"})
	at := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	source := &model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "n1"}
	f := full{
		settings: schema.ControllerSettings{Props: p, MasterKey: &schema.SealedKey{Salt: []byte("s"), Rounds: 1, Sealed: []byte("k")}},
		iface:    schema.NetInterface{Node: "n1", Name: "Default", UUID: "u", Address: "10.0.0.1", Port: 3366, Encryption: "SSL", Active: true},
		group: schema.Group{Name: "Group", UUID: "u", Description: "d", Props: p, PeerSlots: 7, Filter: model.Filter{
			PlaceCount: new(int32(2)), AdditionalPlaceCount: new(int32(1)), Nodes: []string{"n1"}, Pools: []string{"pool"},
			DisklessPools: []string{"d"}, NotPlaceWith: []string{"x"}, NotPlaceWithRegex: new("r"), ReplicasOnSame: []string{"s"},
			ReplicasOnDifferent: []string{"t"}, XReplicasOnDifferent: map[string]int32{"u": 1}, Layers: []string{"DRBD"},
			Providers: []string{}, DisklessOnRemaining: new(false), DisklessType: new("DRBD"), Overprovision: new(1.5), PortCount: new(int32(1)),
		}},
		vgroup: schema.VolumeGroup{Group: "group", Number: 3, UUID: "u", Props: p, Flags: []string{"GROSS_SIZE"}},
		definition: schema.Definition{
			Name: "Vol", ExternalName: "ext/ name", UUID: "u", Group: "group", Created: at, Props: p, Layers: model.Layers(), PeerSlots: 7,
			Port: 7000, Secret: "s", Transport: "IP", Deleting: true, Retired: []schema.RetiredNodeID{{NodeID: 3, Since: 9}},
			Clone: &schema.Clone{Source: "Src", Snapshot: "hid", State: schema.CloneFailed, Problem: "p", Ended: at},
		},
		volume: schema.VolumeDefinition{
			Definition: "vol", Number: 2, UUID: "u", Size: 1 << 40, Props: p, Flags: []string{"ENCRYPTED"}, Minor: new(int32(1000)), Key: []byte("k"), Deleting: true,
		},
		snapshot: schema.Snapshot{
			Definition: "vol", Name: "Snap", UUID: "u", Created: at, Props: p, Inherited: p, State: schema.SnapshotTaken, Deleting: true,
			Volumes: []schema.SnapshotVolumeDefinition{{Number: 2, Size: 1 << 40, Props: p, Flags: []string{"ENCRYPTED"}, Key: []byte("k")}},
			Layers:  model.Layers(), Request: "r", Hidden: true, Auto: true, Problem: "p",
		},
		replica: schema.SnapshotReplica{
			Definition: "vol", Snapshot: "snap", Node: "n1", UUID: "u", Created: at, State: schema.SnapshotFailed, Deleting: true, Taken: at,
			Volumes: []schema.SnapshotVolume{{Number: 2, UUID: "u", Pool: "pool"}},
		},
		nodeConn:  schema.NodeConnection{Pair: model.PairOf("n2", "n1"), UUID: "u", Props: p},
		rscConn:   schema.ResourceConnection{Definition: "vol", Pair: model.PairOf("n1", "n2"), UUID: "u", Props: p},
		keys:      schema.KeyValueInstance{Name: "Keys", Props: p},
		authority: schema.Authority{Certificate: []byte("c\x00"), PrivateKey: schema.Secret("k\xff")},
		membership: schema.Membership{Node: "n1", UUID: "u", Joins: 2, Token: &schema.JoinToken{
			Hash: "h", Created: at, Expires: at.Add(time.Hour), Used: new(at.Add(time.Minute)), UsedKey: "k",
		}},
		job: schema.Job{
			ID: "j", Kind: schema.EvacuateNode, Object: "n1", State: schema.JobCancelled, Asked: 2, Total: 3, Done: 1, Problems: []string{"p"},
			Failed: 1, Attempts: 4, NextTry: at, Created: at, Updated: at, Ended: at,
			Spec: schema.JobSpec{Targets: []string{"n2"}, Avoid: []string{"n3"}, From: "n1", UUID: "u", Source: &schema.CloneSource{Definition: "vol", Snapshot: "hid"}},
		},
	}
	f.beginning = schema.Beginning{
		Definition: "vol", Node: "n1", Volumes: []schema.FirstContent{{Number: 2, Generation: "8000000000000002", Starts: true}},
	}
	f.job.Spec.Filter = &f.group.Filter
	for i := range 2 {
		node := model.NodeName(fmt.Sprintf("N%d", i+1))
		f.nodes = append(f.nodes, schema.Node{
			Name: node, UUID: "u", Type: model.CombinedNode, Props: p, Deleting: true, Evacuating: true, Evicted: true, LeftAt: at,
		})
		f.pools = append(f.pools, schema.Pool{
			Node: node.Key(), Name: "Pool", UUID: "u", Provider: model.LVMThin, Props: p, SharedSpace: "s", ExternalLocking: true,
		})
		f.resources = append(f.resources, schema.Resource{
			Definition: "vol", Node: node.Key(), UUID: "u", Created: at, Kind: schema.TieBreaker, Props: p, NodeID: new(int32(i)),
			Ports: []int32{7000, 7001}, Deleting: true, ReplacedBy: "n3",
			Inactive: true, Adding: true, Becomes: schema.Client,
			Volumes: []schema.Volume{{Number: 2, UUID: "u", Pool: "pool", Size: 1 << 40, Props: p, Source: source, Deleting: true}},
		})
	}
	f.resources[0].Volumes[0].RollBack = &schema.RollBack{Snapshot: "snap", Token: "t"}
	return f
}

// insert writes all rows. What is being deleted takes no children, so that comes last.
func (f full) insert(tx *store.Tx) error {
	var failed error
	try := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	try(schema.Settings.Insert(tx, f.settings))
	for _, n := range f.nodes {
		n.Deleting = false
		try(schema.Nodes.Insert(tx, n))
	}
	try(schema.NetInterfaces.Insert(tx, f.iface))
	for _, p := range f.pools {
		try(schema.Pools.Insert(tx, p))
	}
	try(schema.Groups.Insert(tx, f.group))
	try(schema.VolumeGroups.Insert(tx, f.vgroup))
	d, v, s, r := f.definition, f.volume, f.snapshot, f.replica
	d.Deleting, v.Deleting, s.Deleting, r.Deleting = false, false, false, false
	try(schema.Definitions.Insert(tx, d))
	try(schema.VolumeDefinitions.Insert(tx, v))
	try(schema.Snapshots.Insert(tx, s))
	try(schema.SnapshotReplicas.Insert(tx, r))
	for _, x := range f.resources {
		x.Deleting = false
		try(schema.Resources.Insert(tx, x))
	}
	try(schema.Beginnings.Insert(tx, f.beginning))
	try(schema.NodeConnections.Insert(tx, f.nodeConn))
	try(schema.ResourceConnections.Insert(tx, f.rscConn))
	try(schema.KeyValues.Insert(tx, f.keys))
	try(schema.Authorities.Insert(tx, f.authority))
	try(schema.Memberships.Insert(tx, f.membership))
	try(schema.Jobs.Insert(tx, f.job))
	for _, x := range f.resources {
		try(schema.Resources.Update(tx, x))
	}
	try(schema.SnapshotReplicas.Update(tx, f.replica))
	try(schema.Snapshots.Update(tx, f.snapshot))
	try(schema.VolumeDefinitions.Update(tx, f.volume))
	try(schema.Definitions.Update(tx, f.definition))
	for _, n := range f.nodes {
		try(schema.Nodes.Update(tx, n))
	}
	return failed
}

// read reads all rows back.
func read(v *store.View) full {
	var f full
	f.settings, _ = schema.Settings.Get(v, schema.SettingsKey)
	for n := range schema.Nodes.All(v) {
		f.nodes = append(f.nodes, n)
	}
	f.iface, _ = schema.NetInterfaces.Get(v, model.InterfaceID{Node: "n1", Interface: "default"})
	for p := range schema.Pools.All(v) {
		f.pools = append(f.pools, p)
	}
	f.group, _ = schema.Groups.Get(v, "group")
	f.vgroup, _ = schema.VolumeGroups.Get(v, model.VolumeGroupID{Group: "group", Number: 3})
	f.definition, _ = schema.Definitions.Get(v, "vol")
	f.volume, _ = schema.VolumeDefinitions.Get(v, model.VolumeDefinitionID{Definition: "vol", Number: 2})
	f.snapshot, _ = schema.Snapshots.Get(v, model.SnapshotID{Definition: "vol", Snapshot: "snap"})
	f.replica, _ = schema.SnapshotReplicas.Get(v, model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "n1"})
	for r := range schema.Resources.All(v) {
		f.resources = append(f.resources, r)
	}
	f.beginning, _ = schema.Beginnings.Get(v, model.ResourceID{Definition: "vol", Node: "n1"})
	f.nodeConn, _ = schema.NodeConnections.Get(v, model.PairOf("n1", "n2"))
	f.rscConn, _ = schema.ResourceConnections.Get(v, model.ResourceConnectionID{Definition: "vol", Pair: model.PairOf("n1", "n2")})
	f.keys, _ = schema.KeyValues.Get(v, "keys")
	f.authority, _ = schema.Authorities.Get(v, schema.AuthorityKey)
	f.membership, _ = schema.Memberships.Get(v, "n1")
	f.job, _ = schema.Jobs.Get(v, "j")
	return f
}

func TestEveryFieldOfEveryKindSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	want := fullRows()
	requireNoZeroField(t, reflect.ValueOf(want), "row")
	st := open(t, boltkv.New(path))
	update(t, st, want.insert)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = open(t, boltkv.New(path))
	defer closed(t, st)
	if aside := st.SetAside(); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
	if diff := cmp.Diff(want, read(st.Snapshot()), cmp.AllowUnexported(full{}, model.Props{})); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
}

// requireNoZeroField makes sure that a field added to a row is also set in this test.
func requireNoZeroField(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[model.Props]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			requireNoZeroField(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct:
		requireNoZeroField(t, v.Elem(), path)
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() == reflect.Struct:
		requireNoZeroField(t, v.Index(0), path)
	case v.IsZero():
		t.Errorf("%s is not set", path)
	}
}

func TestDeletingAParentWithChildrenIsRefusedForEveryEdge(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	update(t, st, fullRows().insert)
	for name, del := range map[string]func(*store.Tx) error{
		"node":       func(tx *store.Tx) error { return schema.Nodes.Delete(tx, "n1") },
		"pool":       func(tx *store.Tx) error { return schema.Pools.Delete(tx, model.PoolID{Node: "n1", Pool: "pool"}) },
		"group":      func(tx *store.Tx) error { return schema.Groups.Delete(tx, "group") },
		"definition": func(tx *store.Tx) error { return schema.Definitions.Delete(tx, "vol") },
		"volume definition": func(tx *store.Tx) error {
			return schema.VolumeDefinitions.Delete(tx, model.VolumeDefinitionID{Definition: "vol", Number: 2})
		},
		"snapshot": func(tx *store.Tx) error {
			return schema.Snapshots.Delete(tx, model.SnapshotID{Definition: "vol", Snapshot: "snap"})
		},
		"source snapshot": func(tx *store.Tx) error {
			return schema.SnapshotReplicas.Delete(tx, model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "n1"})
		},
		"resource": func(tx *store.Tx) error {
			return schema.Resources.Delete(tx, model.ResourceID{Definition: "vol", Node: "n1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Update(t.Context(), st, del)
			if !errs.Is(err, errs.HasChildren) {
				t.Errorf("got %v, want a refusal that names the children", err)
			}
		})
	}
}
