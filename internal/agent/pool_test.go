// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/model"
)

func TestSpaceIsReportedAtConnectAndAfterChanges(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Capacity = 100 * mib
		s := b.serve()
		free := func(want int64) func(n fakecontroller.Node) bool {
			return func(n fakecontroller.Node) bool {
				p := n.Pools["pool1"]
				return p != nil && p.Free != nil && p.GetFree() == want && p.GetAllocated() == 100*mib-want && p.GetTotal() == 100*mib
			}
		}
		began := time.Now()
		b.await("an empty pool", free(100*mib))
		b.send(s, increment("1", "2", resource("r1", "pool1", 2)))
		b.await("one volume", free(99*mib))
		larger := resource("r1", "pool1", 3)
		larger.Volumes[0].Size = 5 * mib
		b.send(s, increment("2", "3", larger))
		b.await("a larger volume", free(95*mib))
		b.send(s, increment("3", "4", destroyed(resource("r1", "pool1", 4))))
		b.await("no volume", free(100*mib))
		if took := time.Since(began); took > time.Second {
			t.Errorf("the figures took %s to follow", took)
		}
		b.PutVolume("pool1", "guest", 0, mib)
		b.await("what others did", free(99*mib))
	})
}

func TestVolumeThatDoesNotFitSaysSo(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Capacity = 10 * mib
		r := resource("r1", "pool1", 1)
		r.Volumes[0].Size = 11 * mib
		s := b.serve(r)
		f := b.awaitState("r1", failed).GetFailure()
		if f.GetReason() != agentpb.Failure_NO_SPACE {
			t.Errorf("failure = %v", f)
		}
		b.Resize("pool1", 12*mib)
		b.awaitReady("r1", 1)
		grown := resource("r1", "pool1", 2)
		grown.Volumes[0].Size = 20 * mib
		b.send(s, increment("1", "2", grown))
		st := b.awaitState("r1", failed)
		if st.GetVolumes()[0].GetUsable() != 11*mib || st.GetVolumes()[0].GetDevicePath() == "" {
			t.Errorf("a volume that could not grow is reported as %v, want it as it is", st.GetVolumes())
		}
	})
}

func TestFaultyPoolFailsAloneAndHeals(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailPool("pool1", "input/output error")
		b.serve(resource("r1", "pool1", 1), resource("r2", "pool2", 1))
		b.awaitReady("r2", 1)
		n := b.await("the fault", func(n fakecontroller.Node) bool {
			return len(n.Pools["pool1"].GetFaults()) == 1 && n.Resources["r1"].GetState() == failed
		})
		if p := n.Pools["pool1"]; !strings.Contains(p.GetFaults()[0], "input/output error") || p.Total != nil || p.Free != nil {
			t.Errorf("pool = %v", p)
		}
		if got := n.Resources["r1"].GetFailure().GetReason(); got != agentpb.Failure_POOL_FAULTY {
			t.Errorf("reason = %v", got)
		}
		if got := n.Pools["pool2"].GetFaults(); len(got) != 0 {
			t.Errorf("pool2 is faulty too: %v", got)
		}
		elapse(10 * time.Minute)
		began := time.Now()
		b.HealPool("pool1")
		b.awaitReady("r1", 1)
		b.await("a healthy pool", func(n fakecontroller.Node) bool {
			return len(n.Pools["pool1"].GetFaults()) == 0 && n.Pools["pool1"].GetTotal() > 0
		})
		if took := time.Since(began); took > time.Second {
			t.Errorf("the resource was served %s after its pool healed", took)
		}
	})
}

func TestPoolThatComesLaterHealsItsResources(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "late", 1))
		b.awaitState("r1", failed)
		elapse(10 * time.Minute)
		began := time.Now()
		b.send(s, &agentpb.Assignments{AppliesTo: "1", ResultsIn: "2", Pools: []*agentpb.Pool{{Name: "late", Provider: "FILE"}}})
		b.awaitReady("r1", 1)
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestUnknownVolumesAreReportedAndLeftAlone(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.PutVolume("pool1", "Stray", 2, mib)
		b.PutVolume("pool1", "r1", 0, mib)
		s := b.serve(resource("R1", "pool1", 1))
		unknown := func(want ...string) func(fakecontroller.Node) bool {
			return func(n fakecontroller.Node) bool {
				return n.Pools["pool1"].GetTotal() > 0 && slices.Equal(n.Pools["pool1"].GetUnknownVolumes(), want)
			}
		}
		b.await("the stray one", unknown("stray_00002"))
		b.send(s, increment("1", "2", &agentpb.Resource{
			Name: "stray", Generation: 2, Volumes: []*agentpb.Volume{{Number: 2, Pool: "pool1", Size: mib}},
		}))
		b.awaitReady("stray", 2)
		b.PutVolume("pool1", "other", 0, mib) // Makes the pool be looked at.
		b.await("the assigned one to be known", unknown("other_00000"))
		b.wantVolumes("pool1/other/0 pool1/r1/0 pool1/stray/2")
	})
}

