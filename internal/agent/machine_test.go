// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// plant makes machines over pools in memory. A pool is where its property says.
type plant struct {
	mu     sync.Mutex
	places map[string]*pooltest.Memory
	opened []agent.Pool
}

func (p *plant) open(a agent.Pool) (pool.Driver, error) {
	place, err := agent.Place(a)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = append(p.opened, a)
	if p.places == nil {
		p.places = map[string]*pooltest.Memory{}
	}
	if p.places[place] == nil {
		p.places[place] = pooltest.NewMemory(pooltest.MemoryConfig{Name: a.Name, Total: 100 * mib, Thin: a.Provider.Thin()})
	}
	return marked{p.places[place], "mark of " + place}, nil
}

// marked is a pool with an identity.
type marked struct {
	*pooltest.Memory
	mark string
}

func (m marked) Identity(context.Context) (string, error) { return m.mark, nil }
func (m marked) Granularity() int64                       { return 4096 }

func noPrograms(context.Context, command.Command) (command.Result, error) {
	return command.Result{}, errors.New("no program was to be run")
}

func filePool(dir string) *agent.Pool {
	return &agent.Pool{Name: "pool1", Provider: model.File, Props: model.PropsOf(map[string]string{"StorDriver/StorPoolName": dir})}
}

func want(p *agent.Pool, size int64) agent.Want {
	return agent.Want{Resource: "r1", Layers: []model.Layer{model.Storage}, Volumes: []agent.VolumeWant{{Pool: p, Size: size}}}
}

