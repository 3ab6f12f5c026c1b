// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

func TestSubscriberThatIsBusyGetsTheChangesMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next, stop := iter.Pull(s.Subscribe(ctx))
		defer stop()
		for g := range 100 {
			s.Report("alpha", resources(ready(uint64(g+1))))
			s.Report("alpha", pools(observed.PoolStatus{Free: new(int64(g))}))
		}
		s.Connect("beta", observed.Facts{}, false)
		s.Disconnect("alpha", "gone")
		got, ok := next()
		want := observed.Changes{
			Nodes:     []model.NodeKey{"alpha", "beta"},
			Resources: []model.ResourceID{alpha},
			Pools:     []model.PoolID{space},
		}
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%v %s", ok, diff)
		}
		cancel()
		if got, ok := next(); ok {
			t.Errorf("after the end: %+v", got)
		}
	})
}

func TestReportThatSaysNothingNewIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		st := ready(1)
		st.Failure = &observed.Failure{Step: "resize", NextTry: time.Unix(5, 0)}
		p := observed.PoolStatus{Free: new(int64(1)), Faults: []string{"slow"}}
		say := func() {
			s.Report("alpha", resources(st))
			s.Report("alpha", pools(p))
		}
		say()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changes := make(chan observed.Changes, 10)
		go func() {
			for c := range s.Subscribe(ctx) {
				changes <- c
			}
		}()
		synctest.Wait()
		say()
		s.Report("alpha", observed.Report{})
		synctest.Wait()
		if len(changes) != 0 {
			t.Errorf("changes: %+v", <-changes)
		}
		s.Forget(alpha, 2)
		synctest.Wait()
		if len(changes) != 1 {
			t.Errorf("%d changes after a forgotten resource", len(changes))
		}
	})
}

func TestManyReadersWritersAndWaiters(t *testing.T) {
	s := observed.New(time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range s.Subscribe(ctx) {
				for k := range s.Nodes() {
					for range s.Resources(k) {
						break
					}
				}
			}
		})
	}
	const nodes, generations = 8, 200
	for n := range nodes {
		key := model.NodeKey(fmt.Sprintf("node-%d", n))
		id := model.ResourceID{Definition: "vol", Node: key}
		s.Connect(key, observed.Facts{}, false)
		for w := range 4 {
			readers.Go(func() {
				st, err := s.Wait(ctx, id, uint64(w*generations/4+1))
				if err != nil || st.Generation < uint64(w*generations/4+1) {
					t.Errorf("wait: %+v, %v", st, err)
				}
			})
		}
		writers.Go(func() {
			for g := range generations {
				s.Report(key, resources(ready(uint64(g+1))))
				s.Ready(key)
			}
		})
	}
	writers.Wait()
	for n := range nodes {
		id := model.ResourceID{Definition: "vol", Node: model.NodeKey(fmt.Sprintf("node-%d", n))}
		if st, _ := s.Resource(id); st.Generation != generations {
			t.Errorf("%s: generation %d", id, st.Generation)
		}
	}
	cancel() // ends the subscriptions; every wait has its outcome already
	readers.Wait()
}

func BenchmarkReport(b *testing.B) {
	for _, subscribers := range []int{0, 4} {
		b.Run(fmt.Sprintf("subscribers=%d", subscribers), func(b *testing.B) {
			s := online()
			for range subscribers {
				s.Subscribe(b.Context()) // never read
			}
			for g := 0; b.Loop(); g++ {
				s.Report("alpha", resources(ready(uint64(g))))
			}
		})
	}
}

func BenchmarkResource(b *testing.B) {
	s := online()
	s.Report("alpha", resources(ready(1)))
	for b.Loop() {
		s.Resource(alpha)
	}
}
