// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

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
			errs.New(errs.InUse, errs.Volume, "in use"), &pool.ChangedError{ID: id}, &stack.MomentError{Resource: "r1", Snapshot: "snap"},
		},
		agentpb.Failure_NO_SPACE: {
			&pool.NoSpaceError{Pool: "pool1", Asked: 2, Free: 1, Total: 3}, errs.New(errs.NoSpace, errs.StoragePool, "full"),
			&pool.FaultyError{Pool: "pool1", Reason: pool.Full},
		},
		agentpb.Failure_POOL_FAULTY: {
			&pool.FaultyError{Pool: "pool1", Reason: pool.Missing}, &pool.NotFoundError{Pool: "pool1"},
			errs.New(errs.HostFailed, errs.StoragePool, "dead"),
		},
		agentpb.Failure_UNSUPPORTED: {errs.New(errs.Unsupported, errs.Resource, "no"), &stack.UnsupportedError{Pool: "pool1", What: "take snapshots"}},
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
