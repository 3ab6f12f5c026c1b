// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package converge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// failing is a try that brings nothing.
func failing(context.Context, schema.Job, resources.Progress) schema.JobTry {
	return schema.JobTry{State: schema.JobRunning, Total: 2, Done: 1, Problems: []string{"no space"}}
}

func (r *rig) same(what, got, want string) {
	r.Helper()
	if got != want {
		r.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}

func TestAJobIsWorkedOnAtOnceAndEnds(t *testing.T) {
	in(t, func(r *rig) {
		r.begin("a")
		r.same("done", r.did(), "[a at 0]")
		if j := r.job("a"); j.State != schema.JobDone || j.Ended.IsZero() {
			r.Errorf("the job is %+v", j)
		}
		r.pass(time.Hour)
		r.same("later", r.did(), "[]")
		r.begin("a")
		r.same("another", r.did(), "[a at 3600]")
	})
}

func TestTriesThatBringNothingComeMoreAndMoreRarely(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = failing
		r.begin("a")
		r.pass(200 * time.Second)
		r.same("tries", r.did(), "[a at 0 a at 1 a at 3 a at 7 a at 15 a at 31 a at 63 a at 123 a at 183]")
		j := r.job("a")
		if j.Attempts != 9 || j.LastError() != "no space" || j.Total != 2 || j.Done != 1 || j.NextTry.Sub(r.began) != 243*time.Second {
			r.Errorf("the job is %+v", j)
		}
	})
}

func TestProgressMakesTriesFrequentAgain(t *testing.T) {
	in(t, func(r *rig) {
		tries := 0
		r.worker.do = func(context.Context, schema.Job, resources.Progress) schema.JobTry {
			tries++
			return schema.JobTry{State: schema.JobRunning, Progress: tries == 4}
		}
		r.begin("a")
		r.pass(11 * time.Second)
		r.same("tries", r.did(), "[a at 0 a at 1 a at 3 a at 7 a at 8 a at 9 a at 11]")
	})
}

func TestAJobThatIsAskedForAgainIsTriedAtOnce(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = failing
		r.begin("a")
		r.pass(100 * time.Second)
		r.did()
		r.begin("a")
		r.same("tries", r.did(), "[a at 100]")
		if r.jobs = schema.Jobs.Len(r.store.Snapshot()); r.jobs != 1 {
			r.Errorf("there are %d jobs", r.jobs)
		}
	})
}

func TestAJobThatIsAskedForDuringATryIsTriedOnceMore(t *testing.T) {
	in(t, func(r *rig) {
		gate := make(chan struct{})
		r.worker.do = func(ctx context.Context, _ schema.Job, _ resources.Progress) schema.JobTry {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return schema.JobTry{State: schema.JobDone}
		}
		r.begin("a")
		r.begin("a")
		r.same("before", r.did(), "[a at 0]")
		gate <- struct{}{}
		synctest.Wait()
		r.same("after", r.did(), "[a at 0]")
		gate <- struct{}{}
		synctest.Wait()
		if j := r.job("a"); j.State != schema.JobDone {
			r.Errorf("the job is %+v", j)
		}
	})
}

func TestACancelledJobHasItsTryEnded(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = func(ctx context.Context, j schema.Job, _ resources.Progress) schema.JobTry {
			<-ctx.Done()
			r.worker.note("ended %s", j.Object)
			return schema.JobTry{State: schema.JobDone}
		}
		r.begin("a")
		r.pass(5 * time.Second)
		r.update(func(tx *store.Tx) error { return schema.CancelJob(tx, target("a"), time.Now()) })
		r.same("done", r.did(), "[a at 0 ended a at 5]")
		if j := r.job("a"); j.State != schema.JobCancelled {
			r.Errorf("the job is %s", j.State)
		}
	})
}

func TestJobsGoOnWhereALeaderLeftThem(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = func(ctx context.Context, _ schema.Job, _ resources.Progress) schema.JobTry {
			<-ctx.Done()
			return schema.JobTry{State: schema.JobDone}
		}
		r.begin("a")
		if err := r.end(); err != nil {
			r.Fatal(err)
		}
		if j := r.job("a"); j.State != schema.JobRunning {
			r.Errorf("a try that was cut off has left the job %s", j.State)
		}
		r.engine.Crash()
		_ = r.store.Close()
		r.open(r.engine.Peer())
		r.worker.do = nil
		r.run()
		r.same("done", r.did(), "[a at 0 a at 0]")
		if j := r.job("a"); j.State != schema.JobDone {
			r.Errorf("the job is %s", j.State)
		}
	})
}

