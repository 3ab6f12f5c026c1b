// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

// news returns what a report changes.
func news(t *testing.T, s *observed.State, rep observed.Report) observed.Changes {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := s.Subscribe(ctx)
	s.Report("alpha", rep)
	s.Report("alpha", pools(observed.PoolStatus{Granularity: time.Now().UnixNano()})) // so that there is something to read
	for c := range changes {
		return c
	}
	return observed.Changes{}
}

func TestWhatIsTrueOfAHostIsKeptUntilItIsSaidAnew(t *testing.T) {
	s := online()
	if h, told := s.Host("alpha"); told || h.Current {
		t.Errorf("nothing was said, and %+v is known", h)
	}
	at := time.Unix(1000, 0)
	st := observed.HostStatus{TakenPorts: []uint32{7000}, TakenMinors: []uint32{1000}, Pools: []observed.HeldPool{{
		Pool: "nfs", Source: "server:/export", Target: "/mnt", State: "mounted", Options: "rw", Identity: "id", Blockers: []string{"dd"}, LastError: "e", NextTry: at,
		Holds: []observed.Hold{{ID: "h1", Kind: "vm", Holder: "vm1", Created: at, Orphan: at}},
	}}}
	if c := news(t, s, observed.Report{Host: &st}); !slices.Equal(c.Hosts, []model.NodeKey{"alpha"}) {
		t.Errorf("the news are %+v", c)
	}
	if c := news(t, s, observed.Report{Host: &st}); len(c.Hosts) > 0 {
		t.Errorf("the same is news again: %+v", c)
	}
	for name, change := range map[string]func(*observed.HostStatus){
		"ports":    func(h *observed.HostStatus) { h.TakenPorts = []uint32{7001} },
		"minors":   func(h *observed.HostStatus) { h.TakenMinors = nil },
		"state":    func(h *observed.HostStatus) { h.Pools[0].State = "idle" },
		"blockers": func(h *observed.HostStatus) { h.Pools[0].Blockers = nil },
		"next try": func(h *observed.HostStatus) { h.Pools[0].NextTry = at.Add(1) },
		"holder":   func(h *observed.HostStatus) { h.Pools[0].Holds[0].Holder = "vm2" },
		"orphan":   func(h *observed.HostStatus) { h.Pools[0].Holds[0].Orphan = time.Time{} },
		"holds":    func(h *observed.HostStatus) { h.Pools[0].Holds = nil },
	} {
		s.Report("alpha", observed.Report{Host: &st})
		other := st
		other.Pools = []observed.HeldPool{st.Pools[0]}
		other.Pools[0].Holds = slices.Clone(st.Pools[0].Holds)
		change(&other)
		if c := news(t, s, observed.Report{Host: &other}); len(c.Hosts) != 1 {
			t.Errorf("a change of %s is no news", name)
		}
	}
	s.Disconnect("alpha", "gone")
	if h, told := s.Host("alpha"); !told || h.Current {
		t.Errorf("of a host that is away: %+v, %v", h, told)
	}
}

func TestJobsOfAHostAreKeptUntilItForgetsThem(t *testing.T) {
	s := online()
	job := func(id string, created int64) observed.JobStatus {
		return observed.JobStatus{Job: observed.Job{ID: id, Kind: observed.CopyJob}, State: observed.JobRunning, Created: time.Unix(created, 0)}
	}
	report := func(list ...observed.JobStatus) observed.Report { return observed.Report{Jobs: list} }
	ids := func() (all []string) {
		for j := range s.Jobs("alpha") {
			all = append(all, fmt.Sprintf("%s %s %v", j.ID, j.State, j.Current))
		}
		return all
	}
	c := news(t, s, report(job("b", 1), job("a", 2)))
	if want := []observed.JobID{{Node: "alpha", ID: "a"}, {Node: "alpha", ID: "b"}}; !slices.Equal(c.Jobs, want) {
		t.Errorf("the news are %+v", c.Jobs)
	}
	if got := ids(); !slices.Equal(got, []string{"b running true", "a running true"}) {
		t.Errorf("by age: %q", got)
	}
	done := job("a", 2)
	done.State, done.Result = observed.JobDone, "sha256:1"
	if c = news(t, s, report(done)); len(c.Jobs) != 1 || !done.State.Over() || observed.JobRunning.Over() {
		t.Errorf("the end of a job is no news: %+v", c)
	}
	if c = news(t, s, report(done)); len(c.Jobs) != 0 {
		t.Errorf("the same end is news again: %+v", c)
	}
	if j, ok := s.Job(observed.JobID{Node: "alpha", ID: "a"}); !ok || j.Result != "sha256:1" || !j.Current {
		t.Errorf("the job is %+v, %v", j, ok)
	}
	s.Disconnect("alpha", "gone")
	if got := ids(); !slices.Equal(got, []string{"b running false", "a done false"}) {
		t.Errorf("of a host that is away: %q", got)
	}
	// In the next session all are said; what is not said by its end is gone.
	s.Connect("alpha", observed.Facts{}, false)
	s.Ready("alpha")
	s.Report("alpha", report(job("b", 1)))
	s.Connect("alpha", observed.Facts{}, false)
	if _, there := s.Job(observed.JobID{Node: "alpha", ID: "a"}); there {
		t.Error("a job that its host did not name in a whole session is still there")
	}
	gone := job("b", 1)
	gone.Forgotten = true
	if c = news(t, s, report(gone)); len(c.Jobs) != 1 || len(ids()) != 0 {
		t.Errorf("after it was forgotten: %+v, %q", c, ids())
	}
	for range s.Jobs("nobody") {
		t.Error("a node that never came has a job")
	}
}

