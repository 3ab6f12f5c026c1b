// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer_test

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
)

const gib = int64(1) << 30

func node(name string, labels ...string) placer.Node {
	props := map[string]string{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		props["Aux/"+key] = value
	}
	return placer.Node{Name: model.NodeName(name), Online: true, Layers: model.Layers(), Props: model.PropsOf(props)}
}

func pool(node, name string, provider model.Provider, free int64) placer.Pool {
	return placer.Pool{
		Node: model.NodeName(node).Key(), Name: model.PoolName(name), Provider: provider,
		Space: placer.Space{Known: true, Total: 1000 * gib, Free: free},
	}
}

func request(count int32, size int64) placer.Request {
	return placer.Request{
		Filter: model.Filter{PlaceCount: &count}, Layers: []model.Layer{model.DRBD, model.Storage}, Sizes: []int64{size},
	}
}

// where lists picks as node/pool.
func where(picks []placer.Pick) string {
	var list []string
	for _, p := range picks {
		list = append(list, string(p.Node)+"/"+string(p.Pool))
	}
	return strings.Join(list, " ")
}

func TestEveryReasonIsGiven(t *testing.T) {
	with := func(change func(n *placer.Node, p *placer.Pool, r *placer.Request)) (placer.Node, placer.Pool, placer.Request) {
		n, p, r := node("n1", "zone=a"), pool("n1", "pool", model.LVM, 10*gib), request(1, gib)
		change(&n, &p, &r)
		return n, p, r
	}
	type (
		N = *placer.Node
		P = *placer.Pool
		R = *placer.Request
	)
	for _, c := range []struct {
		change func(N, P, R)
		kind   placer.Reason
		want   string
	}{
		{func(_ N, _ P, r R) { r.Existing = []placer.Existing{{Node: "n1", Uncounted: true}} }, placer.Occupied, "1 node: has a replica already"},
		{func(n N, _ P, _ R) { n.Leaving = "it is being evacuated" }, placer.Leaving, "1 node: it is being evacuated"},
		{func(n N, _ P, _ R) { n.Online = false }, placer.Offline, "1 node: node is offline"},
		{func(n N, _ P, _ R) { n.NoTarget = true }, placer.NotTarget, "1 node: AutoplaceTarget is false"},
		{func(_ N, _ P, r R) { r.Filter.Nodes = []string{"n2"} }, placer.NodeNotListed, "1 node: node is not in the node list"},
		{func(n N, _ P, _ R) { n.Layers = []model.Layer{model.Storage} }, placer.LayerMissing, "1 node: node cannot run the layer DRBD"},
		{func(_ N, _ P, r R) { r.Filter.NotPlaceWith = []string{"DB"} }, placer.PlacedWith, "1 node: node has a replica of db, which this must not be placed with"},
		{func(_ N, _ P, r R) { r.Filter.NotPlaceWithRegex = new("^D") }, placer.PlacedWith, "1 node: node has a replica of db, which this must not be placed with"},
		{func(_ N, _ P, r R) { r.Filter.ReplicasOnSame = []string{"Aux/rack"} }, placer.ValueMissing, "1 node: node does not have the property Aux/rack"},
		{func(_ N, _ P, r R) { r.Filter.ReplicasOnSame = []string{"Aux/zone=b"} }, placer.ValueDiffers, "1 node: node does not have Aux/zone=b"},
		{func(_ N, _ P, r R) { r.Filter.ReplicasOnDifferent = []string{"Aux/zone=a"} }, placer.ValueTaken, "1 node: Aux/zone=a must not be used again"},
		{func(_ N, p P, _ R) { p.Provider = model.Diskless }, placer.NoPool, "1 node: node has no pool of that kind"},
		{func(_ N, _ P, r R) { r.Filter.Pools = []string{"other"} }, placer.PoolNotListed, "1 pool: pool is not in the pool list"},
		{func(_ N, _ P, r R) { r.Filter.Providers = []string{"zfs"} }, placer.ProviderOther, "1 pool: the provider LVM is not in the provider list"},
		{func(n N, _ P, _ R) { n.Providers = []model.Provider{model.File} }, placer.ProviderMissing, "1 pool: node cannot run the provider LVM"},
		{func(_ N, p P, _ R) { p.NoTarget = true }, placer.PoolNotTarget, "1 pool: AutoplaceTarget is false"},
		{func(_ N, p P, _ R) { p.Fault = "volume group vg0 is missing" }, placer.PoolFaulty, "1 pool: volume group vg0 is missing"},
		{func(_ N, p P, _ R) { p.Space = placer.Space{Total: 10 * gib, Free: 10 * gib} }, placer.SpaceUnknown, "1 pool: free space is not known"},
		{func(_ N, p P, _ R) { p.Space.Free = 3 * gib / 2; p.Granularity = 4 * gib }, placer.NoSpace, "1 pool: not enough space (largest has 1.50 GiB free to promise, 4 GiB needed; of 1000 GiB, 1.50 GiB are free, 0 B promised, 0 B allocated)"},
		{func(_ N, p P, _ R) { p.Provider = model.LVMThin; p.Space.Free = gib; p.MinRoom = 100 * gib }, placer.TooFull, "1 pool: too full (largest has 20 GiB free to promise, at least 100 GiB are kept; of 1000 GiB, 1 GiB are free, 0 B promised, 0 B allocated)"},
	} {
		n, p, r := with(c.change)
		r.Others = func(model.NodeKey) iter.Seq[model.DefinitionKey] {
			return slices.Values([]model.DefinitionKey{"web", "db"})
		}
		plan, err := placer.Place(r, []placer.Node{n}, []placer.Pool{p})
		if !errs.Is(err, errs.NotEnough) || len(plan.Rejected) != 1 || plan.Rejected[0].Kind != c.kind {
			t.Errorf("%s: got %v, %v", c.want, plan.Rejected, err)
			continue
		}
		if got := errs.As(err).Details; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestReasonsThatExistingReplicasGive(t *testing.T) {
	nodes := []placer.Node{node("n1", "zone=a"), node("n2", "zone=a"), node("n3", "zone=b")}
	pools := []placer.Pool{pool("n1", "pool", model.LVM, 10*gib), pool("n2", "pool", model.LVM, 10*gib), pool("n3", "pool", model.ZFS, 10*gib)}
	pools[0].SharedSpace, pools[1].SharedSpace = "san", "san"
	r := request(2, gib)
	r.Existing = []placer.Existing{{Node: "n1", Pool: "pool", Diskful: true}}
	plan, err := placer.Place(r, nodes, pools)
	want := []placer.Rejection{
		{Node: "n1", Kind: placer.Occupied},
		{Node: "n2", Pool: "pool", Kind: placer.SpaceShared},
		{Node: "n3", Pool: "pool", Kind: placer.ProviderMixed, Subject: "ZFS"},
	}
	if diff := cmp.Diff(want, plan.Rejected); diff != "" || !errs.Is(err, errs.NotEnough) {
		t.Errorf("%v\n%s", err, diff)
	}
	pools[1].SharedSpace, pools[2].Provider = "", model.LVMThin
	r.Filter.ReplicasOnDifferent = []string{"Aux/zone"}
	plan, _ = placer.Place(r, nodes, pools)
	if got := plan.Rejected[1]; got.Kind != placer.ValueTaken || got.Subject != "Aux/zone=a" {
		t.Errorf("a value that is used up: %v", got)
	}
	r.Filter.ReplicasOnDifferent, r.Filter.ReplicasOnSame = nil, []string{"Aux/zone"}
	plan, err = placer.Place(r, nodes, pools)
	if err != nil || where(plan.Picks) != "n2/pool" {
		t.Errorf("the existing replica decides the zone: %v, %v", where(plan.Picks), err)
	}
}

func TestSummaryCountsAndNamesTheLargest(t *testing.T) {
	var rejected []placer.Rejection
	for i := range 12 {
		rejected = append(rejected, placer.Rejection{
			Node: model.NodeKey(fmt.Sprint("n", i)), Pool: "p", Kind: placer.NoSpace, Need: 5 * gib, Have: int64(i+1) * gib / 4,
		})
	}
	for i := range 3 {
		rejected = append(rejected, placer.Rejection{Node: model.NodeKey(fmt.Sprint("m", i)), Kind: placer.Offline})
	}
	want := "12 pools: not enough space (largest has 3 GiB free to promise, 5 GiB needed); 3 nodes: node is offline"
	if got := placer.Summarize(rejected); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := placer.Summarize(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestNotEnoughSaysWhatEveryNodeLacks(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3")}
	nodes[0].Layers, nodes[1].Layers, nodes[2].Online = []model.Layer{model.Storage}, []model.Layer{model.Storage}, false
	pools := []placer.Pool{pool("n1", "ssd", model.LVM, 10*gib), pool("n2", "ssd", model.LVM, 10*gib), pool("n3", "ssd", model.LVM, 10*gib)}
	_, err := placer.Place(request(2, gib), nodes, pools)
	const want = "not enough nodes: 2 replicas wanted in addition to 0, and only 0 can be placed: " +
		"no node can take a replica: 2 nodes: node cannot run the layer DRBD; 1 node: node is offline (add nodes, pools or space, or ask for less)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNotEnoughSaysWhatIsBehindIt(t *testing.T) {
	nodes := []placer.Node{node("n1", "zone=a"), node("n2", "zone=a"), node("n3", "zone=b")}
	pools := []placer.Pool{pool("n1", "ssd", model.LVM, 10*gib), pool("n2", "ssd", model.LVM, 10*gib), pool("n3", "ssd", model.LVM, 10*gib)}
	for _, c := range []struct {
		change func(*model.Filter)
		want   string
	}{
		{
			func(f *model.Filter) { f.Pools = []string{"SDS", "ssd"}; f.PlaceCount = new(int32(4)) },
			`not enough nodes: 4 replicas wanted in addition to 0, and only 3 can be placed: no pool is named "sds"; 3 nodes can take a replica (add nodes, pools or space, or ask for less)`,
		},
		{
			func(f *model.Filter) { f.Nodes = []string{"N1", "n9"}; f.PlaceCount = new(int32(2)) },
			`not enough nodes: 2 replicas wanted in addition to 0, and only 1 can be placed: no node is named "n9"; 1 node can take a replica (add nodes, pools or space, or ask for less)`,
		},
		{
			func(f *model.Filter) { f.ReplicasOnDifferent = []string{"Aux/zone"}; f.PlaceCount = new(int32(3)) },
			`not enough nodes: 3 replicas wanted in addition to 0, and only 2 can be placed: at most 1 replica may lie on nodes of the same Aux/zone, which leaves 2 replicas on the nodes that can take one (add nodes, pools or space, or ask for less)`,
		},
		{
			func(f *model.Filter) { f.ReplicasOnSame = []string{"Aux/zone"}; f.PlaceCount = new(int32(3)) },
			`not enough nodes: 3 replicas wanted in addition to 0, and only 2 can be placed: 3 nodes can take a replica, but not so many together: the same Aux/zone, one replica to a shared space, no mixing of providers (add nodes, pools or space, or ask for less)`,
		},
	} {
		r := request(1, gib)
		c.change(&r.Filter)
		if _, err := placer.Place(r, nodes, pools); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	nodes, pools := []placer.Node{node("n1", "zone=a"), node("n2", "zone=b")}, []placer.Pool{pool("n1", "p", model.LVM, gib)}
	for _, c := range []struct {
		change func(*placer.Request)
		kind   errs.Kind
		want   string
	}{
		{func(r *placer.Request) { r.Filter.NotPlaceWithRegex = new("a(") }, errs.Invalid, `"a("`},
		{func(r *placer.Request) { r.Filter.Providers = []string{"TAPE"} }, errs.Invalid, `"TAPE"`},
		{func(r *placer.Request) { r.Layers = nil; r.Filter.Layers = []string{"CAKE"} }, errs.Invalid, `"CAKE"`},
		{func(r *placer.Request) { r.Filter.DisklessType = new("NVME_INITIATOR") }, errs.Unsupported, `"NVME_INITIATOR"`},
		{func(r *placer.Request) { r.Filter.XReplicasOnDifferent = map[string]int32{"Aux/zone": 0} }, errs.Invalid, `"Aux/zone"`},
		{func(r *placer.Request) { r.Filter.ReplicasOnSame = []string{"=a"} }, errs.Invalid, `"=a"`},
		{func(r *placer.Request) { r.Filter.ReplicasOnDifferent = []string{""} }, errs.Invalid, `""`},
		{func(r *placer.Request) {
			r.Filter.ReplicasOnSame = []string{"Aux/zone"}
			r.Existing = []placer.Existing{{Node: "n1", Diskful: true}, {Node: "n2", Diskful: true}}
		}, errs.NotEnough, "existing replicas lie on nodes with a, b"},
	} {
		r := request(1, 1)
		c.change(&r)
		if _, err := placer.Place(r, nodes, pools); !errs.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.want, err)
		}
	}
}

func TestCountsThatNeedNothing(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3")}
	pools := []placer.Pool{pool("n1", "p", model.LVM, gib), pool("n2", "p", model.LVM, gib), pool("n3", "p", model.LVM, gib)}
	diskful := func(names ...model.NodeKey) (list []placer.Existing) {
		for _, n := range names {
			list = append(list, placer.Existing{Node: n, Pool: "p", Diskful: true})
		}
		return list
	}
	for _, c := range []struct {
		name     string
		filter   model.Filter
		existing []placer.Existing
		want     int
		have     int
		picks    int
	}{
		{"as many as wanted", model.Filter{PlaceCount: new(int32(2))}, diskful("n1", "n2"), 2, 2, 0},
		{"more than wanted", model.Filter{PlaceCount: new(int32(1))}, diskful("n1", "n2"), 1, 2, 0},
		{"no count", model.Filter{}, diskful("n1"), 0, 1, 0},
		{"in addition", model.Filter{AdditionalPlaceCount: new(int32(1)), PlaceCount: new(int32(1))}, diskful("n1", "n2"), 3, 2, 1},
		{"in addition to nothing said", model.Filter{AdditionalPlaceCount: new(int32(0)), PlaceCount: new(int32(1))}, nil, 1, 0, 1},
		{
			"those without a disk do not count",
			model.Filter{PlaceCount: new(int32(2))},
			append(diskful("n1"), placer.Existing{Node: "n2"}, placer.Existing{Node: "n3", Client: true}), 2, 1, 1,
		},
		{
			"those on their way out do not count",
			model.Filter{PlaceCount: new(int32(2))},
			append(diskful("n1"), placer.Existing{Node: "n2", Pool: "p", Diskful: true, Uncounted: true}), 2, 1, 1,
		},
	} {
		r := placer.Request{Filter: c.filter, Sizes: []int64{1}, Existing: c.existing}
		plan, err := placer.Place(r, nodes, pools)
		if err != nil || plan.Want != c.want || plan.Have != c.have || len(plan.Picks) != c.picks {
			t.Errorf("%s: want %d, have %d, picks %q, %v", c.name, plan.Want, plan.Have, where(plan.Picks), err)
		}
	}
}

func TestSharedSpaceCountsAsOneReplicaAndTakesOne(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3"), node("n4")}
	var pools []placer.Pool
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		pools = append(pools, pool(n, "san", model.LVM, 10*gib))
	}
	pools[0].SharedSpace, pools[1].SharedSpace, pools[2].SharedSpace = "a", "a", "a"
	if plan, err := placer.Place(request(2, gib), nodes, pools); err != nil || where(plan.Picks) != "n1/san n4/san" {
		t.Errorf("two replicas: %q, %v", where(plan.Picks), err)
	}
	if _, err := placer.Place(request(3, gib), nodes, pools); !errs.Is(err, errs.NotEnough) {
		t.Errorf("three replicas in two spaces: %v", err)
	}
	r := request(2, gib)
	r.Existing = []placer.Existing{{Node: "n1", Pool: "san", Diskful: true}, {Node: "n2", Pool: "san", Diskful: true}}
	if plan, err := placer.Place(r, nodes, pools); err != nil || plan.Have != 1 || where(plan.Picks) != "n4/san" {
		t.Errorf("two attachments of one space are one replica: have %d, %q, %v", plan.Have, where(plan.Picks), err)
	}
}

func TestProvidersMixOnlyWhereTheyMay(t *testing.T) {
	for _, c := range []struct {
		a, b         model.Provider
		plain, mixed bool
	}{
		{model.LVM, model.LVM, true, true},
		{model.LVM, model.LVMThin, false, true},
		{model.LVM, model.ZFS, false, true},
		{model.LVMThin, model.ZFSThin, false, true},
		{model.ZFS, model.ZFSThin, true, true},
		{model.File, model.FileThin, true, true},
		{model.File, model.LVM, false, false},
		{model.FileThin, model.ZFS, false, false},
	} {
		for _, allowed := range []bool{false, true} {
			for _, capable := range []bool{false, true} {
				nodes := []placer.Node{node("n1"), node("n2")}
				nodes[0].Mixes, nodes[1].Mixes = true, capable
				pools := []placer.Pool{pool("n1", "p", c.a, gib), pool("n2", "p", c.b, gib)}
				r := request(2, 1)
				r.MixProviders = allowed
				want := c.plain || c.mixed && allowed && capable
				if _, err := placer.Place(r, nodes, pools); (err == nil) != want {
					t.Errorf("%s with %s, allowed %t, capable %t: %v", c.a, c.b, allowed, capable, err)
				}
				r.Existing = []placer.Existing{{Node: "n1", Pool: "p", Diskful: true}}
				if _, err := placer.Place(r, nodes, pools); (err == nil) != want {
					t.Errorf("%s next to %s, allowed %t, capable %t: %v", c.b, c.a, allowed, capable, err)
				}
				r.Existing[0].Node = "n2"
				if _, err := placer.Place(r, nodes, pools); (err == nil) != want {
					t.Errorf("%s next to %s, allowed %t, capable %t: %v", c.a, c.b, allowed, capable, err)
				}
			}
		}
	}
}

func TestDisklessReplicas(t *testing.T) {
	nodes := []placer.Node{node("n1", "zone=a"), node("n2", "zone=a"), node("n3", "zone=b"), node("n4", "zone=c"), node("n5"), node("n6"), node("n7")}
	nodes[3].Online, nodes[4].Leaving, nodes[5].Layers = false, "it was evicted", []model.Layer{model.Storage}
	var pools []placer.Pool
	for _, n := range nodes {
		pools = append(pools, pool(string(n.Name), "data", model.LVM, 10*gib), placer.Pool{Node: n.Name.Key(), Name: "DfltDisklessStorPool", Provider: model.Diskless})
	}
	r := request(1, gib)
	r.Existing = []placer.Existing{{Node: "n1", Pool: "data", Diskful: true}, {Node: "n7", Client: true}}
	r.Filter.DisklessType, r.Filter.AdditionalPlaceCount = new("drbd_diskless"), new(int32(1))
	r.Filter.ReplicasOnDifferent = []string{"Aux/zone"}
	r.Filter.Pools = []string{"data"}
	plan, err := placer.Place(r, nodes, pools)
	if err != nil || where(plan.Picks) != "n3/dfltdisklessstorpool" || plan.Have != 1 {
		t.Errorf("a tie-breaker: %q, have %d, %v", where(plan.Picks), plan.Have, err)
	}
	r = request(2, gib)
	r.Filter.Nodes = []string{"n1", "n2"}
	r.Filter.DisklessOnRemaining = new(true)
	r.Existing = []placer.Existing{{Node: "n7"}}
	plan, err = placer.Place(r, nodes, pools)
	if want := []model.NodeKey{"n3", "n7"}; err != nil || !slices.Equal(plan.DisklessOn, want) {
		t.Errorf("clients go to %v, want %v: %v", plan.DisklessOn, want, err)
	}
}

func TestNodesInUseWithoutADiskAreTakenLast(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3")}
	pools := []placer.Pool{pool("n1", "p", model.LVM, 9*gib), pool("n2", "p", model.LVM, 5*gib), pool("n3", "p", model.LVM, 2*gib)}
	r := request(1, gib)
	r.Existing = []placer.Existing{{Node: "n1", Client: true}, {Node: "n2"}}
	plan, err := placer.Place(r, nodes, pools)
	if err != nil || where(plan.Picks) != "n2/p" || !plan.Picks[0].Convert {
		t.Errorf("the tie-breaker's node is as good as an empty one: %v, %v", plan.Picks, err)
	}
	r.Filter.PlaceCount = new(int32(3))
	plan, err = placer.Place(r, nodes, pools)
	if err != nil || where(plan.Picks) != "n2/p n3/p n1/p" || !plan.Picks[2].Convert || plan.Picks[1].Convert {
		t.Errorf("all three: %v, %v", plan.Picks, err)
	}
}

func TestPreferences(t *testing.T) {
	nodes := []placer.Node{node("n1", "zone=a"), node("n2", "zone=a"), node("n3", "zone=b"), node("n4", "zone=b")}
	pools := []placer.Pool{
		pool("n1", "hdd", model.LVM, 900*gib), pool("n1", "ssd", model.LVM, 100*gib), pool("n2", "ssd", model.LVM, 90*gib),
		pool("n3", "nvme", model.LVM, 800*gib), pool("n4", "cold", model.LVM, 700*gib),
	}
	if plan, err := placer.Place(request(2, gib), nodes, pools); err != nil || where(plan.Picks) != "n1/ssd n2/ssd" {
		t.Errorf("one name goes before space: %q, %v", where(plan.Picks), err)
	}
	if plan, err := placer.Place(request(3, gib), nodes, pools); err != nil || where(plan.Picks) != "n1/hdd n3/nvme n4/cold" {
		t.Errorf("without one name, space decides: %q, %v", where(plan.Picks), err)
	}
	r := request(2, gib)
	r.Existing = []placer.Existing{{Node: "n1", Pool: "ssd", Diskful: true}}
	if plan, err := placer.Place(r, nodes, pools); err != nil || where(plan.Picks) != "n2/ssd" {
		t.Errorf("an existing replica's name is kept: %q, %v", where(plan.Picks), err)
	}
}

func TestPoolsOfOneNameAreComparedAsAWhole(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3"), node("n4")}
	pools := []placer.Pool{
		pool("n1", "hdd", model.LVM, 900*gib), pool("n2", "hdd", model.LVM, 10*gib), pool("n3", "ssd", model.LVM, 800*gib), pool("n4", "ssd", model.LVM, 800*gib),
	}
	if plan, err := placer.Place(request(2, gib), nodes, pools); err != nil || where(plan.Picks) != "n3/ssd n4/ssd" {
		t.Errorf("got %q, %v", where(plan.Picks), err)
	}
	r := request(2, gib)
	r.Existing = []placer.Existing{{Node: "n4", Client: true}}
	if plan, err := placer.Place(r, nodes, pools); err != nil || where(plan.Picks) != "n1/hdd n2/hdd" {
		t.Errorf("a node in use is avoided: got %q, %v", where(plan.Picks), err)
	}
}

func TestValuesAreFilledOneAfterTheOther(t *testing.T) {
	nodes := []placer.Node{node("n1", "zone=a"), node("n2", "zone=a"), node("n3", "zone=b"), node("n4", "zone=c")}
	pools := []placer.Pool{pool("n1", "p", model.LVM, 900*gib), pool("n2", "p", model.LVM, 100*gib), pool("n3", "p", model.LVM, 800*gib), pool("n4", "p", model.LVM, 700*gib)}
	r := request(2, gib)
	r.Filter.XReplicasOnDifferent = map[string]int32{"Aux/zone": 2}
	if plan, err := placer.Place(r, nodes, pools); err != nil || where(plan.Picks) != "n1/p n2/p" {
		t.Errorf("two: %q, %v", where(plan.Picks), err)
	}
	r.Filter.PlaceCount = new(int32(3))
	if plan, err := placer.Place(r, nodes, pools); err != nil || where(plan.Picks) != "n1/p n3/p n2/p" {
		t.Errorf("three: %q, %v", where(plan.Picks), err)
	}
	r.Filter.PlaceCount = new(int32(4))
	if plan, err := placer.Place(r, nodes, pools); err != nil || len(plan.Picks) != 4 {
		t.Errorf("when that is not possible they are placed all the same: %q, %v", where(plan.Picks), err)
	}
	r.Filter.PlaceCount = new(int32(2))
	r.Existing = []placer.Existing{{Node: "n3", Pool: "p", Diskful: true}}
	if plan, err := placer.Place(r, append(nodes, node("n5", "zone=b")), append(pools, pool("n5", "p", model.LVM, 2*gib))); err != nil || where(plan.Picks) != "n5/p" {
		t.Errorf("what an existing replica began is filled: %q, %v", where(plan.Picks), err)
	}
}

func TestPoolsOfOneNodeInDifferentSpaces(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2")}
	pools := []placer.Pool{pool("n1", "one", model.LVM, 900*gib), pool("n1", "two", model.LVM, 100*gib), pool("n2", "one", model.LVM, 900*gib)}
	pools[0].SharedSpace, pools[1].SharedSpace, pools[2].SharedSpace = "s1", "s2", "s1"
	if plan, err := placer.Place(request(2, gib), nodes, pools); err != nil || where(plan.Picks) != "n2/one n1/two" {
		t.Errorf("got %q, %v", where(plan.Picks), err)
	}
	if plan, err := placer.Place(request(2, gib), nodes[:1], pools[:2]); !errs.Is(err, errs.NotEnough) {
		t.Errorf("two replicas on one node: %q, %v", where(plan.Picks), err)
	}
}

func TestWeightsDecide(t *testing.T) {
	nodes := []placer.Node{node("n1"), node("n2"), node("n3"), node("n4")}
	nodes[0].Replicas, nodes[1].Replicas, nodes[2].Replicas, nodes[3].Replicas = 5, 5, 0, 5
	pools := []placer.Pool{pool("n1", "p", model.LVMThin, 900*gib), pool("n2", "p", model.LVMThin, 800*gib), pool("n3", "p", model.LVMThin, 700*gib), pool("n4", "p", model.LVMThin, 600*gib)}
	for i := range pools {
		pools[i].Space.Promised, pools[i].Space.Allocated = 100*gib, 100*gib
	}
	pools[1].Space.Promised, pools[1].Space.Allocated = 0, 0
	pools[3].Throughput = 1 << 20
	for _, c := range []struct {
		weights placer.Weights
		want    string
	}{
		{placer.DefaultWeights(), "n1/p"},
		{placer.Weights{MinReservedSpace: 1}, "n2/p"},
		{placer.Weights{MinRscCount: 1}, "n3/p"},
		{placer.Weights{MaxThroughput: 1}, "n4/p"},
		{placer.Weights{}, "n3/p"},
		{placer.Weights{MaxFreeSpace: math.NaN(), MinReservedSpace: -1}, "n3/p"},
		{placer.Weights{MaxFreeSpace: 1, MinRscCount: 0.1}, "n1/p"},
		{placer.Weights{MaxFreeSpace: 1, MinRscCount: 0.5}, "n3/p"},
	} {
		r := request(1, gib)
		r.Weights = &c.weights
		plan, err := placer.Place(r, nodes, pools)
		if err != nil || where(plan.Picks) != c.want {
			t.Errorf("%+v: %q, want %q: %v", c.weights, where(plan.Picks), c.want, err)
		}
		for _, p := range plan.Ranked {
			if p.Score < 0 || p.Score > 4 {
				t.Errorf("%+v: the score of %s is %v", c.weights, p.Node, p.Score)
			}
		}
	}
}
