// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

type waited struct {
	status observed.ResourceStatus
	err    error
}

// wait starts a wait and returns where its outcome comes. Inside a bubble it has begun.
func wait(ctx context.Context, s *observed.State, generation uint64) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		st, err := s.Wait(ctx, alpha, generation)
		c <- waited{st, err}
	}()
	synctest.Wait()
	return c
}

func pending(t *testing.T, c <-chan waited) {
	t.Helper()
	synctest.Wait()
	select {
	case w := <-c:
		t.Fatalf("the wait ended with %+v, %v", w.status, w.err)
	default:
	}
}

func TestWaitEndsWithTheFirstSettledStatusOfItsGeneration(t *testing.T) {
	for _, phase := range []observed.Phase{observed.Ready, observed.Failed, observed.Destroyed} {
		t.Run(phase.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := online()
				c := wait(t.Context(), s, 5)
				s.Report("alpha", resources(ready(4)))
				pending(t, c)
				s.Report("alpha", resources(observed.ResourceStatus{Generation: 5}))
				pending(t, c)
				s.Report("alpha", resources(observed.ResourceStatus{Generation: 6, Phase: phase}))
				s.Report("alpha", resources(ready(4))) // overtaken on its way
				w := <-c
				if w.err != nil || w.status.Generation != 6 || w.status.Phase != phase || !w.status.Current {
					t.Errorf("got %+v, %v", w.status, w.err)
				}
				if st, err := s.Wait(t.Context(), alpha, 6); err != nil || st.Phase != phase {
					t.Errorf("a wait for what is there: %+v, %v", st, err)
				}
			})
		})
	}
}

func TestWaitEndsWhenTheNodeGoesOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		s.Report("alpha", resources(ready(4)))
		c := wait(t.Context(), s, 5)
		s.Disconnect("alpha", "nothing heard for 15s")
		w := <-c
		if !errors.Is(w.err, observed.ErrNodeOffline) || !strings.Contains(w.err.Error(), "nothing heard for 15s") {
			t.Errorf("got %v", w.err)
		}
		if w.status.Generation != 4 || w.status.Current {
			t.Errorf("the last known status is %+v", w.status)
		}
		for _, node := range []model.NodeKey{"alpha", "never-seen"} {
			_, err := s.Wait(t.Context(), model.ResourceID{Definition: "vol", Node: node}, 5)
			if !errors.Is(err, observed.ErrNodeOffline) {
				t.Errorf("%s: %v", node, err)
			}
		}
	})
}

func TestWaitLastsThroughConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		s.Report("alpha", resources(ready(5)))
		s.Connect("alpha", observed.Facts{}, false)
		c := wait(t.Context(), s, 5)
		pending(t, c) // what the session before said is not current
		s.Ready("alpha")
		pending(t, c)
		s.Report("alpha", resources(ready(5)))
		if w := <-c; w.err != nil {
			t.Error(w.err)
		}
		s.Connect("alpha", observed.Facts{}, true)
		c = wait(t.Context(), s, 5)
		pending(t, c)
		s.Ready("alpha") // all that changed was said
		if w := <-c; w.err != nil {
			t.Error(w.err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		s.Report("alpha", resources(observed.ResourceStatus{Generation: 5, Failure: &observed.Failure{Step: "create"}}))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		st, err := s.Wait(ctx, alpha, 5)
		if !errors.Is(err, context.DeadlineExceeded) || st.Failure == nil || time.Since(start) != 30*time.Second {
			t.Errorf("after %s: %+v, %v", time.Since(start), st, err)
		}
		s.Report("alpha", resources(ready(5))) // nobody is left to be woken
	})
}

func TestWaitForADestroyedReplicaWhoseRowIsGone(t *testing.T) {
	clock := time.Unix(1000, 0)
	s := observed.New(func() time.Time { return clock })
	s.Connect("alpha", observed.Facts{}, false)
	s.Report("alpha", resources(observed.ResourceStatus{Generation: 7, Phase: observed.Destroyed}))
	s.Forget(alpha, 8)
	if _, ok := s.Resource(alpha); ok {
		t.Error("a forgotten replica is known")
	}
	if st, err := s.Wait(t.Context(), alpha, 7); err != nil || st.Phase != observed.Destroyed {
		t.Errorf("late wait: %+v, %v", st, err)
	}
	// A replica that was made anew under the name is another one.
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(expired, alpha, 8); !errors.Is(err, context.Canceled) {
		t.Errorf("wait for the next of that name: %v", err)
	}
	// The memory is bounded by age.
	clock = clock.Add(2 * time.Minute)
	other := model.ResourceID{Definition: "other", Node: "alpha"}
	s.Report("alpha", observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{
		"other": {Generation: 9, Phase: observed.Destroyed},
	}})
	s.Forget(other, 10)
	if _, err := s.Wait(expired, alpha, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("two minutes later: %v", err)
	}
}

func TestDestroyedReplicasAreRememberedInABoundedNumber(t *testing.T) {
	s := online()
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	const most = 4096
	for i := range most + 10 {
		k := model.DefinitionKey(fmt.Sprintf("vol-%d", i))
		s.Report("alpha", observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{
			k: {Generation: 1, Phase: observed.Destroyed},
		}})
		s.Forget(model.ResourceID{Definition: k, Node: "alpha"}, 2)
	}
	remembered := 0
	for i := range most + 10 {
		k := model.DefinitionKey(fmt.Sprintf("vol-%d", i))
		if _, err := s.Wait(expired, model.ResourceID{Definition: k, Node: "alpha"}, 1); err == nil {
			remembered++
		}
	}
	if remembered != most {
		t.Errorf("%d are remembered, want %d", remembered, most)
	}
}

func TestForgetEndsTheWaitForWhatNobodyConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		s.Report("alpha", resources(ready(4)))
		c, later := wait(t.Context(), s, 5), wait(t.Context(), s, 7)
		s.Forget(alpha, 6)
		if w := <-c; !errors.Is(w.err, observed.ErrForgotten) {
			t.Errorf("got %v", w.err)
		}
		pending(t, later) // of a row made anew under the name
		s.Report("alpha", resources(ready(7)))
		if w := <-later; w.err != nil {
			t.Error(w.err)
		}
		s.Forget(alpha, 6)
		if st, ok := s.Resource(alpha); !ok || st.Generation != 7 {
			t.Errorf("the status of the later row: %v %+v", ok, st)
		}
		c = wait(t.Context(), s, 8)
		s.ForgetNode("alpha")
		if w := <-c; !errors.Is(w.err, observed.ErrNodeOffline) {
			t.Errorf("got %v", w.err)
		}
	})
}

func TestPruneForgetsWhatHasNoRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := online()
		say := func(k model.DefinitionKey) {
			s.Report("alpha", observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{k: ready(4)}})
		}
		say("kept")
		say("gone")
		c := wait(t.Context(), s, 5) // for vol, of which nothing was said
		s.Prune("alpha", 6, func(k model.DefinitionKey) bool { return k == "kept" })
		if w := <-c; !errors.Is(w.err, observed.ErrForgotten) {
			t.Errorf("got %v", w.err)
		}
		for k, want := range map[model.DefinitionKey]bool{"kept": true, "gone": false} {
			if _, known := s.Resource(model.ResourceID{Definition: k, Node: "alpha"}); known != want {
				t.Errorf("%s: known %v", k, known)
			}
		}
	})
}
