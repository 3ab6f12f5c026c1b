// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// mixedCase is a small database whose names have capitals.
func mixedCase(tx *store.Tx) error {
	var failed error
	try := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	try(schema.Nodes.Insert(tx, schema.Node{Name: "Alpha", Type: model.SatelliteNode}))
	try(schema.Nodes.Insert(tx, schema.Node{Name: "Beta", Type: model.SatelliteNode}))
	try(schema.NetInterfaces.Insert(tx, schema.NetInterface{Node: "alpha", Name: "Net0", Address: "10.0.0.1"}))
	try(schema.Pools.Insert(tx, schema.Pool{Node: "alpha", Name: "Fast", Provider: model.FileThin}))
	try(schema.Pools.Insert(tx, schema.Pool{Node: "beta", Name: "Fast", Provider: model.FileThin}))
	try(schema.Groups.Insert(tx, schema.Group{Name: "Gold"}))
	try(schema.VolumeGroups.Insert(tx, schema.VolumeGroup{Group: "gold", Number: 4}))
	try(schema.Definitions.Insert(tx, schema.Definition{Name: "Vol", Group: "gold", ExternalName: "pvc/1"}))
	try(schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "vol", Number: 1, Size: 1 << 20, Minor: new(int32(1000))}))
	try(schema.Snapshots.Insert(tx, schema.Snapshot{Definition: "vol", Name: "Snap"}))
	try(schema.SnapshotReplicas.Insert(tx, schema.SnapshotReplica{Definition: "vol", Snapshot: "snap", Node: "alpha"}))
	for i, n := range []model.NodeKey{"alpha", "beta"} {
		try(schema.Resources.Insert(tx, schema.Resource{
			Definition: "vol", Node: n, Kind: schema.Diskful, NodeID: new(int32(i)), Ports: []int32{7000},
			Volumes: []schema.Volume{{Number: 1, Pool: "fast", Size: 1 << 20}},
		}))
	}
	try(schema.KeyValues.Insert(tx, schema.KeyValueInstance{Name: "Keys"}))
	return failed
}

func TestRefusalsNameObjectsAsTheyWereCreated(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	update(t, st, mixedCase)
	for _, c := range []struct {
		want string
		do   func(*store.Tx) error
	}{
		{"node Alpha exists already", func(tx *store.Tx) error { return schema.Nodes.Insert(tx, schema.Node{Name: "ALPHA"}) }},
		{"network interface Net0 of node Alpha exists already", func(tx *store.Tx) error {
			return schema.NetInterfaces.Insert(tx, schema.NetInterface{Node: "alpha", Name: "NET0"})
		}},
		{"storage pool Fast on node Alpha exists already", func(tx *store.Tx) error {
			return schema.Pools.Insert(tx, schema.Pool{Node: "alpha", Name: "FAST"})
		}},
		{"resource group Gold exists already", func(tx *store.Tx) error { return schema.Groups.Insert(tx, schema.Group{Name: "GOLD"}) }},
		{"volume group 4 of Gold exists already", func(tx *store.Tx) error {
			return schema.VolumeGroups.Insert(tx, schema.VolumeGroup{Group: "gold", Number: 4})
		}},
		{"resource definition Vol exists already", func(tx *store.Tx) error {
			return schema.Definitions.Insert(tx, schema.Definition{Name: "VOL", Group: "gold"})
		}},
		{"volume definition 1 of Vol exists already", func(tx *store.Tx) error {
			return schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "vol", Number: 1})
		}},
		{"snapshot Snap of Vol exists already", func(tx *store.Tx) error {
			return schema.Snapshots.Insert(tx, schema.Snapshot{Definition: "vol", Name: "SNAP"})
		}},
		{"snapshot Snap of Vol on node Alpha exists already", func(tx *store.Tx) error {
			return schema.SnapshotReplicas.Insert(tx, schema.SnapshotReplica{Definition: "vol", Snapshot: "snap", Node: "alpha"})
		}},
		{"key-value store Keys exists already", func(tx *store.Tx) error {
			return schema.KeyValues.Insert(tx, schema.KeyValueInstance{Name: "KEYS"})
		}},
		{"storage pool Fast on node Alpha cannot be deleted: 1 of its resources still exist: Vol on node Alpha", func(tx *store.Tx) error {
			return schema.Pools.Delete(tx, model.PoolID{Node: "alpha", Pool: "fast"})
		}},
		{"resource definition Vol cannot be deleted: 1 of its volume definitions still exist: 1 of Vol", func(tx *store.Tx) error {
			return schema.Definitions.Delete(tx, "vol")
		}},
		{"volume definition 2 of Vol cannot have the minor number 1000: volume definition 1 of Vol has it", func(tx *store.Tx) error {
			return schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "vol", Number: 2, Minor: new(int32(1000))})
		}},
		{"resource definition more cannot have the external name pvc/1: resource definition Vol has it", func(tx *store.Tx) error {
			return schema.Definitions.Insert(tx, schema.Definition{Name: "More", Group: "gold", ExternalName: "pvc/1"})
		}},
		{"resource Vol on node Beta cannot have the node id 0: resource Vol on node Alpha has it", func(tx *store.Tx) error {
			r, _ := schema.Resources.Get(tx, model.ResourceID{Definition: "vol", Node: "beta"})
			r.NodeID = new(int32(0))
			return schema.Resources.Update(tx, r)
		}},
		{"node gamma does not exist", func(tx *store.Tx) error {
			return schema.Resources.Insert(tx, schema.Resource{Definition: "vol", Node: "gamma"})
		}},
	} {
		_, err := schema.Update(t.Context(), st, c.do)
		if errs.As(err) == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestUpdateEachBeginsNoMoreAfterAnError(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	wrong := errors.New("wrong")
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("group-%d", i)
	}
	insert := func(tx *store.Tx, name string) error {
		if name == "group-40" {
			return wrong
		}
		return schema.Groups.Insert(tx, schema.Group{Name: model.GroupName(name), UUID: name})
	}
	if err := schema.UpdateEach(t.Context(), st, names, insert); !errors.Is(err, wrong) {
		t.Errorf("the error is %v", err)
	}
	if n := schema.Groups.Len(st.Snapshot()); n != 63 {
		t.Errorf("%d of the 63 others in the first two parts were done", n)
	}
	if err := schema.UpdateEach(t.Context(), st, names[64:], insert); err != nil {
		t.Error(err)
	}
	if n := schema.Groups.Len(st.Snapshot()); n != 99 {
		t.Errorf("%d of 99 were done", n)
	}
}

func TestARefusalKeepsTheErrorOfTheStore(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	update(t, st, mixedCase)
	rev, err := schema.Update(t.Context(), st, func(tx *store.Tx) error {
		d, _ := schema.Definitions.Get(tx, "vol")
		d.Deleting = true
		if err := schema.Definitions.Update(tx, d); err != nil {
			return err
		}
		return schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "vol", Number: 2})
	})
	if !errs.Is(err, errs.Closing) || rev != 0 {
		t.Errorf("got revision %d and %v", rev, err)
	}
	if got := errs.As(err).Object; got != errs.ResourceDefinition {
		t.Errorf("the refusal is about object %d", got)
	}
}