func TestASnapshotIsWaitedForUntilItHasSettled(t *testing.T) {
	id := model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "alpha"}
	said := func(generation uint64, phase observed.Phase) observed.Report {
		return observed.Report{Snapshots: map[model.DefinitionKey]map[model.SnapshotKey]observed.SnapshotStatus{"vol": {"snap": {
			Generation: generation, Phase: phase, Volumes: []observed.SnapshotVolumeStatus{{Size: 7, Allocated: new(int64(3))}},
		}}}}
	}
	synctest.Test(t, func(t *testing.T) {
		s := online()
		type outcome struct {
			st  observed.SnapshotStatus
			err error
		}
		wait := func(generation uint64) <-chan outcome {
			done := make(chan outcome, 1)
			go func() {
				st, err := s.WaitSnapshot(t.Context(), id, generation)
				done <- outcome{st, err}
			}()
			synctest.Wait()
			return done
		}
		done := wait(2)
		s.Report("alpha", said(1, observed.Ready))
		s.Report("alpha", said(2, observed.Working))
		synctest.Wait()
		select {
		case o := <-done:
			t.Fatalf("the wait ended with %+v", o)
		default:
		}
		s.Report("alpha", said(2, observed.Ready))
		if o := <-done; o.err != nil || o.st.Phase != observed.Ready || !o.st.Current || *o.st.Volumes[0].Allocated != 3 {
			t.Errorf("the wait ended with %+v", o)
		}
		// A word of before that comes late changes nothing.
		s.Report("alpha", said(1, observed.Failed))
		if st, _ := s.Snapshot(id); st.Generation != 2 || st.Phase != observed.Ready {
			t.Errorf("an older word was taken: %+v", st)
		}
		done = wait(3)
		s.Disconnect("alpha", "gone")
		if o := <-done; !errors.Is(o.err, observed.ErrNodeOffline) {
			t.Errorf("the wait ended with %+v", o)
		}
		if st, ok := s.Snapshot(id); !ok || st.Current || st.Volumes[0].Allocated != nil || st.Volumes[0].Size != 7 {
			t.Errorf("of a host that is away: %+v", st)
		}
	})
}

func TestADestroyedSnapshotIsRememberedForThoseWhoComeLate(t *testing.T) {
	id := model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "alpha"}
	s := online()
	all := func(list map[model.SnapshotKey]observed.SnapshotStatus) observed.Report {
		return observed.Report{Snapshots: map[model.DefinitionKey]map[model.SnapshotKey]observed.SnapshotStatus{"vol": list}}
	}
	s.Report("alpha", all(map[model.SnapshotKey]observed.SnapshotStatus{"snap": {Generation: 1, Phase: observed.Destroyed}, "kept": {Generation: 1, Phase: observed.Ready}}))
	s.ForgetSnapshot(id)
	st, err := s.WaitSnapshot(t.Context(), id, 1)
	if diff := cmp.Diff(observed.SnapshotStatus{Generation: 1, Phase: observed.Destroyed, Current: true}, st); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if c := news(t, s, all(nil)); len(c.Snapshots) != 1 || c.Snapshots[0].Snapshot != "kept" {
		t.Errorf("what is not said any more is gone: %+v", c)
	}
}
