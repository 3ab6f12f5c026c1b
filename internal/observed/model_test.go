// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

// plain is the State of one node, in the words of the package comment.
type plain struct {
	connection observed.Connection
	resumed    bool
	said       map[model.DefinitionKey]uint64 // the generation of each status
	session    map[model.DefinitionKey]bool   // said in this session
	chain      map[model.DefinitionKey]bool   // said in this session or one that it resumes
}

func (p *plain) connect(resumed bool) {
	p.connection, p.resumed = observed.Connected, resumed
	p.session = map[model.DefinitionKey]bool{}
	if !resumed {
		p.chain = map[model.DefinitionKey]bool{}
	}
}

func (p *plain) ready() {
	if p.connection != observed.Connected {
		return
	}
	p.connection = observed.Online
	for k := range p.chain {
		p.session[k] = true
	}
}

func (p *plain) report(k model.DefinitionKey, generation uint64) {
	if p.connection == observed.Offline || p.session[k] && generation < p.said[k] {
		return
	}
	p.said[k] = generation
	p.session[k], p.chain[k] = true, true
}

func (p *plain) forget(k model.DefinitionKey, gone uint64) {
	if g, ok := p.said[k]; ok && g < gone {
		delete(p.said, k)
		delete(p.session, k)
		delete(p.chain, k)
	}
}

func TestStateIsWhatItsWordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := observed.New(time.Now)
		p := &plain{connection: observed.Offline, said: map[model.DefinitionKey]uint64{}}
		key := rapid.SampledFrom([]model.DefinitionKey{"a", "b"})
		generation := rapid.Uint64Range(1, 5)
		connected := false
		t.Repeat(map[string]func(*rapid.T){
			"connect": func(t *rapid.T) {
				resumed := connected && rapid.Bool().Draw(t, "resumed")
				connected = true
				s.Connect("n", observed.Facts{}, resumed)
				p.connect(resumed)
			},
			"ready": func(*rapid.T) {
				s.Ready("n")
				p.ready()
			},
			"disconnect": func(*rapid.T) {
				s.Disconnect("n", "why")
				p.connection = observed.Offline
			},
			"report": func(t *rapid.T) {
				k, g := key.Draw(t, "key"), generation.Draw(t, "generation")
				s.Report("n", observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{k: ready(g)}})
				p.report(k, g)
			},
			"forget": func(t *rapid.T) {
				k, g := key.Draw(t, "key"), generation.Draw(t, "gone")
				s.Forget(model.ResourceID{Definition: k, Node: "n"}, g)
				p.forget(k, g)
			},
			"": func(t *rapid.T) { compare(t, s, p) },
		})
	})
}

// compare fails when readers or waiters see anything else than p says.
func compare(t *rapid.T, s *observed.State, p *plain) {
	if got := s.Node("n").Connection; got != p.connection {
		t.Fatalf("connection %s, want %s", got, p.connection)
	}
	for _, k := range []model.DefinitionKey{"a", "b"} {
		id := model.ResourceID{Definition: k, Node: "n"}
		generation, known := p.said[k]
		current := known && p.connection != observed.Offline && p.session[k]
		st, ok := s.Resource(id)
		if ok != known || st.Current != current || st.Generation != generation {
			t.Fatalf("%s: known %v, %+v; want known %v, current %v, generation %d", k, ok, st, known, current, generation)
		}
		if used, certain := st.InUse(); used != current || certain != current {
			t.Fatalf("%s: in use %v, known %v, current %v", k, used, certain, current)
		}
		if current || p.connection == observed.Offline {
			_, err := s.Wait(t.Context(), id, max(generation, 1))
			if current != (err == nil) || !current && !errors.Is(err, observed.ErrNodeOffline) {
				t.Fatalf("%s: a wait ends with %v", k, err)
			}
		}
	}
}