func TestMachineMakesGrowsAndDestroys(t *testing.T) {
	p := &plant{}
	m := agent.NewMachine(p.open, command.RunnerFunc(noPrograms))
	ctx := t.Context()
	w := want(filePool("/srv"), mib)
	r, err := m.Apply(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Volumes[0]; v.GetUsable() != mib || v.GetAllocated() != mib || v.GetDevicePath() == "" || v.InUse == nil || v.GetInUse() {
		t.Errorf("volume = %v", v)
	}
	w.Volumes[0].Size = 2 * mib
	if r, err = m.Apply(ctx, w); err != nil || r.Volumes[0].GetUsable() != 2*mib {
		t.Errorf("grown: %v, %v", r, err)
	}
	s, err := m.Measure(ctx, *w.Volumes[0].Pool)
	wantSpace := agent.Space{
		Total: 100 * mib, Free: 98 * mib, Allocated: 2 * mib, Granularity: 4096, CanSnapshot: true, Identity: "mark of /srv",
		Volumes: []pool.Volume{{
			ID: pool.ID{Resource: "r1"}, Size: 2 * mib, Granularity: 4096, Allocated: 2 * mib,
			Device: pool.Device{Path: r.Volumes[0].GetDevicePath(), Size: 2 * mib},
		}},
	}
	if diff := cmp.Diff(wantSpace, s); err != nil || diff != "" {
		t.Errorf("space: %v\n%s", err, diff)
	}
	leave := p.places["/srv"].Use(pool.ID{Resource: "r1"}, pool.Holder{Kind: pool.Opened, Name: "dd", PID: 7})
	if r, err = m.Inspect(ctx, w); err != nil || !slices.Equal(r.Volumes[0].GetHolders(), []string{"open by dd (pid 7)"}) {
		t.Errorf("in use: %v, %v", r, err)
	}
	w.Destroy = true
	var inUse *pool.InUseError
	if _, err = m.Apply(ctx, w); !errors.As(err, &inUse) {
		t.Errorf("destroy in use: %v", err)
	}
	leave()
	if r, err = m.Apply(ctx, w); err != nil || len(r.Volumes) != 0 {
		t.Errorf("destroyed: %v, %v", r, err)
	}
}

func TestMachineMakesNothingInPlaceOfWhatExisted(t *testing.T) {
	p := &plant{}
	m := agent.NewMachine(p.open, command.RunnerFunc(noPrograms))
	w := want(filePool("/srv"), mib)
	w.Volumes[0].Existing = true
	var missing *stack.MissingError
	if _, err := m.Apply(t.Context(), w); !errors.As(err, &missing) {
		t.Errorf("error = %v", err)
	}
	if calls := p.places["/srv"].Calls(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(strings.ToLower(c), "create") }) {
		t.Errorf("calls: %v", calls)
	}
	w.Volumes[0].Existing = false
	if _, err := m.Apply(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.Volumes[0].Existing = true
	if r, err := m.Apply(t.Context(), w); err != nil || len(r.Volumes) != 1 {
		t.Errorf("existing: %v, %v", r, err)
	}
}

func TestMachineRefusesWhatItCannotServe(t *testing.T) {
	m := agent.NewMachine((&plant{}).open, command.RunnerFunc(noPrograms))
	drbd := want(filePool("/srv"), mib)
	drbd.Layers = []model.Layer{model.DRBD, model.Storage}
	nowhere := want(filePool(""), mib)
	for name, c := range map[string]struct {
		w    agent.Want
		kind errs.Kind
	}{
		"a layer":                   {drbd, errs.Unsupported},
		"a replica without storage": {want(nil, mib), errs.Unsupported},
		"a pool without a place":    {nowhere, errs.Invalid},
	} {
		if _, err := m.Apply(t.Context(), c.w); !errs.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.Inspect(t.Context(), c.w); !errs.Is(err, c.kind) {
			t.Errorf("inspect %s: %v", name, err)
		}
	}
	gone := want(nil, mib)
	gone.Destroy = true
	if _, err := m.Apply(t.Context(), gone); err != nil {
		t.Errorf("destroy of a replica without storage: %v", err)
	}
}

func TestMachineKeepsOneDriverForAPool(t *testing.T) {
	p := &plant{}
	m := agent.NewMachine(p.open, command.RunnerFunc(noPrograms))
	known := filePool("/srv")
	known.Identity = "mark of /srv"
	for _, a := range []*agent.Pool{filePool("/srv"), known, filePool("/srv"), filePool("/other"), filePool("/other")} {
		if _, err := m.Measure(t.Context(), *a); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.opened) != 2 {
		t.Errorf("%d drivers were made for two places: %v", len(p.opened), p.opened)
	}
	if _, err := m.Check(t.Context(), *filePool("/third")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Measure(t.Context(), *filePool("/other")); err != nil {
		t.Fatal(err)
	}
	if len(p.opened) != 3 {
		t.Errorf("a check disturbed the driver in use: %v", p.opened)
	}
}

func TestPoolIdentityIsGivenBackAfterARestart(t *testing.T) {
	inBubble(t, func(b *bench) {
		m := full("1", resource("r1", "pool1", 1))
		m.Pools = []*agentpb.Pool{{Name: "pool1", Provider: "FILE", Props: map[string]string{"StorDriver/FileDir": "/srv"}}}
		p := &plant{}
		b.startOn(agent.NewMachine(p.open, command.RunnerFunc(noPrograms)), agent.Limits{})
		b.send(b.accept(), m)
		b.awaitReady("r1", 1)
		n := b.await("the pool", func(n fakecontroller.Node) bool { return n.Pools["pool1"].GetAllocated() == mib })
		wantPool := &agentpb.PoolStatus{
			Name: "pool1", Total: new(int64(100 * mib)), Free: new(int64(99 * mib)), Allocated: new(int64(mib)), Granularity: 4096,
			AssignedAllocated: new(int64(mib)), SupportsSnapshots: true,
		}
		if diff := cmp.Diff(wantPool, n.Pools["pool1"], protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		b.stop()
		if got := p.opened[0].Identity; got != "" {
			t.Errorf("identity at the first use: %q", got)
		}
		again := &plant{places: p.places}
		b.ctrl.Refuse(errAway)
		b.startOn(agent.NewMachine(again.open, command.RunnerFunc(noPrograms)), agent.Limits{})
		elapse(time.Second)
		b.stop()
		if len(again.opened) != 1 || again.opened[0].Identity != "mark of /srv" {
			t.Errorf("opened after the restart: %v", again.opened)
		}
	})
}
