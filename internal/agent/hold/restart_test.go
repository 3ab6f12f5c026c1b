// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

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

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

func TestHoldsOutliveTheProcess(t *testing.T) {
	bubble(t, func(r *rig) {
		var ids []string
		for _, id := range []string{"a", "b", "c"} { // As in the field: connect three times, disconnect three times.
			ids = append(ids, id)
			first := r.get(pool, req(id))
			r.restart()
			if st := r.want("p", hold.Ready, ids...); !st.Mount.Same(first.Mount) {
				t.Errorf("status %+v", st)
			}
		}
		for i, id := range []string{"a", "b", "c"} {
			if td := r.give(id); (td.Outcome == hold.Done) != (i == 2) {
				t.Errorf("release %d: %v", i, td)
			}
			r.restart()
		}
		if r.mounted(nas) != 0 || r.happened(hold.MountedEvent) != 1 {
			t.Errorf("%d mounts, mounted %d times", r.mounted(nas), r.happened(hold.MountedEvent))
		}
		r.get(pool, req("d"))
	})
}

func TestRetriedAcquireAfterARestartIsTheSameHold(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.get(pool, req("a"))
		r.restart()
		if h := r.get(pool, req("a")); !h.Created.Equal(first.Created) || !h.Mount.Same(first.Mount) {
			t.Errorf("hold %+v", h)
		}
		r.want("p", hold.Ready, "a")
	})
}

// dieAfter lets the process die when a record of some type was written.
func (r *rig) dieAfter(what hold.RecordType) {
	r.judge(func(c *call) verdict {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.what == "append" || len(r.saved[nas]) == 0 || r.saved[nas][len(r.saved[nas])-1].Type != what {
			return does
		}
		r.dieAt = r.effects + 1 // The next effect is the last one.
		return does
	})
}

func TestMountThatWasNotRecordedAsDoneIsAdopted(t *testing.T) {
	bubble(t, func(r *rig) {
		r.dieAfter(hold.MountIntent)
		a := r.begin(pool, req("a"))
		<-r.died
		r.judge(nil)
		r.dieAt = 0
		r.restart()
		synctest.Wait()
		if a.err == nil || r.mounted(nas) != 1 {
			t.Fatalf("acquire %v, %d mounts", a.err, r.mounted(nas))
		}
		r.want("p", hold.Ready, "a") // It was recorded. Whoever asked for it may ask again.
		if r.happened(hold.Adopted) != 1 || r.happened(hold.MountedEvent) != 0 {
			t.Error("it was mounted again, or was not verified")
		}
		r.get(pool, req("a"))
		if td := r.give("a"); td.Outcome != hold.Done {
			t.Errorf("teardown %v", td)
		}
	})
}

func TestUnmountThatWasNotRecordedAsDoneIsFinished(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.dieAfter(hold.UnmountIntent)
		r.leave("a")
		<-r.died
		r.judge(nil)
		r.dieAt = 0
		r.restart()
		r.want("p", hold.Absent)
		if r.happened(hold.LostEvent) != 0 || r.mounted(nas) != 0 {
			t.Error("our own unmount is taken for a loss")
		}
		r.get(pool, req("b"))
	})
}

func TestMountThatWentAwayDuringARestartIsReplaced(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.crash()
		r.lose(nas)
		r.boot()
		r.want("p", hold.Ready, "a")
		if r.mounted(nas) != 1 || r.happened(hold.LostEvent) != 1 {
			t.Errorf("%d mounts", r.mounted(nas))
		}
	})
}

func TestForeignMountAfterARestartIsLeftAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.crash()
		r.lose(nas)
		r.cover(nas)
		r.boot()
		synctest.Wait()
		time.Sleep(time.Minute)
		st := r.want("p", hold.StateForeign, "a")
		if st.Found == nil || r.mounted(nas) != 1 {
			t.Errorf("status %+v", st)
		}
		r.lose(nas)
	}, func(c *hold.Config) { c.Limits.CheckEvery = time.Minute })
}

func TestHelperOfAnEarlierProcessIsWaitedFor(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.crash()
		r.gateAt("settle")
		r.boot()
		r.want("p", hold.StateUnknown, "a")
		b := r.begin(pool, req("b"))
		if b.ended() {
			t.Errorf("acquire ended with %v", b.err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !b.ended() || !hold.IsKind(b.err, hold.TimedOut) {
			t.Errorf("acquire ended %v with %v", b.ended(), b.err)
		}
		r.pass("settle", does)
		r.want("p", hold.Ready, "a")
	})
}

// registry is a Liveness whose dead a test names.
type registry struct {
	mu   sync.Mutex
	dead []string
	err  error
}

func (l *registry) Alive(_ context.Context, h hold.Holder) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.Contains(l.dead, h.Name), l.err
}

func (l *registry) set(err error, dead ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead, l.err = dead, err
}

