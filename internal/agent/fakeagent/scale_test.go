// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

// fleet is many fake agents at one controller, by the real clock.
type fleet struct {
	ctx    context.Context
	ctrl   *fakecontroller.Controller
	agents []*fakeagent.Agent
	stop   func()
}

func startFleet(tb testing.TB, agents int) *fleet {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	f := &fleet{ctx: ctx, ctrl: fakecontroller.Start()}
	var running sync.WaitGroup
	for i := range agents {
		a := &fakeagent.Agent{Node: fmt.Sprintf("node%d", i), Dial: f.ctrl.Dial}
		f.agents = append(f.agents, a)
		running.Go(func() {
			if err := a.Run(ctx); err != nil {
				tb.Error(err)
			}
		})
	}
	f.stop = func() {
		cancel()
		running.Wait()
		f.ctrl.Stop()
	}
	return f
}

// assign sends each of the agents a full set of so many resources.
func (f *fleet) assign(tb testing.TB, resources int) {
	tb.Helper()
	for range f.agents {
		s, err := f.ctrl.Accept(f.ctx)
		if err != nil {
			tb.Fatal(err)
		}
		m := &agentpb.Assignments{Full: true, ResultsIn: "1", Pools: []*agentpb.Pool{{Name: "pool", Provider: "LVM_THIN"}}}
		for i := range resources {
			m.Resources = append(m.Resources, &agentpb.Resource{
				Name: fmt.Sprintf("resource-%d", i), Generation: 1, Layers: []string{"DRBD", "STORAGE"},
				Volumes: []*agentpb.Volume{{Pool: "pool", Size: 1 << 30}},
			})
		}
		if err := s.Send(f.ctx, m); err != nil {
			tb.Fatal(err)
		}
	}
}

// awaitReady waits until all agents have reported so many resources as ready.
func (f *fleet) awaitReady(tb testing.TB, resources int) {
	tb.Helper()
	for _, a := range f.agents {
		_, err := f.ctrl.Await(f.ctx, a.Node, func(n fakecontroller.Node) bool {
			ready := 0
			for _, r := range n.Resources {
				if r.GetState() == agentpb.ResourceStatus_READY {
					ready++
				}
			}
			return ready == resources
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func TestManyAgentsDropAndReturnTogether(t *testing.T) {
	defer goleak.VerifyNone(t)
	f := startFleet(t, 20)
	defer f.stop()
	f.assign(t, 50)
	f.awaitReady(t, 50)
	for range 3 {
		f.ctrl.Forget()
		for _, a := range f.agents {
			a.DropSession()
		}
		f.assign(t, 50)
		f.awaitReady(t, 50)
	}
}

// BenchmarkFleet is 100 agents with 200 replicas each, from nothing to all reported ready. It
// prints what they cost together.
func BenchmarkFleet(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f := startFleet(b, 100)
		f.assign(b, 200)
		f.awaitReady(b, 200)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		b.ReportMetric(float64(runtime.NumGoroutine())/100, "goroutines/agent")
		f.stop()
	}
}
