// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
)

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		name     string
		provider model.Provider
		space    placer.Space
		want     int64
	}{
		{"an empty pool", model.LVM, placer.Space{Total: 100, Free: 100}, 100},
		{"a volume promised and not yet made", model.LVM, placer.Space{Total: 100, Free: 100, Promised: 30}, 70},
		{"a volume made and measured", model.LVM, placer.Space{Total: 100, Free: 70, Allocated: 30, Promised: 30}, 70},
		{"one of each", model.LVM, placer.Space{Total: 100, Free: 70, Allocated: 30, Promised: 50}, 50},
		{"a volume gone and not yet measured", model.LVM, placer.Space{Total: 100, Free: 70, Allocated: 30}, 70},
		{"foreign data", model.LVM, placer.Space{Total: 100, Free: 40, Allocated: 30, Promised: 30}, 40},
		{"more promised than there is", model.LVM, placer.Space{Total: 100, Free: 10, Promised: 30}, 0},
		{"an empty thin pool", model.LVMThin, placer.Space{Total: 100, Free: 100}, 2000},
		{"the total limits all promises", model.LVMThin, placer.Space{Total: 100, Free: 100, Promised: 1950}, 50},
		{"the free space limits each promise", model.LVMThin, placer.Space{Total: 100, Free: 2, Promised: 100}, 40},
		{"a ratio for all", model.FileThin, placer.Space{Total: 10, Free: 10, FreeRatio: 2, TotalRatio: 2}, 20},
		{"a ratio for free space", model.ZFSThin, placer.Space{Total: 100, Free: 10, FreeRatio: 1.5}, 15},
		{"a ratio for total space", model.ZFSThin, placer.Space{Total: 100, Free: 100, TotalRatio: 0.5, Promised: 20}, 30},
		{"promised beyond the total", model.ZFSThin, placer.Space{Total: 100, Free: 100, TotalRatio: 1, Promised: 120}, 0},
		{"a ratio below zero", model.ZFSThin, placer.Space{Total: 100, Free: 100, FreeRatio: -1}, 0},
		{"numbers at the limit", model.ZFSThin, placer.Space{Total: math.MaxInt64, Free: math.MaxInt64}, math.MaxInt64},
		{"no disk", model.Diskless, placer.Space{}, math.MaxInt64},
	} {
		c.space.Known = true
		if got, known := c.space.Room(c.provider); got != c.want || !known {
			t.Errorf("%s: room is %d, %t, want %d", c.name, got, known, c.want)
		}
	}
	if _, known := (placer.Space{Total: 1, Free: 1}).Room(model.LVM); known {
		t.Error("what was not measured is known")
	}
}

// thickPool is a thick pool on a host, the promises of the controller, and what was measured last.
type thickPool struct {
	total, foreign int64
	volumes        []thickVolume
	measured       placer.Space
}

type thickVolume struct{ promised, made int64 }

func (p *thickPool) promised() (sum int64) {
	for _, v := range p.volumes {
		sum += v.promised
	}
	return sum
}

func (p *thickPool) measure() {
	p.measured = placer.Space{Known: true, Total: p.total, Free: p.total - p.foreign}
	for _, v := range p.volumes {
		p.measured.Free -= v.made
		p.measured.Allocated += min(v.made, v.promised)
	}
}

func (p *thickPool) room() int64 {
	p.measured.Promised = p.promised()
	room, _ := p.measured.Room(model.LVM)
	return room
}

