// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == freeze.HelperName {
		os.Exit(freeze.HelperMain(os.Args[2:]))
	}
	os.Exit(mounttest.Main(m))
}

// patient waits for all work.
var patient = stack.Patience(time.Hour)

// copyBench is a bench with the volumes db/0 and db/1, whose contents are "old 0" and "old 1".
func copyBench(t *testing.T, c pooltest.MemoryConfig, options ...stack.Option) *bench {
	t.Helper()
	m := pooltest.NewMemory(c)
	f := &formatter{memory: m}
	b := &bench{Stack: stack.New(pools{"p": m}, f, options...), memory: m, mkfs: f}
	t.Cleanup(b.Close)
	b.apply(t, copyWish(nil))
	for i := range 2 {
		must(t, m.Put(volume(i), fmt.Sprintf("old %d", i)))
	}
	return b
}

func volume(i int) pool.ID { return pool.ID{Resource: "db", Volume: i} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) put(t *testing.T, content string) {
	t.Helper()
	for i := range 2 {
		must(t, b.memory.Put(volume(i), fmt.Sprintf("%s %d", content, i)))
	}
}

func (b *bench) wantContent(t *testing.T, content string) {
	t.Helper()
	for i := range 2 {
		if got, want := b.memory.Content(volume(i)), fmt.Sprintf("%s %d", content, i); got != want {
			t.Errorf("volume %d has %q, want %q", i, got, want)
		}
	}
}

// restored is a wish for a resource that is made from a snapshot of db.
func restored(resource, snapshot string) stack.Want {
	w := copyWish(nil)
	w.Resource = resource
	for i := range w.Volumes {
		w.Volumes[i].Source = &stack.Source{Resource: "db", Volume: i, Snapshot: snapshot}
		w.Volumes[i].Filesystem = &stack.Filesystem{Type: "ext4"}
	}
	return w
}

func (b *bench) snapshots(t *testing.T) []string {
	t.Helper()
	list, err := b.memory.Snapshots(t.Context(), "")
	must(t, err)
	var names []string
	for _, s := range list {
		name := s.ID.String()
		if s.New {
			name += " (new)"
		}
		names = append(names, name)
	}
	return names
}

func TestSnapshotIsTakenRestoredAndRemoved(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	w := copyWish(nil, snapshotWish(nil))
	if r, err := b.Inspect(t.Context(), w); err != nil || r.State != stack.Pending || len(r.Snapshots) != 0 {
		t.Errorf("before: %+v, %v", r, err)
	}
	r := b.apply(t, w)
	want := []stack.SnapshotHave{{Name: "s", Volumes: []stack.SnapshotVolumeHave{{Number: 0, Size: 8 * mib}, {Number: 1, Size: 8 * mib}}}}
	if diff := cmp.Diff(want, r.Snapshots, cmpopts.IgnoreFields(stack.SnapshotHave{}, "Created")); diff != "" || r.State != stack.Ready || r.Snapshots[0].Created.IsZero() || len(r.Work) != 0 {
		t.Errorf("%+v\n%s", r, diff)
	}
	calls := b.memory.Calls()
	b.put(t, "new")
	if again := b.apply(t, w); !cmp.Equal(r.Snapshots, again.Snapshots) || len(b.memory.Calls()) != len(calls) {
		t.Errorf("applying again: %+v, %v", again, b.memory.Calls()[len(calls):])
	}
	// The restore has what was before, and is never formatted.
	if r := b.apply(t, restored("web", "s")); r.State != stack.Ready || r.Volumes[0].DevicePath == "" || len(b.mkfs.calls) != 0 {
		t.Errorf("%+v, %v", r, b.mkfs.calls)
	}
	if got := b.memory.Content(pool.ID{Resource: "web", Volume: 1}); got != "old 1" {
		t.Errorf("restored: %q", got)
	}
	b.wantContent(t, "new")
	// The replica goes, and the snapshot stays until it is told to go.
	w.Destroy = true
	if r := b.apply(t, w); r.State != stack.Destroyed || len(r.Snapshots) != 1 {
		t.Errorf("%+v", r)
	}
	w.Volumes = nil
	w.Snapshots[0].Destroy = true
	if r := b.apply(t, w); r.State != stack.Destroyed || len(r.Snapshots) != 0 || len(b.snapshots(t)) != 0 {
		t.Errorf("%+v, %v", r, b.snapshots(t))
	}
}

