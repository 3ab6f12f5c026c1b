// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

var snap = model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "n"}

func said(generation uint64, phase observed.Phase) observed.Report {
	return observed.Report{Snapshots: map[model.DefinitionKey]map[model.SnapshotKey]observed.SnapshotStatus{"vol": {"snap": {
		Generation: generation, Phase: phase, Volumes: []observed.SnapshotVolumeStatus{{Size: 5, Allocated: new(int64(3))}},
	}}}}
}

// saidNothing is a report of a definition without snapshots.
func saidNothing() observed.Report {
	return observed.Report{Snapshots: map[model.DefinitionKey]map[model.SnapshotKey]observed.SnapshotStatus{"vol": {}}}
}

func TestSnapshotIsCurrentAsLongAsItsNodeIs(t *testing.T) {
	s := observed.New(time.Now)
	s.Connect("n", observed.Facts{}, false)
	s.Report("n", said(1, observed.Ready))
	if st, ok := s.Snapshot(snap); !ok || !st.Current || *st.Volumes[0].Allocated != 3 {
		t.Errorf("%+v", st)
	}
	s.Disconnect("n", "why")
	if st, ok := s.Snapshot(snap); !ok || st.Current || st.Phase != observed.Ready || st.Volumes[0].Size != 5 || st.Volumes[0].Allocated != nil {
		t.Errorf("away: %+v", st)
	}
	s.Connect("n", observed.Facts{}, true)
	s.Ready("n")
	if st, _ := s.Snapshot(snap); !st.Current {
		t.Errorf("resumed: %+v", st)
	}
	s.Connect("n", observed.Facts{}, false)
	s.Ready("n")
	if st, _ := s.Snapshot(snap); st.Current {
		t.Errorf("another process of the agent has not said it: %+v", st)
	}
	s.Report("n", said(2, observed.Working))
	s.Report("n", said(1, observed.Ready)) // which was overtaken
	if st, _ := s.Snapshot(snap); st.Generation != 2 {
		t.Errorf("%+v", st)
	}
}

func TestSnapshotThatIsNotSpokenOfAnyMoreIsForgotten(t *testing.T) {
	s := observed.New(time.Now)
	s.Connect("n", observed.Facts{}, false)
	s.Report("n", said(1, observed.Ready))
	s.Report("n", saidNothing())
	if st, ok := s.Snapshot(snap); ok {
		t.Errorf("%+v", st)
	}
	// One that was destroyed is remembered, also when its row went.
	s.Report("n", said(2, observed.Destroyed))
	s.ForgetSnapshot(snap)
	s.Report("n", saidNothing())
	if st, ok := s.Snapshot(snap); !ok || st.Phase != observed.Destroyed || !st.Current {
		t.Errorf("%+v", st)
	}
	s.Report("n", said(3, observed.Ready))
	s.PruneSnapshots("n", func(model.DefinitionKey, model.SnapshotKey) bool { return false })
	if st, ok := s.Snapshot(snap); ok && st.Phase != observed.Destroyed {
		t.Errorf("%+v", st)
	}
}

func TestWaitForASnapshotEndsWithAnOutcomeOrTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := observed.New(time.Now)
		if _, err := s.WaitSnapshot(t.Context(), snap, 1); !errors.Is(err, observed.ErrNodeOffline) {
			t.Errorf("%v", err)
		}
		s.Connect("n", observed.Facts{}, false)
		type outcome struct {
			status observed.SnapshotStatus
			err    error
		}
		wait := func(ctx context.Context) <-chan outcome {
			c := make(chan outcome, 1)
			go func() {
				st, err := s.WaitSnapshot(ctx, snap, 5)
				c <- outcome{st, err}
			}()
			synctest.Wait()
			return c
		}
		ended := wait(t.Context())
		s.Report("n", said(4, observed.Ready)) // of an older assignment
		s.Report("n", said(5, observed.Working))
		synctest.Wait()
		select {
		case o := <-ended:
			t.Fatalf("it ended early: %+v", o)
		default:
		}
		s.Report("n", said(5, observed.Failed))
		if o := <-ended; o.err != nil || o.status.Phase != observed.Failed {
			t.Errorf("%+v", o)
		}
		s.Report("n", said(5, observed.Working))
		ended = wait(t.Context())
		s.Disconnect("n", "why")
		if o := <-ended; !errors.Is(o.err, observed.ErrNodeOffline) {
			t.Errorf("%+v", o)
		}
		s.Connect("n", observed.Facts{}, false)
		ctx, cancel := context.WithCancel(t.Context())
		ended = wait(ctx)
		cancel()
		if o := <-ended; !errors.Is(o.err, context.Canceled) {
			t.Errorf("%+v", o)
		}
	})
}
