// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/model"
)

func providers() []model.Provider { return []model.Provider{model.File, model.FileThin} }
func layers() []model.Layer       { return []model.Layer{model.Storage} }

func TestHelloSaysWhatTheHostCanServe(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := agent.Config{
			Node: node, Dial: func(a string) (agent.Conn, error) { return b.ctrl.Dial(a) }, Host: b.host, Version: "1.2", Uname: "host",
			Providers: providers(), Layers: layers(),
			UnsupportedProviders: map[model.Provider]string{model.ZFS: "zfs is not installed"},
			UnsupportedLayers:    map[model.Layer]string{model.DRBD: "no module"},
		}
		b.run(func(ctx context.Context) error { return agent.Run(ctx, c) })
		h := b.accept().Hello
		if h.GetNode() != node || h.GetProtocol() != 1 || h.GetVersion() != "1.2" || h.GetUname() != "host" || h.GetInstance() == "" {
			t.Errorf("hello = %v", h)
		}
		if !slices.Equal(h.GetProviders(), []string{"FILE", "FILE_THIN"}) || !slices.Equal(h.GetLayers(), []string{"STORAGE"}) {
			t.Errorf("providers %v, layers %v", h.GetProviders(), h.GetLayers())
		}
		if h.GetUnsupportedProviders()["ZFS"] != "zfs is not installed" || h.GetUnsupportedLayers()["DRBD"] != "no module" {
			t.Errorf("unsupported: %v, %v", h.GetUnsupportedProviders(), h.GetUnsupportedLayers())
		}
	})
}

func TestReturningAgentResumesWithIncrements(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.send(s, increment("1", "2", resource("r2", "pool1", 2)))
		b.awaitReady("r2", 2)
		b.ctrl.Forget()
		b.DropSession()
		s2 := b.accept()
		if got := s2.Hello.GetAppliesTo(); got != "2" {
			t.Errorf("applies_to = %q, want 2", got)
		}
		if s2.Hello.GetInstance() != s.Hello.GetInstance() {
			t.Error("the instance changed within one run")
		}
		applies := b.Applies()
		b.send(s2, increment("2", "3", resource("r3", "pool1", 3)))
		b.awaitReady("r3", 3)
		n := b.await("everything to be reported again", func(n fakecontroller.Node) bool {
			return len(n.Resources) == 3 && n.Pools["pool1"] != nil && n.Pools["pool2"] != nil
		})
		if n.Applied != "3" {
			t.Errorf("applied = %q", n.Applied)
		}
		if got := b.Applies(); got != applies+1 {
			t.Errorf("%d applies after the resumption, want 1: what has not changed is not worked on", got-applies)
		}
	})
}

func TestBrokenChainAsksForFullSet(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		b.send(s, increment("7", "8", destroyed(resource("r1", "pool1", 8))))
		s2 := b.accept()
		if got := s2.Hello.GetAppliesTo(); got != "" {
			t.Errorf("applies_to = %q after a broken chain, want none", got)
		}
		b.wantVolumes("pool1/r1/0")
		b.send(s2, full("9", resource("r1", "pool1", 9)))
		b.awaitReady("r1", 9)
	})
}

func TestFirstMessageThatDoesNotChainAsksForFullSet(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.send(b.accept(), increment("", "1", resource("r1", "pool1", 1)))
		b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
		b.awaitReady("r1", 1)
	})
}

func TestRefusedSessionIsTriedForEver(t *testing.T) {
	for _, code := range []codes.Code{codes.NotFound, codes.FailedPrecondition, codes.PermissionDenied, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.ctrl.Refuse(status.Error(code, "refused"))
				b.start()
				elapse(10 * time.Minute)
				b.ctrl.Refuse(nil)
				began := time.Now()
				b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
				if wait := time.Since(began); wait > 7*time.Second {
					t.Errorf("the agent came %s after the controller accepted it", wait)
				}
				b.awaitReady("r1", 1)
				if got := strings.Count(b.log.String(), "no session"); got != 1 {
					t.Errorf("logged %d times that there is no session, want once: the reason did not change", got)
				}
				elapse(time.Minute)
				began = time.Now()
				b.DropSession()
				b.accept()
				if wait := time.Since(began); wait > time.Second {
					t.Errorf("the agent came back %s after a good session was lost", wait)
				}
			})
		})
	}
}

func TestReportToEndedSessionLeadsToNewOne(t *testing.T) {
	for name, answer := range map[string]error{
		"aborted":         status.Error(codes.Aborted, "not the current session"),
		"unknown session": fakecontroller.ErrUnknownSession,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				s := b.serve(resource("r1", "pool1", 1))
				b.awaitReady("r1", 1)
				asked := 0
				b.ctrl.OnReport(func(context.Context, *agentpb.ReportRequest) error { asked++; return answer })
				s2 := b.accept()
				<-s.Done()
				if asked != 1 {
					t.Errorf("%d reports to a session that has ended", asked)
				}
				b.ctrl.OnReport(nil)
				b.ctrl.Forget()
				b.send(s2, full("1", resource("r1", "pool1", 1)))
				b.awaitReady("r1", 1)
			})
		})
	}
}

func TestReportIsRepeatedUntilAnswered(t *testing.T) {
	inBubble(t, func(b *bench) {
		var fails atomic.Int32
		b.ctrl.OnReport(func(_ context.Context, r *agentpb.ReportRequest) error {
			if len(r.GetResources()) > 0 && fails.Add(1) <= 2 {
				return status.Error(codes.Unavailable, "busy")
			}
			return nil
		})
		b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		if got := b.Sessions(); got != 1 {
			t.Errorf("%d sessions; a report that failed twice is no reason for a new one", got)
		}
	})
}

