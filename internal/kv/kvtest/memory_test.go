// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest_test

import (
	"errors"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
)

func TestMemory(t *testing.T) {
	kvtest.TestEngine(t, kvtest.Subject{
		New: func(*testing.T) func() kv.Engine {
			m := kvtest.NewMemory()
			return func() kv.Engine { return m.Peer() }
		},
		Hold: func(e kv.Engine, s kvtest.Step) *kvtest.Gate { return e.(*kvtest.Memory).Hold(s) },
		Unknown: func(e kv.Engine, written bool) {
			step := kvtest.BeforeAppend
			if written {
				step = kvtest.BeforeAnswer
			}
			e.(*kvtest.Memory).Hold(step).Open(kv.ErrUnknown)
		},
		Compact: func(e kv.Engine) { e.(*kvtest.Memory).Compact(0) },
	})
}

func TestMemoryKeepsWhatWasDurableWhenItCrashed(t *testing.T) {
	for _, c := range []struct {
		name string
		step kvtest.Step
		rows int
	}{{"before the append", kvtest.BeforeAppend, 0}, {"before the answer", kvtest.BeforeAnswer, 1}} {
		m := kvtest.NewMemory()
		term, err := m.Own(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gate := m.Hold(c.step)
		answer := make(chan error)
		go func() {
			_, err := m.Append(t.Context(), term, kv.Batch{Put: []kv.Entry{{Key: "a"}}})
			answer <- err
		}()
		<-gate.Reached
		m.Crash()
		if err := <-answer; !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("%s: the append answers %v", c.name, err)
		}
		rows := 0
		_, entries := m.Peer().Load(t.Context())
		for _, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			rows++
		}
		if rows != c.rows {
			t.Errorf("%s: %d rows are left, want %d", c.name, rows, c.rows)
		}
	}
}

func TestMemoryFailsAsItIsTold(t *testing.T) {
	m := kvtest.NewMemory()
	term, err := m.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Fail(kv.ErrFull)
	if _, err := m.Append(t.Context(), term, kv.Batch{}); !errors.Is(err, kv.ErrFull) {
		t.Errorf("append on a full disk answers %v", err)
	}
	m.Fail(nil)
	if r, err := m.Append(t.Context(), term, kv.Batch{}); err != nil || r != 1 {
		t.Errorf("append after that: revision %d, %v", r, err)
	}
}
