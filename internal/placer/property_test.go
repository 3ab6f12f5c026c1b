// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer_test

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
)

// world is a small cluster with a request, drawn at random.
type world struct {
	req    placer.Request
	nodes  []placer.Node
	pools  []placer.Pool
	others map[model.NodeKey][]model.DefinitionKey
}

func drawWorld(t *rapid.T) world {
	w := world{others: map[model.NodeKey][]model.DefinitionKey{}}
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		w.drawNode(t, string(rune('a'+i)))
	}
	w.drawFilter(t)
	for i := range w.nodes {
		if rapid.IntRange(0, 4).Draw(t, "exists") == 0 {
			w.drawExisting(t, w.nodes[i].Name.Key())
		}
	}
	w.req.Sizes = []int64{rapid.Int64Range(1, 3).Draw(t, "size")}
	w.req.MixProviders = rapid.Bool().Draw(t, "mix")
	w.req.Layers = []model.Layer{model.DRBD, model.Storage}
	w.req.Others = func(n model.NodeKey) iter.Seq[model.DefinitionKey] { return slices.Values(w.others[n]) }
	return w
}

func (w *world) drawNode(t *rapid.T, letter string) {
	n := placer.Node{
		Name:     model.NodeName("n" + letter),
		Online:   rapid.IntRange(0, 9).Draw(t, "online") > 0,
		NoTarget: rapid.IntRange(0, 9).Draw(t, "target") == 0,
		Layers:   model.Layers(),
		Mixes:    rapid.Bool().Draw(t, "mixes"),
		Replicas: rapid.IntRange(0, 2).Draw(t, "replicas"),
	}
	if rapid.IntRange(0, 9).Draw(t, "leaving") == 0 {
		n.Leaving = "it is being evacuated"
	}
	props := map[string]string{}
	for _, key := range []string{"Aux/x", "Aux/y", "Aux/z"} {
		if value := rapid.SampledFrom([]string{"1", "2", "3", ""}).Draw(t, key); value != "" {
			props[key] = value
		}
	}
	n.Props = model.PropsOf(props)
	w.nodes = append(w.nodes, n)
	if rapid.IntRange(0, 5).Draw(t, "other") == 0 {
		w.others[n.Name.Key()] = []model.DefinitionKey{"other"}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "pools") {
		total := rapid.Int64Range(0, 6).Draw(t, "total")
		w.pools = append(w.pools, placer.Pool{
			Node: n.Name.Key(), Name: model.PoolName([]string{"One", "two", "three"}[i]),
			Provider:    rapid.SampledFrom([]model.Provider{model.LVM, model.LVM, model.LVM, model.LVMThin, model.ZFS, model.ZFSThin, model.File, model.FileThin}).Draw(t, "provider"),
			Space:       placer.Space{Known: rapid.IntRange(0, 9).Draw(t, "known") > 0, Total: total, Free: total},
			SharedSpace: rapid.SampledFrom([]string{"", "", "", "s1", "s2"}).Draw(t, "shared"),
		})
	}
}

func (w *world) drawFilter(t *rapid.T) {
	f := &w.req.Filter
	some := func(name string, of ...string) []string {
		if rapid.IntRange(0, 2).Draw(t, name+"?") > 0 {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, 2, rapid.ID[string]).Draw(t, name)
	}
	f.PlaceCount = new(rapid.Int32Range(1, 4).Draw(t, "count"))
	f.Nodes = some("node list", "NA", "nb", "nc", "nd", "ne")
	f.Pools = some("pool list", "one", "TWO")
	f.Providers = some("provider list", "LVM", "zfs", "FILE")
	f.NotPlaceWith = some("apart", "OTHER", "none")
	f.ReplicasOnSame = some("same", "Aux/x", "Aux/y", "Aux/z=1")
	f.ReplicasOnDifferent = some("different", "Aux/y", "Aux/z", "Aux/x=2")
	for _, key := range some("x", "Aux/x", "Aux/z") {
		if f.XReplicasOnDifferent == nil {
			f.XReplicasOnDifferent = map[string]int32{}
		}
		f.XReplicasOnDifferent[key] = rapid.Int32Range(1, 3).Draw(t, "limit")
	}
}

func (w *world) drawExisting(t *rapid.T, node model.NodeKey) {
	e := placer.Existing{Node: node, Diskful: rapid.Bool().Draw(t, "diskful"), Uncounted: rapid.IntRange(0, 4).Draw(t, "uncounted") == 0}
	for _, p := range w.pools {
		if p.Node == node {
			e.Pool = p.Name.Key()
		}
	}
	if !e.Diskful || e.Pool == "" {
		e.Diskful, e.Pool = false, ""
	}
	w.req.Existing = append(w.req.Existing, e)
}

