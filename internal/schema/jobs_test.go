// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// moment is the n-th minute of the tests' time.
func moment(n int) time.Time {
	return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC)
}

var adjustGold = schema.JobTarget{Kind: schema.AdjustGroup, Object: "gold"}

func TestARepeatedJobIsTheRunningOneAndIsTriedAtOnce(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	var first, second schema.Job
	update(t, st, func(tx *store.Tx) (err error) {
		first, err = schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "1", moment(0))
		return err
	})
	update(t, st, func(tx *store.Tx) error {
		return schema.RecordTry(tx, "1", first.Asked, schema.JobTry{
			State: schema.JobRunning, Total: 5, Done: 2, Problems: []string{"no space"}, NextTry: moment(9),
		}, moment(1))
	})
	update(t, st, func(tx *store.Tx) (err error) {
		second, err = schema.BeginJob(tx, adjustGold, schema.JobSpec{Avoid: []string{"n1"}}, "2", moment(2))
		return err
	})
	want := schema.Job{
		ID: "1", Kind: schema.AdjustGroup, Object: "gold", State: schema.JobRunning, Asked: 2, Total: 5, Done: 2, Failed: 1,
		Spec: schema.JobSpec{Avoid: []string{"n1"}}, Problems: []string{"no space"}, Created: moment(0), Updated: moment(2),
	}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("the job that was asked for again (-want +got):\n%s", diff)
	}
}

func TestATryThatBeganBeforeTheJobWasAskedForAgainDoesNotEndIt(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	update(t, st, func(tx *store.Tx) error {
		for range 2 {
			if _, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "1", moment(0)); err != nil {
				return err
			}
		}
		return schema.RecordTry(tx, "1", 1, schema.JobTry{State: schema.JobDone, Total: 1, Done: 1}, moment(1))
	})
	if j, _ := schema.Jobs.Get(st.Snapshot(), "1"); j.State != schema.JobRunning || !j.NextTry.IsZero() {
		t.Errorf("the job is %s, next try %s", j.State, j.NextTry)
	}
}

func TestAttemptsCountTheTriesThatBroughtNoProgress(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	try := func(progress bool) (attempts int) {
		update(t, st, func(tx *store.Tx) error {
			return schema.RecordTry(tx, "1", 1, schema.JobTry{State: schema.JobRunning, Progress: progress, NextTry: moment(3)}, moment(2))
		})
		j, _ := schema.Jobs.Get(st.Snapshot(), "1")
		return j.Attempts
	}
	update(t, st, func(tx *store.Tx) error {
		_, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "1", moment(0))
		return err
	})
	got := []int{try(false), try(false), try(true), try(false)}
	if !slices.Equal(got, []int{1, 2, 0, 1}) {
		t.Errorf("attempts %v", got)
	}
}

func TestOnlyTheNewestEndedJobsAreKept(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	const made, kept = 130, 100
	for i := range made {
		update(t, st, func(tx *store.Tx) error {
			if _, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, fmt.Sprintf("%03d", i), moment(i)); err != nil {
				return err
			}
			return schema.CancelJob(tx, adjustGold, moment(i))
		})
	}
	update(t, st, func(tx *store.Tx) error {
		_, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "running", moment(made))
		return err
	})
	var ids []string
	for j := range schema.Jobs.All(st.Snapshot()) {
		ids = append(ids, j.ID)
	}
	if len(ids) != kept+1 || ids[0] != "030" || ids[kept] != "running" {
		t.Errorf("%d jobs are kept, from %s to %s", len(ids), ids[0], ids[len(ids)-1])
	}
}

func TestACancelledJobTakesNoResult(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	defer closed(t, st)
	update(t, st, func(tx *store.Tx) error {
		if _, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "1", moment(0)); err != nil {
			return err
		}
		return schema.CancelJob(tx, adjustGold, moment(1))
	})
	update(t, st, func(tx *store.Tx) error {
		if err := schema.CancelJob(tx, adjustGold, moment(2)); err != nil {
			return err
		}
		return schema.RecordTry(tx, "1", 1, schema.JobTry{State: schema.JobDone}, moment(2))
	})
	if j, _ := schema.Jobs.Get(st.Snapshot(), "1"); j.State != schema.JobCancelled || j.Ended != moment(1) {
		t.Errorf("the job is %s since %s", j.State, j.Ended)
	}
}

func TestAwaitedJobIsReturnedWhenItHasEnded(t *testing.T) {
	st := open(t, kvtest.NewMemory())
	update(t, st, func(tx *store.Tx) error {
		_, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "1", moment(0))
		return err
	})
	waited := make(chan schema.Job, 1)
	go func() {
		j, _ := schema.AwaitJob(context.Background(), st, "1")
		waited <- j
	}()
	update(t, st, func(tx *store.Tx) error { return schema.RecordProgress(tx, "1", 3, 1, moment(1)) })
	update(t, st, func(tx *store.Tx) error {
		return schema.RecordTry(tx, "1", 1, schema.JobTry{State: schema.JobFailed, Total: 3, Done: 2, Problems: []string{"no"}}, moment(2))
	})
	if j := <-waited; j.State != schema.JobFailed || j.LastError() != "no" || j.Done != 2 {
		t.Errorf("got %+v", j)
	}
	update(t, st, func(tx *store.Tx) error {
		_, err := schema.BeginJob(tx, adjustGold, schema.JobSpec{}, "2", moment(3))
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if j, ok := schema.AwaitJob(ctx, st, "2"); !ok || j.State != schema.JobRunning {
		t.Errorf("who does not wait gets %+v, %t", j, ok)
	}
	if _, ok := schema.AwaitJob(context.Background(), st, "none"); ok {
		t.Error("a job that is not there was found")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		closed(t, st)
	}()
	if j, ok := schema.AwaitJob(context.Background(), st, "2"); !ok || j.State != schema.JobRunning {
		t.Errorf("when the store closes: %+v, %t", j, ok)
	}
	<-ended
}
