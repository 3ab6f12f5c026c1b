// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// TestAPlanIsMadeAnewWhenWhatItRestsOnHasChanged changes the rules between the plan and the
// transaction that is to carry it out.
func TestAPlanIsMadeAnewWhenWhatItRestsOnHasChanged(t *testing.T) {
	out := model.PropsOf(map[string]string{"AutoplaceTarget": "no"})
	for name, change := range map[string]func(tx *store.Tx, picked model.PoolID) error{
		"the definition of the pool": func(tx *store.Tx, picked model.PoolID) error {
			return schema.PoolDefinitions.Insert(tx, schema.PoolDefinition{Name: model.PoolName(picked.Pool), Props: out})
		},
		"the pool": func(tx *store.Tx, picked model.PoolID) error {
			p, _ := schema.Pools.Get(tx, picked)
			p.Props = out
			return schema.Pools.Update(tx, p)
		},
		"the pool is gone": func(tx *store.Tx, picked model.PoolID) error { return schema.Pools.Delete(tx, picked) },
	} {
		t.Run(name, func(t *testing.T) {
			st, err := store.Open(t.Context(), kvtest.NewMemory(), schema.Collections())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = st.Close() }()
			update := func(f func(*store.Tx) error) {
				t.Helper()
				if _, err := schema.Update(t.Context(), st, f); err != nil {
					t.Fatal(err)
				}
			}
			seen := observed.New(time.Now)
			seen.Connect("n1", observed.Facts{Layers: model.Layers(), Providers: model.Providers()}, false)
			seen.Ready("n1")
			report := observed.Report{Pools: map[model.PoolKey]observed.PoolStatus{}}
			update(func(tx *store.Tx) error {
				return schema.Nodes.Insert(tx, schema.Node{Name: "n1", Type: model.SatelliteNode})
			})
			for i, pool := range []model.PoolName{"first", "second"} {
				room := int64(i+1) << 40
				report.Pools[pool.Key()] = observed.PoolStatus{Total: &room, Free: &room, Allocated: new(int64), Pledged: new(int64)}
				update(func(tx *store.Tx) error {
					return schema.Pools.Insert(tx, schema.Pool{Node: "n1", Name: pool, Provider: model.FileThin})
				})
			}
			seen.Report("n1", report)

			s := &Resources{Store: st, Observed: seen}
			p := &placing{
				definition: "vol", name: "vol", filter: model.Filter{PlaceCount: new(int32(1))}, layers: []model.Layer{model.Storage}, sizes: []int64{1 << 20},
			}
			if err := s.plan(st.Snapshot(), p); err != nil {
				t.Fatal(err)
			}
			picked := model.PoolID{Node: "n1", Pool: p.plan.Picks[0].Pool}
			if picked.Pool != "second" {
				t.Fatalf("the plan picks %s, which has less room", picked.Pool)
			}
			update(func(tx *store.Tx) error { return change(tx, picked) })
			update(func(tx *store.Tx) error { return s.confirm(tx, p) })
			if got := p.plan.Picks[0].Pool; got != "first" {
				t.Errorf("the plan still picks %s", got)
			}
		})
	}
}
