// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

func fixture(m *pooltest.Memory) pooltest.Fixture {
	uses := map[pool.HolderKind]func(*testing.T, pool.ID, string) func(){}
	for _, kind := range []pool.HolderKind{pool.Opened, pool.Mounted, pool.Stacked, pool.Claimed} {
		uses[kind] = func(_ *testing.T, id pool.ID, _ string) func() {
			return m.Use(id, pool.Holder{Kind: kind, Name: "someone", PID: 42})
		}
	}
	return pooltest.Fixture{
		Open: func(*testing.T) pool.Driver { return m },
		Uses: uses,
		Fill: func(t *testing.T, id pool.ID, label string) {
			t.Helper()
			if err := m.Put(id, label); err != nil {
				t.Fatal(err)
			}
		},
		Label: func(_ *testing.T, id pool.ID) string { return m.Content(id) },
	}
}

func TestMemory(t *testing.T) {
	pooltest.Suite{
		New:         func(*testing.T) pooltest.Fixture { return fixture(pooltest.NewMemory(pooltest.MemoryConfig{})) },
		Granularity: 4096,
	}.Run(t)
}

func TestThinMemory(t *testing.T) {
	c := pooltest.MemoryConfig{Name: "thin", Thin: true, Granularity: 64 << 10, Total: 1 << 30}
	pooltest.Suite{
		New:         func(*testing.T) pooltest.Fixture { return fixture(pooltest.NewMemory(c)) },
		Granularity: 64 << 10,
		Thin:        true,
	}.Run(t)
}

func TestInjectedFaultsFailEachCall(t *testing.T) {
	ctx := t.Context()
	id := pool.ID{Resource: "db"}
	boom := errors.New("boom")
	calls := map[pooltest.Op]func(*pooltest.Memory) error{
		pooltest.Space:   func(m *pooltest.Memory) error { _, err := m.Space(ctx); return err },
		pooltest.List:    func(m *pooltest.Memory) error { _, err := m.List(ctx); return err },
		pooltest.Find:    func(m *pooltest.Memory) error { _, _, err := m.Find(ctx, id); return err },
		pooltest.Holders: func(m *pooltest.Memory) error { _, err := m.Holders(ctx, id); return err },
		pooltest.Check:   func(m *pooltest.Memory) error { return m.Check(ctx) },
		pooltest.Create:  func(m *pooltest.Memory) error { return m.Create(ctx, id, 1<<20) },
		pooltest.Finish:  func(m *pooltest.Memory) error { return m.Finish(ctx, id) },
		pooltest.Open:    func(m *pooltest.Memory) error { _, err := m.Open(ctx, id); return err },
		pooltest.Close:   func(m *pooltest.Memory) error { return m.Close(ctx, id) },
		pooltest.Grow:    func(m *pooltest.Memory) error { return m.Grow(ctx, id, 1<<20) },
		pooltest.Remove:  func(m *pooltest.Memory) error { return m.Remove(ctx, id) },
	}
	for op, call := range calls {
		t.Run(string(op), func(t *testing.T) {
			m := pooltest.NewMemory(pooltest.MemoryConfig{})
			if err := m.Create(ctx, id, 1<<20); err != nil {
				t.Fatal(err)
			}
			m.Inject(pooltest.Fault{Op: op, Times: 1, Err: boom})
			if err := call(m); !errors.Is(err, boom) {
				t.Errorf("got %v", err)
			}
			if err := call(m); err != nil {
				t.Errorf("second call: %v", err)
			}
			heal := m.Inject(pooltest.Fault{Op: op, After: true, Err: boom})
			for range 2 {
				if err := call(m); op != pooltest.Finish && !errors.Is(err, boom) {
					t.Errorf("got %v", err)
				}
			}
			heal()
		})
	}
}

func TestLostAnswerLeavesTheWorkDone(t *testing.T) {
	m := pooltest.NewMemory(pooltest.MemoryConfig{})
	boom := errors.New("boom")
	m.Inject(pooltest.Fault{Op: pooltest.Create, After: true, Times: 1, Err: boom})
	id := pool.ID{Resource: "db"}
	if err := m.Create(t.Context(), id, 1); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if _, ok, err := m.Find(t.Context(), id); !ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}

func TestGateHoldsOneCall(t *testing.T) {
	m := pooltest.NewMemory(pooltest.MemoryConfig{})
	a, b := pool.ID{Resource: "a"}, pool.ID{Resource: "b"}
	gate := m.Stop(pooltest.Create, a)
	done := make(chan error)
	go func() { done <- m.Create(t.Context(), a, 1) }()
	<-gate.Arrived()
	if err := m.Create(t.Context(), b, 1); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"create b/0", "create a/0"}, m.Calls()); diff != "" {
		t.Error(diff)
	}

	stopped := m.Stop(pooltest.Remove, pool.ID{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- m.Remove(ctx, a) }()
	<-stopped.Arrived()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