func (w *world) node(key model.NodeKey) placer.Node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n placer.Node) bool { return n.Name.Key() == key })]
}

func (w *world) pool(node model.NodeKey, name model.PoolKey) placer.Pool {
	return w.pools[slices.IndexFunc(w.pools, func(p placer.Pool) bool { return p.Node == node && p.Name.Key() == name })]
}

// counted is the diskful replicas that count.
func (w *world) counted() []placer.Existing {
	var list []placer.Existing
	for _, e := range w.req.Existing {
		if e.Diskful && !e.Uncounted {
			list = append(list, e)
		}
	}
	return list
}

// have counts replicas, those in one shared space once.
func (w *world) have() int {
	n, spaces := 0, map[string]bool{}
	for _, e := range w.counted() {
		space := w.pool(e.Node, e.Pool).SharedSpace
		if space == "" || !spaces[space] {
			n++
		}
		spaces[space] = true
	}
	return n
}

func listed(list []string, name string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

// alone tells whether a pool could take a replica if there were no other.
func (w *world) alone(p placer.Pool) bool {
	n, f := w.node(p.Node), &w.req.Filter
	for _, e := range w.req.Existing {
		if e.Node == p.Node && (e.Diskful || e.Uncounted) {
			return false
		}
	}
	if !n.Online || n.NoTarget || n.Leaving != "" || !listed(f.Nodes, string(n.Name)) || !listed(f.Pools, string(p.Name)) ||
		!listed(f.Providers, string(p.Provider)) || len(f.NotPlaceWith) > 0 && listed(f.NotPlaceWith, "other") && len(w.others[p.Node]) > 0 {
		return false
	}
	limit := p.Space.Free
	if p.Provider.Thin() {
		limit *= 20
	}
	return p.Space.Known && limit >= w.req.Sizes[0]
}

// family is which providers may lie together without mixing.
func family(p model.Provider) string { return strings.TrimSuffix(string(p), "_THIN") }

// valid tells whether the pools can be chosen together, next to what exists.
func (w *world) valid(picks []placer.Pool) bool {
	all := slices.Clone(picks)
	spaces := map[string]int{}
	for _, e := range w.req.Existing {
		if e.Diskful {
			if s := w.pool(e.Node, e.Pool).SharedSpace; s != "" {
				spaces[s] = 1
			}
		}
	}
	for _, e := range w.counted() {
		all = append(all, w.pool(e.Node, e.Pool))
	}
	nodes := map[model.NodeKey]bool{}
	for _, p := range picks {
		if nodes[p.Node] || p.SharedSpace != "" && spaces[p.SharedSpace] > 0 {
			return false
		}
		nodes[p.Node] = true
		if p.SharedSpace != "" {
			spaces[p.SharedSpace]++
		}
	}
	for _, p := range all {
		if slices.ContainsFunc(all, func(q placer.Pool) bool { return !w.mixable(p, q) }) {
			return false
		}
	}
	for _, p := range picks {
		if !w.validValues(p, all) {
			return false
		}
	}
	return true
}

func (w *world) mixable(p, q placer.Pool) bool {
	same := p.Provider == q.Provider || family(p.Provider) == family(q.Provider) && family(p.Provider) != "LVM"
	if same {
		return true
	}
	return w.req.MixProviders && w.node(p.Node).Mixes && w.node(q.Node).Mixes && family(p.Provider) != "FILE" && family(q.Provider) != "FILE"
}

func (w *world) validValues(p placer.Pool, all []placer.Pool) bool {
	f, value := &w.req.Filter, func(p placer.Pool, key string) string {
		v, _ := w.node(p.Node).Props.Get(key)
		return v
	}
	for _, rule := range f.ReplicasOnSame {
		key, fixed, valued := strings.Cut(rule, "=")
		if valued && value(p, key) != fixed {
			return false
		}
		for _, q := range all {
			if v := value(q, key); !valued && (value(p, key) == "" || v != "" && v != value(p, key)) {
				return false
			}
		}
	}
	atMost := func(key string, most int) bool {
		n := 0
		for _, q := range all {
			if v := value(q, key); v != "" && v == value(p, key) {
				n++
			}
		}
		return n <= most
	}
	for _, rule := range f.ReplicasOnDifferent {
		key, banned, valued := strings.Cut(rule, "=")
		if valued && value(p, key) == banned || !valued && !atMost(key, 1) {
			return false
		}
	}
	for key, most := range f.XReplicasOnDifferent {
		if !atMost(key, int(most)) {
			return false
		}
	}
	return true
}

// every yields each valid choice of need pools.
func (w *world) every(need int) iter.Seq[[]placer.Pool] {
	return func(yield func([]placer.Pool) bool) {
		var usable []placer.Pool
		for _, p := range w.pools {
			if w.alone(p) {
				usable = append(usable, p)
			}
		}
		var extend func(from int, picks []placer.Pool) bool
		extend = func(from int, picks []placer.Pool) bool {
			if len(picks) == need {
				return !w.valid(picks) || yield(picks)
			}
			for i := from; i < len(usable); i++ {
				if !extend(i+1, append(slices.Clone(picks), usable[i])) {
					return false
				}
			}
			return true
		}
		extend(0, nil)
	}
}

// filled tells whether at most one value of each limited property is begun and not full.
func (w *world) filled(picks []placer.Pool) bool {
	for _, e := range w.counted() {
		picks = append(slices.Clone(picks), w.pool(e.Node, e.Pool))
	}
	for key, most := range w.req.Filter.XReplicasOnDifferent {
		used := map[string]int32{}
		for _, p := range picks {
			if v, ok := w.node(p.Node).Props.Get(key); ok {
				used[v]++
			}
		}
		begun := 0
		for _, n := range used {
			if n < most {
				begun++
			}
		}
		if begun > 1 && !slices.Contains(w.req.Filter.ReplicasOnDifferent, key) {
			return false
		}
	}
	return true
}

func (w *world) oneName(picks []placer.Pool) bool {
	for _, e := range w.counted() {
		picks = append(slices.Clone(picks), w.pool(e.Node, e.Pool))
	}
	return !slices.ContainsFunc(picks, func(p placer.Pool) bool { return p.Name != picks[0].Name })
}

// shuffled is the same world in another order.
func (w *world) shuffled(seed uint64) ([]placer.Node, []placer.Pool) {
	r := rand.New(rand.NewPCG(seed, seed))
	nodes, pools := slices.Clone(w.nodes), slices.Clone(w.pools)
	r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	r.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
	return nodes, pools
}

// existingAgree tells whether existing replicas leave the rules about same nodes decidable.
func (w *world) existingAgree() bool {
	for _, key := range w.req.Filter.ReplicasOnSame {
		values := map[string]bool{}
		for _, e := range w.counted() {
			if v, ok := w.node(e.Node).Props.Get(key); ok {
				values[v] = true
			}
		}
		if len(values) > 1 {
			return false
		}
	}
	return true
}

// checkOften checks worlds enough for all rules to meet each other.
func checkOften(t *testing.T, check func(*rapid.T)) {
	t.Helper()
	for range 30 {
		rapid.Check(t, check)
	}
}

func TestPlaceFindsAPlacementExactlyWhenThereIsOne(t *testing.T) {
	found, missing := 0, 0
	checkOften(t, func(t *rapid.T) {
		w := drawWorld(t)
		plan, err := placer.Place(w.req, w.nodes, w.pools)
		need := int(*w.req.Filter.PlaceCount) - w.have()
		if !w.existingAgree() {
			if !errs.Is(err, errs.NotEnough) {
				t.Fatalf("existing replicas disagree, and the error is %v", err)
			}
			return
		}
		if need <= 0 {
			if err != nil || len(plan.Picks) > 0 {
				t.Fatalf("enough replicas exist, and the plan is %v, %v", plan.Picks, err)
			}
			return
		}
		var first, best []placer.Pool
		rating := func(picks []placer.Pool) int {
			n := 0
			if w.filled(picks) {
				n += 2
			}
			if w.oneName(picks) {
				n++
			}
			return n
		}
		for picks := range w.every(need) {
			if first == nil {
				first, best = picks, picks
			}
			if rating(picks) > rating(best) {
				best = picks
			}
		}
		if first == nil {
			missing++
			if !errs.Is(err, errs.NotEnough) || len(plan.Picks) > 0 {
				t.Fatalf("there is no placement, and the plan is %v, %v", plan.Picks, err)
			}
			return
		}
		found++
		if err != nil {
			t.Fatalf("%v could be placed, and the error is %v: %s", first, err, errs.As(err).Details)
		}
		var picks []placer.Pool
		for _, p := range plan.Picks {
			picks = append(picks, w.pool(p.Node, p.Pool))
		}
		if len(picks) != need || !w.valid(picks) || slices.ContainsFunc(picks, func(p placer.Pool) bool { return !w.alone(p) }) {
			t.Fatalf("the plan %v breaks a rule", picks)
		}
		if rating(picks) < rating(best) {
			t.Fatalf("the plan %v keeps fewer preferences than %v", picks, best)
		}
	})
	if found == 0 || missing == 0 {
		t.Fatalf("%d worlds with a placement and %d without one: the test says nothing", found, missing)
	}
}

func TestPlaceDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		plan, err := placer.Place(w.req, w.nodes, w.pools)
		nodes, pools := w.shuffled(rapid.Uint64().Draw(t, "seed"))
		again, errAgain := placer.Place(w.req, nodes, pools)
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Fatalf("another order gives another plan:\n%s", diff)
		}
		if (err == nil) != (errAgain == nil) || err != nil && (err.Error() != errAgain.Error() || errs.As(err).Details != errs.As(errAgain).Details) {
			t.Fatalf("another order gives another error: %v, %v", err, errAgain)
		}
	})
}

