// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// rapidTB is a test for a cluster that lives as long as one run of rapid.
type rapidTB struct {
	testing.TB
	*rapid.T
	cleanups []func()
}

func (t *rapidTB) Cleanup(fn func())            { t.cleanups = append(t.cleanups, fn) }
func (t *rapidTB) Helper()                      {}
func (t *rapidTB) Name() string                 { return t.T.Name() }
func (t *rapidTB) Log(args ...any)              { t.T.Log(args...) }
func (t *rapidTB) Logf(f string, args ...any)   { t.T.Logf(f, args...) }
func (t *rapidTB) Error(args ...any)            { t.T.Error(args...) }
func (t *rapidTB) Errorf(f string, args ...any) { t.T.Errorf(f, args...) }
func (t *rapidTB) Fatal(args ...any)            { t.T.Fatal(args...) }
func (t *rapidTB) Fatalf(f string, args ...any) { t.T.Fatalf(f, args...) }
func (t *rapidTB) Fail()                        { t.T.Fail() }
func (t *rapidTB) FailNow()                     { t.T.FailNow() }
func (t *rapidTB) Failed() bool                 { return t.T.Failed() }
func (t *rapidTB) Skip(args ...any)             { t.T.Skip(args...) }
func (t *rapidTB) SkipNow()                     { t.T.SkipNow() }
func (t *rapidTB) Skipf(f string, args ...any)  { t.T.Skipf(f, args...) }
func (t *rapidTB) Skipped() bool                { return false }
func (t *rapidTB) Context() context.Context     { return t.TB.Context() }
func (t *rapidTB) Output() io.Writer            { return t.TB.Output() }

// machine runs use cases on a cluster, in any order and side by side.
type machine struct {
	*cluster.Cluster
	t       *rapid.T
	tb      *rapidTB
	running map[string]bool // agents
	lost    bool            // a node was lost, so hosts may hold what nothing knows
}

// action is a call, drawn and ready to be made. It returns what the call was answered with.
type action struct {
	text string
	do   func() error
}

func TestUseCasesInAnyOrderKeepTheDatabaseSound(t *testing.T) {
	fewer(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{t: rt, tb: &rapidTB{TB: t, T: rt}, running: map[string]bool{}}
		defer func() {
			for _, fn := range slices.Backward(m.tb.cleanups) {
				fn()
			}
		}()
		m.Cluster = cluster.Start(m.tb, cluster.Options{Nodes: 4, Patience: 5 * time.Second, PoolSize: 1 << 30, Settings: []store.Setting{store.Paranoid()}})
		for n := range m.Agents {
			m.running[n] = true
		}
		m.begin()
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			m.step()
			m.sound()
		}
		m.heal()
		m.hosts()
	})
}

// begin makes something of everything, so that few calls find nothing to work on.
func (m *machine) begin() {
	ctx := m.tb.Context()
	for name, n := range map[string]int32{"gold": 2, "Silver": 1} {
		if _, err := m.Catalog.CreateGroup(ctx, catalog.NewGroup{Name: name, Filter: model.Filter{PlaceCount: &n}}); err != nil {
			m.t.Fatal(err)
		}
	}
	for name, group := range map[string]string{"vol-a": "gold", "vol-b": "gold", "Vol-C": "Silver"} {
		if _, err := m.Resources.Spawn(ctx, group, resources.NewSpawn{Name: name, Sizes: []int64{64 << 20}}); err != nil {
			m.t.Fatal(err)
		}
	}
}

