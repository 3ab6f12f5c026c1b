// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/model"
)

const (
	ready         = agentpb.ResourceStatus_READY
	failed        = agentpb.ResourceStatus_FAILED
	working       = agentpb.ResourceStatus_WORKING
	destroyedGone = agentpb.ResourceStatus_DESTROYED
)

func TestResourceIsMadeAndReported(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := resource("Vol-A", "pool1", 5)
		r.Volumes = append(r.Volumes, &agentpb.Volume{
			Number: 3, Pool: "POOL2", Size: 2 * mib, Filesystem: &agentpb.Filesystem{Type: "ext4"},
		})
		b.serve(r)
		s := b.awaitReady("vol-a", 5)
		if s.GetName() != "Vol-A" || len(s.GetVolumes()) != 2 || s.GetFailure() != nil {
			t.Fatalf("status = %v", s)
		}
		if v := s.GetVolumes()[1]; v.GetNumber() != 3 || v.GetDevicePath() == "" || v.GetUsable() != 2*mib || v.InUse == nil || v.GetInUse() {
			t.Errorf("volume = %v", v)
		}
		if got := b.Filesystem("vol-a", 3); got != "ext4" {
			t.Errorf("filesystem = %q", got)
		}
	})
}

func TestNewerAssignmentSupersedesWaitingOne(t *testing.T) {
	inBubble(t, func(b *bench) {
		hold := b.HoldApplies("r1")
		s := b.serve(resource("r1", "pool1", 1))
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		for g := uint64(2); g <= 6; g++ {
			b.send(s, increment(fmt.Sprint(g-1), fmt.Sprint(g), resource("r1", "pool1", g)))
		}
		synctest.Wait()
		hold.Release()
		b.awaitReady("r1", 6)
		if got := b.Applies(); got != 2 {
			t.Errorf("%d applies, want the one that ran and the newest", got)
		}
	})
}

func TestLongWorkIsReportedAsWorking(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		hold := b.HoldApplies("r1")
		b.send(s, increment("1", "2", resource("r1", "pool1", 2)))
		w := b.awaitState("r1", working)
		if w.GetGeneration() != 2 || w.GetVolumes()[0].GetDevicePath() == "" || w.GetFailure() != nil {
			t.Errorf("status = %v", w)
		}
		n := b.await("the hang to be told", func(n fakecontroller.Node) bool { return n.Resources["r1"].GetFailure() != nil })
		if got := n.Resources["r1"].GetFailure().GetMessage(); !strings.Contains(got, "since 2000-01-01T00:0") {
			t.Errorf("message = %q", got)
		}
		hold.Release()
		b.awaitReady("r1", 2)
	})
}

func TestHungPoolHoldsUpNothingElse(t *testing.T) {
	inBubble(t, func(b *bench) {
		hold := b.HoldPool("pool1")
		var set []*agentpb.Resource
		for i := range 50 {
			set = append(set, resource(fmt.Sprintf("hung%d", i), "pool1", 1))
		}
		both := resource("both", "pool1", 1)
		both.Volumes = append(both.Volumes, &agentpb.Volume{Number: 1, Pool: "pool2", Size: mib})
		began := time.Now()
		s := b.serve(append(set, both, resource("r1", "pool2", 1))...)
		b.awaitReady("r1", 1)
		b.send(s, increment("1", "2", resource("r2", "pool2", 2)))
		b.awaitReady("r2", 2)
		n := b.await("pool2's space", func(n fakecontroller.Node) bool { return n.Pools["pool2"].GetTotal() > 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the other pool was served after %s", took)
		}
		if n.Resources["hung0"].GetState() == ready || n.Resources["both"].GetState() == ready {
			t.Errorf("ready in a pool that hangs: %v", n.Resources)
		}
		n = b.await("pool1 to be faulty", func(n fakecontroller.Node) bool { return len(n.Pools["pool1"].GetFaults()) > 0 })
		if p := n.Pools["pool1"]; p.Total != nil || p.Free != nil || p.Allocated != nil {
			t.Errorf("figures of a pool that does not answer: %v", p)
		}
		hold.Release()
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 53) })
	})
}

