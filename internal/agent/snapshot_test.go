// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// snapshotted is a resource in pool1 with a snapshot.
func snapshotted(name string, generation uint64, snapshot string, change ...func(*agentpb.Snapshot)) *agentpb.Resource {
	r := resource(name, "pool1", generation)
	s := &agentpb.Snapshot{Name: snapshot, Volumes: []*agentpb.SnapshotVolume{{Pool: "pool1"}}}
	for _, f := range change {
		f(s)
	}
	r.Snapshots = []*agentpb.Snapshot{s}
	return r
}

func taken(s *agentpb.Snapshot) { s.Taken = true }
func toGo(s *agentpb.Snapshot)  { s.Destroy = true }
func inPool(name, dir string) []*agentpb.Pool {
	return []*agentpb.Pool{{Name: name, Provider: "FILE", Props: map[string]string{"StorDriver/FileDir": dir}}}
}

// onHosts runs a test on the simulated host and on the real one with a pool in memory. Put and
// content write and read volume 0 of a resource.
func onHosts(t *testing.T, test func(t *testing.T, b *bench, start func(), put func(resource, text string), content func(resource string) string)) {
	t.Helper()
	t.Run("simulated", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			put := func(resource, text string) {
				if err := b.Put(resource, 0, text); err != nil {
					t.Error(err)
				}
			}
			test(t, b, b.start, put, func(resource string) string { return b.Content(resource, 0) })
		})
	})
	t.Run("machine", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			p := &plant{}
			m := agent.NewMachine(p.open, command.RunnerFunc(noPrograms))
			defer m.Close()
			put := func(resource, text string) {
				if err := p.places["/srv"].Put(pool.ID{Resource: resource}, text); err != nil {
					t.Error(err)
				}
			}
			start := func() { b.startOn(m, agent.Limits{}) }
			test(t, b, start, put, func(resource string) string { return p.places["/srv"].Content(pool.ID{Resource: resource}) })
		})
	})
}

func (b *bench) awaitSnapshot(resource string, state agentpb.SnapshotStatus_State) *agentpb.SnapshotStatus {
	b.t.Helper()
	n := b.await("the snapshot to be "+state.String(), func(n fakecontroller.Node) bool {
		return len(n.Resources[resource].GetSnapshots()) == 1 && n.Resources[resource].GetSnapshots()[0].GetState() == state
	})
	return n.Resources[resource].GetSnapshots()[0]
}

func TestSnapshotIsTakenRestoredRolledBackAndDestroyed(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench, start func(), put func(string, string), content func(string) string) {
		t.Helper()
		start()
		s := b.accept()
		m := full("1", resource("r1", "pool1", 1))
		m.Pools = inPool("pool1", "/srv")
		b.send(s, m)
		b.awaitReady("r1", 1)
		put("r1", "old")

		b.send(s, increment("1", "2", snapshotted("r1", 2, "Snap")))
		st := b.awaitSnapshot("r1", agentpb.SnapshotStatus_COMPLETE)
		if st.GetName() != "Snap" || st.GetCreated() == nil || len(st.GetVolumes()) != 1 || st.GetVolumes()[0].GetSize() != mib {
			t.Errorf("%v", st)
		}
		put("r1", "new")

		restored := resource("r2", "pool1", 3)
		restored.Volumes[0].Source = &agentpb.Source{Resource: "R1", Snapshot: "snap"}
		restored.Volumes[0].Filesystem = &agentpb.Filesystem{Type: "ext4"} // is not made
		b.send(s, increment("2", "3", snapshotted("r1", 3, "Snap", taken), restored))
		b.awaitReady("r2", 3)
		if content("r2") != "old" || content("r1") != "new" {
			t.Errorf("restored: %q, source: %q", content("r2"), content("r1"))
		}

		back := snapshotted("r1", 4, "Snap", taken)
		back.Volumes[0].RollBack = &agentpb.RollBack{Snapshot: "Snap", Token: "t1"}
		b.send(s, increment("3", "4", back))
		if got := b.awaitReady("r1", 4).GetVolumes()[0]; got.GetRolledBack() != "t1" || content("r1") != "old" || got.GetDevicePath() == "" {
			t.Errorf("rolled back: %v, %q", got, content("r1"))
		}
		n := b.await("the pool without unknown volumes", func(n fakecontroller.Node) bool { return n.Pools["pool1"] != nil })
		if u := n.Pools["pool1"].GetUnknownVolumes(); len(u) > 0 {
			t.Errorf("unknown volumes: %v", u)
		}

		// The replica goes, the snapshot stays, until it is told to go.
		b.send(s, increment("4", "5", destroyed(snapshotted("r1", 5, "Snap", taken))))
		if st := b.awaitState("r1", agentpb.ResourceStatus_DESTROYED); st.GetSnapshots()[0].GetState() != agentpb.SnapshotStatus_COMPLETE {
			t.Errorf("%v", st)
		}
		alone := snapshotted("r1", 6, "Snap", taken)
		alone.Volumes = nil
		b.send(s, increment("5", "6", alone))
		if st := b.awaitReady("r1", 6); st.GetSnapshots()[0].GetState() != agentpb.SnapshotStatus_COMPLETE {
			t.Errorf("%v", st)
		}
		last := snapshotted("r1", 7, "Snap", taken, toGo)
		last.Volumes = nil
		b.send(s, increment("6", "7", last))
		b.awaitSnapshot("r1", agentpb.SnapshotStatus_DESTROYED)
	})
}