func TestEveryNodeAndPoolIsRankedOrRejectedWithAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		plan, err := placer.Place(w.req, w.nodes, w.pools)
		if err != nil && !w.existingAgree() {
			return
		}
		rejected := map[model.NodeKey]bool{}
		pools := map[model.PoolID]int{}
		for _, r := range plan.Rejected {
			if r.Kind == 0 || r.String() == "" {
				t.Fatalf("%v has no reason", r)
			}
			rejected[r.Node] = rejected[r.Node] || r.Pool == ""
			pools[model.PoolID{Node: r.Node, Pool: r.Pool}]++
		}
		for _, p := range plan.Ranked {
			pools[model.PoolID{Node: p.Node, Pool: p.Pool}]++
		}
		for _, p := range w.pools {
			want := 1
			if rejected[p.Node] {
				want = 0
			}
			if got := pools[model.PoolID{Node: p.Node, Pool: p.Name.Key()}]; got != want {
				t.Fatalf("pool %s of %s is mentioned %d times, want %d", p.Name, p.Node, got, want)
			}
		}
	})
}

func TestMaxSizeIsTheLargestThatPlaceAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for i := range w.pools {
			w.pools[i].Space.Free *= 3000
			w.pools[i].Space.Total *= 3000
			w.pools[i].Granularity = rapid.SampledFrom([]int64{0, 512, 4096}).Draw(t, "granularity")
		}
		size, plan, err := placer.MaxSize(w.req, w.nodes, w.pools)
		works := func(size int64) bool {
			req := w.req
			req.Sizes = []int64{size}
			plan, err := placer.Place(req, w.nodes, w.pools)
			return err == nil && len(plan.Picks) > 0
		}
		if err != nil {
			if works(model.MinVolumeSize) {
				t.Fatalf("the smallest volume could be placed, and the error is %v", err)
			}
			return
		}
		if !works(size) || works(size+1) || len(plan.Picks) == 0 {
			t.Fatalf("%d is not the largest size that can be placed", size)
		}
	})
}

func FuzzRules(f *testing.F) {
	for _, rule := range []string{"Aux/x", "Aux/x=1", "=", "", "Aux/x=1=2", "x\x00", "(?i)", "a(", `\pN`} {
		f.Add(rule, rule, rule, int32(1))
		f.Add("Aux/x", "Aux/y", rule, int32(-1))
	}
	nodes, pools := cluster(8)
	f.Fuzz(func(t *testing.T, same, different, regex string, most int32) {
		req := placer.Request{Sizes: []int64{1}, Filter: model.Filter{
			PlaceCount: new(int32(3)), ReplicasOnSame: []string{same}, ReplicasOnDifferent: []string{different}, NotPlaceWithRegex: &regex,
			XReplicasOnDifferent: map[string]int32{same: most},
		}}
		req.Others = func(model.NodeKey) iter.Seq[model.DefinitionKey] { return slices.Values([]model.DefinitionKey{"db"}) }
		plan, err := placer.Place(req, nodes, pools)
		if err == nil && len(plan.Picks) != 3 || err != nil && !errs.Is(err, errs.NotEnough) && !errs.Is(err, errs.Invalid) {
			t.Fatalf("got %d picks, %v", len(plan.Picks), err)
		}
	})
}
