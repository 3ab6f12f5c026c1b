// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
)

// poolName is the pool that every node of a fleet has.
const poolName = "data"

// fleet is many agents on hosts that exist in memory, in this process: they speak the real
// protocol with a controller in another one.
type fleet struct {
	agents []*fakeagent.Agent
	runs   []run
}

// run is one agent that runs.
type run struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// recruit registers nodes with a controller, starts their agents, and gives each a pool.
func (b *bench) recruit(ctx context.Context, s *server, agents int) (*fleet, error) {
	f := &fleet{runs: make([]run, agents)}
	for i := range agents {
		name := fmt.Sprintf("node-%03d", i)
		f.agents = append(f.agents, &fakeagent.Agent{Node: name, Dial: func(string) (*grpc.ClientConn, error) {
			return grpc.NewClient(s.agents, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}})
		err := s.create(ctx, "/v1/nodes",
			fmt.Sprintf(`{"name":%q,"type":"Satellite","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`, name))
		if err != nil {
			return f, err
		}
		f.start(ctx, i)
	}
	if err := s.until(ctx, func(ctx context.Context) (bool, error) { return s.online(ctx, agents) }); err != nil {
		return f, fmt.Errorf("wait for the agents: %w", err)
	}
	for _, a := range f.agents {
		err := s.create(ctx, "/v1/nodes/"+a.Node+"/storage-pools",
			`{"storage_pool_name":"`+poolName+`","provider_kind":"LVM_THIN","props":{"StorDriver/StorPoolName":"vg/thin"}}`)
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, i int) {
	ctx, cancel := context.WithCancel(ctx)
	f.runs[i] = run{cancel, make(chan struct{})}
	go func(r run) {
		defer close(r.ended)
		_ = f.agents[i].Run(ctx) // Whoever waits for an agent that cannot run misses it.
	}(f.runs[i])
}

// stop ends the agents, all at once, and waits until they have.
func (f *fleet) stop() {
	var all sync.WaitGroup
	for i := range f.runs {
		if f.runs[i].stop == nil {
			continue
		}
		all.Go(func() {
			f.runs[i].stop()
			<-f.runs[i].ended
			f.runs[i].stop = nil
		})
	}
	all.Wait()
}

// restart ends the first n agents and starts them again: they know nothing any more, but what
// is on their hosts.
func (f *fleet) restart(ctx context.Context, n int) {
	some := fleet{agents: f.agents[:n], runs: f.runs[:n]}
	some.stop()
	for i := range n {
		some.start(ctx, i)
	}
}

// drop breaks all connections, as a switch that fails does.
func (f *fleet) drop() {
	for _, a := range f.agents {
		a.DropSession()
	}
}

// returned tells whether the first n agents have had a session that began after the call of
// returned, and all nodes are online.
func (f *fleet) returned(s *server, n int) func(context.Context) (bool, error) {
	before := make([]int, n)
	for i := range before {
		before[i] = f.agents[i].Sessions()
	}
	return func(ctx context.Context) (bool, error) {
		for i, had := range before {
			if f.agents[i].Sessions() <= had {
				return false, nil
			}
		}
		return s.online(ctx, len(f.agents))
	}
}