func TestAThickPoolNeverPromisesWhatItDoesNotHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &thickPool{total: 100, foreign: rapid.Int64Range(0, 50).Draw(t, "foreign")}
		p.measure()
		pick := func() *thickVolume { return &p.volumes[rapid.IntRange(0, len(p.volumes)-1).Draw(t, "volume")] }
		t.Repeat(map[string]func(*rapid.T){
			"promise": func(t *rapid.T) {
				if room := p.room(); room > 0 {
					p.volumes = append(p.volumes, thickVolume{promised: rapid.Int64Range(1, room).Draw(t, "size")})
				}
			},
			"make": func(*rapid.T) {
				if len(p.volumes) > 0 {
					v := pick()
					v.made = v.promised
				}
			},
			"grow": func(t *rapid.T) {
				if room := p.room(); room > 0 && len(p.volumes) > 0 {
					pick().promised += rapid.Int64Range(1, room).Draw(t, "more")
				}
			},
			"remove": func(*rapid.T) {
				if len(p.volumes) > 0 {
					*pick() = p.volumes[len(p.volumes)-1]
					p.volumes = p.volumes[:len(p.volumes)-1]
				}
			},
			"forget": func(*rapid.T) { // A volume that nobody knows of any more is foreign data.
				if len(p.volumes) > 0 {
					v := pick()
					p.foreign += v.made
					*v = p.volumes[len(p.volumes)-1]
					p.volumes = p.volumes[:len(p.volumes)-1]
					p.measure()
				}
			},
			"measure": func(*rapid.T) { p.measure() },
			"": func(t *rapid.T) {
				if sum := p.promised() + p.foreign; sum > p.total {
					t.Fatalf("%d of %d are promised or foreign", sum, p.total)
				}
			},
		})
		p.measure()
		if room := p.room(); room != p.total-p.foreign-p.promised() {
			t.Fatalf("freshly measured, the room is %d, and %d are neither promised nor foreign", room, p.total-p.foreign-p.promised())
		}
	})
}

func TestFitsLooksAtThePoolAlone(t *testing.T) {
	p := pool("n1", "p", model.LVM, 10*gib)
	p.Granularity, p.NoTarget, p.MinRoom = 4<<20, true, 100*gib
	if ok, why := placer.Fits(p, []int64{4 * gib, 6 * gib}); !ok || why.Kind != 0 {
		t.Errorf("10 GiB into 10 GiB: %v", why)
	}
	ok, why := placer.Fits(p, []int64{4*gib + 1, 6 * gib})
	if ok || why.Kind != placer.NoSpace || why.Need != 10*gib+4<<20 || why.Have != 10*gib {
		t.Errorf("each size is rounded up to the granularity: %t, %+v", ok, why)
	}
	if ok, why := placer.Fits(p, []int64{math.MaxInt64, math.MaxInt64}); ok || why.Need != math.MaxInt64 {
		t.Errorf("sizes that cannot be added: %t, %+v", ok, why)
	}
	p.Fault = "directory /srv/pool is missing"
	if ok, why := placer.Fits(p, nil); ok || why.String() != p.Fault {
		t.Errorf("a faulty pool: %t, %v", ok, why)
	}
	p.Fault, p.Space.Known = "", false
	if ok, why := placer.Fits(p, nil); ok || why.Kind != placer.SpaceUnknown {
		t.Errorf("a pool that was not measured: %t, %v", ok, why)
	}
	if ok, _ := placer.Fits(placer.Pool{Provider: model.Diskless}, []int64{gib}); !ok {
		t.Error("a pool without disk takes everything")
	}
}

func TestUsableIsTheMostThatFitsSoOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 50), 0, 8).Draw(t, "sizes")
		replicas := rapid.IntRange(0, 5).Draw(t, "replicas")
		fits := func(amount int64) bool {
			var sum int64
			for _, size := range sizes {
				sum += min(size, amount)
			}
			return sum >= amount*int64(replicas)
		}
		got := placer.Usable(sizes, replicas)
		if replicas == 0 || len(sizes) < replicas {
			if got != 0 {
				t.Fatalf("got %d", got)
			}
			return
		}
		if !fits(got) || fits(got+1) {
			t.Fatalf("got %d", got)
		}
	})
	if got := placer.Usable([]int64{math.MaxInt64, math.MaxInt64, 5}, 2); got < math.MaxInt64/2 {
		t.Errorf("of what cannot be added: %d", got)
	}
}

func TestAnyPoolThatFitsIsUsed(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3")}
	pools := []placer.Pool{pool("n1", "p", model.LVM, 400*gib), pool("n2", "p", model.LVM, 400*gib), pool("n3", "p", model.LVM, 900*gib)}
	if plan, err := placer.Place(request(1, 500*gib), nodes, pools); err != nil || where(plan.Picks) != "n3/p" {
		t.Errorf("got %q, %v", where(plan.Picks), err)
	}
}

