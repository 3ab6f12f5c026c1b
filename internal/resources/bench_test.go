// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// TestParallelSpawnsAllSucceedWithoutADoubledNumber spawns 200 definitions at once on four
// nodes. That no number is given twice and that reservations equal a recount is what the check
// of the database at the end looks for.
func TestParallelSpawnsAllSucceedWithoutADoubledNumber(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.group("grp", count(2))
	const spawns = 200
	failed := make(chan error, spawns)
	for i := range spawns {
		go func() {
			_, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{Name: fmt.Sprintf("vol-%d", i), Sizes: []int64{64 * mib}})
			failed <- err
		}()
	}
	for range spawns {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	minors, ports := map[int32]bool{}, map[string]bool{}
	view := r.Store.Snapshot()
	for v := range schema.VolumeDefinitions.All(view) {
		minors[*v.Minor] = true
	}
	for x := range schema.Resources.All(view) {
		ports[fmt.Sprintf("%s %d", x.Node, x.Ports[0])] = true
	}
	if len(minors) != spawns || len(ports) != 2*spawns {
		t.Errorf("%d minors of %d, %d ports of %d", len(minors), spawns, len(ports), 2*spawns)
	}
	var sum int64
	for n := range schema.Nodes.All(view) {
		sum += r.promised(n.Name.Key())
	}
	if want := 2 * spawns * 64 * mib; sum != want {
		t.Errorf("%d bytes are promised, want %d", sum, want)
	}
}

