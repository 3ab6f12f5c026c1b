// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// pools are drivers by name.
type pools map[string]pool.Driver

func (p pools) Driver(name, _ string) (pool.Driver, error) {
	d, ok := p[name]
	if !ok {
		return nil, &pool.NotFoundError{Pool: name}
	}
	return d, nil
}

// formatter stands in for mkfs. It looks at each call whether the volume of the device is NEW.
type formatter struct {
	memory *pooltest.Memory
	mu     sync.Mutex
	calls  []string
	wrong  []string // Devices that were formatted and must not have been.
	fail   error    // What the next call fails with, after it did its work.
}

func (f *formatter) Run(ctx context.Context, c command.Command) (command.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	device := c.Args[len(c.Args)-1]
	f.calls = append(f.calls, c.Program)
	volumes, err := f.memory.List(ctx)
	if err != nil {
		return command.Result{}, err
	}
	i := slices.IndexFunc(volumes, func(v pool.Volume) bool { return v.Device.Path == device })
	if i < 0 || !volumes[i].New {
		f.wrong = append(f.wrong, device)
	}
	err, f.fail = f.fail, nil
	return command.Result{}, err
}

// bench is a stack over one pool in memory.
type bench struct {
	*stack.Stack
	memory *pooltest.Memory
	mkfs   *formatter
}

func newBench(c pooltest.MemoryConfig) *bench {
	m := pooltest.NewMemory(c)
	f := &formatter{memory: m}
	return &bench{Stack: stack.New(pools{"p": m}, f), memory: m, mkfs: f}
}

var id = pool.ID{Resource: "db"}

func wish(sizes ...int64) stack.Want {
	w := stack.Want{Resource: "db"}
	for i, size := range sizes {
		w.Volumes = append(w.Volumes, stack.VolumeWant{Number: i, Pool: "p", Size: size, Filesystem: &stack.Filesystem{Type: "ext4"}})
	}
	return w
}

func destroyed(w stack.Want) stack.Want {
	w.Destroy = true
	return w
}