func TestCloneOfAVolumeGrowsAndIsNotFormatted(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	w := restored("web", "")
	w.Volumes[0].Size = 16 * mib
	r := b.apply(t, w)
	if r.State != stack.Ready || r.Volumes[0].Usable != 16*mib || r.Volumes[1].Usable != 8*mib || len(b.mkfs.calls) != 0 {
		t.Errorf("%+v, %v", r, b.mkfs.calls)
	}
	w.Volumes[1].Size = 4 * mib
	if _, err := b.Apply(t.Context(), w); errorAs[*stack.ShrinkError](err) == nil {
		t.Errorf("%v", err)
	}
	w.Resource = "small"
	if _, err := b.Apply(t.Context(), w); errorAs[*pool.SizeError](err) == nil {
		t.Errorf("%v", err)
	}
}

func errorAs[E error](err error) error {
	if e, ok := errors.AsType[E](err); ok {
		return e
	}
	return nil
}

func TestRollBackIsDoneOnceAndTheDeviceIsUpAgain(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	b.apply(t, copyWish(nil, snapshotWish(nil)))
	b.put(t, "new")
	w := copyWish(nil, snapshotWish(nil))
	for i := range w.Volumes {
		w.Volumes[i].RollBack = &stack.RollBack{Snapshot: "s", Token: "t1"}
	}
	release := b.memory.Use(volume(1), pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	_, err := b.Apply(t.Context(), w)
	if e, ok := errors.AsType[*pool.InUseError](err); !ok || e.ID != volume(1) {
		t.Errorf("%v", err)
	}
	b.wantContent(t, "new") // Both, or none.
	release()
	if r := b.apply(t, w); r.State != stack.Ready || r.Volumes[0].DevicePath == "" || r.Volumes[1].RolledBack != "t1" {
		t.Errorf("%+v", r)
	}
	b.wantContent(t, "old")
	b.put(t, "newer")
	b.memory.Use(volume(0), pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	b.apply(t, w)
	b.wantContent(t, "newer")
}

// TestWorkThatTakesLongGoesOnInTheBackground also looks at what it tells meanwhile.
func TestWorkThatTakesLongGoesOnInTheBackground(t *testing.T) {
	changed := make(chan string, 10)
	b := copyBench(t, pooltest.MemoryConfig{}, stack.Patience(0), stack.Changed(func(resource string) { changed <- resource }))
	w := restored("web", "")
	w.Volumes = w.Volumes[:1]
	gate := b.memory.Stop(pooltest.Copy, pool.ID{Resource: "web"})
	b.apply(t, w)
	<-gate.Arrived()
	r, err := b.Inspect(t.Context(), w)
	must(t, err)
	want := stack.Result{State: stack.Pending, Work: []stack.Work{{What: "clone volume db/0 to volume web/0 in pool p", Done: 4 * mib, Total: 8 * mib}}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, b.apply(t, w)); diff != "" {
		t.Error(diff)
	}
	if v, ok, err := b.memory.Find(t.Context(), pool.ID{Resource: "web"}); err != nil || !ok || !v.New {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	select {
	case got := <-changed:
		t.Errorf("%s has changed", got)
	default:
	}
	gate.Open()
	if got := <-changed; got != "web" {
		t.Errorf("%s has changed", got)
	}
	if r := b.apply(t, w); r.State != stack.Ready || r.Volumes[0].DevicePath == "" || len(r.Work) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestFailureInTheBackgroundIsToldOnceAndTriedAgain(t *testing.T) {
	changed := make(chan string, 10)
	b := copyBench(t, pooltest.MemoryConfig{}, stack.Patience(0), stack.Changed(func(resource string) { changed <- resource }))
	w := restored("web", "")
	boom := errors.New("boom")
	gate := b.memory.Stop(pooltest.Copy, pool.ID{Resource: "web"})
	b.memory.Inject(pooltest.Fault{Op: pooltest.Copy, ID: pool.ID{Resource: "web"}, Times: 1, Err: boom})
	b.apply(t, w)
	<-gate.Arrived()
	gate.Open()
	for range 2 { // Both volumes, in any order.
		<-changed
	}
	if r, err := b.Inspect(t.Context(), w); err != nil || r.State != stack.Pending || len(r.Volumes) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := b.Apply(t.Context(), w); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	b.apply(t, w)
	<-changed
	if r := b.apply(t, w); r.State != stack.Ready {
		t.Errorf("%+v", r)
	}
}

func TestWishThatChangesBreaksWorkOff(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*stack.Want)
		content string // Of the volume afterwards.
	}{
		"destroy":        {change: func(w *stack.Want) { w.Destroy = true }},
		"no source":      {change: func(w *stack.Want) { w.Volumes[0].Source = nil }},
		"another source": {change: func(w *stack.Want) { w.Volumes[0].Source.Volume = 1 }, content: "old 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := copyBench(t, pooltest.MemoryConfig{}, stack.Patience(0))
			w := restored("web", "")
			w.Volumes = w.Volumes[:1]
			id := pool.ID{Resource: "web"}
			gate := b.memory.Stop(pooltest.Copy, id)
			b.apply(t, w)
			<-gate.Arrived()
			source := *w.Volumes[0].Source
			w.Volumes[0].Source = &source
			tc.change(&w)
			for range 2 {
				b.apply(t, w)
				b.Close() // Waits for what goes on.
				b.Stack = stack.New(pools{"p": b.memory}, b.mkfs, patient)
			}
			_, ok, err := b.memory.Find(t.Context(), id)
			if err != nil || ok == w.Destroy {
				t.Errorf("there: %t, %v", ok, err)
			}
			if ok && b.memory.Content(id) != tc.content {
				t.Errorf("it has %q", b.memory.Content(id))
			}
		})
	}
}

func TestWorkWaitsForASlot(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, stack.Patience(0), stack.Copies(1))
	first := b.memory.Stop(pooltest.Copy, pool.ID{})
	b.apply(t, restored("web", ""))
	<-first.Arrived()
	r, err := b.Inspect(t.Context(), restored("web", ""))
	must(t, err)
	if len(r.Work) != 2 || r.Work[0].Waiting == r.Work[1].Waiting {
		t.Errorf("%+v", r.Work)
	}
	// A snapshot waits for no copy: someone waits for it.
	b.Stack = stack.New(pools{"p": b.memory}, b.mkfs, patient, stack.Copies(1))
	if r := b.apply(t, copyWish(nil, snapshotWish(nil))); r.State != stack.Ready {
		t.Errorf("%+v", r)
	}
	first.Open()
}

