// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// TestSetFollowsTheController compares the assigned set with the controller's own after any
// full sets and increments, and checks that each change is named and nothing else.
func TestSetFollowsTheController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"aa", "bb", "cc", "Dd", "dd"})
		theirs := map[model.DefinitionKey]*agentpb.Resource{}
		s := newAssigned()
		for step := range rapid.IntRange(1, 20).Draw(t, "steps") {
			before := maps.Clone(s.resources)
			changed := map[string]*agentpb.Resource{}
			for _, name := range rapid.SliceOfDistinct(names, resourceKey).Draw(t, "changed") {
				changed[name] = &agentpb.Resource{Name: name, Generation: rapid.Uint64Range(1, 3).Draw(t, "generation")}
			}
			gone := rapid.SliceOf(names).Draw(t, "gone")
			m := &agentpb.Assignments{
				Full: step == 0 || rapid.Bool().Draw(t, "full"), AppliesTo: fmt.Sprint(step), ResultsIn: fmt.Sprint(step + 1),
				Resources: slices.Collect(maps.Values(changed)),
			}
			if m.GetFull() {
				clear(theirs)
			} else {
				m.GoneResources = gone
				for _, name := range gone {
					delete(theirs, resourceKey(name))
				}
			}
			for name, r := range changed {
				theirs[resourceKey(name)] = r
			}
			d, err := s.take(m)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(s.resources, theirs, func(a, b *agentpb.Resource) bool { return proto.Equal(a, b) }) {
				t.Fatalf("set %v, want %v", s.resources, theirs)
			}
			checkDelta(t, d, before, s.resources)
		}
	})
}

func checkDelta(t *rapid.T, d delta, before, after map[model.DefinitionKey]*agentpb.Resource) {
	for k, r := range after {
		told := slices.Contains(d.resources, k)
		if kept := proto.Equal(before[k], r); told == kept && !slices.Contains(d.goneResources, k) {
			t.Fatalf("%s: was %v, is %v, told as changed: %t", k, before[k], r, told)
		}
	}
	for k := range before {
		if after[k] == nil && !slices.Contains(d.goneResources, k) {
			t.Fatalf("%s is gone and nobody was told", k)
		}
	}
}

func TestIncrementThatDoesNotChainChangesNothing(t *testing.T) {
	s := newAssigned()
	set := &agentpb.Assignments{Full: true, ResultsIn: "1", Resources: []*agentpb.Resource{{Name: "r1", Generation: 1}}}
	if _, err := s.take(set); err != nil {
		t.Fatal(err)
	}
	_, err := s.take(&agentpb.Assignments{
		AppliesTo: "0", ResultsIn: "2", Resources: []*agentpb.Resource{{Name: "r1", Destroy: true}}, GoneResources: []string{"r1"},
	})
	var chain *chainError
	if !errors.As(err, &chain) || s.resultsIn != "1" || !proto.Equal(s.resources["r1"], set.GetResources()[0]) {
		t.Errorf("%v, set %+v", err, s)
	}
}

func TestIdentityLastsAsLongAsThePlace(t *testing.T) {
	place := func(dir string) []*agentpb.Pool {
		return []*agentpb.Pool{{Name: "pool1", Provider: "FILE", Props: map[string]string{storPoolName: dir, "Aux/x": dir}}}
	}
	aux := place("/a")
	aux[0].Props["Aux/x"] = "changed"
	for name, c := range map[string]struct {
		m    *agentpb.Assignments
		want string
	}{
		"another property": {&agentpb.Assignments{AppliesTo: "1", Pools: aux}, "mark"},
		"another place":    {&agentpb.Assignments{AppliesTo: "1", Pools: place("/b")}, ""},
		"gone":             {&agentpb.Assignments{AppliesTo: "1", GonePools: []string{"POOL1"}}, ""},
		"absent":           {&agentpb.Assignments{Full: true}, "mark"},
		"same":             {&agentpb.Assignments{Full: true, Pools: place("/a")}, "mark"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAssigned()
			if _, err := s.take(&agentpb.Assignments{Full: true, ResultsIn: "1", Pools: place("/a")}); err != nil {
				t.Fatal(err)
			}
			s.identities["pool1"] = "mark"
			if _, err := s.take(c.m); err != nil {
				t.Fatal(err)
			}
			if got := s.identities["pool1"]; got != c.want {
				t.Errorf("identity %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzSavedFile(f *testing.F) {
	s := &saved{
		set: &agentpb.Assignments{
			Full: true, ResultsIn: "7", Pools: []*agentpb.Pool{{Name: "pool1", Provider: "FILE"}},
			Resources: []*agentpb.Resource{{Name: "r1", Generation: 3, Volumes: []*agentpb.Volume{{Pool: "pool1", Size: 4096}}}},
		},
		strays: &agentpb.Assignments{}, identities: &structpb.Struct{}, made: &agentpb.Assignments{},
	}
	whole, err := s.marshal("n1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte(savedFormat + " n1 00000000\n"))
	f.Add([]byte(savedFormat + " n1 7a3a5bb4\n\xff\xff\xff\xff\x7f"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := unmarshalSaved("N1", b)
		if err != nil {
			return
		}
		again, err := got.marshal("n1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unmarshalSaved("n1", again); err != nil {
			t.Errorf("what was written from what was read: %v", err)
		}
	})
}