func TestHoldOfADeadHolderIsReleasedAfterAWhile(t *testing.T) {
	jobs := &registry{}
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.get(pool, hold.Request{ID: "b", Holder: hold.Holder{Kind: hold.Operator, Name: "b"}})
		jobs.set(errors.New("the controller does not answer"), "a")
		time.Sleep(time.Hour)
		r.want("p", hold.Ready, "a", "b")
		jobs.set(nil, "a", "b")
		time.Sleep(time.Minute)
		if st := r.want("p", hold.Ready, "a", "b"); st.Holds[0].Orphan.IsZero() || !st.Holds[1].Orphan.IsZero() {
			t.Errorf("holds %+v", st.Holds)
		}
		jobs.set(nil) // It was a mistake.
		time.Sleep(20 * time.Minute)
		r.want("p", hold.Ready, "a", "b")
		jobs.set(nil, "a")
		time.Sleep(12 * time.Minute)
		r.want("p", hold.Ready, "b") // An operator lives for ever.
		r.unhold(nas, "a")
		if r.happened(hold.Orphaned) != 2 || r.happened(hold.OrphanReleased) != 1 {
			t.Error("it was not told")
		}
		r.give("b")
	}, func(c *hold.Config) {
		c.Limits.CheckEvery = time.Minute
		c.Liveness = map[hold.HolderKind]hold.Liveness{hold.Job: jobs}
	})
}

func TestProcessesAreHoldersAsLongAsTheyLive(t *testing.T) {
	self := hold.Holder{Kind: hold.Job, Name: "x", PID: 1, Start: 1} // Process 1 has not begun then.
	if alive, err := (hold.Processes{}).Alive(t.Context(), self); alive || err != nil {
		t.Errorf("alive %v, %v", alive, err)
	}
	start, err := mount.StartTime(1)
	if err != nil {
		t.Fatal(err)
	}
	self.Start = start
	if alive, err := (hold.Processes{}).Alive(t.Context(), self); !alive || err != nil {
		t.Errorf("alive %v, %v", alive, err)
	}
}

func TestDamagedJournalKeepsTheMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newWorld())
		defer func() { r.stop() }()
		r.get(pool, req("a"))
		r.crash()
		damaged := &damage{process: r.process()}
		set, err := hold.Open(hold.Config{Driver: damaged.process, Journal: damaged, Limits: quick()})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st, err := set.Inspect(context.Background(), "p")
		if err != nil || len(st.Holds) != 2 {
			t.Fatalf("status %+v, %v", st, err)
		}
		r.unhold(nas, "a")
		if td, err := set.Release(context.Background(), "a"); err != nil || td.Outcome != hold.NotNeeded {
			t.Errorf("release: %v, %v", td, err)
		}
		unknown := st.Holds[1].ID
		if !strings.Contains(string(unknown), "unknown") || r.mounted(nas) != 1 {
			t.Errorf("hold %s, %d mounts", unknown, r.mounted(nas))
		}
		if td, err := set.Release(context.Background(), unknown); err != nil || td.Outcome != hold.Done {
			t.Errorf("release: %v, %v", td, err)
		}
		if err := set.Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.boot()
	})
}

// damage is a journal that has lost something.
type damage struct{ *process }

func (d *damage) Load() ([]hold.Saved, error) {
	all, err := d.process.Load()
	for i := range all {
		all[i].Damaged = "line 3: its checksum is wrong"
	}
	return all, err
}

func TestPoolsAreDesiredFromTheStart(t *testing.T) {
	always := pool
	always.Residency = hold.Always
	conflict := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas, Options: "soft"}, Residency: hold.Always}
	bubble(t, func(r *rig) {
		r.want("p", hold.Ready)
		if _, err := r.Acquire(context.Background(), conflict, req("a")); !hold.IsKind(err, hold.OptionsConflict) {
			t.Errorf("acquire: %v", err)
		}
		r.restart()
		r.want("p", hold.Ready)
		if r.happened(hold.MountedEvent) != 1 {
			t.Error("it was unmounted by the restart")
		}
		// The pool moves to another source.
		always.Spec.Source, always.Generation = nas2, 2
		if err := r.Ensure(context.Background(), always); err != nil {
			t.Fatal(err)
		}
		r.want("p", hold.Ready)
		if r.mounted(nas) != 0 || r.mounted(nas2) != 1 {
			t.Errorf("%d and %d mounts", r.mounted(nas), r.mounted(nas2))
		}
		if err := r.Forget(context.Background(), "p"); err != nil {
			t.Error(err)
		}
	}, func(c *hold.Config) { c.Pools = []hold.Pool{always, conflict} })
}

func TestWhatNobodyNeedsIsForgotten(t *testing.T) {
	bubble(t, func(r *rig) {
		for i := range 20 {
			p := hold.Pool{ID: fmt.Sprintf("p%d", i), Spec: mount.Spec{Source: mount.Source{Kind: mount.NFS, Server: "nas", Path: fmt.Sprintf("/%d", i)}}}
			if _, err := r.With(context.Background(), p, req("a"), func(context.Context, hold.Hold) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		all, err := r.InspectAll(context.Background())
		if err != nil || len(all) != 0 {
			t.Errorf("%d sources are remembered, %v", len(all), err)
		}
		r.mu.Lock()
		if len(r.saved) != 0 {
			t.Errorf("the journal has %d sources", len(r.saved))
		}
		r.mu.Unlock()
		r.get(pool, req("a"))
	}, func(c *hold.Config) { c.Limits.CheckEvery = time.Minute })
}