func TestLostSnapshotFailsAlone(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench, start func(), _ func(string, string), _ func(string) string) {
		t.Helper()
		start()
		s := b.accept()
		m := full("1", snapshotted("r1", 1, "snap", taken))
		m.Pools = inPool("pool1", "/srv")
		b.send(s, m)
		st := b.awaitReady("r1", 1)
		if x := st.GetSnapshots()[0]; x.GetState() != agentpb.SnapshotStatus_FAILED || !strings.Contains(x.GetFailure().GetMessage(), "not in pool pool1 any more") {
			t.Errorf("%v", st)
		}
		b.await("another try", func(n fakecontroller.Node) bool {
			list := n.Resources["r1"].GetSnapshots()
			return len(list) == 1 && list[0].GetFailure().GetAttempts() > 2
		})
	})
}

func TestResourceWithoutDevicesKeepsItsData(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench, start func(), put func(string, string), content func(string) string) {
		t.Helper()
		start()
		s := b.accept()
		m := full("1", resource("r1", "pool1", 1))
		m.Pools = inPool("pool1", "/srv")
		b.send(s, m)
		b.awaitReady("r1", 1)
		put("r1", "data")
		off := resource("r1", "pool1", 2)
		off.Inactive = true
		b.send(s, increment("1", "2", off))
		if got := b.awaitReady("r1", 2).GetVolumes(); len(got) != 1 || got[0].GetDevicePath() != "" || content("r1") != "data" {
			t.Errorf("%v", got)
		}
		b.send(s, increment("2", "3", resource("r1", "pool1", 3)))
		if got := b.awaitReady("r1", 3).GetVolumes(); got[0].GetDevicePath() == "" || content("r1") != "data" {
			t.Errorf("%v", got)
		}
	})
}

// What a saved set says is not taken, rolled back or destroyed until a controller confirms it.
func TestSavedSetTakesAndDestroysNoSnapshots(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		_ = b.Put("r1", 0, "old")
		b.send(s, increment("1", "2", snapshotted("r1", 2, "keep")))
		b.awaitSnapshot("r1", agentpb.SnapshotStatus_COMPLETE)
		_ = b.Put("r1", 0, "new")
		hold := b.HoldApplies("r1")
		r := snapshotted("r1", 3, "keep", taken, toGo)
		r.Snapshots = append(r.Snapshots, &agentpb.Snapshot{Name: "more", Volumes: []*agentpb.SnapshotVolume{{Pool: "pool1"}}})
		r.Volumes[0].RollBack = &agentpb.RollBack{Snapshot: "keep", Token: "t"}
		b.send(s, increment("2", "3", r))
		elapse(time.Second)
		b.stop()
		hold.Release()

		b.ctrl.Refuse(errAway)
		b.start()
		elapse(5 * time.Minute)
		if got := b.Snapshots(); !slices.Equal(got, []string{"r1/0@keep"}) || b.Content("r1", 0) != "new" {
			t.Errorf("before it was confirmed: %v, %q", got, b.Content("r1", 0))
		}
		b.ctrl.Refuse(nil)
		r.Volumes[0].RollBack = nil
		b.send(b.accept(), full("3", r))
		b.await("both", func(n fakecontroller.Node) bool {
			st := n.Resources["r1"]
			return len(st.GetSnapshots()) == 2 && st.GetState() == agentpb.ResourceStatus_READY
		})
		if got := b.Snapshots(); !slices.Equal(got, []string{"r1/0@more"}) {
			t.Errorf("after it was confirmed: %v", got)
		}
	})
}