func TestClosedStackBeginsNothing(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, stack.Patience(0))
	gate := b.memory.Stop(pooltest.Copy, pool.ID{Resource: "web"})
	b.apply(t, restored("web", ""))
	<-gate.Arrived()
	b.Close()
	if _, ok, err := b.memory.Find(t.Context(), pool.ID{Resource: "web"}); ok || err != nil {
		t.Errorf("left: %t, %v", ok, err)
	}
	if _, err := b.Apply(t.Context(), copyWish(nil, snapshotWish(nil))); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// writeWhileTaking writes to volumes, as those do who cannot be held back, at the end of each of the next tries to take a snapshot.
func (b *bench) writeWhileTaking(times int, volumes ...int) (done chan struct{}) {
	done = make(chan struct{})
	var gates []*pooltest.Gate
	for range times {
		gates = append(gates, b.memory.Stop(pooltest.Resume, volume(0)))
	}
	go func() {
		defer close(done)
		for _, gate := range gates {
			<-gate.Arrived()
			for _, i := range volumes {
				b.memory.Write(volume(i), 1)
			}
			gate.Open()
		}
	}()
	return done
}

func TestSnapshotThatIsNotOfOneMomentIsTakenAgain(t *testing.T) {
	for _, tc := range []struct {
		times   int
		volumes []int
		ok      bool
	}{
		{1, []int{0, 1}, true},
		{2, []int{0, 1}, true},
		{3, []int{0, 1}, false},
		{1, []int{1}, true}, // One that is written is of the moment in which it was taken.
	} {
		b := copyBench(t, pooltest.MemoryConfig{}, patient)
		done := b.writeWhileTaking(tc.times, tc.volumes...)
		r, err := b.Apply(t.Context(), copyWish(nil, snapshotWish(nil)))
		<-done
		e, mixed := errors.AsType[*stack.MomentError](err)
		switch {
		case tc.ok && (err != nil || len(r.Snapshots) != 1):
			t.Errorf("%+v: %+v, %v", tc, r, err)
		case !tc.ok && (!mixed || !slices.Equal(e.Written, []pool.ID{volume(0), volume(1)}) || len(b.snapshots(t)) != 0):
			t.Errorf("%+v: %v, left: %v", tc, err, b.snapshots(t))
		}
	}
}