// fewer lets rapid make fewer runs than it does by default: each of these starts a cluster.
func fewer(t *testing.T, runs int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f == nil || f.Value.String() != f.DefValue {
		return
	}
	before := f.Value.String()
	if err := f.Value.Set(fmt.Sprint(runs)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// step makes one call, or two or three at once.
func (m *machine) step() {
	var calls []action
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(m.t, "at once") {
		calls = append(calls, m.draw())
	}
	failed := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		m.t.Logf("%s", c.text)
		wg.Go(func() { failed[i] = c.do() })
	}
	wg.Wait()
	for i, err := range failed {
		if err == nil {
			continue
		}
		m.t.Logf("%s: %v", calls[i].text, err)
		if e := errs.As(err); e == nil || e.Kind == errs.Internal || e.Kind == errs.TimedOut {
			m.t.Errorf("%s was answered with %v", calls[i].text, err)
		}
	}
}

func (m *machine) sound() {
	for _, p := range schema.Check(m.Store.Snapshot()) {
		m.t.Errorf("schema check: %s", p)
	}
	if m.t.Failed() {
		m.t.FailNow()
	}
}

func (m *machine) node() string {
	return rapid.SampledFrom([]string{"n1", "n2", "n3", "N4"}).Draw(m.t, "node")
}

func (m *machine) definition() string {
	return rapid.SampledFrom([]string{"vol-a", "vol-b", "VOL-c"}).Draw(m.t, "definition")
}

func (m *machine) group() string {
	return rapid.SampledFrom([]string{"gold", "Silver", "DfltRscGrp"}).Draw(m.t, "group")
}

func (m *machine) size() int64 {
	return int64(rapid.IntRange(1, 300).Draw(m.t, "MiB")) << 20
}

func (m *machine) filter() model.Filter {
	n := int32(rapid.IntRange(0, 4).Draw(m.t, "place count"))
	f := model.Filter{PlaceCount: &n}
	if rapid.Bool().Draw(m.t, "remaining") {
		f.DisklessOnRemaining = new(rapid.Bool().Draw(m.t, "clients"))
	}
	return f
}

// draw draws the next call.
func (m *machine) draw() action {
	draws := []func() action{
		m.drawGroup, m.drawDefinition, m.drawVolume, m.drawVolume, m.drawSpawn, m.drawSpawn, m.drawReplica, m.drawReplica, m.drawReplica,
		m.drawReplica, m.drawPlacement, m.drawPlacement, m.drawPlacement, m.drawNode, m.drawNode, m.drawNode, m.drawHost, m.drawHost,
		m.drawHost, m.drawHost, m.drawPool,
	}
	return draws[rapid.IntRange(0, len(draws)-1).Draw(m.t, "what")]()
}

func (m *machine) one(actions ...action) action {
	return actions[rapid.IntRange(0, len(actions)-1).Draw(m.t, "which")]
}

func (m *machine) drawGroup() action {
	ctx, g, f := m.tb.Context(), m.group(), m.filter()
	return m.one(
		action{"create group " + g, func() error {
			_, err := m.Catalog.CreateGroup(ctx, catalog.NewGroup{Name: g, Filter: f})
			return err
		}},
		action{fmt.Sprintf("modify group %s to %d replicas", g, *f.PlaceCount), func() error {
			_, err := m.Catalog.ModifyGroup(ctx, g, catalog.GroupChange{Filter: &f})
			return err
		}},
		action{"delete group " + g, func() error { return m.Catalog.DeleteGroup(ctx, g) }},
	)
}

func (m *machine) drawDefinition() action {
	ctx, d, g := m.tb.Context(), m.definition(), m.group()
	return m.one(
		action{fmt.Sprintf("create definition %s in %s", d, g), func() error {
			_, err := m.Catalog.CreateDefinition(ctx, catalog.NewDefinition{Name: d, Group: g})
			return err
		}},
		action{fmt.Sprintf("move definition %s to %s", d, g), func() error {
			_, err := m.Catalog.ModifyDefinition(ctx, d, catalog.DefinitionChange{Group: &g})
			return err
		}},
		action{"delete definition " + d, func() error { _, err := m.Resources.DeleteDefinition(ctx, d); return err }},
		action{"set a property of definition " + d, func() error {
			_, err := m.Catalog.ModifyDefinition(ctx, d, catalog.DefinitionChange{Props: model.PropsChange{Set: map[string]string{"Aux/a": g}}})
			return err
		}},
	)
}

func (m *machine) drawVolume() action {
	ctx, d, size, nr := m.tb.Context(), m.definition(), m.size(), int32(rapid.IntRange(0, 2).Draw(m.t, "number"))
	return m.one(
		action{fmt.Sprintf("create a volume of %s in %s", model.FormatSize(size), d), func() error {
			_, _, err := m.Resources.CreateVolumeDefinition(ctx, d, catalog.NewVolume{Size: size})
			return err
		}},
		action{fmt.Sprintf("grow volume %d of %s to %s", nr, d, model.FormatSize(size)), func() error {
			_, err := m.Resources.ModifyVolumeDefinition(ctx, d, nr, resources.VolumeChange{Size: &size})
			return err
		}},
		action{fmt.Sprintf("delete volume %d of %s", nr, d), func() error {
			_, err := m.Resources.DeleteVolumeDefinition(ctx, d, nr)
			return err
		}},
	)
}

func (m *machine) drawSpawn() action {
	ctx, d, g, size, f := m.tb.Context(), m.definition(), m.group(), m.size(), m.filter()
	return action{fmt.Sprintf("spawn %s of %s from %s, %d replicas", d, model.FormatSize(size), g, *f.PlaceCount), func() error {
		_, err := m.Resources.Spawn(ctx, g, resources.NewSpawn{Name: d, Sizes: []int64{size}, Filter: f, Partial: true})
		return err
	}}
}

func (m *machine) drawReplica() action {
	ctx, d, n := m.tb.Context(), m.definition(), m.node()
	kind := rapid.SampledFrom([]schema.ResourceKind{schema.Diskful, schema.Diskful, schema.Client, schema.TieBreaker}).Draw(m.t, "kind")
	create := action{fmt.Sprintf("create %s on %s, %s", d, n, kind), func() error {
		list := []resources.NewResource{{Node: n, Kind: kind}}
		if kind == schema.Diskful {
			list[0].Props = map[string]string{"StorPoolName": cluster.Pool}
		}
		_, err := m.Resources.Create(ctx, d, list)
		return err
	}}
	remove := action{fmt.Sprintf("delete %s on %s", d, n), func() error { _, err := m.Resources.Delete(ctx, d, n); return err }}
	available := action{fmt.Sprintf("make %s available on %s", d, n), func() error {
		_, err := m.Resources.MakeAvailable(ctx, d, n, resources.Availability{Diskful: kind == schema.Diskful})
		return err
	}}
	return m.one(create, create, remove, remove, available)
}

func (m *machine) drawPlacement() action {
	ctx, d, g, f := m.tb.Context(), m.definition(), m.group(), m.filter()
	return m.one(
		action{fmt.Sprintf("place %s, %d replicas", d, *f.PlaceCount), func() error {
			_, err := m.Resources.Autoplace(ctx, d, resources.PlaceRequest{Filter: f})
			return err
		}},
		action{fmt.Sprintf("adjust %s to %d replicas", g, *f.PlaceCount), func() error {
			_, _, err := m.Resources.Adjust(ctx, g, f)
			return err
		}},
		action{"query sizes", func() error { m.Resources.QueryAllSizes(f); return nil }},
	)
}

func (m *machine) drawNode() action {
	ctx, n := m.tb.Context(), m.node()
	del := rapid.Bool().Draw(m.t, "delete resources")
	return m.one(
		action{"evacuate " + n, func() error { _, _, err := m.Resources.EvacuateNode(ctx, n, resources.Evacuation{}); return err }},
		action{"evict " + n, func() error { _, _, err := m.Resources.EvictNode(ctx, n); return err }},
		action{fmt.Sprintf("restore %s, deleting %t", n, del), func() error {
			_, err := m.Resources.RestoreNode(ctx, n, resources.Restoration{DeleteResources: del})
			return err
		}},
		action{"lose " + n, func() error { _, err := m.Resources.LoseNode(ctx, n); return err }},
		action{"delete node " + n, func() error { return m.Inventory.DeleteNode(ctx, n) }},
	)
}

func (m *machine) drawPool() action {
	ctx, n := m.tb.Context(), m.node()
	pool := rapid.SampledFrom([]string{"Extra", cluster.Pool}).Draw(m.t, "pool")
	return m.one(
		action{fmt.Sprintf("create pool %s on %s", pool, n), func() error {
			_, err := m.Inventory.CreatePool(ctx, n, inventory.NewPool{
				Name: pool, Provider: "FILE", Props: map[string]string{"StorDriver/StorPoolName": "/srv/" + pool},
			})
			return err
		}},
		action{fmt.Sprintf("delete pool %s on %s", pool, n), func() error { return m.Inventory.DeletePool(ctx, n, pool) }},
	)
}

// drawHost does something to a host. It is done at once, as it is no call.
func (m *machine) drawHost() action {
	n, d := strings.ToLower(m.node()), m.definition()
	a, none := m.Agents[n], func() error { return nil }
	_, registered := schema.Nodes.Get(m.Store.Snapshot(), model.NodeKey(n))
	what := rapid.SampledFrom([]string{"stop", "start", "start", "fail", "heal", "heal", "use", "leave", "leave"}).Draw(m.t, "host")
	switch {
	case what == "start" && (!m.running[n] || !registered):
		m.rise(n, registered)
	case what == "stop" && m.running[n]:
		m.StopAgent(n)
		m.running[n] = false
	case what == "fail":
		a.FailApplies(d, -1, nil)
	case what == "heal":
		a.FailApplies(d, 0, nil)
	case what == "use":
		a.Use(d, "qemu")
	case what == "leave":
		a.Leave(d)
	}
	return action{what + " at " + n + " for " + d, none}
}

// rise starts the agent of a node, which is registered first where it is not.
func (m *machine) rise(n string, registered bool) {
	if registered {
		if row, ok := schema.Nodes.Get(m.Store.Snapshot(), model.NodeKey(n)); ok && row.Deleting {
			return
		}
		m.StartAgent(n)
		m.running[n] = true
		return
	}
	m.lost = true
	if m.running[n] {
		m.StopAgent(n)
	}
	m.Register(n)
	m.Agents[n].Resize(cluster.Pool, 1<<30)
	m.StartAgent(n)
	m.running[n] = true
	m.AddPool(n, cluster.Pool)
}

// heal makes every host work, and waits until all that goes is gone.
func (m *machine) heal() {
	for n, a := range m.Agents {
		for _, d := range []string{"vol-a", "vol-b", "vol-c"} {
			a.FailApplies(d, 0, nil)
			a.Leave(d)
		}
		if row, ok := schema.Nodes.Get(m.Store.Snapshot(), model.NodeKey(n)); ok && !row.Deleting && !m.running[n] {
			m.rise(n, true)
		}
		if row, ok := schema.Nodes.Get(m.Store.Snapshot(), model.NodeKey(n)); ok && (row.Evacuating || row.Evicted) {
			if _, err := m.Resources.RestoreNode(m.tb.Context(), n, resources.Restoration{}); err != nil {
				m.t.Errorf("restore %s: %v", n, err)
			}
		}
	}
	if _, err := schema.Update(m.tb.Context(), m.Store, func(tx *store.Tx) error {
		for target := range schema.JobsRunning.Values(tx, schema.JobTarget{}) {
			if target.Kind == schema.LoseNode {
				continue
			}
			if err := schema.CancelJob(tx, target, time.Now()); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		m.t.Fatal(err)
	}
	m.Until(func() bool {
		view := m.Store.Snapshot()
		for range schema.ResourcesDeleting.Get(view, true) {
			return false
		}
		for d := range schema.Definitions.All(view) {
			if d.Deleting {
				return false
			}
		}
		for v := range schema.VolumeDefinitions.All(view) {
			if v.Deleting {
				return false
			}
		}
		for n := range schema.Nodes.All(view) {
			if n.Deleting {
				return false
			}
		}
		return true
	})
	m.sound()
}

// hosts compares what lies on the hosts with what shall lie there.
func (m *machine) hosts() {
	var view *store.View
	m.Until(func() bool {
		view = m.Store.Snapshot()
		for r := range schema.Resources.All(view) {
			st, _ := m.Observed.Resource(r.ID())
			if !st.Current || st.Phase != observed.Ready || st.Generation < uint64(schema.Resources.Revision(view, r.ID())) {
				return false
			}
		}
		return true
	})
	want := map[string]int64{}
	for r := range schema.Resources.All(view) {
		for _, v := range r.Volumes {
			vd, _ := schema.VolumeDefinitions.Get(view, model.VolumeDefinitionID{Definition: r.Definition, Number: v.Number})
			if r.Kind == schema.Diskful {
				want[fmt.Sprintf("%s: %s/%d", r.Node, r.Definition, v.Number)] = vd.Size
			}
		}
	}
	orphans := map[string]bool{}
	m.Until(func() bool {
		clear(orphans)
		for _, o := range m.Inventory.Orphans() {
			orphans[fmt.Sprintf("%s: %s", strings.ToLower(string(o.Node)), o.Volume)] = true
		}
		for n := range schema.Nodes.All(view) {
			for _, v := range m.Agents[strings.ToLower(string(n.Name))].Volumes() {
				key := fmt.Sprintf("%s: %s/%d", n.Name.Key(), v.Resource, v.Number)
				if _, known := want[key]; !known && !orphans[fmt.Sprintf("%s: %s_%05d", n.Name.Key(), v.Resource, v.Number)] {
					return false
				}
			}
		}
		return true
	})
	for n := range schema.Nodes.All(view) {
		for _, v := range m.Agents[strings.ToLower(string(n.Name))].Volumes() {
			key := fmt.Sprintf("%s: %s/%d", n.Name.Key(), v.Resource, v.Number)
			if size, known := want[key]; known && v.Size < size {
				m.t.Errorf("%s has %d bytes, want %d", key, v.Size, size)
			}
			delete(want, key)
		}
	}
	for key := range want {
		m.t.Errorf("%s is on no host", key)
	}
	if len(orphans) > 0 && !m.lost {
		m.t.Errorf("orphans: %v", orphans)
	}
}
