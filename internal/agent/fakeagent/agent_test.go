// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

const mib = 1 << 20

// rig is a fake agent at a fake controller, in a synctest bubble.
type rig struct {
	t *testing.T
	*fakeagent.Agent
	ctx  context.Context
	ctrl *fakecontroller.Controller
	stop func()
}

func in(t *testing.T, fn func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := &rig{t: t, ctx: ctx, ctrl: fakecontroller.Start()}
		defer r.ctrl.Stop()
		r.Agent = &fakeagent.Agent{Node: "n1", Dial: r.ctrl.Dial}
		r.start()
		defer func() { r.stop() }()
		fn(r)
	})
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
		ended <- nil // It may be called again.
	}
}

// assign accepts a session and sends a full set of resources with one volume of 1 MiB.
func (r *rig) assign(generation uint64, names ...string) *fakecontroller.Session {
	r.t.Helper()
	s, err := r.ctrl.Accept(r.ctx)
	if err == nil {
		err = s.Send(r.ctx, set(generation, names...))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func set(generation uint64, names ...string) *agentpb.Assignments {
	m := &agentpb.Assignments{
		Full: true, ResultsIn: "1",
		Pools: []*agentpb.Pool{{Name: "thick", Provider: "LVM"}, {Name: "thin", Provider: "ZFS_THIN"}},
	}
	for _, name := range names {
		m.Resources = append(m.Resources, &agentpb.Resource{
			Name: name, Generation: generation, Layers: []string{"DRBD", "LUKS", "STORAGE"},
			Volumes: []*agentpb.Volume{{Pool: "thick", Size: mib}, {Number: 1, Pool: "thin", Size: mib}},
		})
	}
	return m
}

func (r *rig) await(ok func(fakecontroller.Node) bool) fakecontroller.Node {
	r.t.Helper()
	n, err := r.ctrl.Await(r.ctx, "n1", ok)
	if err != nil {
		r.t.Fatalf("%v: %.2000v", err, n)
	}
	return n
}

func (r *rig) awaitState(name string, want agentpb.ResourceStatus_State) *agentpb.ResourceStatus {
	r.t.Helper()
	return r.await(func(n fakecontroller.Node) bool { return n.Resources[name].GetState() == want }).Resources[name]
}

func TestZeroAgentServesWhatItIsAssigned(t *testing.T) {
	in(t, func(r *rig) {
		r.assign(7, "r1")
		s := r.awaitState("r1", agentpb.ResourceStatus_READY)
		if v := s.GetVolumes()[0]; v.GetDevicePath() != "/dev/fake/r1/0" || v.GetDiskState() != "UpToDate" || v.GetAllocated() != mib {
			t.Errorf("volume = %v", v)
		}
		if v := s.GetVolumes()[1]; v.Allocated == nil || v.GetAllocated() != 0 {
			t.Errorf("thin volume = %v", v)
		}
		r.await(func(n fakecontroller.Node) bool { return n.Pools["thick"].GetAllocated() == mib })
		n := r.await(func(n fakecontroller.Node) bool { return n.Pools["thin"] != nil })
		if n.Pools["thin"].GetFree() != 1<<40 || !n.Pools["thin"].GetSupportsSnapshots() {
			t.Errorf("thin pool = %v", n.Pools["thin"])
		}
		want := []fakeagent.Volume{
			{Pool: "thick", Resource: "r1", Size: mib}, {Pool: "thin", Resource: "r1", Number: 1, Size: mib},
		}
		if diff := cmp.Diff(want, r.Volumes()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSilentAgentReportsNothingAndKeepsItsSession(t *testing.T) {
	in(t, func(r *rig) {
		s := r.assign(1, "r1")
		r.awaitState("r1", agentpb.ResourceStatus_READY)
		r.Silence()
		synctest.Wait()
		before := r.Reports()
		r.Use("r1", "qemu")
		<-time.After(time.Minute)
		select {
		case <-s.Done():
			t.Error("the session ended")
		default:
		}
		if got := r.Reports(); got != before {
			t.Errorf("%d reports of a silent agent", got-before)
		}
		r.Speak()
		r.await(func(n fakecontroller.Node) bool { return n.Resources["r1"].GetVolumes()[0].GetInUse() })
	})
}

func TestSilentAgentCanBeEnded(t *testing.T) {
	in(t, func(r *rig) {
		r.assign(1, "r1")
		r.Silence()
		<-time.After(time.Minute)
		r.stop()
		r.Speak()
		r.start()
		r.assign(2, "r1")
		r.await(func(n fakecontroller.Node) bool { return n.Resources["r1"].GetGeneration() == 2 })
	})
}

func TestWhatWasAssignedCanBeRead(t *testing.T) {
	in(t, func(r *rig) {
		r.assign(1, "r1")
		r.awaitState("r1", agentpb.ResourceStatus_READY)
		r.DropSession()
		r.assign(2, "r1", "r2")
		r.awaitState("r2", agentpb.ResourceStatus_READY)
		got := r.Assigned()
		if len(got) != 2 || len(got[0].GetResources()) != 1 || len(got[1].GetResources()) != 2 || r.Sessions() != 2 {
			t.Errorf("%d sessions, assigned %v", r.Sessions(), got)
		}
	})
}

func TestAppliesFailAsOrdered(t *testing.T) {
	in(t, func(r *rig) {
		r.FailApplies("bad", 2, nil)
		r.FailApplies("worse", -1, &pool.InUseError{ID: pool.ID{Resource: "worse"}})
		r.assign(1, "good", "bad", "worse")
		r.awaitState("good", agentpb.ResourceStatus_READY)
		r.awaitState("bad", agentpb.ResourceStatus_READY)
		if got := r.awaitState("worse", agentpb.ResourceStatus_FAILED).GetFailure().GetReason(); got != agentpb.Failure_IN_USE {
			t.Errorf("reason = %v", got)
		}
		r.FailApplies("", -1, errors.New("the host is on fire"))
		r.CloseVolumes("good")
		r.awaitState("good", agentpb.ResourceStatus_FAILED)
		r.FailApplies("", 0, nil)
		r.FailApplies("worse", 0, nil)
		for _, name := range []string{"good", "bad", "worse"} {
			r.awaitState(name, agentpb.ResourceStatus_READY)
		}
	})
}

func TestHoldsAreReleasedTogetherAndApart(t *testing.T) {
	in(t, func(r *rig) {
		all, one := r.HoldApplies(""), r.HoldApplies("r1")
		r.assign(1, "r1", "r2")
		for _, h := range []*fakeagent.Hold{all, one} {
			if err := h.Wait(r.ctx); err != nil {
				t.Fatal(err)
			}
		}
		all.Release()
		r.awaitState("r2", agentpb.ResourceStatus_READY)
		synctest.Wait()
		if got := len(r.Volumes()); got != 2 {
			t.Errorf("%d volumes while r1 is held", got)
		}
		one.Release()
		one.Release()
		r.awaitState("r1", agentpb.ResourceStatus_READY)
	})
}

func TestPoolsFillFailAndHang(t *testing.T) {
	in(t, func(r *rig) {
		r.Resize("thick", mib)
		r.assign(1, "r1", "r2")
		n := r.await(func(n fakecontroller.Node) bool {
			return n.Resources["r1"] != nil && n.Resources["r2"] != nil && n.Pools["thick"].GetAllocated() == mib
		})
		states := []agentpb.ResourceStatus_State{n.Resources["r1"].GetState(), n.Resources["r2"].GetState()}
		slices.Sort(states)
		if !slices.Equal(states, []agentpb.ResourceStatus_State{agentpb.ResourceStatus_READY, agentpb.ResourceStatus_FAILED}) {
			t.Errorf("states %v, want one that fits and one that does not", states)
		}
		r.Resize("thick", 2*mib)
		r.awaitState("r1", agentpb.ResourceStatus_READY)
		r.awaitState("r2", agentpb.ResourceStatus_READY)
		r.FailPool("thin", "dead disk")
		r.await(func(n fakecontroller.Node) bool { return len(n.Pools["thin"].GetFaults()) == 1 })
		r.HealPool("thin")
		r.await(func(n fakecontroller.Node) bool { return n.Pools["thin"].GetTotal() > 0 })
		hold := r.HoldPool("thin")
		r.await(func(n fakecontroller.Node) bool { return len(n.Pools["thin"].GetFaults()) == 1 })
		hold.Release()
		r.await(func(n fakecontroller.Node) bool { return n.Pools["thin"].GetTotal() > 0 })
	})
}