// momentary is a pool that holds nobody back, and takes several snapshots at one moment. It is not a pool.Suspender.
type momentary struct {
	pool.Driver
	pool.Snapshotter
	fail  error
	asked [][]pool.SnapshotID
}

func (m *momentary) TakeSnapshots(ctx context.Context, ids []pool.SnapshotID) error {
	m.asked = append(m.asked, slices.Clone(ids))
	for _, id := range ids {
		if m.fail != nil {
			return m.fail
		}
		if err := m.TakeSnapshot(ctx, id, nil); err != nil {
			return err
		}
	}
	return nil
}

func TestAPoolThatTakesSeveralAtOneMomentIsLetDoSo(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	m := &momentary{Driver: b.memory, Snapshotter: b.memory}
	s := stack.New(pools{"p": m}, b.mkfs, patient)
	r, err := s.Apply(t.Context(), copyWish(nil, snapshotWish(nil)))
	if err != nil || len(r.Snapshots) != 1 || len(b.snapshots(t)) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	want := pool.SnapshotID{Resource: volume(0).Resource, Snapshot: "s"}
	if len(m.asked) != 1 || len(m.asked[0]) != 2 || m.asked[0][0] != want || m.asked[0][1].Volume != 1 {
		t.Errorf("it was asked for %v", m.asked)
	}
	m.fail = errors.New("boom")
	if _, err := s.Apply(t.Context(), copyWish(nil, snapshotWish(func(w *stack.SnapshotWant) { w.Name = "t" }))); !errors.Is(err, m.fail) || len(b.snapshots(t)) > 2 {
		t.Errorf("%v, left: %v", err, b.snapshots(t))
	}
}