// populate fills a cluster with definitions of two replicas each, and waits until its hosts have
// them.
func populate(b *testing.B, c *cluster.Cluster, definitions int) {
	b.Helper()
	const chunk = 20
	nodes := []model.NodeKey{"n1", "n2", "n3", "n4"}
	for first := 0; first < definitions; first += chunk {
		_, err := schema.Update(b.Context(), c.Store, func(tx *store.Tx) error {
			for i := first; i < min(first+chunk, definitions); i++ {
				name := model.DefinitionName("old-" + strconv.Itoa(i))
				d := schema.Definition{Name: name, Group: "grp", Layers: []model.Layer{model.DRBD, model.Storage}}
				vd := schema.VolumeDefinition{Definition: name.Key(), Size: mib, Minor: new(int32(20000 + i))}
				if err := schema.Definitions.Insert(tx, d); err != nil {
					return err
				}
				if err := schema.VolumeDefinitions.Insert(tx, vd); err != nil {
					return err
				}
				for j := range 2 {
					if err := schema.Resources.Insert(tx, schema.Resource{
						Definition: name.Key(), Node: nodes[(i+j)%4], Kind: schema.Diskful, NodeID: new(int32(j)), Ports: []int32{int32(10000 + i)},
						Volumes: []schema.Volume{{Pool: "data", Size: mib}},
					}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for r := range schema.Resources.All(c.Store.Snapshot()) {
		c.Until(func() bool {
			st, _ := c.Observed.Resource(r.ID())
			return st.Current && st.Phase == observed.Ready
		})
	}
}

// instant makes hosts that have everything at once, without agents: what is left is the work of
// the controller.
func instant(b *testing.B, c *cluster.Cluster, nodes int) {
	b.Helper()
	for i := range nodes {
		name := model.NodeName(fmt.Sprintf("n%d", i+1))
		_, err := schema.Update(b.Context(), c.Store, func(tx *store.Tx) error {
			if err := schema.Nodes.Insert(tx, schema.Node{Name: name, Type: model.SatelliteNode}); err != nil {
				return err
			}
			if err := schema.Pools.Insert(tx, schema.Pool{Node: name.Key(), Name: schema.DisklessPool, Provider: model.Diskless}); err != nil {
				return err
			}
			return schema.Pools.Insert(tx, schema.Pool{Node: name.Key(), Name: cluster.Pool, Provider: model.FileThin})
		})
		if err != nil {
			b.Fatal(err)
		}
		online(c, name.Key(), cluster.Pool)
	}
	after := c.Store.Snapshot().Revision()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for commit, err := range c.Store.Watch(ctx, after) {
			if err != nil {
				return
			}
			for _, ch := range commit.Changes {
				if id, _, is, ok := schema.Resources.Changed(ch); ok && is != nil {
					c.Observed.Report(id.Node, observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{
						id.Definition: {Generation: uint64(commit.Revision), Phase: observed.Ready},
					}})
				}
			}
		}
	}()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
}

// online makes a node that has no agent one with much room.
func online(c *cluster.Cluster, node model.NodeKey, pools ...model.PoolKey) {
	c.Observed.Connect(node, observed.Facts{Layers: model.Layers(), Providers: model.Providers()}, false)
	c.Observed.Ready(node)
	status := observed.PoolStatus{Total: new(tib), Free: new(tib), Allocated: new(int64), Pledged: new(int64)}
	report := observed.Report{Pools: map[model.PoolKey]observed.PoolStatus{}}
	for _, p := range pools {
		report.Pools[p] = status
	}
	c.Observed.Report(node, report)
}

// BenchmarkSpawn spawns with placement on four nodes, from request to answer, next to more and
// more definitions, on hosts that have everything at once.
func BenchmarkSpawn(b *testing.B) {
	for _, definitions := range []int{100, 1_000, 10_000} {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("definitions=%d/clients=%d", definitions, clients), func(b *testing.B) {
				c := cluster.Start(b, cluster.Options{})
				must(b, c)
				instant(b, c, 4)
				spawns(b, c, definitions, clients)
			})
		}
	}
}

// BenchmarkSpawnAmongPools spawns into one of the pools that each of four nodes has, of which the others are more and more.
func BenchmarkSpawnAmongPools(b *testing.B) {
	for _, pools := range []int{1, 11, 101} {
		b.Run(fmt.Sprintf("pools=%d", pools), func(b *testing.B) {
			c := cluster.Start(b, cluster.Options{})
			must(b, c)
			instant(b, c, 4)
			for i := range pools - 1 {
				name := model.PoolName(fmt.Sprintf("more-%d", i))
				for n := range 4 {
					_, err := schema.Update(b.Context(), c.Store, func(tx *store.Tx) error {
						return schema.Pools.Insert(tx, schema.Pool{Node: model.NodeKey(fmt.Sprintf("n%d", n+1)), Name: name, Provider: model.FileThin})
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			spawns(b, c, 100, 1)
		})
	}
}

// BenchmarkSpawnThroughAgents is BenchmarkSpawn with agents on simulated hosts in the same
// process, whose looks at their pools grow with what lies in them.
func BenchmarkSpawnThroughAgents(b *testing.B) {
	for _, definitions := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("definitions=%d", definitions), func(b *testing.B) {
			c := cluster.Start(b, cluster.Options{Nodes: 4})
			must(b, c)
			spawns(b, c, definitions, 1)
		})
	}
}

func spawns(b *testing.B, c *cluster.Cluster, definitions, clients int) {
	b.Helper()
	populate(b, c, definitions)
	var n atomic.Int64
	var wg sync.WaitGroup
	runtime.GC()
	b.ResetTimer()
	before := cpu(b)
	for range clients {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				if _, err := c.Resources.Spawn(b.Context(), "grp", resources.NewSpawn{Name: fmt.Sprintf("new-%d", i), Sizes: []int64{mib}}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spawns/s")
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/spawn")
}

// cpu is the time that this process has computed for. On a machine with other work it tells more than the time on the wall.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkQuerySize asks for the largest volume, which reads the field of a large cluster and
// places on it.
func BenchmarkQuerySize(b *testing.B) {
	for _, nodes := range []int{4, 100, 1_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := cluster.Start(b, cluster.Options{})
			must(b, c)
			for i := range nodes {
				name := model.NodeName(fmt.Sprintf("node-%d", i))
				_, err := schema.Update(b.Context(), c.Store, func(tx *store.Tx) error {
					if err := schema.Nodes.Insert(tx, schema.Node{Name: name, Type: model.SatelliteNode}); err != nil {
						return err
					}
					for p := range 4 {
						pool := schema.Pool{Node: name.Key(), Name: model.PoolName(fmt.Sprintf("pool-%d", p)), Provider: model.FileThin}
						if err := schema.Pools.Insert(tx, pool); err != nil {
							return err
						}
					}
					return schema.Pools.Insert(tx, schema.Pool{Node: name.Key(), Name: schema.DisklessPool, Provider: model.Diskless})
				})
				if err != nil {
					b.Fatal(err)
				}
				online(c, name.Key(), "pool-0", "pool-1", "pool-2", "pool-3")
			}
			for b.Loop() {
				if _, err := c.Resources.QuerySize("grp", model.Filter{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Millisecond), "ms/query")
		})
	}
}

// must makes the group of the benchmarks.
func must(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	_, err := schema.Update(b.Context(), c.Store, func(tx *store.Tx) error {
		return schema.Groups.Insert(tx, schema.Group{Name: "grp", Filter: count(2)})
	})
	if err != nil {
		b.Fatal(err)
	}
}