func TestVolumeMadeOrForgottenDuringTheLookIsNotUnknown(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("old", "pool1", 1))
		b.await("all", func(n fakecontroller.Node) bool {
			return n.Resources["old"].GetState() == ready && n.Pools["pool1"] != nil
		})
		b.send(s, increment("1", "2", destroyed(resource("old", "pool1", 2))))
		b.awaitState("old", destroyedGone)
		synctest.Wait()
		elapse(time.Second)
		// The look begins while old is assigned and new is not, and ends when it is the other
		// way round.
		hold := b.HoldPool("pool1")
		if err := hold.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.PutVolume("pool1", "old", 0, mib)
		b.PutVolume("pool1", "new", 0, mib)
		m := increment("2", "3", resource("new", "pool1", 3))
		m.GoneResources = []string{"old"}
		b.send(s, m)
		synctest.Wait()
		seen := 0
		b.ctrl.OnReport(func(_ context.Context, r *agentpb.ReportRequest) error {
			for _, p := range r.GetPools() {
				if p.GetName() == "pool1" {
					if seen++; seen == 1 && len(p.GetUnknownVolumes()) > 0 {
						t.Errorf("unknown volumes %v from a look that began while they were assigned", p.GetUnknownVolumes())
					}
				}
			}
			return nil
		})
		hold.Release()
		b.await("the next look", func(n fakecontroller.Node) bool { return len(n.Pools["pool1"].GetUnknownVolumes()) == 1 })
	})
}

func TestEmptyControllerHearsOfTheVolumesThatTheHostHolds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.serve(resource("r1", "pool1", 1), resource("r2", "pool2", 1))
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 2) })
		b.ctrl.Forget()
		b.DropSession()
		b.send(b.accept(), &agentpb.Assignments{Full: true, ResultsIn: "new-1"})
		holds := func(n fakecontroller.Node) bool {
			return slices.Equal(n.Pools["pool1"].GetUnknownVolumes(), []string{"r1_00000"}) &&
				slices.Equal(n.Pools["pool2"].GetUnknownVolumes(), []string{"r2_00000"})
		}
		b.await("the alarm", holds)
		b.wantVolumes("pool1/r1/0 pool2/r2/0")

		b.stop()
		b.ctrl.Forget()
		b.start()
		s := b.accept()
		b.send(s, &agentpb.Assignments{Full: true, ResultsIn: "new-1"})
		b.await("the alarm after a restart", holds)

		b.LoseVolumes("r2") // Someone cleaned up by hand.
		m := &agentpb.Assignments{AppliesTo: "new-1", ResultsIn: "new-2", GonePools: []string{"pool1"}}
		b.send(s, m)
		elapse(5 * time.Minute)
		b.ctrl.Forget()
		b.DropSession()
		b.send(b.accept(), increment("new-2", "new-3"))
		n := b.await("a report", func(n fakecontroller.Node) bool { return n.Reports > 1 })
		if len(n.Pools) != 0 {
			t.Errorf("pools %v are reported still: one was taken away, and one is empty", n.Pools)
		}
	})
}

func TestPoolWithoutStorageHasNoFigures(t *testing.T) {
	inBubble(t, func(b *bench) {
		r := resource("r1", "none", 1)
		r.Layers = []string{"DRBD", "STORAGE"}
		m := full("1", r)
		m.Pools = append(m.Pools, &agentpb.Pool{Name: "none", Provider: "DISKLESS"})
		b.start()
		b.send(b.accept(), m)
		b.awaitReady("r1", 1)
		n := b.await("the pool", func(n fakecontroller.Node) bool { return n.Pools["none"] != nil })
		if diff := cmp.Diff(&agentpb.PoolStatus{Name: "none"}, n.Pools["none"], protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		b.wantVolumes("")
	})
}

func TestPlaceOfAPool(t *testing.T) {
	for _, c := range []struct {
		provider model.Provider
		props    map[string]string
		want     string // empty for an error
	}{
		{model.File, map[string]string{"StorDriver/StorPoolName": "/srv/a"}, "/srv/a"},
		{model.File, map[string]string{"StorDriver/FileDir": "/srv/b"}, "/srv/b"},
		{model.FileThin, map[string]string{"StorDriver/FileDir": "/srv/b", "StorDriver/StorPoolName": "/srv/a"}, "/srv/a"},
		{model.FileThin, map[string]string{"StorDriver/StorPoolName": "", "StorDriver/FileDir": "/srv/b"}, "/srv/b"},
		{model.LVM, map[string]string{"StorDriver/LvmVg": "vg"}, "vg"},
		{model.LVM, map[string]string{"StorDriver/FileDir": "/srv/b"}, ""},
		{model.File, nil, ""},
	} {
		p := agent.Pool{Name: "pool1", Provider: c.provider, Props: model.PropsOf(c.props)}
		got, err := agent.Place(p)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s %v: %q, %v; want %q", c.provider, c.props, got, err, c.want)
		}
	}
}

