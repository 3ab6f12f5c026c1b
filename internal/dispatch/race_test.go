// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// machine is a host with an agent that does at once what it is told, and whose connection
// and process fail all the time.
type machine struct {
	node string
	api  agentpb.AgentClient

	mu       sync.Mutex
	disk     map[string]bool // the volumes that are there
	assigned map[string]*agentpb.Resource
	rng      *rand.Rand
	calm     bool // nothing fails any more

	instance, resultsIn string
}

// holds tells whether the host has a volume of a resource.
func (m *machine) holds(d model.DefinitionKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk[string(d)]
}

// fails is true once in a while.
func (m *machine) fails(one int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.calm && m.rng.IntN(one) == 0
}

// run holds sessions until ctx ends.
func (m *machine) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n == 0 || m.fails(3) {
			m.instance, m.resultsIn = fmt.Sprint(m.node, n), ""
		}
		session, cancel := context.WithCancel(ctx)
		m.session(session)
		cancel()
	}
}

func (m *machine) session(ctx context.Context) {
	stream, err := m.api.Session(ctx, &agentpb.Hello{
		Node: m.node, Protocol: dispatch.Protocol, Instance: m.instance, AppliesTo: m.resultsIn,
	})
	if err != nil {
		return
	}
	var late sync.WaitGroup
	defer late.Wait()
	for first := true; ; first = false {
		msg, err := stream.Recv()
		if err != nil || m.fails(10) { // the message is lost
			return
		}
		report := m.take(msg, first)
		if m.fails(5) { // sent twice, the first one is late
			late.Go(func() { _, _ = m.api.Report(context.WithoutCancel(ctx), report) })
		}
		for {
			if m.fails(20) {
				return
			}
			reply, err := m.api.Report(ctx, report)
			if reply.GetUnknownSession() || ctx.Err() != nil {
				return
			}
			if err == nil {
				break
			}
		}
		if m.fails(10) {
			return
		}
	}
}

// take does what a message says and returns the report on that.
func (m *machine) take(msg *agentpb.Assignments, first bool) *agentpb.ReportRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	if msg.GetFull() {
		m.assigned = map[string]*agentpb.Resource{}
	}
	for _, name := range msg.GetGoneResources() {
		delete(m.assigned, name)
	}
	m.resultsIn = msg.GetResultsIn()
	report := &agentpb.ReportRequest{Node: m.node, Session: msg.GetSession(), Applied: m.resultsIn}
	for _, res := range msg.GetResources() {
		m.assigned[res.GetName()] = res
	}
	say := msg.GetResources()
	if first {
		say = nil
		for _, res := range m.assigned {
			say = append(say, res)
		}
	}
	for _, res := range say {
		st := &agentpb.ResourceStatus{Name: res.GetName(), Generation: res.GetGeneration(), State: agentpb.ResourceStatus_READY}
		if m.disk[res.GetName()] = !res.GetDestroy(); res.GetDestroy() {
			st.State = agentpb.ResourceStatus_DESTROYED
			delete(m.disk, res.GetName())
		}
		report.Resources = append(report.Resources, st)
	}
	return report
}

// Whatever fails and however it overlaps: a row never goes while its host has the volume, and
// in the end hosts have exactly what the rows say.
func TestRowsGoOnlyAfterTheirVolumes(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			machines := map[model.NodeKey]*machine{}
			for i, node := range []string{"alpha", "beta"} {
				machines[model.NodeKey(node)] = &machine{
					node: node, disk: map[string]bool{}, rng: rand.New(rand.NewPCG(seed, uint64(i))),
				}
			}
			var st *store.Store
			checked := func(c *dispatch.Config) {
				st = c.Store
				c.Destroyed = func(ctx context.Context, _ model.NodeKey, gone []dispatch.Gone) error {
					_, err := st.Update(ctx, func(tx *store.Tx) error { return removeChecked(tx, t.Errorf, machines, gone) })
					return err
				}
			}
			in(t, func(r *rig) { r.chaos(machines, seed) }, checked)
		})
	}
}

