// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

// copied is a set of a resource r1 with a snapshot of volume 1, and of r2, of which volume 1 is made from it.
func copied(change ...func(r1, r2 *agentpb.Resource)) *agentpb.Assignments {
	m := set(1, "r1", "r2")
	r1, r2 := m.GetResources()[0], m.GetResources()[1]
	r1.Snapshots = []*agentpb.Snapshot{{Name: "snap", Volumes: []*agentpb.SnapshotVolume{{Number: 1, Pool: "thin"}}}}
	r2.Volumes[1].Source = &agentpb.Source{Resource: "r1", Volume: 1, Snapshot: "snap"}
	for _, f := range change {
		f(r1, r2)
	}
	return m
}

func (r *rig) send(m *agentpb.Assignments) *fakecontroller.Session {
	r.t.Helper()
	s, err := r.ctrl.Accept(r.ctx)
	if err == nil {
		err = s.Send(r.ctx, m)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestHeldCopyGoesOnOverARestartOfTheAgent(t *testing.T) {
	in(t, func(r *rig) {
		copies := r.HoldCopies("r2")
		r.send(copied())
		if err := copies.Wait(r.ctx); err != nil {
			t.Fatal(err)
		}
		r.awaitState("r1", agentpb.ResourceStatus_READY)
		if err := r.Put("r1", 1, "later"); err != nil {
			t.Fatal(err)
		}
		r.stop()
		r.ctrl.Forget()
		r.start()
		r.send(copied())
		copies.Progress(mib / 4)
		r.await(func(n fakecontroller.Node) bool {
			w := n.Resources["r2"].GetWork()
			return len(w) == 1 && w[0].GetVolume() == 1 && w[0].GetDone() == mib/4
		})
		copies.Release()
		r.awaitState("r2", agentpb.ResourceStatus_READY)
		if got := r.Content("r2", 1); got != "" {
			t.Errorf("the restore has %q, which came after the snapshot", got)
		}
	})
}

func TestSnapshotThatFailsIsTriedAgain(t *testing.T) {
	in(t, func(r *rig) {
		r.FailCopies("r1", 2, nil)
		m := set(1, "r1")
		m.Resources[0].Snapshots = []*agentpb.Snapshot{{Name: "snap", Volumes: []*agentpb.SnapshotVolume{{Number: 1, Pool: "thin"}}}}
		r.send(m)
		n := r.await(func(n fakecontroller.Node) bool {
			list := n.Resources["r1"].GetSnapshots()
			return len(list) == 1 && list[0].GetFailure() != nil
		})
		if st := n.Resources["r1"]; st.GetState() != agentpb.ResourceStatus_READY || st.GetSnapshots()[0].GetState() != agentpb.SnapshotStatus_FAILED {
			t.Errorf("%v", st)
		}
		r.await(func(n fakecontroller.Node) bool {
			list := n.Resources["r1"].GetSnapshots()
			return len(list) == 1 && list[0].GetState() == agentpb.SnapshotStatus_COMPLETE
		})
		r.LoseSnapshot("R1", "SNAP")
		if got := r.Snapshots(); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

func TestWritesDuringASuspensionAreTold(t *testing.T) {
	in(t, func(r *rig) {
		s := r.send(set(1, "r1", "r2"))
		r.awaitState("r2", agentpb.ResourceStatus_READY)
		ask := func(id string, q *agentpb.Ask) *agentpb.AnswerRequest {
			t.Helper()
			q.Id = id
			if err := s.Send(r.ctx, &agentpb.Assignments{Asks: []*agentpb.Ask{q}}); err != nil {
				t.Fatal(err)
			}
			a, err := r.ctrl.Answer(r.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		suspend := func() *agentpb.Ask {
			return &agentpb.Ask{Question: &agentpb.Ask_Suspend{
				Suspend: &agentpb.Suspend{Id: "x", Resources: []string{"r1"}, Limit: durationpb.New(time.Minute)},
			}}
		}
		r.FailSuspensions("r1", 1, nil)
		if ask("1", suspend()).GetFailure() == nil {
			t.Error("the suspension was to fail")
		}
		if f := ask("2", suspend()).GetFailure(); f != nil || !slices.Equal(r.Suspended(), []string{"r1"}) {
			t.Errorf("%v, suspended: %v", f, r.Suspended())
		}
		for _, resource := range []string{"r1", "r2"} {
			if err := r.Put(resource, 1, "text"); err != nil {
				t.Error(err)
			}
		}
		a := ask("3", &agentpb.Ask{Question: &agentpb.Ask_Resume{Resume: "x"}})
		if !slices.Equal(a.GetWritten(), []string{"r1/1"}) || len(r.Suspended()) != 0 {
			t.Errorf("%v, suspended: %v", a, r.Suspended())
		}
	})
}