func TestOfflineNodesAreNoHindrance(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), {Name: "n3"}}
	pools := []placer.Pool{pool("n1", "p", model.LVM, gib), pool("n2", "p", model.LVM, gib), {Node: "n3", Name: "p", Provider: model.LVM}}
	if plan, err := placer.Place(request(2, gib), nodes, pools); err != nil || where(plan.Picks) != "n1/p n2/p" {
		t.Errorf("got %q, %v", where(plan.Picks), err)
	}
}

func TestConsecutivePlacementsSpread(t *testing.T) {
	for _, provider := range []model.Provider{model.LVM, model.LVMThin} {
		t.Run(string(provider), func(t *testing.T) {
			var nodes []placer.Node
			var pools []placer.Pool
			for i := range 6 {
				name := fmt.Sprint("n", i)
				nodes = append(nodes, node(name))
				p := pool(name, "p", provider, 400*gib)
				p.Space.Total = 400 * gib
				pools = append(pools, p)
			}
			for range 60 {
				plan, err := placer.Place(request(2, 10*gib), nodes, pools)
				if err != nil {
					t.Fatal(err)
				}
				for _, pick := range plan.Picks {
					for i := range pools {
						if pools[i].Node == pick.Node {
							pools[i].Space.Promised += 10 * gib
						}
					}
				}
			}
			for _, p := range pools {
				if p.Space.Promised != 200*gib {
					t.Errorf("%s was promised %d GiB, want 200", p.Node, p.Space.Promised/gib)
				}
			}
		})
	}
}

func TestRatiosAreTheSameForPlacingAndAsking(t *testing.T) {
	nodes := []placer.Node{node("n1")}
	pools := []placer.Pool{pool("n1", "p", model.LVMThin, 10*gib)}
	pools[0].Space.Total, pools[0].Space.FreeRatio, pools[0].Space.TotalRatio = 10*gib, 2, 2
	size, plan, err := placer.MaxSize(request(1, 0), nodes, pools)
	if err != nil || size != 20*gib || where(plan.Picks) != "n1/p" {
		t.Errorf("the largest volume is %d, %v", size, err)
	}
	pools[0].Space.Promised = 19 * gib
	if _, err := placer.Place(request(1, gib), nodes, pools); err != nil {
		t.Error(err)
	}
	if _, err := placer.Place(request(1, 2*gib), nodes, pools); !errs.Is(err, errs.NotEnough) {
		t.Errorf("21 GiB were promised: %v", err)
	}
}

func TestMaxSizeHonoursEveryRule(t *testing.T) {
	nodes := []placer.Node{node("n1", "zone=a"), node("n2", "zone=b"), node("n3", "zone=b")}
	pools := []placer.Pool{pool("n1", "p", model.LVM, 30*gib), pool("n2", "p", model.LVM, 20*gib), pool("n3", "p", model.LVM, 10*gib)}
	r := request(2, 0)
	if size, _, err := placer.MaxSize(r, nodes, pools); size != 20*gib || err != nil {
		t.Errorf("two of three: %d, %v", size, err)
	}
	r.Filter.ReplicasOnSame = []string{"Aux/zone"}
	if size, _, err := placer.MaxSize(r, nodes, pools); size != 10*gib || err != nil {
		t.Errorf("two of one zone: %d, %v", size, err)
	}
	r.Filter.Nodes = []string{"n1"}
	if size, _, err := placer.MaxSize(r, nodes, pools); size != 0 || !errs.Is(err, errs.NotEnough) {
		t.Errorf("one alone in its zone: %d, %v", size, err)
	}
	if _, _, err := placer.MaxSize(placer.Request{}, nodes, pools); !errs.Is(err, errs.Invalid) {
		t.Errorf("no replica is asked for: %v", err)
	}
	pools[0].Space.Free = math.MaxInt64
	if size, _, err := placer.MaxSize(request(1, 0), nodes, pools); size != model.MaxVolumeSize || err != nil {
		t.Errorf("the largest volume there is: %d, %v", size, err)
	}
}
