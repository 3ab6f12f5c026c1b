// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// work is something of several steps that is killed at each.
type work struct {
	name       string
	replicated bool
	prepare    func(r *rig)
	act        func(r *rig) error
	judge      func(r *rig) // what is there when all has come to rest
}

func works() []work {
	return []work{
		{
			name: "snapshot", prepare: func(r *rig) { r.resource("vol", []int64{gib}, "n1") },
			act:   func(r *rig) error { return r.try([]snapshots.New{{Definition: "vol", Name: "s1"}}) },
			judge: func(r *rig) { r.wholeOrNone("vol") },
		},
		{
			name: "snapshots at once",
			prepare: func(r *rig) {
				r.resource("vol", []int64{gib}, "n1")
				r.resource("more", []int64{gib}, "n2")
			},
			act: func(r *rig) error {
				return r.try([]snapshots.New{{Definition: "vol", Name: "s1"}, {Definition: "more", Name: "s1"}})
			},
			judge: func(r *rig) { r.wholeOrNone("vol", "more") },
		},
		{
			name: "restore",
			prepare: func(r *rig) {
				r.resource("vol", []int64{gib}, "n1")
				r.put("n1", "vol", "content")
				r.take("vol", "s1")
			},
			act: func(r *rig) error {
				if _, err := r.Catalog.CreateDefinition(r.alive, catalog.NewDefinition{Name: "new"}); err != nil {
					return err
				}
				if _, err := r.Snapshots.RestoreVolumes(r.alive, "vol", "s1", "new"); err != nil {
					return err
				}
				_, err := r.Snapshots.Restore(r.alive, "vol", "s1", snapshots.Restore{To: "new"})
				return err
			},
			judge: func(r *rig) {
				for range schema.ResourcesOf(r.Store.Snapshot(), "new") {
					r.holds("n1", "new", "content")
				}
			},
		},
		{name: "clone", prepare: prepareClone, act: actClone, judge: judgeClone},
		{
			name: "clone of replicated data", replicated: true,
			prepare: func(r *rig) {
				r.resource("vol", []int64{gib}, "n1", "n2")
				r.put("n1", "vol", "content")
				r.put("n2", "vol", "content")
			},
			act: actClone, judge: judgeClone,
		},
		{
			name: "roll-back",
			prepare: func(r *rig) {
				r.resource("vol", []int64{gib}, "n1")
				r.put("n1", "vol", "before")
				r.take("vol", "s1")
				r.put("n1", "vol", "after")
			},
			act: func(r *rig) error { _, err := r.Snapshots.RollBack(r.alive, "vol", "s1"); return err },
			judge: func(r *rig) {
				if got := r.Agents["n1"].Content("vol", 0); got != "before" && got != "after" {
					r.t.Errorf("it holds %q", got)
				}
				r.wantParts("vol", "s1 taken: n1 taken")
			},
		},
		{
			name: "migration", replicated: true,
			prepare: func(r *rig) { r.resource("vol", []int64{gib}, "n1") },
			act: func(r *rig) error {
				_, err := r.Resources.MigrateDisk(r.alive, "vol", "n1", "n2", resources.DiskChange{Pool: cluster.Pool})
				return err
			},
			judge: func(r *rig) {
				disks := ""
				for x := range schema.ResourcesOf(r.Store.Snapshot(), "vol") {
					disks += string(x.Node) + " "
				}
				if disks != "n1 " && disks != "n2 " {
					r.t.Errorf("the disks are on %s", disks)
				}
			},
		},
	}
}

func prepareClone(r *rig) {
	r.resource("vol", []int64{gib}, "n1")
	r.put("n1", "vol", "content")
}

func actClone(r *rig) error {
	if _, _, err := r.Snapshots.Clone(r.alive, "vol", snapshots.NewClone{Name: "new"}); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		st, err := r.Snapshots.Status("vol", "new")
		if err != nil || st.State != schema.Cloning {
			return err
		}
		select {
		case <-tick.C:
		case <-r.alive.Done():
			return nil
		}
	}
}

func judgeClone(r *rig) {
	r.wantParts("vol", "")
	st, err := r.Snapshots.Status("vol", "new")
	switch {
	case errs.Is(err, errs.NotFound):
	case err != nil:
		r.t.Error(err)
	case st.State == schema.CloneDone:
		for x := range schema.ResourcesOf(r.Store.Snapshot(), "new") {
			r.holds(string(x.Node), "new", "content")
		}
	case st.State == schema.CloneFailed && st.Problem == "":
		r.t.Error("the clone failed without a reason")
	}
}

func (r *rig) try(list []snapshots.New) error {
	_, _, err := r.Snapshots.Create(r.alive, list)
	return err
}

// wholeOrNone fails the test unless all definitions have their snapshot taken, or none has, and none a part of it.
func (r *rig) wholeOrNone(definitions ...string) {
	r.t.Helper()
	states := map[schema.SnapshotState]int{}
	for _, d := range definitions {
		view := r.Store.Snapshot()
		for sn := range schema.SnapshotsOf(view, model.DefinitionName(d).Key()) {
			states[sn.State]++
			parts := 0
			for range schema.SnapshotReplicasOf(view, sn.ID()) {
				parts++
			}
			if (sn.State == schema.SnapshotTaken) != (parts > 0) {
				r.t.Errorf("the snapshots of %s are %s", d, r.parts(d))
			}
		}
	}
	if n := states[schema.SnapshotTaken]; n != 0 && n != len(definitions) {
		r.t.Errorf("some are taken: %v", states)
	}
}

