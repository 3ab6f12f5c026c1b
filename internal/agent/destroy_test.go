// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

func TestCreateDoesNotWaitForDestroying(t *testing.T) {
	inBubble(t, func(b *bench) {
		var set []*agentpb.Resource
		for i := range 100 {
			set = append(set, resource(fmt.Sprintf("old%d", i), "pool1", 1))
		}
		s := b.serve(set...)
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 100) })
		var holds []*fakeagent.Hold
		m := increment("1", "2")
		for _, r := range set {
			holds = append(holds, b.HoldApplies(r.GetName()))
			m.Resources = append(m.Resources, destroyed(resource(r.GetName(), "pool1", 2)))
		}
		b.send(s, m)
		began := time.Now()
		b.send(s, increment("2", "3", resource("new", "pool1", 3)))
		b.awaitReady("new", 3)
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("the create took %s behind 100 destroys", took)
		}
		for _, h := range holds {
			h.Release()
		}
		b.await("all to be destroyed", func(n fakecontroller.Node) bool {
			return n.Resources["old99"].GetState() == destroyedGone && n.Resources["old0"].GetState() == destroyedGone
		})
	})
}

func TestDestroyOnlyOnExplicitWord(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("absent", "pool1", 1), resource("gone", "pool1", 1), resource("stays", "pool1", 1))
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 3) })
		m := increment("1", "2")
		m.GoneResources = []string{"Gone"}
		b.send(s, m)
		b.send(s, full("3", resource("stays", "pool1", 1)))
		b.await("the absent ones to be unknown", func(n fakecontroller.Node) bool {
			return slices.Equal(n.Pools["pool1"].GetUnknownVolumes(), []string{"absent_00000", "gone_00000"})
		})
		b.wantVolumes("pool1/absent/0 pool1/gone/0 pool1/stays/0")
		b.send(s, increment("3", "4", destroyed(resource("stays", "pool1", 4))))
		if got := b.awaitState("stays", destroyedGone); got.GetGeneration() != 4 || len(got.GetVolumes()) != 0 {
			t.Errorf("status = %v", got)
		}
		b.wantVolumes("pool1/absent/0 pool1/gone/0")
	})
}

func TestResourceMadeAgainAfterItsDestruction(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(destroyed(resource("r1", "pool1", 5)))
		b.awaitState("r1", destroyedGone)
		hold := b.HoldApplies("r1")
		b.ctrl.Forget()
		b.DropSession()
		<-s.Done()
		b.send(b.accept(), increment("1", "2", resource("r1", "pool1", 6), resource("r2", "pool1", 6)))
		b.awaitReady("r2", 6)
		n := b.await("a report", func(fakecontroller.Node) bool { return true })
		if got := n.Resources["r1"]; got.GetState() == destroyedGone {
			t.Errorf("the destruction of an earlier incarnation is told again: %v", got)
		}
		hold.Release()
		b.awaitReady("r1", 6)
	})
}

func TestOneVolumeOfAResourceIsDestroyed(t *testing.T) {
	inBubble(t, func(b *bench) {
		two := func(g uint64) *agentpb.Resource {
			r := resource("r1", "pool1", g)
			r.Volumes = append(r.Volumes, &agentpb.Volume{Number: 1, Pool: "pool1", Size: mib})
			return r
		}
		s := b.serve(two(1))
		b.awaitReady("r1", 1)
		r := two(2)
		r.Volumes[1].Destroy = true
		b.send(s, increment("1", "2", r))
		if got := b.awaitReady("r1", 2); len(got.GetVolumes()) != 1 || got.GetVolumes()[0].GetNumber() != 0 {
			t.Errorf("volumes = %v", got.GetVolumes())
		}
		b.wantVolumes("pool1/r1/0")
		b.send(s, increment("2", "3", resource("r1", "pool1", 3)))
		b.awaitReady("r1", 3)
	})
}

func TestVolumeInUseIsNotDestroyedUntilItIsLeft(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		b.Use("r1", "qemu")
		b.send(s, increment("1", "2", destroyed(resource("r1", "pool1", 2))))
		f := b.awaitState("r1", failed)
		if f.GetFailure().GetReason() != agentpb.Failure_IN_USE || !strings.Contains(f.GetFailure().GetMessage(), "qemu") {
			t.Errorf("failure = %v", f.GetFailure())
		}
		if v := f.GetVolumes(); len(v) != 1 || !v[0].GetInUse() || !slices.Equal(v[0].GetHolders(), []string{"qemu"}) {
			t.Errorf("volumes = %v: what is there is told with the failure", v)
		}
		b.wantVolumes("pool1/r1/0")
		b.Leave("r1")
		b.awaitState("r1", destroyedGone)
		b.wantVolumes("")
	})
}

func TestDestroyOfWhatIsNotThereSucceeds(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		b.LoseVolumes("r1")
		b.send(s, increment("1", "2", destroyed(resource("r1", "pool1", 2)), destroyed(resource("r2", "pool1", 2))))
		b.awaitState("r1", destroyedGone)
		b.awaitState("r2", destroyedGone)
	})
}

func TestLostVolumeIsNotReplacedByAnEmptyOne(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("never", 1, nil)
		s := b.serve(resource("r1", "pool1", 1), resource("never", "pool1", 1))
		b.awaitReady("r1", 1)
		b.awaitReady("never", 1)
		b.LoseVolumes("r1")
		f := b.awaitState("r1", failed).GetFailure()
		if !strings.Contains(f.GetMessage(), "any more") {
			t.Errorf("failure = %v", f)
		}
		b.send(s, increment("1", "2", resource("r1", "pool1", 2))) // A change of the assignment changes nothing of that.
		b.await("the newer one to fail", func(n fakecontroller.Node) bool {
			return n.Resources["r1"].GetState() == failed && n.Resources["r1"].GetGeneration() == 2
		})
		b.stop()
		b.ctrl.Forget()
		b.start()
		s = b.accept()
		b.send(s, full("2", resource("r1", "pool1", 2), resource("never", "pool1", 1)))
		b.awaitState("r1", failed)
		b.wantVolumes("pool1/never/0")

		// It is made where it never was, and when its loss was acknowledged.
		b.send(s, increment("2", "3", resource("r1", "pool2", 3)))
		b.awaitReady("r1", 3)
		b.LoseVolumes("r1")
		b.send(s, increment("3", "4", destroyed(resource("r1", "pool2", 4))))
		b.awaitState("r1", destroyedGone)
		b.send(s, increment("4", "5", resource("r1", "pool2", 5)))
		b.awaitReady("r1", 5)
		b.LoseVolumes("r1")
		b.awaitState("r1", failed)
		m := increment("5", "6", resource("r1", "pool2", 6))
		m.GoneResources = []string{"r1"}
		b.send(s, m)
		b.awaitReady("r1", 6)
	})
}