func (b *bench) apply(t *testing.T, w stack.Want) stack.Result {
	t.Helper()
	r, err := b.Apply(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestApplyMakesVolumesAndAppliesAgainToNothing(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	w := wish(mib+1, 2*mib)
	w.Volumes[1].Filesystem = nil
	if r, err := b.Inspect(t.Context(), w); err != nil || r.State != stack.Pending || len(r.Volumes) != 0 {
		t.Errorf("before: %+v, %v", r, err)
	}
	r := b.apply(t, w)
	want := stack.Result{State: stack.Ready, Volumes: []stack.VolumeHave{
		{Number: 0, DevicePath: "/dev/memory/1-db_00000", Usable: mib + 4096, Allocated: mib + 4096},
		{Number: 1, DevicePath: "/dev/memory/2-db_00001", Usable: 2 * mib, Allocated: 2 * mib},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	calls := b.memory.Calls()
	if diff := cmp.Diff([]string{"mkfs.ext4"}, b.mkfs.calls); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, b.apply(t, w)); diff != "" {
		t.Error(diff)
	}
	if again := b.memory.Calls(); len(again) != len(calls) || len(b.mkfs.calls) != 1 {
		t.Errorf("applying again called %v", again[len(calls):])
	}
	if r, err := b.Inspect(t.Context(), w); err != nil || !cmp.Equal(want, r) {
		t.Errorf("inspected: %+v, %v", r, err)
	}
}

func TestApplyNamesTheStepThatFailed(t *testing.T) {
	boom := errors.New("boom")
	for op, text := range map[pooltest.Op]string{
		pooltest.Create: "create volume db/0 of 1048576 bytes in pool p: boom",
		pooltest.Open:   "open volume db/0 in pool p: boom",
		pooltest.Finish: "finish volume db/0 in pool p: boom",
		pooltest.Find:   "look at volume 0 of db in pool p: boom",
	} {
		b := newBench(pooltest.MemoryConfig{})
		b.memory.Inject(pooltest.Fault{Op: op, Times: 1, Err: boom})
		r, err := b.Apply(t.Context(), wish(mib))
		if !errors.Is(err, boom) || err.Error() != text || r.State != "" {
			t.Errorf("got %+v, %v, want %s", r, err, text)
		}
		if r := b.apply(t, wish(mib)); r.State != stack.Ready {
			t.Errorf("after %s failed: %+v", op, r)
		}
	}
}

func TestErrorsOfThePoolCanBeToldApart(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{Total: mib})
	_, err := b.Apply(t.Context(), wish(2*mib))
	if e, ok := errors.AsType[*pool.NoSpaceError](err); !ok || e.Asked != 2*mib {
		t.Errorf("got %v", err)
	}
	if volumes, err := b.memory.List(t.Context()); err != nil || len(volumes) != 0 {
		t.Errorf("left: %v, %v", volumes, err)
	}
	w := wish(mib)
	w.Volumes[0].Pool = "q"
	for _, w := range []stack.Want{w, destroyed(w)} {
		_, err = b.Apply(t.Context(), w)
		if e, ok := errors.AsType[*pool.NotFoundError](err); !ok || e.Pool != "q" {
			t.Errorf("got %v", err)
		}
	}
}

func TestFailedMkfsIsMadeAgainAndMissingToolIsNamed(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	b.mkfs.fail = &command.Error{Kind: command.NotInstalled, Program: "mkfs.ext4"}
	_, err := b.Apply(t.Context(), wish(mib))
	if err == nil || !strings.Contains(err.Error(), "install e2fsprogs") || !strings.HasPrefix(err.Error(), "make ext4 on volume db/0: ") {
		t.Errorf("got %v", err)
	}
	if r, err := b.Inspect(t.Context(), wish(mib)); err != nil || r.State != stack.Pending || len(r.Volumes) != 0 {
		t.Errorf("a volume without its file system is shown: %+v, %v", r, err)
	}
	if r := b.apply(t, wish(mib)); r.State != stack.Ready || len(b.mkfs.calls) != 2 {
		t.Errorf("%+v, %v", r, b.mkfs.calls)
	}
}

func TestVolumeThatAnEarlierMkfsStillWritesToIsNotFormatted(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	b.mkfs.fail = errors.New("killed")
	if _, err := b.Apply(t.Context(), wish(mib)); err == nil {
		t.Fatal("want an error")
	}
	release := b.memory.Use(id, pool.Holder{Kind: pool.Opened, Name: "mkfs.ext4", PID: 9})
	_, err := b.Apply(t.Context(), wish(mib))
	if e, ok := errors.AsType[*pool.InUseError](err); !ok || e.Holders[0].Name != "mkfs.ext4" || len(b.mkfs.calls) != 1 {
		t.Errorf("got %v, calls %v", err, b.mkfs.calls)
	}
	release()
	b.apply(t, wish(mib))
}

func TestFinishedVolumeIsNeverFormatted(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	w := wish(mib)
	w.Volumes[0].Filesystem = nil
	b.apply(t, w)
	b.apply(t, wish(mib))
	b.apply(t, wish(3*mib))
	if err := b.memory.Close(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.apply(t, wish(3*mib))
	if len(b.mkfs.calls) != 0 {
		t.Errorf("mkfs was called: %v", b.mkfs.calls)
	}
}

// TestVolumeThatIsFinishedMeanwhileIsNotFormatted has the volume finished between the plan and the step.
func TestVolumeThatIsFinishedMeanwhileIsNotFormatted(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	gate := b.memory.Stop(pooltest.Open, id)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Apply(t.Context(), wish(mib))
		ended <- err
	}()
	<-gate.Arrived()
	if err := b.memory.Finish(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "what lies on it is kept") || len(b.mkfs.calls) != 0 {
		t.Errorf("got %v, calls %v", err, b.mkfs.calls)
	}
}

func TestVolumeGrowsAndNeverShrinks(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	b.apply(t, wish(4*mib))
	if r := b.apply(t, wish(4*mib-100)); r.State != stack.Ready || r.Volumes[0].Usable != 4*mib { // The same when rounded.
		t.Errorf("%+v", r)
	}
	if r := b.apply(t, wish(8*mib)); r.Volumes[0].Usable != 8*mib {
		t.Errorf("%+v", r)
	}
	_, err := b.Apply(t.Context(), wish(4*mib, mib))
	if e, ok := errors.AsType[*stack.ShrinkError](err); !ok || e.Size != 8*mib || e.Asked != 4*mib {
		t.Errorf("got %v", err)
	}
	r, err := b.Inspect(t.Context(), wish(4*mib, mib))
	if err != nil || r.State != stack.Pending || len(r.Volumes) != 2 || r.Volumes[0].Usable != 8*mib || r.Volumes[1].DevicePath == "" {
		t.Errorf("the other volume should have been made: %+v, %v", r, err)
	}
}

func TestHalfDoneGrowIsCompleted(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	b.apply(t, wish(mib))
	b.memory.Resize(id, 2*mib)
	if r, err := b.Inspect(t.Context(), wish(2*mib)); err != nil || r.State != stack.Pending {
		t.Errorf("%+v, %v", r, err)
	}
	if r := b.apply(t, wish(2*mib)); r.State != stack.Ready {
		t.Errorf("%+v", r)
	}
	if v, _, err := b.memory.Find(t.Context(), id); err != nil || v.Device.Size != 2*mib {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestUsersAreReported(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	b.apply(t, wish(mib))
	b.memory.Use(id, pool.Holder{Kind: pool.Mounted, Name: "/srv", PID: 5})
	r := b.apply(t, wish(2*mib))
	if v := r.Volumes[0]; r.State != stack.Ready || !v.InUse || !slices.Equal(v.Holders, []string{"mounted at /srv (seen by pid 5)"}) || v.UseUnknown != "" {
		t.Errorf("%+v", r)
	}
	b.memory.Inject(pooltest.Fault{Op: pooltest.Holders, Err: errors.New("proc is gone")})
	r = b.apply(t, wish(3*mib))
	if v := r.Volumes[0]; r.State != stack.Ready || v.Usable != 3*mib || v.UseUnknown != "proc is gone" {
		t.Errorf("%+v", r)
	}
	if _, err := b.Apply(t.Context(), destroyed(wish(mib, mib))); err == nil || !strings.Contains(err.Error(), "proc is gone") {
		t.Errorf("destroyed without knowing who uses it: %v", err)
	}
	if _, err := b.Apply(t.Context(), destroyed(wish(mib))); err == nil || !strings.Contains(err.Error(), "/srv") {
		t.Errorf("destroyed though it is used: %v", err)
	}
}

func TestDestroyTouchesNothingWhileOneVolumeIsUsed(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	w := wish(mib, mib, mib)
	b.apply(t, w)
	before := b.memory.Calls()
	release := b.memory.Use(pool.ID{Resource: "db", Volume: 2}, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	_, err := b.Apply(t.Context(), destroyed(w))
	if e, ok := errors.AsType[*pool.InUseError](err); !ok || e.ID.Volume != 2 {
		t.Errorf("got %v", err)
	}
	if after := b.memory.Calls(); len(after) != len(before) {
		t.Errorf("touched: %v", after[len(before):])
	}
	if r, err := b.Inspect(t.Context(), destroyed(w)); err != nil || r.State != stack.Pending || len(r.Volumes) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	release()
	if r := b.apply(t, destroyed(w)); r.State != stack.Destroyed || len(r.Volumes) != 0 {
		t.Errorf("%+v", r)
	}
	if r := b.apply(t, destroyed(w)); r.State != stack.Destroyed {
		t.Errorf("again: %+v", r)
	}
}

// TestUserWhoComesDuringDestroyKeepsAllVolumes has a user come after the check and before the last volume was closed.
func TestUserWhoComesDuringDestroyKeepsAllVolumes(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	w := wish(mib, mib)
	b.apply(t, w)
	last := pool.ID{Resource: "db", Volume: 1}
	gate := b.memory.Stop(pooltest.Close, last)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Apply(t.Context(), destroyed(w))
		ended <- err
	}()
	<-gate.Arrived()
	b.memory.Use(last, pool.Holder{Kind: pool.Opened, Name: "qemu", PID: 3})
	gate.Open()
	if _, ok := errors.AsType[*pool.InUseError](<-ended); !ok {
		t.Error("a used volume was destroyed")
	}
	if volumes, err := b.memory.List(t.Context()); err != nil || len(volumes) != 2 {
		t.Errorf("%v, %v", volumes, err)
	}
}

// liar says that it removed a volume and did not.
type liar struct{ *pooltest.Memory }

func (liar) Remove(context.Context, pool.ID) error { return nil }

func TestDestroyedIsAnObservation(t *testing.T) {
	m := pooltest.NewMemory(pooltest.MemoryConfig{})
	s := stack.New(pools{"p": liar{m}}, &formatter{memory: m})
	if _, err := s.Apply(t.Context(), wish(mib)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Apply(t.Context(), destroyed(wish(mib)))
	if err == nil || r.State != "" || !strings.Contains(err.Error(), "the host still lacks: remove volume db/0 in pool p") {
		t.Errorf("%+v, %v", r, err)
	}
	m.Inject(pooltest.Fault{Op: pooltest.Find, Err: errors.New("unreadable")})
	if r, err := s.Apply(t.Context(), destroyed(wish(mib))); err == nil || r.State != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOnlyNamedVolumesAreDestroyed(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	b.apply(t, wish(mib, mib))
	w := wish(mib)
	if r := b.apply(t, w); r.State != stack.Ready || len(r.Volumes) != 1 {
		t.Errorf("%+v", r)
	}
	w.Volumes = append(w.Volumes, stack.VolumeWant{Number: 1, Pool: "p", Destroy: true})
	if r := b.apply(t, w); r.State != stack.Ready || len(r.Volumes) != 1 {
		t.Errorf("%+v", r)
	}
	if volumes, err := b.memory.List(t.Context()); err != nil || len(volumes) != 1 || volumes[0].ID != id {
		t.Errorf("%v, %v", volumes, err)
	}
}

func TestDriverWithoutAbilitiesWillDo(t *testing.T) {
	m := pooltest.NewMemory(pooltest.MemoryConfig{})
	s := stack.New(pools{"p": struct{ pool.Driver }{m}}, &formatter{memory: m})
	w := wish(mib, mib)
	if r, err := s.Apply(t.Context(), w); err != nil || r.State != stack.Ready || len(r.Volumes) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	release := m.Use(pool.ID{Resource: "db", Volume: 1}, pool.Holder{Kind: pool.Opened, Name: "qemu", PID: 3})
	if _, err := s.Apply(t.Context(), destroyed(w)); err == nil {
		t.Error("a used volume was destroyed")
	}
	release()
	if r, err := s.Apply(t.Context(), destroyed(w)); err != nil || r.State != stack.Destroyed {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestManyReplicasAtOnce(t *testing.T) {
	b := newBench(pooltest.MemoryConfig{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			w := wish(mib, mib)
			w.Resource = fmt.Sprintf("r%d", i)
			for _, w := range []stack.Want{w, w, destroyed(w)} {
				if _, err := b.Apply(t.Context(), w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(b.mkfs.calls) != 32 || len(b.mkfs.wrong) != 0 {
		t.Errorf("%d file systems were made, and wrongly %v", len(b.mkfs.calls), b.mkfs.wrong)
	}
}