func TestReportThatFailedLeavesOutWhatWasForgottenMeanwhile(t *testing.T) {
	inBubble(t, func(b *bench) {
		reported, fail := make(chan bool), make(chan bool)
		b.ctrl.OnReport(func(_ context.Context, r *agentpb.ReportRequest) error {
			if len(r.GetResources()) == 0 {
				return nil
			}
			b.ctrl.OnReport(nil)
			reported <- true
			<-fail
			return errAway
		})
		s := b.serve(resource("r1", "pool1", 1))
		<-reported
		m := &agentpb.Assignments{AppliesTo: "1", ResultsIn: "2", GoneResources: []string{"r1"}, GonePools: []string{"pool1"}}
		b.send(s, m)
		synctest.Wait()
		close(fail)
		b.send(s, increment("2", "3", resource("r2", "pool2", 3)))
		n := b.await("r2", func(n fakecontroller.Node) bool { return n.Resources["r2"].GetState() == ready })
		if len(n.Resources) != 1 {
			t.Errorf("reported %v", n.Resources)
		}
	})
}

func TestControllerThatHangsIsDialledAnew(t *testing.T) {
	t.Run("before the first message", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.start()
			b.accept()
			b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
			b.awaitReady("r1", 1)
		})
	})
	t.Run("later", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			s := b.serve(resource("r1", "pool1", 1))
			b.awaitReady("r1", 1)
			began := time.Now()
			b.ctrl.OnReport(func(ctx context.Context, _ *agentpb.ReportRequest) error {
				<-ctx.Done()
				return ctx.Err()
			})
			<-s.Done()
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the agent held on to a hung controller for %s", took)
			}
			b.ctrl.OnReport(nil)
			b.send(b.accept(), increment("1", "2", resource("r2", "pool1", 2)))
			b.awaitReady("r2", 2)
		})
	})
}

func TestControllersAreTriedInTurn(t *testing.T) {
	inBubble(t, func(b *bench) {
		var dialled atomic.Int32
		b.Addresses = []string{"a", "b", "c"}
		b.Dial = func(address string) (*grpc.ClientConn, error) {
			dialled.Add(1)
			if address != "b" {
				return nil, errors.New("no route to " + address)
			}
			return b.ctrl.Dial(address)
		}
		b.start()
		b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
		b.awaitReady("r1", 1)
		if got := dialled.Load(); got != 2 {
			t.Errorf("%d dials, want 2", got)
		}
		b.DropSession()
		b.send(b.accept(), full("2", resource("r1", "pool1", 2)))
		b.awaitReady("r1", 2)
	})
}

func TestHeartbeatComesAtTheIntervalOfTheFullSet(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		m := full("1")
		m.Pools = nil
		m.Heartbeat = durationpb.New(2 * time.Second)
		b.send(b.accept(), m)
		synctest.Wait()
		before := b.Reports()
		elapse(time.Minute + time.Millisecond)
		synctest.Wait()
		if got := b.Reports() - before; got != 30 {
			t.Errorf("%d reports in a minute, want 30", got)
		}
	})
}

func TestNothingNewIsNotSaidAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Use("r1", "qemu")
		b.serve(resource("r1", "pool1", 1), resource("r2", "pool1", 1))
		b.awaitReady("r1", 1)
		elapse(time.Second)
		b.ctrl.OnReport(func(_ context.Context, r *agentpb.ReportRequest) error {
			if len(r.GetResources())+len(r.GetPools()) > 0 {
				t.Errorf("reported again: %v", r)
			}
			return nil
		})
		elapse(10 * time.Minute)
		b.ctrl.OnReport(nil)
	})
}

func TestManyChangesAreFewReports(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.ctrl.OnReport(func(ctx context.Context, _ *agentpb.ReportRequest) error {
			elapse(50 * time.Millisecond)
			return nil
		})
		var set []*agentpb.Resource
		for i := range 2000 {
			set = append(set, resource(fmt.Sprintf("r%d", i), "pool2", 1))
		}
		b.serve(set...)
		n := b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 2000) })
		if n.Reports > 50 {
			t.Errorf("%d reports for 2000 resources", n.Reports)
		}
	})
}

func TestReportTooLargeForTheControllerIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, ctx: t.Context(), ctrl: fakecontroller.Start(grpc.MaxRecvMsgSize(8 << 10)), log: &logBuffer{}}
		defer b.ctrl.Stop()
		b.Agent = newAgent(b)
		b.start()
		defer func() { b.stop() }()
		var set []*agentpb.Resource
		for i := range 1000 {
			set = append(set, resource(fmt.Sprintf("resource-%d", i), "pool2", 1))
		}
		b.send(b.accept(), full("1", set...))
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 1000) })
		if got := b.Sessions(); got != 1 {
			t.Errorf("%d sessions, want 1", got)
		}
	})
}

func TestSetLargerThanTheLimitLeavesTheOldOneServed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Limits.Message = 8 << 10
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		var set []*agentpb.Resource
		for i := range 1000 {
			set = append(set, resource(fmt.Sprintf("resource-%d", i), "pool2", 1))
		}
		b.send(s, full("2", set...))
		b.ctrl.Forget()
		b.send(b.accept(), increment("1", "2", resource("r2", "pool1", 2)))
		b.awaitReady("r1", 1)
		b.awaitReady("r2", 2)
	})
}

func allReady(n fakecontroller.Node, count int) bool {
	ready := 0
	for _, s := range n.Resources {
		if s.GetState() == agentpb.ResourceStatus_READY {
			ready++
		}
	}
	return ready == count
}
