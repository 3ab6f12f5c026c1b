// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

// copyLife is a replica whose volumes are written, snapshotted, restored and rolled back while calls fail and the agent dies. All that it knows of a
// snapshot is the number that both volumes had when it was taken.
type copyLife struct {
	b      *bench
	number int            // In both volumes.
	taken  map[string]int // Of each snapshot that was told to be complete.
	token  int
}

// TestAnyFaultsLeaveCopiesWhole looks after each round at what may never be: a part of a snapshot, restore or roll-back that is taken for the whole.
func TestAnyFaultsLeaveCopiesWhole(t *testing.T) {
	ops := []pooltest.Op{
		pooltest.Find, pooltest.Open, pooltest.Finish, pooltest.Close, pooltest.Remove, pooltest.TakeSnapshot, pooltest.FinishSnapshot, pooltest.Snapshots,
		pooltest.RemoveSnapshot, pooltest.Clone, pooltest.RollBack, pooltest.Suspend, pooltest.Resume, pooltest.Copy, pooltest.Copy,
	}
	rapid.Check(t, func(t *rapid.T) {
		m := pooltest.NewMemory(pooltest.MemoryConfig{})
		l := &copyLife{b: &bench{memory: m, mkfs: &formatter{memory: m}}, taken: map[string]int{}}
		l.restart()
		defer func() { l.b.Close() }()
		if _, err := l.b.Apply(context.Background(), copyWish(nil)); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			l.write(t)
			var heal []func()
			for range rapid.IntRange(0, 3).Draw(t, "faults") {
				heal = append(heal, m.Inject(pooltest.Fault{
					Op: rapid.SampledFrom(ops).Draw(t, "op"), After: rapid.Bool().Draw(t, "after"), Times: rapid.IntRange(1, 2).Draw(t, "times"), Err: errors.New("injected"),
				}))
			}
			do := rapid.IntRange(0, 3).Draw(t, "do")
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			round := []func(*rapid.T, string) (done bool){l.snapshot, l.unsnapshot, l.restore, l.rollBack}[do]
			for !round(t, name) {
				if rapid.Bool().Draw(t, "die") {
					l.restart()
				}
				if rapid.IntRange(0, 2).Draw(t, "heal") == 0 {
					for _, h := range heal {
						h()
					}
				}
			}
			for _, h := range heal {
				h()
			}
			l.check(t)
		}
	})
}

// restart is the death of the agent, and its next life.
func (l *copyLife) restart() {
	if l.b.Stack != nil {
		l.b.Close()
	}
	l.b.Stack = stack.New(pools{"p": l.b.memory}, l.b.mkfs, patient)
}

func (l *copyLife) write(t *rapid.T) {
	l.number++
	for i := range 2 {
		if err := l.b.memory.Put(volume(i), fmt.Sprintf("%d in %d", l.number, i)); err != nil {
			t.Fatal(err)
		}
	}
}

func namedWish(name string, existing bool) stack.Want {
	return copyWish(nil, snapshotWish(func(s *stack.SnapshotWant) { s.Name, s.Existing = name, existing }))
}

// apply applies a wish, which may fail.
func (l *copyLife) apply(w stack.Want) (stack.Result, bool) {
	r, err := l.b.Apply(context.Background(), w)
	return r, err == nil && r.State != stack.Pending
}

func (l *copyLife) snapshot(t *rapid.T, name string) bool {
	_, existing := l.taken[name]
	r, ok := l.apply(namedWish(name, existing))
	if !ok {
		return false
	}
	if len(r.Snapshots) != 1 {
		t.Fatalf("%+v", r)
	}
	if !existing {
		l.taken[name] = l.number
	}
	return true
}

func (l *copyLife) unsnapshot(_ *rapid.T, name string) bool {
	w := namedWish(name, false)
	w.Snapshots[0].Destroy = true
	delete(l.taken, name) // From now on nobody expects it.
	_, ok := l.apply(w)
	return ok
}

func (l *copyLife) restore(t *rapid.T, name string) bool {
	number, ok := l.taken[name]
	if !ok {
		return true
	}
	w := restored("web", name)
	if r, ok := l.apply(w); !ok || len(r.Volumes) != 2 {
		return false
	}
	for i := range 2 {
		if got, want := l.b.memory.Content(pool.ID{Resource: "web", Volume: i}), fmt.Sprintf("%d in %d", number, i); got != want {
			t.Fatalf("restored %q from %s, want %q", got, name, want)
		}
	}
	w.Destroy = true
	for {
		if _, ok := l.apply(w); ok {
			return true
		}
	}
}

func (l *copyLife) rollBack(t *rapid.T, name string) bool {
	number, ok := l.taken[name]
	if !ok {
		return true
	}
	l.token++
	w := copyWish(nil)
	for i := range w.Volumes {
		w.Volumes[i].RollBack = &stack.RollBack{Snapshot: name, Token: fmt.Sprintf("t%d", l.token)}
	}
	for {
		r, ok := l.apply(w)
		if !ok {
			if rapid.Bool().Draw(t, "die while rolling back") {
				l.restart()
			}
			continue
		}
		for i, v := range r.Volumes {
			if got, want := l.b.memory.Content(volume(i)), fmt.Sprintf("%d in %d", number, i); got != want || v.RolledBack != w.Volumes[i].RollBack.Token || v.DevicePath == "" {
				t.Fatalf("rolled back to %q, %+v, want %q", got, v, want)
			}
		}
		break
	}
	// What is written now is not rolled back once more.
	l.write(t)
	for {
		if _, ok := l.apply(w); ok {
			break
		}
	}
	for i := range 2 {
		if got, want := l.b.memory.Content(volume(i)), fmt.Sprintf("%d in %d", l.number, i); got != want {
			t.Fatalf("rolled back again: %q, want %q", got, want)
		}
	}
	return true
}

// check looks whether each snapshot that was told has what it had, and nothing was formatted.
func (l *copyLife) check(t *rapid.T) {
	if len(l.b.mkfs.calls) > 0 {
		t.Fatal("something was formatted")
	}
	for name, number := range l.taken {
		w := restored("look", name)
		if _, ok := l.apply(w); !ok {
			t.Fatalf("snapshot %s cannot be restored", name)
		}
		for i := range 2 {
			if got, want := l.b.memory.Content(pool.ID{Resource: "look", Volume: i}), fmt.Sprintf("%d in %d", number, i); got != want {
				t.Fatalf("snapshot %s has %q, want %q", name, got, want)
			}
		}
		w.Destroy = true
		if _, ok := l.apply(w); !ok {
			t.Fatal("the look cannot be removed")
		}
	}
}