func TestResourceForgottenWhileWorkedOnIsNotReported(t *testing.T) {
	inBubble(t, func(b *bench) {
		hold := b.HoldApplies("r1")
		s := b.serve(resource("r1", "pool1", 1))
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		m := increment("1", "2", resource("r2", "pool1", 2))
		m.GoneResources = []string{"r1"}
		b.send(s, m)
		b.awaitReady("r2", 2)
		hold.Release()
		b.send(s, increment("2", "3", resource("r3", "pool1", 3)))
		n := b.await("r3", func(n fakecontroller.Node) bool { return n.Resources["r3"].GetState() == ready })
		if got := n.Resources["r1"]; got != nil {
			t.Errorf("reported %v of a resource that was taken away", got)
		}
	})
}

func TestDriftIsRepaired(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startOn(blindHost{b.host}, agent.Limits{})
		b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
		b.awaitReady("r1", 1)
		b.CloseVolumes("r1")
		elapse(73 * time.Second) // The repair interval and its spread.
		r, err := b.Inspect(b.ctx, agent.Want{
			Resource: "r1", Volumes: []agent.VolumeWant{{Pool: &agent.Pool{Name: "pool1", Provider: model.File}}},
		})
		if err != nil || r.Volumes[0].GetDevicePath() == "" {
			t.Errorf("the device was not brought back: %v, %v", r, err)
		}
	})
}

func TestUseIsNoticed(t *testing.T) {
	for name, host := range map[string]func(*bench) agent.Host{
		"when the host tells":  func(b *bench) agent.Host { return b.host },
		"by the periodic look": func(b *bench) agent.Host { return blindHost{b.host} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.startOn(host(b), agent.Limits{})
				b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
				b.awaitReady("r1", 1)
				b.Use("r1", "qemu")
				b.await("r1 in use", func(n fakecontroller.Node) bool {
					v := n.Resources["r1"].GetVolumes()[0]
					return v.GetInUse() && slices.Equal(v.GetHolders(), []string{"qemu"})
				})
				b.Leave("r1")
				b.await("r1 not in use", func(n fakecontroller.Node) bool {
					v := n.Resources["r1"].GetVolumes()[0]
					return v.InUse != nil && !v.GetInUse()
				})
			})
		})
	}
}

func TestFloodOfEventsIsCoalesced(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		before := b.Applies()
		for i := range 5000 {
			b.Use("r1", fmt.Sprint(i))
			b.Leave("r1")
			if i%5 == 0 {
				elapse(time.Millisecond)
			}
		}
		b.send(s, increment("1", "2", resource("r2", "pool1", 2)))
		b.awaitReady("r2", 2)
		if got := b.Applies() - before; got > 20 {
			t.Errorf("%d looks for 10,000 events within a second", got)
		}
	})
}

func TestManyResourcesStartQuicklyAndCreatesComeFirst(t *testing.T) {
	inBubble(t, func(b *bench) {
		var set []*agentpb.Resource
		for i := range 1500 {
			set = append(set, resource(fmt.Sprintf("r%d", i), "pool1", 1))
		}
		slow := &slowHost{Host: b.host, each: 100 * time.Millisecond}
		b.StateDir = ""
		b.startOn(slow, agent.Limits{})
		s := b.accept()
		began := time.Now()
		b.send(s, full("1", set...))
		b.await("a first report", func(n fakecontroller.Node) bool { return n.Reports > 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("first report after %s", took)
		}
		b.send(s, increment("1", "2", resource("new", "pool1", 2)))
		b.awaitReady("new", 2)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a create during the start took %s", took)
		}
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 1501) })
		if took := time.Since(began); took > time.Minute {
			t.Errorf("all states were known after %s", took)
		}
		if most := slow.most(); most > 4 {
			t.Errorf("%d at once in one lane", most)
		}
	})
}

func TestOneResourceIsNeverWorkedOnTwiceAtOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		slow := &slowHost{Host: b.host, each: 70 * time.Millisecond, perName: true}
		b.startOn(slow, agent.Limits{PerLane: 16})
		s := b.accept()
		b.send(s, full("1", resource("r1", "pool1", 1)))
		for g := uint64(2); g < 50; g++ {
			pools := []string{"pool1", "pool2"} // Another pool is another lane.
			b.send(s, increment(fmt.Sprint(g-1), fmt.Sprint(g), resource("r1", pools[g%2], g)))
			elapse(30 * time.Millisecond)
			b.Use("r1", "x")
		}
		b.awaitReady("r1", 49)
		if most := slow.most(); most != 1 {
			t.Errorf("%d applies of one resource at once", most)
		}
	})
}