func TestAPanicIsAProblemOfItsJobAlone(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = func(_ context.Context, j schema.Job, _ resources.Progress) schema.JobTry {
			if j.Object == "bad" {
				panic("nil map")
			}
			return schema.JobTry{State: schema.JobDone}
		}
		r.begin("bad")
		r.begin("good")
		if j := r.job("bad"); j.State != schema.JobRunning || j.LastError() != "a fault of the software: nil map" {
			r.Errorf("the bad job is %+v", j)
		}
		if j := r.job("good"); j.State != schema.JobDone {
			r.Errorf("the good job is %s", j.State)
		}
	})
}

func TestAsManyJobsAsPermittedAreWorkedOnAtOnce(t *testing.T) {
	in(t, func(r *rig) {
		gate := make(chan struct{})
		r.worker.do = func(ctx context.Context, _ schema.Job, _ resources.Progress) schema.JobTry {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return schema.JobTry{State: schema.JobDone}
		}
		for i := range 12 {
			r.begin(fmt.Sprint(i))
			r.pass(time.Second)
		}
		r.same("begun", r.did(), "[0 at 0 1 at 1 2 at 2 3 at 3 4 at 4 5 at 5 6 at 6 7 at 7]")
		for range 3 {
			gate <- struct{}{}
			synctest.Wait()
		}
		r.same("begun then", r.did(), "[8 at 12 9 at 12 10 at 12]")
		close(gate)
	})
}

func TestHowFarATryCameIsWrittenNowAndThen(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = func(_ context.Context, _ schema.Job, progress resources.Progress) schema.JobTry {
			for i := range 1000 {
				progress(1000, i)
				time.Sleep(10 * time.Millisecond)
			}
			return schema.JobTry{State: schema.JobDone, Total: 1000, Done: 1000}
		}
		before := r.store.Snapshot().Revision()
		r.begin("a")
		r.pass(5005 * time.Millisecond)
		if j := r.job("a"); j.Total != 1000 || j.Done != 500 {
			r.Errorf("after half of the time: %d of %d", j.Done, j.Total)
		}
		r.pass(time.Minute)
		if n := r.store.Snapshot().Revision() - before; n > 15 {
			r.Errorf("%d updates were made", n)
		}
	})
}

func TestAnOutcomeThatCannotBeRecordedIsTriedAgainAfterAWhile(t *testing.T) {
	in(t, func(r *rig) {
		r.worker.do = func(context.Context, schema.Job, resources.Progress) schema.JobTry {
			return schema.JobTry{State: schema.JobDone}
		}
		r.begin("a")
		r.did()
		r.worker.do = func(context.Context, schema.Job, resources.Progress) schema.JobTry {
			r.engine.Fail(kv.ErrFull)
			return schema.JobTry{State: schema.JobDone}
		}
		r.begin("b")
		r.pass(3500 * time.Millisecond)
		r.worker.heal()
		r.engine.Fail(nil)
		r.pass(10 * time.Second)
		r.same("tries", r.did(), "[b at 0 b at 1 b at 2 b at 3 b at 4]")
		if j := r.job("b"); j.State != schema.JobDone {
			r.Errorf("the job is %s", j.State)
		}
	})
}

func TestTheLoopsEndWhenAnotherControllerLeads(t *testing.T) {
	in(t, func(r *rig) {
		other, err := store.Open(r.ctx, r.engine.Peer(), schema.Collections())
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		_, _ = r.store.Update(r.ctx, func(tx *store.Tx) error {
			_, err := schema.BeginJob(tx, target("a"), schema.JobSpec{}, "job", time.Now())
			return err
		})
		synctest.Wait()
		if err := r.end(); !errors.Is(err, store.ErrFenced) {
			r.Errorf("the loops ended with %v", err)
		}
		r.end = func() error { return nil }
	})
}