func TestWritersAreHeldBackWhileASnapshotIsTaken(t *testing.T) {
	changed := make(chan string, 1)
	b := copyBench(t, pooltest.MemoryConfig{}, stack.Patience(0), stack.Changed(func(resource string) { changed <- resource }))
	gate := b.memory.Stop(pooltest.Copy, volume(1))
	w := copyWish(nil, snapshotWish(nil))
	b.apply(t, w)
	<-gate.Arrived()
	for i := range 2 {
		if err := b.memory.Put(volume(i), "new"); !errors.Is(err, pooltest.ErrSuspended) {
			t.Errorf("volume %d: %v", i, err)
		}
	}
	r, err := b.Inspect(t.Context(), w)
	must(t, err)
	if len(r.Work) != 1 || r.Work[0].Snapshot != "s" || r.Work[0].Done != 12*mib || r.Work[0].Total != 16*mib || len(r.Snapshots) != 0 {
		t.Errorf("%+v", r)
	}
	gate.Open()
	<-changed
	b.put(t, "new")
	if got := b.snapshots(t); len(got) != 2 || strings.Contains(fmt.Sprint(got), "new") {
		t.Errorf("%v", got)
	}
}

func TestSuspensionOfReplicasIsOfOneMoment(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	b.apply(t, restored("web", ""))
	web := restored("web", "")
	web.Volumes = append(web.Volumes, stack.VolumeWant{Number: 7, Pool: "p", Size: mib}, stack.VolumeWant{Number: 8, Pool: "p", Destroy: true})
	s, err := b.Suspend(t.Context(), []stack.Want{copyWish(nil), web}, time.Hour)
	must(t, err)
	for _, id := range []pool.ID{volume(0), volume(1), {Resource: "web"}, {Resource: "web", Volume: 1}} {
		if err := b.memory.Put(id, "new"); !errors.Is(err, pooltest.ErrSuspended) {
			t.Errorf("%s: %v", id, err)
		}
	}
	b.apply(t, copyWish(nil, snapshotWish(nil))) // Suspends, too.
	if err := b.memory.Put(volume(0), "new"); !errors.Is(err, pooltest.ErrSuspended) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if written, err := s.Resume(); len(written) != 0 || err != nil {
			t.Errorf("%v, %v", written, err)
		}
	}
	b.put(t, "new")
	// A pool that cannot hold anyone back does not say that it did.
	bare := stack.New(pools{"p": struct{ pool.Driver }{b.memory}}, b.mkfs)
	if s, err = bare.Suspend(t.Context(), []stack.Want{copyWish(nil)}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if written, err := s.Resume(); err != nil || !slices.Equal(written, []pool.ID{volume(0), volume(1)}) {
		t.Errorf("%v, %v", written, err)
	}
}

func TestFailedSuspensionLetsAllGoOn(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	boom := errors.New("boom")
	b.memory.Inject(pooltest.Fault{Op: pooltest.Suspend, ID: volume(1), Times: 1, Err: boom})
	if _, err := b.Apply(t.Context(), copyWish(nil, snapshotWish(nil))); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	b.put(t, "new")
	heal := b.memory.Inject(pooltest.Fault{Op: pooltest.TakeSnapshot, ID: volume(1), Err: boom})
	if _, err := b.Apply(t.Context(), copyWish(nil, snapshotWish(nil))); !errors.Is(err, boom) || len(b.snapshots(t)) != 0 {
		t.Errorf("%v, left: %v", err, b.snapshots(t))
	}
	heal()
	b.put(t, "newer")
	b.apply(t, copyWish(nil, snapshotWish(nil)))
}

// TestHalfOfASnapshotIsNeverCompleted has one part of an earlier moment.
func TestHalfOfASnapshotIsNeverCompleted(t *testing.T) {
	b := copyBench(t, pooltest.MemoryConfig{}, patient)
	part := pool.SnapshotID{Resource: "db", Snapshot: "s"}
	must(t, b.memory.TakeSnapshot(t.Context(), part, nil))
	must(t, b.memory.FinishSnapshot(t.Context(), part))
	b.put(t, "new")
	b.apply(t, copyWish(nil, snapshotWish(nil)))
	b.apply(t, restored("web", "s"))
	for i := range 2 {
		if got := b.memory.Content(pool.ID{Resource: "web", Volume: i}); got != fmt.Sprintf("new %d", i) {
			t.Errorf("volume %d was restored with %q", i, got)
		}
	}
}