func TestPoolIsCheckedOnDemand(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startOn(b.host, agent.Limits{})
		s := b.accept()
		b.FailPool("dead", "no such directory")
		hold := b.HoldPool("hung")
		defer hold.Release()
		m := full("1")
		m.Asks = []*agentpb.Ask{
			checkPool("ok", "fresh", "FILE"),
			checkPool("faulty", "dead", "FILE"),
			checkPool("provider", "zfs", "ZFS"),
			checkPool("name", "a/b", "FILE"),
			checkPool("slow", "hung", "FILE"),
			{Id: "what"},
		}
		b.send(s, m)
		for id, want := range map[string]agentpb.Failure_Reason{
			"faulty": agentpb.Failure_POOL_FAULTY, "provider": agentpb.Failure_UNSUPPORTED, "name": agentpb.Failure_INVALID,
			"slow": agentpb.Failure_REASON_UNSPECIFIED, "what": agentpb.Failure_UNSUPPORTED,
		} {
			a := b.answer(id)
			if a.GetFailure().GetReason() != want || a.GetFailure().GetMessage() == "" || a.GetPool().GetTotal() != 0 {
				t.Errorf("%s: %v, want %s", id, a, want)
			}
		}
		a := b.answer("ok")
		if a.GetFailure() != nil || a.GetPool().GetTotal() != 1<<40 || a.GetPool().GetName() != "fresh" || a.GetNode() != node || a.GetSession() != s.ID {
			t.Errorf("answer = %v", a)
		}
		n := b.await("pools", func(n fakecontroller.Node) bool { return len(n.Pools) >= 2 })
		if n.Pools["fresh"] != nil {
			t.Error("a pool that was only asked about is reported")
		}
	})
}

func TestHoldersAreToldOnDemand(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1), resource("r2", "pool1", 1), resource("r3", "dead", 1))
		b.awaitReady("r1", 1)
		b.awaitReady("r2", 1)
		b.Use("r1", "qemu", "dd", "qemu")
		b.send(s, &agentpb.Assignments{Asks: []*agentpb.Ask{
			holders("used", "R1"), holders("unused", "r2"), holders("absent", "r9"), holders("unreadable", "r3"),
		}})
		if got := b.answer("used"); !slices.Equal(got.GetHolders(), []string{"qemu", "dd"}) || got.GetFailure() != nil {
			t.Errorf("used: %v", got)
		}
		if got := b.answer("unused"); len(got.GetHolders()) != 0 || got.GetFailure() != nil {
			t.Errorf("unused: %v", got)
		}
		for _, id := range []string{"absent", "unreadable"} {
			if got := b.answer(id); got.GetFailure() == nil {
				t.Errorf("%s: %v, want a failure: unknown is not unused", id, got)
			}
		}
		// Asks stand outside the chain.
		b.send(s, increment("1", "2", resource("r4", "pool1", 2)))
		b.awaitReady("r4", 2)
	})
}

// many asks ten questions about a pool whose look hangs.
func (b *bench) many(s *fakecontroller.Session) {
	b.t.Helper()
	m := &agentpb.Assignments{}
	for i := range 10 {
		m.Asks = append(m.Asks, checkPool(fmt.Sprint(i), "hung", "FILE"))
	}
	b.send(s, m)
	synctest.Wait()
}

func TestAsksWaitForTheirTurn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Limits.Asks = 4
		hold := b.HoldPool("hung")
		b.many(b.serve())
		hold.Release()
		for i := range 10 {
			if f := b.answer(fmt.Sprint(i)).GetFailure(); f != nil {
				t.Errorf("ask %d: %v", i, f)
			}
		}
	})
}

func TestAsksAboutAHostThatHangsDoNotPileUp(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Limits.Asks = 4
		hold := b.HoldPool("hung")
		b.many(b.serve())
		time.Sleep(11 * time.Second)
		hold.Release()
		refused := 0
		for i := range 10 {
			if f := b.answer(fmt.Sprint(i)).GetFailure(); f != nil {
				refused++
				if !strings.Contains(f.GetMessage(), "ask again later") {
					t.Error(f)
				}
			}
		}
		if refused != 6 {
			t.Errorf("%d refused, want 6", refused)
		}
	})
}

func (b *bench) answer(id string) *agentpb.AnswerRequest {
	b.t.Helper()
	a, err := b.ctrl.Answer(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func checkPool(id, name, provider string) *agentpb.Ask {
	return &agentpb.Ask{Id: id, Question: &agentpb.Ask_CheckPool{CheckPool: &agentpb.Pool{Name: name, Provider: provider}}}
}

func holders(id, resource string) *agentpb.Ask {
	return &agentpb.Ask{Id: id, Question: &agentpb.Ask_Holders{Holders: resource}}
}
