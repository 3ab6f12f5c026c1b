// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
)

// cluster is nodes with four pools each, in 40 zones and 250 racks. Free space differs from pool to pool.
func cluster(n int) ([]placer.Node, []placer.Pool) {
	nodes := make([]placer.Node, n)
	pools := make([]placer.Pool, 0, 4*n)
	for i := range nodes {
		name := model.NodeName(fmt.Sprintf("node-%04d", i))
		nodes[i] = placer.Node{
			Name: name, Online: i%50 != 0, Layers: model.Layers(), Replicas: i % 7,
			Props: model.PropsOf(map[string]string{
				"Aux/zone": fmt.Sprint(i % 40), "Aux/rack": fmt.Sprint(i / 4), "Aux/row": fmt.Sprint(i * 7 % 61),
			}),
		}
		for j, kind := range []string{"hdd", "ssd", "nvme", "cold"} {
			free := int64(100+(i*31+j*17)%900) << 30
			pools = append(pools, placer.Pool{
				Node: name.Key(), Name: model.PoolName(kind), Provider: model.LVMThin, Granularity: 4 << 20,
				Space: placer.Space{Known: true, Total: 1000 << 30, Free: free, Promised: 100 << 30},
			})
		}
	}
	return nodes, pools
}

func BenchmarkPlace(b *testing.B) {
	nodes, pools := cluster(1000)
	request := placer.Request{
		Filter: model.Filter{PlaceCount: new(int32(3))},
		Layers: []model.Layer{model.DRBD, model.Storage}, Sizes: []int64{10 << 30},
	}
	full := request
	full.Sizes = []int64{100 << 40}
	different := request
	different.Filter.ReplicasOnDifferent = []string{"Aux/zone"}
	crossed := request
	crossed.Filter.ReplicasOnDifferent = []string{"Aux/zone", "Aux/rack", "Aux/row"}
	same := request
	same.Filter.ReplicasOnSame = []string{"Aux/rack"}
	two := request
	two.Filter.XReplicasOnDifferent = map[string]int32{"Aux/zone": 2}
	for _, c := range []struct {
		name string
		req  placer.Request
	}{{"plain", request}, {"different", different}, {"crossed", crossed}, {"same", same}, {"x", two}, {"no space", full}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := placer.Place(c.req, nodes, pools); (err != nil) != (c.name == "no space") {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("max size", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := placer.MaxSize(different, nodes, pools); err != nil {
				b.Fatal(err)
			}
		}
	})
}
