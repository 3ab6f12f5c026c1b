// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/errs"
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

func TestFailedStepIsTriedUntilItSucceeds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("r1", 4, errors.New("create volume r1/0: exit status 5"))
		began := time.Now()
		b.serve(resource("r1", "pool1", 1), resource("r2", "pool1", 1))
		b.awaitReady("r2", 1)
		for attempts := uint32(1); attempts <= 4; attempts++ {
			n := b.await(fmt.Sprintf("attempt %d", attempts), func(n fakecontroller.Node) bool {
				return n.Resources["r1"].GetFailure().GetAttempts() == attempts
			})
			f := n.Resources["r1"].GetFailure()
			if n.Resources["r1"].GetState() != failed || !strings.Contains(f.GetMessage(), "exit status 5") || f.GetStep() == "" {
				t.Errorf("status = %v", n.Resources["r1"])
			}
			wait := time.Until(f.GetNextTry().AsTime())
			if least := time.Second << (attempts - 1) * 7 / 10; wait < least || wait > 2*least {
				t.Errorf("after attempt %d the next try comes in %s", attempts, wait)
			}
		}
		s := b.awaitReady("r1", 1)
		if s.GetFailure() != nil {
			t.Errorf("failure = %v after success", s.GetFailure())
		}
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("healed after %s", took)
		}
	})
}

func TestBackOffIsBoundedAndEndless(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("r1", -1, nil)
		b.serve(resource("r1", "pool1", 1))
		elapse(30 * time.Minute)
		n := b.await("a report", func(n fakecontroller.Node) bool { return n.Resources["r1"] != nil })
		if got := n.Resources["r1"].GetFailure().GetAttempts(); got < 25 || got > 50 {
			t.Errorf("%d attempts in half an hour", got)
		}
		b.FailApplies("r1", 0, nil)
		b.awaitReady("r1", 1)
	})
}