// rest waits until nothing goes on any more.
func (r *rig) rest() {
	r.t.Helper()
	r.Until(func() bool {
		v := r.Store.Snapshot()
		for x := range schema.Resources.All(v) {
			if x.Deleting || x.Adding || x.Becomes != "" {
				return false
			}
			for _, vol := range x.Volumes {
				if vol.Source != nil || vol.RollBack != nil || vol.Deleting {
					return false
				}
			}
		}
		for sn := range schema.Snapshots.All(v) {
			if sn.Deleting || sn.State == schema.SnapshotTaking {
				return false
			}
		}
		for p := range schema.SnapshotReplicas.All(v) {
			if p.Deleting {
				return false
			}
		}
		for d := range schema.Definitions.All(v) {
			if d.Deleting || d.Clone != nil && d.Clone.State == schema.Cloning {
				return false
			}
		}
		for j := range schema.Jobs.All(v) {
			if j.State == schema.JobRunning && j.Kind == schema.MigrateDisk {
				return false
			}
		}
		return true
	})
}

// clear deletes all that there is, and looks whether the hosts have anything left.
func (r *rig) clear() {
	r.t.Helper()
	view := r.Store.Snapshot()
	for sn := range schema.Snapshots.All(view) {
		if _, err := r.Snapshots.Delete(r.t.Context(), string(sn.Definition), string(sn.Name), nil); err != nil {
			r.t.Error(err)
		}
	}
	for d := range schema.Definitions.All(view) {
		if _, err := r.Resources.DeleteDefinition(r.t.Context(), string(d.Name)); err != nil {
			r.t.Error(err)
		}
	}
	for name, a := range r.Agents {
		if v, s := a.Volumes(), a.Snapshots(); len(v)+len(s) > 0 {
			r.t.Errorf("node %s has the volumes %v and the snapshots %v left", name, v, s)
		}
	}
}

func (w work) options(m *kvtest.Memory) cluster.Options {
	o := cluster.Options{Engine: m, Nodes: 2}
	if !w.replicated {
		o.Agent = func(a *fakeagent.Agent) { a.Layers = []model.Layer{model.Storage} }
	}
	return o
}

// again starts a controller on what another one has left, with the same hosts.
func again(t *testing.T, m *kvtest.Memory, agents map[string]*fakeagent.Agent) *rig {
	t.Helper()
	r := start(t, cluster.Options{Engine: m})
	for name, a := range agents {
		a.Dial = func(string) (*grpc.ClientConn, error) {
			return grpc.NewClient(r.AgentAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}
		r.Agents[name] = a
		r.StartAgent(name)
	}
	return r
}

func TestAControllerKilledAtEachStepLeavesWhatIsWholeOrAbsentOrFailed(t *testing.T) {
	t.Parallel()
	for _, w := range works() {
		for _, step := range []kvtest.Step{kvtest.BeforeAppend, kvtest.BeforeAnswer} {
			t.Run(fmt.Sprintf("%s, %v", w.name, step), func(t *testing.T) {
				t.Parallel()
				const most = 40
				for commits := range most {
					if !w.killed(t, step, commits) {
						if commits == 0 {
							t.Error("it was never killed")
						}
						return
					}
				}
				t.Errorf("it has more than %d steps", most)
			})
		}
	}
}

// killed does the work, kills the controller at one of its commits, and judges what another one makes of that. It returns
// false when there is no such commit.
func (w work) killed(t *testing.T, step kvtest.Step, commits int) (reached bool) {
	t.Helper()
	m := kvtest.NewMemory()
	var agents map[string]*fakeagent.Agent
	t.Run(fmt.Sprint(commits), func(t *testing.T) {
		r := start(t, w.options(m))
		agents = r.Agents
		w.prepare(r)
		r.rest()
		for range commits {
			m.Hold(step).Open(nil)
		}
		gate := m.Hold(step)
		ended := make(chan error, 1)
		go func() { ended <- w.act(r) }()
		select {
		case <-gate.Reached:
			reached = true
			m.Crash()
			r.dies()
			if err := <-ended; err != nil {
				t.Logf("it was told: %v", err)
			}
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			gate.Open(nil)
			m.Release()
		}
	})
	if !reached {
		return false
	}
	r := again(t, m.Peer(), agents)
	r.rest()
	r.Check()
	w.judge(r)
	r.clear()
	return true
}

func TestAnAgentKilledInTheMidstOfACopyLeavesWhatIsWholeOrAbsentOrFailed(t *testing.T) {
	t.Parallel()
	for _, w := range works() {
		for _, copied := range []string{"vol", "new"} {
			t.Run(fmt.Sprintf("%s, copy of %s", w.name, copied), func(t *testing.T) {
				t.Parallel()
				if copied == "new" != strings.Contains(w.name, "clone") && w.name != "restore" || w.name == "migration" {
					return // There is no such copy.
				}
				r := start(t, w.options(kvtest.NewMemory()))
				w.prepare(r)
				held := r.Agents["n1"].HoldCopies(copied)
				ended := make(chan error, 1)
				go func() { ended <- w.act(r) }()
				if w.name == "restore" && copied == "vol" {
					held.Release()
				} else if err := held.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.StopAgent("n1")
				held.Release()
				r.StartAgent("n1")
				if err := <-ended; err != nil {
					t.Logf("it was told: %v", err)
				}
				r.rest()
				r.Check()
				w.judge(r)
				r.clear()
			})
		}
	}
}
