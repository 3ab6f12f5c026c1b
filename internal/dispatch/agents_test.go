// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// start runs the agent's own code on a host in memory until the answer is called.
func (r *rig) start(a *fakeagent.Agent) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
		synctest.Wait()
	}
	r.Cleanup(cancel)
	return stop
}

// settled waits for a replica to settle.
func (r *rig) settled(id model.ResourceID, generation uint64, want observed.Phase) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	if st, err := r.seen.Wait(ctx, id, generation); err != nil || st.Phase != want {
		r.Fatalf("%s is %+v, %v; want %s", id, st, err, want)
	}
}

func TestAgentMakesAndDestroysWhatTheRowsSay(t *testing.T) {
	in(t, func(r *rig) {
		a := &fakeagent.Agent{Node: "alpha", Dial: r.connect}
		stop := r.start(a)
		time.Sleep(time.Second)
		r.connection("alpha", observed.Online)
		r.settled(onAlpha, r.create("vol", "alpha"), observed.Ready)
		if v := a.Volumes(); len(v) != 1 || v[0].Size != 1<<30 {
			r.Errorf("volumes: %+v", v)
		}
		if p, _ := r.seen.Pool(model.PoolID{Node: "alpha", Pool: "data"}); p.Free == nil || !p.Current {
			r.Errorf("pool: %+v", p)
		}
		g := change(r, schema.VolumeDefinitions, model.VolumeDefinitionID{Definition: "vol"}, func(v *schema.VolumeDefinition) { v.Size = 2 << 30 })
		r.settled(onAlpha, g, observed.Ready)

		a.DropSession()
		time.Sleep(5 * time.Second)
		r.connection("alpha", observed.Online)
		if st := r.server.Sessions(); st.Resumed != 1 || st.Full != 1 {
			r.Errorf("a dropped session is not resumed: %+v", st)
		}
		r.settled(onAlpha, g, observed.Ready)

		stop() // deleted while the agent is away: destroyed when it is back, not before
		r.connection("alpha", observed.Offline)
		g = r.delete(onAlpha)
		time.Sleep(time.Hour)
		if !r.has(onAlpha) || len(a.Volumes()) != 1 {
			r.Error("gone while the agent was away")
		}
		stop = r.start(a)
		time.Sleep(5 * time.Second)
		r.settled(onAlpha, g, observed.Destroyed)
		if r.has(onAlpha) || len(a.Volumes()) != 0 {
			r.Errorf("row there %v, volumes %v", r.has(onAlpha), a.Volumes())
		}
		stop()
	})
}

func TestAgentsComeBackTogether(t *testing.T) {
	in(t, func(r *rig) {
		const nodes, each = 20, 5
		agents := make([]*fakeagent.Agent, nodes)
		stops := make([]func(), nodes)
		for i := range agents {
			name := fmt.Sprintf("node-%d", i)
			key := model.NodeKey(name)
			r.write(func(tx *store.Tx) error {
				err := errors.Join(
					schema.Nodes.Insert(tx, schema.Node{Name: model.NodeName(name)}),
					schema.Pools.Insert(tx, schema.Pool{Node: key, Name: "Data", Provider: model.LVM}),
				)
				for n := range each {
					err = errors.Join(err, insert(tx, model.DefinitionName(fmt.Sprintf("vol-%d-%d", i, n)), key))
				}
				return err
			})
			agents[i] = &fakeagent.Agent{Node: name, Dial: r.connect}
			stops[i] = r.start(agents[i])
		}
		for range 3 {
			for _, a := range agents {
				a.DropSession()
			}
			time.Sleep(30 * time.Second)
			for i, a := range agents {
				r.connection(model.NodeKey(a.Node), observed.Online)
				if len(a.Volumes()) != each {
					r.Errorf("node %d has %d volumes", i, len(a.Volumes()))
				}
			}
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// An agent that hangs, with its connection open, is found out, and back as soon as it speaks.
func TestAgentThatHangsIsOfflineUntilItSpeaks(t *testing.T) {
	in(t, func(r *rig) {
		a := &fakeagent.Agent{Node: "alpha", Dial: r.connect}
		stop := r.start(a)
		time.Sleep(time.Second)
		g := r.create("vol", "alpha")
		r.settled(onAlpha, g, observed.Ready)
		a.Silence()
		time.Sleep(30 * time.Second)
		if st, _ := r.seen.Resource(onAlpha); st.Current {
			r.Errorf("%s: %+v", r.seen.Node("alpha").Connection, st)
		}
		a.Speak()
		time.Sleep(15 * time.Second)
		r.connection("alpha", observed.Online)
		r.settled(onAlpha, g, observed.Ready)
		stop()
	}, func(c *dispatch.Config) { c.Heartbeat = 5 * time.Second })
}
