// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

// BenchmarkTenThousandResources takes an agent from nothing to 10,000 resources reported
// ready, with its state on disk, and then leaves it alone. Beside the time it prints the heap
// that the agent and its simulated host take, and what each later look at a resource costs.
func BenchmarkTenThousandResources(b *testing.B) {
	const count, rest = 10_000, 10 * time.Second
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		ctrl := fakecontroller.Start()
		before := heap()
		a := &fakeagent.Agent{Node: node, Dial: ctrl.Dial, StateDir: b.TempDir(), Limits: agent.Limits{Repair: rest / 3}}
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		s, err := ctrl.Accept(ctx)
		if err != nil {
			b.Fatal(err)
		}
		var set []*agentpb.Resource
		for i := range count {
			set = append(set, resource(fmt.Sprintf("resource-%d", i), "pool1", 1))
		}
		if err := s.Send(ctx, full("1", set...)); err != nil {
			b.Fatal(err)
		}
		if _, err := ctrl.Await(ctx, node, func(n fakecontroller.Node) bool { return allReady(n, count) }); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		began, looks := processor(), a.Applies()
		elapse(rest)
		b.ReportMetric(float64((processor()-began).Microseconds())/float64(a.Applies()-looks), "µs/look")
		b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		set = nil
		ctrl.Forget()
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		ctrl.Stop()
		b.StartTimer()
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processor is the time that this process has had of the processors.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
