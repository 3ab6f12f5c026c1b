// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// largest is the largest size that a spawn accepts, to the granularity of the pools, found by
// trying.
func (r *rig) largest(group string) int64 {
	r.t.Helper()
	const grain = 4096
	lo, hi := int64(0), 64*tib/grain // in grains; lo works, hi does not
	for n := 0; hi-lo > 1; n++ {
		mid := (lo + hi) / 2
		name := fmt.Sprintf("try-%d", n)
		_, err := r.Resources.Spawn(r.t.Context(), group, resources.NewSpawn{Name: name, Sizes: []int64{mid * grain}})
		if err != nil {
			hi = mid
			continue
		}
		lo = mid
		if _, err := r.Resources.DeleteDefinition(r.t.Context(), name); err != nil {
			r.t.Fatal(err)
		}
		r.settled()
	}
	return lo * grain
}

// settled waits until the agents have measured their pools without any volume.
func (r *rig) settled() {
	r.t.Helper()
	r.Until(func() bool {
		for node, a := range r.Agents {
			p, ok := r.Observed.Pool(model.PoolID{Node: model.NodeKey(node), Pool: cluster.Pool})
			var used int64
			for _, v := range a.Volumes() {
				used += v.Size
			}
			if !ok || p.Free == nil || p.Allocated == nil || *p.Allocated != 0 && used == 0 {
				return false
			}
		}
		return true
	})
}

func TestTheSizeThatIsToldIsTheLargestThatASpawnTakes(t *testing.T) {
	for _, c := range []struct {
		name     string
		provider model.Provider
		settings map[string]string
		want     int64
	}{
		{"thick", model.File, nil, 20 * gib},
		{"thin", model.FileThin, nil, 400 * gib},
		{"thin, at most twice the space", model.FileThin, map[string]string{"MaxOversubscriptionRatio": "2"}, 40 * gib},
		{"thin, at most thrice the free space", model.FileThin, map[string]string{"MaxFreeCapacityOversubscriptionRatio": "3"}, 60 * gib},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, cluster.Options{Nodes: 3, Provider: c.provider, Agent: func(a *fakeagent.Agent) {
				a.Resize(cluster.Pool, map[string]int64{"n1": 10 * gib, "n2": 20 * gib, "n3": 30 * gib}[a.Node])
			}})
			if c.settings != nil {
				r.settings(c.settings)
			}
			r.group("grp", count(2))
			info, err := r.Resources.QuerySize("grp", model.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if info.MaxVolume != c.want {
				t.Errorf("the largest volume is told to be %s, want %s", model.FormatSize(info.MaxVolume), model.FormatSize(c.want))
			}
			if found := r.largest("grp"); found != info.MaxVolume {
				t.Errorf("the largest spawn that works has %d bytes, %d were told", found, info.MaxVolume)
			}
			same(t, "next", fmt.Sprintf("%s, %s", info.Next[0].Node, info.Next[1].Node), "n3, n2")
		})
	}
}

func TestTheSizeThatIsToldHonoursTheFilter(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.nodeProps("n1", map[string]string{"Aux/zone": "a"})
	r.nodeProps("n2", map[string]string{"Aux/zone": "b"})
	r.nodeProps("n3", map[string]string{"Aux/zone": "b"})
	f := count(2)
	f.ReplicasOnSame = []string{"Aux/zone"}
	r.group("grp", f)
	if _, err := r.Resources.QuerySize("grp", model.Filter{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resources.QuerySize("grp", model.Filter{Nodes: []string{"n1"}})
	refused(t, err, errs.NotEnough)
	_, err = r.Resources.QuerySize("grp", model.Filter{PlaceCount: new(int32(0))})
	refused(t, err, errs.Invalid, "there is nothing to place")
	_, err = r.Resources.QuerySize("Nope", model.Filter{})
	refused(t, err, errs.NotFound, "resource group Nope does not exist")
}

// TestPromisedSpaceIsNeverPromisedTwice fills thick pools by parallel spawns to the last byte.
func TestPromisedSpaceIsNeverPromisedTwice(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Provider: model.File, PoolSize: 10 * gib})
	r.group("grp", count(1))
	const tries = 30 // of which 20 fit
	failed := make(chan error, tries)
	for i := range tries {
		go func() {
			_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: fmt.Sprintf("vol-%d", i), Sizes: []int64{gib}})
			failed <- err
		}()
	}
	fits := 0
	for range tries {
		if err := <-failed; err != nil {
			refused(t, err, errs.NotEnough, "not enough space")
		} else {
			fits++
		}
	}
	if fits != 20 || r.promised("n1") != 10*gib || r.promised("n2") != 10*gib {
		t.Errorf("%d of %d fit; promised are %d and %d", fits, tries, r.promised("n1"), r.promised("n2"))
	}
	if n := schema.Definitions.Len(r.Store.Snapshot()); n != fits {
		t.Errorf("%d definitions", n)
	}
}

// TestOrphansTakeRoomAndRedeemNoPromise looks at a thick pool in which an unknown volume lies,
// while a volume that was promised is not made yet.
func TestOrphansTakeRoomAndRedeemNoPromise(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, Provider: model.File, PoolSize: 10 * gib})
	r.group("grp", count(1))
	r.Agents["n1"].PutVolume(cluster.Pool, "stray", 0, 4*gib)
	id := model.PoolID{Node: "n1", Pool: cluster.Pool}
	r.Until(func() bool {
		p, _ := r.Observed.Pool(id)
		return len(p.Unknown) == 1 && *p.Allocated == 4*gib && *p.Pledged == 0
	})
	room := func() int64 {
		row, _ := schema.Pools.Get(r.Store.Snapshot(), id)
		_, room, known := r.Resources.Space(r.Store.Snapshot(), row)
		if !known {
			t.Error("the room is not known")
		}
		return room
	}
	hold := r.Agents["n1"].HoldApplies("vol")
	ended := make(chan error, 1)
	go func() {
		_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: "vol", Sizes: []int64{3 * gib}})
		ended <- err
	}()
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := room(); got != 3*gib {
		t.Errorf("%s can be promised while 3 of 6 GiB are", model.FormatSize(got))
	}
	hold.Release()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.Until(func() bool {
		p, _ := r.Observed.Pool(id)
		return *p.Allocated == 7*gib
	})
	if got := room(); got != 3*gib {
		t.Errorf("%s can be promised when 3 of 10 GiB are free", model.FormatSize(got))
	}
}