func TestCopyThatTakesLongIsReportedAsItGoesOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		copies := b.HoldCopies("r2")
		clone := resource("r2", "pool1", 1)
		clone.Volumes[0].Source = &agentpb.Source{Resource: "r1"}
		s := b.serve(resource("r1", "pool1", 1), clone)
		b.awaitReady("r1", 1)
		_ = b.Put("r1", 0, "data")
		copies.Progress(mib / 2)
		n := b.await("half of it", func(n fakecontroller.Node) bool {
			w := n.Resources["r2"].GetWork()
			return len(w) == 1 && w[0].GetDone() == mib/2 && w[0].GetTotal() == mib
		})
		if st := n.Resources["r2"]; st.GetState() != agentpb.ResourceStatus_WORKING || len(st.GetVolumes()) != 0 || st.GetFailure() != nil {
			t.Errorf("%v", st)
		}
		copies.Release()
		if st := b.awaitReady("r2", 1); len(st.GetWork()) != 0 || b.Content("r2", 0) != "data" {
			t.Errorf("%v, %q", st, b.Content("r2", 0))
		}

		b.FailCopies("r3", 1, errs.New(errs.NoSpace, errs.StoragePool, "full"))
		third := resource("r3", "pool1", 2)
		third.Volumes[0].Source = &agentpb.Source{Resource: "r1"}
		b.send(s, increment("1", "2", third))
		if f := b.awaitState("r3", agentpb.ResourceStatus_FAILED).GetFailure(); f.GetReason() != agentpb.Failure_NO_SPACE || f.GetStep() != "clone volume r3/0" {
			t.Errorf("%v", f)
		}
		b.awaitReady("r3", 2)
	})
}

func TestUnknownSnapshotIsReportedAndRemoved(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(snapshotted("r1", 1, "snap"))
		b.awaitSnapshot("r1", agentpb.SnapshotStatus_COMPLETE)
		b.send(s, increment("1", "2", resource("r1", "pool1", 2)))
		b.await("the unknown snapshot", func(n fakecontroller.Node) bool {
			return slices.Equal(n.Pools["pool1"].GetUnknownVolumes(), []string{"r1_00000@snap"})
		})
		a := b.ask(s, removeUnknown("a", "r1_00000@snap", "r1_00000"))
		if !slices.Equal(a.GetRemoved(), []string{"r1_00000@snap"}) || a.GetFailure() == nil || len(b.Snapshots()) != 0 {
			t.Errorf("%v, %v", a, b.Snapshots())
		}
	})
}

func TestSnapshotsOfAPoolThatFailsAreNotGone(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.serve(snapshotted("r1", 1, "snap"))
		b.awaitSnapshot("r1", agentpb.SnapshotStatus_COMPLETE)
		b.FailPool("pool1", "input/output error")
		st := b.awaitState("r1", agentpb.ResourceStatus_FAILED)
		if len(st.GetSnapshots()) != 1 || st.GetSnapshots()[0].GetState() != agentpb.SnapshotStatus_COMPLETE {
			t.Errorf("%v", st)
		}
	})
}

// A machine's copies go on in the background, and what becomes of them is told at once.
func TestMachineTellsTheEndOfACopy(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := &plant{}
		m := agent.NewMachine(p.open, command.RunnerFunc(noPrograms), stack.Patience(time.Second))
		defer m.Close()
		b.startOn(m, agent.Limits{Progress: time.Hour})
		s := b.accept()
		set := full("1", resource("r1", "pool1", 1))
		set.Pools = inPool("pool1", "/srv")
		b.send(s, set)
		b.awaitReady("r1", 1)
		gate := p.places["/srv"].Stop(pooltest.Clone, pool.ID{Resource: "r2"})
		clone := resource("r2", "pool1", 2)
		clone.Volumes[0].Source = &agentpb.Source{Resource: "r1"}
		b.send(s, increment("1", "2", clone))
		b.awaitState("r2", agentpb.ResourceStatus_WORKING)
		elapse(time.Minute)
		began := time.Now()
		gate.Open()
		b.awaitReady("r2", 2)
		if d := time.Since(began); d > time.Second {
			t.Errorf("it was noticed after %s", d)
		}
	})
}

// While a host is slow with the destruction of a snapshot, nothing says of the new assignment that the snapshot is complete: that
// would be taken for its outcome.
func TestASnapshotThatIsBeingDestroyedIsNotToldToBeComplete(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		s := b.accept()
		m := full("1", snapshotted("r1", 1, "Snap"))
		m.Pools = inPool("pool1", "/srv")
		b.send(s, m)
		b.awaitSnapshot("r1", agentpb.SnapshotStatus_COMPLETE)
		hold := b.HoldApplies("r1")
		b.send(s, increment("1", "2", snapshotted("r1", 2, "Snap", toGo)))
		n := b.await("the slow work to be told", func(n fakecontroller.Node) bool { return n.Resources["r1"].GetGeneration() == 2 })
		if st := n.Resources["r1"]; st.GetState() != agentpb.ResourceStatus_WORKING || len(st.GetSnapshots()) != 1 ||
			st.GetSnapshots()[0].GetState() != agentpb.SnapshotStatus_TAKING {
			t.Errorf("told of the new assignment: %v", st)
		}
		hold.Release()
		b.awaitSnapshot("r1", agentpb.SnapshotStatus_DESTROYED)
	})
}