func removeChecked(tx *store.Tx, fault func(string, ...any), machines map[model.NodeKey]*machine, gone []dispatch.Gone) error {
	for _, g := range gone {
		before, _ := schema.Resources.Get(tx, g.Resource)
		if err := remove(tx, []dispatch.Gone{g}); err != nil {
			return err
		}
		_, stays := schema.Resources.Get(tx, g.Resource)
		if before.Deleting && !stays && machines[g.Resource.Node].holds(g.Resource.Definition) {
			fault("the row of %s goes by the word of generation %d, but the volume is there", g.Resource, g.Generation)
		}
	}
	return nil
}

// chaos creates and deletes replicas while the machines fail, and compares in the end.
func (r *rig) chaos(machines map[model.NodeKey]*machine, seed uint64) {
	names := []model.DefinitionKey{"aa", "bb", "cc"}
	r.write(func(tx *store.Tx) error {
		var err error
		for _, n := range names {
			err = errors.Join(err, insert(tx, model.DefinitionName(n)))
		}
		return err
	})
	ctx, cancel := context.WithCancel(r.Context())
	var running, working sync.WaitGroup
	for _, m := range machines {
		m.api = agentpb.NewAgentClient(r.conn)
		running.Go(func() { m.run(ctx) })
	}
	for w := range 3 {
		rng := rand.New(rand.NewPCG(seed, uint64(100+w)))
		working.Go(func() {
			for range 150 {
				r.step(ctx, names[rng.IntN(len(names))], []model.NodeKey{"alpha", "beta"}[rng.IntN(2)], rng.IntN(4))
			}
		})
	}
	working.Wait()
	for _, m := range machines {
		m.mu.Lock()
		m.calm = true
		m.mu.Unlock()
	}
	r.settle(machines)
	cancel()
	running.Wait()
}

// step does one thing to one replica; what the store refuses is fine.
func (r *rig) step(ctx context.Context, d model.DefinitionKey, node model.NodeKey, what int) {
	id := model.ResourceID{Definition: d, Node: node}
	rev, err := r.store.Update(ctx, func(tx *store.Tx) error {
		row, ok := schema.Resources.Get(tx, id)
		switch {
		case !ok:
			return schema.Resources.Insert(tx, schema.Resource{
				Definition: d, Node: node, Kind: schema.Diskful, Volumes: []schema.Volume{{Pool: "data"}},
			})
		case what > 1:
			row.Deleting = true
		}
		return schema.Resources.Update(tx, row)
	})
	if err == nil && what%2 == 0 {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = r.seen.Wait(short, id, uint64(rev))
		if err != nil && !errors.Is(err, observed.ErrNodeOffline) && !errors.Is(err, observed.ErrForgotten) && ctx.Err() == nil && short.Err() == nil {
			r.Errorf("wait: %v", err)
		}
	}
}

// settle waits until nothing moves, and compares hosts, rows and statuses.
func (r *rig) settle(machines map[model.NodeKey]*machine) {
	time.Sleep(10 * time.Second)
	synctest.Wait()
	view := r.store.Snapshot()
	rows := map[model.ResourceID]bool{}
	for row := range schema.Resources.All(view) {
		rows[row.ID()] = true
		if row.Deleting {
			r.Errorf("%s is still deleting", row.ID())
		}
		st, known := r.seen.Resource(row.ID())
		if rev := uint64(schema.Resources.Revision(view, row.ID())); !known || !st.Current || st.Phase != observed.Ready || st.Generation < rev {
			r.Errorf("%s at revision %d is known %v as %+v", row.ID(), rev, known, st)
		}
	}
	for node, m := range machines {
		for name := range m.disk {
			if id := (model.ResourceID{Definition: model.DefinitionKey(name), Node: node}); !rows[id] {
				r.Errorf("%s is on the host without a row", id)
			}
		}
		for d, st := range r.seen.Resources(node) {
			if id := (model.ResourceID{Definition: d, Node: node}); !rows[id] {
				r.Errorf("%s is seen as %+v without a row", id, st)
			}
		}
	}
	for id := range rows {
		if !machines[id.Node].holds(id.Definition) {
			r.Errorf("%s has a row but no volume", id)
		}
	}
}
