// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

func snapshotOf(name string, change ...func(*stack.SnapshotWant)) stack.SnapshotWant {
	s := stack.SnapshotWant{Name: name, Volumes: []stack.SnapshotVolume{{Number: 0, Pool: "p"}, {Number: 1, Pool: "p"}}}
	for _, f := range change {
		f(&s)
	}
	return s
}

// TestSnapshotsFailAlone wants one that was lost, one that cannot be taken, one that can, and a volume that grows.
func TestSnapshotsFailAlone(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	w := copyWish(func(v *stack.VolumeWant) { v.Size = 16 * mib },
		snapshotOf("lost", func(s *stack.SnapshotWant) { s.Existing = true }),
		snapshotOf("odd", func(s *stack.SnapshotWant) { s.Volumes[1].Number = 7 }),
		snapshotOf("good"))
	_, err := b.Apply(t.Context(), w)
	failed := map[string]string{}
	for _, s := range stack.FailedSteps(err) {
		failed[s.Snapshot] = s.Err.Error()
	}
	if len(failed) != 2 || !strings.Contains(failed["lost"], "not in pool p any more") || !strings.Contains(failed["odd"], "has no volume db/7") {
		t.Errorf("%v", err)
	}
	if r, err := b.Inspect(t.Context(), w); err != nil || len(r.Snapshots) != 1 || r.Snapshots[0].Name != "good" || r.Volumes[0].Usable != 16*mib {
		t.Errorf("%+v, %v", r, err)
	}
	if got := b.snapshots(t); !slices.Equal(got, []string{"db/0@good", "db/1@good"}) {
		t.Errorf("%v", got)
	}
}

func TestSnapshotThatCannotBeTakenHoldsUpNoOther(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	w := copyWish(nil, snapshotOf("first"), snapshotOf("second"))
	b.memory.Inject(pooltest.Fault{Op: pooltest.TakeSnapshot, Times: 1, Err: errors.New("bad sector")})
	_, err := b.Apply(t.Context(), w)
	if steps := stack.FailedSteps(err); len(steps) != 1 || steps[0].Snapshot != "first" {
		t.Errorf("%v", err)
	}
	if got := b.snapshots(t); !slices.Equal(got, []string{"db/0@second", "db/1@second"}) {
		t.Errorf("%v", got)
	}
	if r := b.apply(t, w); r.State != stack.Ready || len(r.Snapshots) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestFailedStepsAreFoundInWhatWrapsThem(t *testing.T) {
	one, two := &stack.StepError{What: "one", Err: errors.New("x")}, &stack.StepError{What: "two", Err: errors.New("y")}
	for _, tc := range []struct {
		err  error
		want []*stack.StepError
	}{
		{nil, nil},
		{errors.New("other"), nil},
		{one, []*stack.StepError{one}},
		{fmt.Errorf("more: %w", one), []*stack.StepError{one}},
		{errors.Join(errors.New("other"), fmt.Errorf("more: %w", errors.Join(one, two))), []*stack.StepError{one, two}},
	} {
		if got := stack.FailedSteps(tc.err); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v", tc.err, got)
		}
	}
}

func TestInactiveVolumesHaveNoDevicesAndKeepTheirContent(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	off := copyWish(nil)
	off.Inactive = true
	release := b.memory.Use(volume(1), pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	_, err := b.Apply(t.Context(), off)
	if e, ok := errors.AsType[*pool.InUseError](err); !ok || e.ID.Volume != 1 {
		t.Errorf("%v", err)
	}
	if r, err := b.Inspect(t.Context(), off); err != nil || r.Volumes[0].DevicePath != "" || r.Volumes[1].DevicePath == "" {
		t.Errorf("%+v, %v", r, err)
	}
	release()
	if r := b.apply(t, off); r.State != stack.Ready || r.Volumes[1].DevicePath != "" {
		t.Errorf("%+v", r)
	}
	// It grows and is snapshotted all the same.
	off.Volumes[0].Size = 16 * mib
	off.Snapshots = []stack.SnapshotWant{snapshotOf("s")}
	if r := b.apply(t, off); r.State != stack.Ready || r.Volumes[0].Usable != 16*mib || len(r.Snapshots) != 1 || r.Volumes[0].DevicePath != "" {
		t.Errorf("%+v", r)
	}
	off.Inactive = false
	if r := b.apply(t, off); r.State != stack.Ready || r.Volumes[0].DevicePath == "" || r.Volumes[1].DevicePath == "" {
		t.Errorf("%+v", r)
	}
	b.wantContent(t, "old")
}

// elsewhere is a stack over the pools p, which has db, and q. What copies devices copies contents.
func elsewhere(t *testing.T) (b *bench, q *pooltest.Memory, fail *error) {
	t.Helper()
	p, q := pooltest.NewMemory(pooltest.MemoryConfig{Name: "p"}), pooltest.NewMemory(pooltest.MemoryConfig{Name: "q"})
	fail = new(error)
	copyContent := stack.CopyDevice(func(_ context.Context, _, _ pool.Device, progress pool.Progress) error {
		progress.Tell(8*mib, 8*mib)
		if *fail != nil {
			return *fail
		}
		return q.Put(pool.ID{Resource: "web"}, p.Content(pool.ID{Resource: "web"}))
	})
	b = &bench{Stack: stack.New(pools{"p": p, "q": q}, &formatter{memory: p}, patient, copyContent), memory: p}
	t.Cleanup(b.Close)
	b.apply(t, copyWish(nil, snapshotOf("s")))
	for i := range 2 {
		must(t, p.Put(volume(i), fmt.Sprintf("old %d", i)))
	}
	return b, q, fail
}

func TestCopyBetweenPoolsLeavesNothingWhereItCameFrom(t *testing.T) {
	b, q, fail := elsewhere(t)
	w := stack.Want{Resource: "web", Volumes: []stack.VolumeWant{{Pool: "q", Size: 8 * mib, Source: &stack.Source{Resource: "db", Pool: "p"}}}}
	*fail = errors.New("the disk is gone")
	if _, err := b.Apply(t.Context(), w); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("%v", err)
	}
	left := func() string {
		volumes, err := b.memory.List(t.Context())
		must(t, err)
		var names []string
		for _, v := range volumes {
			names = append(names, v.ID.String())
		}
		return strings.Join(names, " ")
	}
	if got := left(); got != "db/0 db/1" {
		t.Errorf("after a failure, pool p has %s", got)
	}
	*fail = nil
	if r := b.apply(t, w); r.State != stack.Ready || q.Content(pool.ID{Resource: "web"}) != "old 0" || left() != "db/0 db/1" {
		t.Errorf("%+v, %s", r, left())
	}
	b.apply(t, destroyed(w))

	// What an agent that was killed has left goes with the next try, or with the volume.
	loan := pool.ID{Resource: "web"}
	for _, next := range []stack.Want{w, destroyed(w)} {
		must(t, b.memory.Create(t.Context(), loan, mib))
		b.apply(t, next)
		if got := left(); got != "db/0 db/1" {
			t.Errorf("pool p has %s", got)
		}
	}
	// A finished volume of that name is not touched.
	must(t, b.memory.Create(t.Context(), loan, mib))
	must(t, b.memory.Finish(t.Context(), loan))
	if _, err := b.Apply(t.Context(), w); err == nil || !strings.Contains(err.Error(), "it is left as it is") {
		t.Errorf("%v", err)
	}
	if got := left(); got != "db/0 db/1 web/0" {
		t.Errorf("pool p has %s", got)
	}
}
