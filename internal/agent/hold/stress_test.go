// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
)

// TestSixteenUsersMeet is the form in which the faults were searched for in the field: users of a fresh pool take it and leave it at the same
// time, with no schedule but the machine's.
func TestSixteenUsersMeet(t *testing.T) {
	const users, rounds = 16, 500
	r := start(t, newWorld())
	defer r.stop()
	for round := range rounds {
		outcomes := make([]hold.Teardown, users)
		errs := make([]error, users)
		together(users, func(i int) { _, errs[i] = r.Acquire(context.Background(), pool, req(fmt.Sprint(i))) })
		for i, err := range errs {
			if err != nil {
				t.Fatalf("round %d: user %d: %v", round, i, err)
			}
			r.hold(nas, hold.ID(fmt.Sprint(i)))
		}
		for i := range users {
			r.unhold(nas, hold.ID(fmt.Sprint(i)))
		}
		together(users, func(i int) { outcomes[i], errs[i] = r.Release(context.Background(), hold.ID(fmt.Sprint(i))) })
		free, left := 0, map[int]bool{}
		for i, td := range outcomes {
			switch {
			case errs[i] == nil && td.Outcome == hold.Done:
				free++
			case errs[i] == nil && td.Outcome == hold.NotNeeded && !td.Anomaly:
				left[td.Holders] = true
			default:
				t.Fatalf("round %d: user %d leaves: %v, %v", round, i, td, errs[i])
			}
		}
		if free != 1 || len(left) != users-1 || r.mounted(nas) != 0 {
			t.Fatalf("round %d: free %d times, %d different numbers of others, %d mounts", round, free, len(left), r.mounted(nas))
		}
	}
}

// together runs f for each user once all of them have come.
func together(users int, f func(i int)) {
	var all sync.WaitGroup
	barrier := make(chan struct{})
	for i := range users {
		all.Go(func() {
			<-barrier
			f(i)
		})
	}
	close(barrier)
	all.Wait()
}

// TestNothingIsLeftAfterAThousandChanges attaches and detaches ten volumes of one source in any order, while the agent is restarted in good
// order or dies.
func TestNothingIsLeftAfterAThousandChanges(t *testing.T) {
	const volumes, changes = 10, 1000
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			r := start(t, newWorld())
			defer func() { r.stop() }()
			attached := map[int]bool{}
			for range changes {
				v := random.IntN(volumes)
				id := fmt.Sprintf("v%d", v)
				if attached[v] {
					r.give(id)
				} else {
					r.get(pool, req(id))
				}
				attached[v] = !attached[v]
				switch random.IntN(30) {
				case 0:
					r.restart()
				case 1:
					if err := r.Close(context.Background()); err != nil {
						t.Error(err)
					}
					r.p.end()
					r.boot()
				case 2:
					time.Sleep(time.Duration(random.IntN(100)) * time.Second)
				}
			}
			for v := range volumes {
				if attached[v] {
					r.give(fmt.Sprintf("v%d", v))
				}
			}
			r.want("p", hold.Absent)
			if r.mounted(nas) != 0 {
				t.Error("it is still mounted")
			}
		})
	}
}