func TestRunningWorkMayFinishWhenTheAgentEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		hold := b.HoldApplies("r1")
		b.serve(resource("r1", "pool1", 1))
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, hold.Release)
		b.stop()
		b.wantVolumes("pool1/r1/0")
	})
}

func TestWorkThatHangsIsCancelledWhenTheAgentEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		hold := b.HoldApplies("r1")
		b.serve(resource("r1", "pool1", 1), resource("r2", "pool1", 1))
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.awaitReady("r2", 1)
		began := time.Now()
		b.stop()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the agent ended after %s", took)
		}
		b.wantVolumes("pool1/r2/0")
	})
}

func TestWorkThatIsStuckHoldsUpNeitherSessionsNorTheEnd(t *testing.T) {
	inBubble(t, func(b *bench) {
		stuck := &stuckHost{Host: b.host, freed: make(chan struct{})}
		defer func() { close(stuck.freed); synctest.Wait() }()
		b.startOn(stuck, agent.Limits{})
		m := full("1", resource("stuck", "pool1", 1), resource("r1", "pool1", 1))
		m.Asks = []*agentpb.Ask{checkPool("stuck", "pool1", "FILE")}
		s := b.accept()
		b.send(s, m)
		b.awaitReady("r1", 1)
		s.End(errAway)
		b.send(b.accept(), increment("1", "2", resource("r2", "pool1", 2)))
		b.awaitReady("r2", 2)
		began := time.Now()
		b.stop()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the agent ended after %s", took)
		}
		if !strings.Contains(b.log.String(), "left behind") {
			t.Errorf("log: %s", b.log)
		}
	})
}

func TestDestructionThatEndsAfterTheResourceWasMadeAnewIsNotTold(t *testing.T) {
	inBubble(t, func(b *bench) {
		hold := b.HoldApplies("r1")
		s := b.serve(destroyed(resource("r1", "pool1", 1)))
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		m := increment("1", "2", resource("r1", "pool1", 2))
		m.GoneResources = []string{"r1"}
		b.send(s, m)
		synctest.Wait()
		b.ctrl.OnReport(func(_ context.Context, r *agentpb.ReportRequest) error {
			for _, s := range r.GetResources() {
				if s.GetState() == destroyedGone {
					t.Errorf("reported %v", s)
				}
			}
			return nil
		})
		hold.Release()
		b.awaitReady("r1", 2)
		b.wantVolumes("pool1/r1/0")
	})
}

// stuckHost does not come back from some calls until it is freed, whatever their contexts
// say, as from a system call that cannot be interrupted.
type stuckHost struct {
	agent.Host
	freed chan struct{}
}

func (h *stuckHost) Apply(ctx context.Context, w agent.Want) (agent.Result, error) {
	if w.Resource == "stuck" {
		<-h.freed
	}
	return h.Host.Apply(ctx, w)
}

func (h *stuckHost) Check(ctx context.Context, p agent.Pool) (agent.Space, error) {
	<-h.freed
	return h.Host.Check(ctx, p)
}

// blindHost does not tell what changes by itself.
type blindHost struct{ agent.Host }

// slowHost takes its time for each apply and counts how many run at once: on the whole, or of
// one resource.
type slowHost struct {
	*fakeagent.Host
	each    time.Duration
	perName bool

	mu      sync.Mutex
	running map[string]int
	highest int
}

func (h *slowHost) Apply(ctx context.Context, w agent.Want) (agent.Result, error) {
	name := ""
	if h.perName {
		name = w.Resource
	}
	h.mu.Lock()
	if h.running == nil {
		h.running = map[string]int{}
	}
	h.running[name]++
	h.highest = max(h.highest, h.running[name])
	h.mu.Unlock()
	elapse(h.each)
	h.mu.Lock()
	h.running[name]--
	h.mu.Unlock()
	return h.Host.Apply(ctx, w)
}

func (h *slowHost) most() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.highest
}