func TestNewAssignmentIsTriedAtOnceAfterFailures(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("r1", 10, nil)
		s := b.serve(resource("r1", "pool1", 1))
		b.await("10 failures", func(n fakecontroller.Node) bool { return n.Resources["r1"].GetFailure().GetAttempts() == 10 })
		began := time.Now()
		b.send(s, increment("1", "2", resource("r1", "pool1", 2)))
		b.awaitReady("r1", 2)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the new assignment waited %s for the back-off of the old one", took)
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

func TestFailureOfAnOlderAssignmentIsNotCountedForTheNewer(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("r1", 2, nil)
		hold := b.HoldApplies("r1")
		s := b.serve(resource("r1", "pool1", 1))
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.send(s, increment("1", "2", resource("r1", "pool1", 2)))
		synctest.Wait()
		hold.Release()
		n := b.await("the newer one to fail", func(n fakecontroller.Node) bool {
			return n.Resources["r1"].GetState() == failed && n.Resources["r1"].GetGeneration() == 2
		})
		if got := n.Resources["r1"].GetFailure().GetAttempts(); got != 1 {
			t.Errorf("%d attempts of an assignment that was tried once", got)
		}
		b.awaitReady("r1", 2)
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

func TestBadItemFailsAlone(t *testing.T) {
	twice := resource("twice", "pool1", 1)
	twice.Volumes = append(twice.Volumes, twice.GetVolumes()[0])
	tiny := resource("tiny", "pool1", 1)
	tiny.Volumes[0].Size = 1
	layered := resource("layered", "pool1", 1)
	layered.Layers = []string{"DRBD", "STORAGE"}
	nonsense := resource("nonsense", "pool1", 1)
	nonsense.Layers = []string{"CHEESE"}
	negative := resource("negative", "pool1", 1)
	negative.Volumes[0].Number = -1
	bad := []*agentpb.Resource{
		twice, tiny, layered, nonsense, negative,
		resource("un/named", "pool1", 1), resource("nopool", "pool9", 1), resource("strange", "odd", 1), resource("zfs", "zfs", 1),
		{Name: "", Generation: 1},
	}
	want := map[string]agentpb.Failure_Reason{
		"twice": agentpb.Failure_INVALID, "tiny": agentpb.Failure_INVALID, "layered": agentpb.Failure_UNSUPPORTED,
		"nonsense": agentpb.Failure_INVALID, "negative": agentpb.Failure_INVALID, "un/named": agentpb.Failure_INVALID,
		"nopool": agentpb.Failure_INVALID, "strange": agentpb.Failure_INVALID, "zfs": agentpb.Failure_UNSUPPORTED, "": agentpb.Failure_INVALID,
	}
	inBubble(t, func(b *bench) {
		b.startOn(b.host, agent.Limits{})
		m := full("1", append(bad, resource("good", "pool1", 1))...)
		m.Pools = append(m.Pools, &agentpb.Pool{Name: "odd", Provider: "TAPE"}, &agentpb.Pool{Name: "zfs", Provider: "ZFS"},
			&agentpb.Pool{Name: "no", Provider: "FILE"})
		b.send(b.accept(), m)
		b.awaitReady("good", 1)
		n := b.await("the bad ones", func(n fakecontroller.Node) bool {
			return len(n.Resources) == len(want)+1 && len(n.Pools) == 5
		})
		for name, reason := range want {
			s := n.Resources[name]
			if s.GetState() != failed || s.GetFailure().GetReason() != reason || s.GetFailure().GetMessage() == "" {
				t.Errorf("%q: %v, want %v", name, s, reason)
			}
		}
		for _, name := range []string{"odd", "zfs", "no"} {
			if len(n.Pools[name].GetFaults()) != 1 {
				t.Errorf("pool %s: %v", name, n.Pools[name])
			}
		}
		if got := b.Sessions(); got > 1 {
			t.Errorf("%d sessions", got)
		}
	})
}

func TestErrorsKeepTheirReason(t *testing.T) {
	id := pool.ID{Resource: "r1"}
	for want, list := range map[agentpb.Failure_Reason][]error{
		agentpb.Failure_IN_USE: {
			&pool.InUseError{ID: id, Holders: []pool.Holder{{Kind: pool.Opened, Name: "dd", PID: 3}}},
			errs.New(errs.InUse, errs.Volume, "in use"),
		},
		agentpb.Failure_NO_SPACE: {
			&pool.NoSpaceError{Pool: "pool1", Asked: 2, Free: 1, Total: 3}, errs.New(errs.NoSpace, errs.StoragePool, "full"),
			&pool.FaultyError{Pool: "pool1", Reason: pool.Full},
		},
		agentpb.Failure_POOL_FAULTY: {
			&pool.FaultyError{Pool: "pool1", Reason: pool.Missing}, &pool.NotFoundError{Pool: "pool1"},
			errs.New(errs.HostFailed, errs.StoragePool, "dead"),
		},
		agentpb.Failure_UNSUPPORTED: {errs.New(errs.Unsupported, errs.Resource, "no")},
		agentpb.Failure_INVALID: {
			&pool.SizeError{Asked: -1}, &pool.ExistsError{Pool: "pool1", ID: id}, &stack.ShrinkError{ID: id}, errs.New(errs.Invalid, errs.Resource, "bad"),
		},
		agentpb.Failure_REASON_UNSPECIFIED: {
			errors.New("exit status 1"), context.DeadlineExceeded, &pool.NotFoundError{Pool: "pool1", ID: id},
			errs.New(errs.HostFailed, errs.Resource, "step failed"),
		},
	} {
		for _, err := range list {
			t.Run(fmt.Sprintf("%s/%T", want, err), func(t *testing.T) {
				inBubble(t, func(b *bench) {
					b.FailApplies("r1", -1, fmt.Errorf("create volume: %w", err))
					b.serve(resource("r1", "pool1", 1))
					f := b.awaitState("r1", failed).GetFailure()
					if f.GetReason() != want || !strings.Contains(f.GetMessage(), err.Error()) {
						t.Errorf("failure = %v, want %s", f, want)
					}
				})
			})
		}
	}
}

func TestTextsThatCannotBeSentAreMadeFit(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("r1", -1, errors.New("mkfs: \xff\xfe"+strings.Repeat("é", 1<<20)))
		b.Use("r2", "\xffqemu")
		b.serve(resource("r1", "pool1", 1), resource("r2", "pool1", 1))
		f := b.awaitState("r1", failed).GetFailure()
		if len(f.GetMessage()) > 8<<10 || !utf8.ValidString(f.GetMessage()) {
			t.Errorf("message of %d bytes", len(f.GetMessage()))
		}
		b.awaitReady("r2", 1)
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
