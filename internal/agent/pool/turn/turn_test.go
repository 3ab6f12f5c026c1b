// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
)

func TestOneAtATimeAndNobodyInACircle(t *testing.T) {
	var (
		turns  turn.Turns
		inside [2]atomic.Int32
		wg     sync.WaitGroup
	)
	for i := range 64 {
		keys := []string{"a", "b", "a"}
		if i%2 == 0 {
			keys = []string{"b", "a"}
		}
		wg.Go(func() {
			release, err := turns.Take(t.Context(), keys...)
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			for j := range inside {
				if n := inside[j].Add(1); n != 1 {
					t.Errorf("%d are inside", n)
				}
				defer inside[j].Add(-1)
			}
		})
	}
	wg.Wait()
}

func TestWhoGivesUpHoldsNothing(t *testing.T) {
	var turns turn.Turns
	release, err := turns.Take(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.Take(ctx, "a", "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	again, err := turns.Take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	again()
	release()
}

func TestAnswersAreSharedAndNeverOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Int32
		gate := make(chan struct{})
		look := turn.Look[int32]{Do: func(context.Context) (int32, error) {
			n := began.Add(1)
			<-gate
			return n, nil
		}}
		var wg sync.WaitGroup
		ask := func(want int32) {
			wg.Go(func() {
				if got, err := look.Get(t.Context()); err != nil || got != want {
					t.Errorf("got answer %d, %v, want %d", got, err, want)
				}
			})
		}
		ask(1)
		synctest.Wait()
		for range 10 {
			ask(2) // The first one began before they asked.
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if n := began.Load(); n != 2 {
			t.Errorf("looked %d times, want 2", n)
		}
	})
}

func TestWhoDoesNotWaitAnyMoreLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		look := turn.Look[int]{Do: func(context.Context) (int, error) { <-gate; return 1, errors.New("late") }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := look.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(gate)
	})
}
