// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// schedule says where the first of two calls is held while the second runs.
type schedule struct {
	deletionFirst bool
	step          kvtest.Step
	commits       int // that the first call makes before it is held
}

func (s schedule) String() string {
	first, step := "door", "before its commit"
	if s.deletionFirst {
		first = "deletion"
	}
	if s.step == kvtest.BeforeAnswer {
		step = "after its commit"
	}
	return fmt.Sprintf("%s held %s %d", first, step, s.commits+1)
}

func schedules() []schedule {
	var list []schedule
	for _, deletionFirst := range []bool{false, true} {
		for _, step := range []kvtest.Step{kvtest.BeforeAppend, kvtest.BeforeAnswer} {
			for commits := range 2 {
				list = append(list, schedule{deletionFirst, step, commits})
			}
		}
	}
	return list
}

// hold makes the engine hold the call that comes next.
func (s schedule) hold(m *kvtest.Memory) *kvtest.Gate {
	for range s.commits {
		m.Hold(s.step).Open(nil)
	}
	return m.Hold(s.step)
}

// held is a pair of calls under way, the first held at its step.
type held struct {
	*scene
	door
	deletion
	made, gone chan answer
}

// run starts the first call, waits until it is held, and starts the second. It returns nil
// when the first call never came to that step.
func (s *scene) run(d door, x deletion, sch schedule, m *kvtest.Memory) (*held, *kvtest.Gate) {
	h := &held{scene: s, door: d, deletion: x, made: make(chan answer, 1), gone: make(chan answer, 1)}
	doorCall := func() { h.made <- s.call(d.request) }
	deleteCall := func() { h.gone <- s.call(x.request) }
	first, second, ended := doorCall, deleteCall, h.made
	if sch.deletionFirst {
		first, second, ended = deleteCall, doorCall, h.gone
	}
	gate := sch.hold(m)
	go first()
	select {
	case <-gate.Reached:
	case a := <-ended:
		ended <- a
		return nil, gate
	}
	before := s.Store.Stats()
	go second()
	// The second call has decided when its update waits for durability or was refused; one
	// that changes nothing, or waits for the first, shows as neither.
	s.Until(func() bool {
		now := s.Store.Stats()
		return now.Queued > before.Queued || now.Refused > before.Refused || len(h.made)+len(h.gone) > 0
	})
	return h, gate
}

func TestNoDoorLeavesAnOrphanWhereverACallIsHeld(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, x := range deletions() {
				if !x.concerns(d) {
					continue
				}
				for _, sch := range schedules() {
					t.Run(fmt.Sprintf("%s, %s", x.name, sch), func(t *testing.T) {
						m := kvtest.NewMemory()
						c := cluster.Start(t, cluster.Options{Engine: m, Nodes: d.nodes(), Settings: []store.Setting{store.Paranoid()}})
						s := prepare(t, c, "1", d, x)
						h, gate := s.run(d, x, sch, m)
						gate.Open(nil)
						if h == nil {
							return
						}
						s.judge(d, x, <-h.made, <-h.gone)
					})
				}
			}
		})
	}
}

// TestSpawnHeldWhileItsGroupIsDeleted is the fault that this project was started for.
func TestSpawnHeldWhileItsGroupIsDeleted(t *testing.T) {
	m := kvtest.NewMemory()
	c := cluster.Start(t, cluster.Options{Engine: m, Nodes: 1})
	s := prepare(t, c, "1", door{}, deletion{})
	gate := m.Hold(kvtest.BeforeAppend)
	made := make(chan answer, 1)
	go func() { made <- s.call(doorNamed("spawn of definitions").request) }()
	<-gate.Reached
	refused := s.Store.Stats().Refused
	gone := make(chan answer, 1)
	go func() { gone <- s.call(deletions()[0].request) }()
	s.Until(func() bool { return s.Store.Stats().Refused > refused })
	gate.Open(nil)
	if a := <-made; a.status != http.StatusCreated {
		t.Errorf("the spawn was answered with %d %s", a.status, a.text)
	}
	if a := <-gone; a.status != http.StatusInternalServerError {
		t.Errorf("the deletion of the group was answered with %d %s, while a definition names the group", a.status, a.text)
	}
	s.Check()
}

func TestAKillAtAnyStepLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, x := range deletions() {
				if !x.concerns(d) {
					continue
				}
				for _, sch := range schedules() {
					if sch.commits > 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s", x.name, sch), func(t *testing.T) {
						m := kvtest.NewMemory()
						c := cluster.Start(t, cluster.Options{Engine: m, Nodes: d.nodes()})
						s := prepare(t, c, "1", d, x)
						h, gate := s.run(d, x, sch, m)
						if h == nil {
							gate.Open(nil)
							return
						}
						m.Crash()
						made, gone := <-h.made, <-h.gone
						if made.ok() && gone.ok() {
							t.Errorf("both calls were answered, %d and %d, by a database that had not answered", made.status, gone.status)
						}
						s.reopen(m.Peer())
					})
				}
			}
		})
	}
}

// reopen looks at what a kill has left.
func (s *scene) reopen(m *kvtest.Memory) {
	s.t.Helper()
	st, err := store.Open(s.t.Context(), m, schema.Collections())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	for _, a := range st.SetAside() {
		s.t.Errorf("set aside: %v", a)
	}
	for _, p := range schema.Check(st.Snapshot()) {
		s.t.Errorf("schema check: %s", p)
	}
}
