// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holding_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/holding"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Name {
		syscall.Exit(worker.Main(os.Args[2:], map[string]worker.Kind{held.KindName: held.Kind()}))
	}
	os.Exit(mounttest.Main(m))
}

func config(dir string) holding.Config {
	return holding.Config{
		Node: "n1", State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Runner: &command.Exec{},
		Pools: held.Config{Linger: time.Millisecond},
	}
}

func open(t *testing.T, c holding.Config) *holding.Holding {
	t.Helper()
	h, err := holding.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, h) })
	return h
}

func shut(t *testing.T, h *holding.Holding) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

// pool opens the driver of a pool in a folder.
func pool(t *testing.T, h *holding.Holding, name, dir string) *held.Pool {
	t.Helper()
	props := map[string]string{"StorDriver/Mount/Type": "bind", "StorDriver/Mount/Source": dir}
	p, ok, err := h.Open(name, true, "", func(k string) (string, bool) { v, ok := props[k]; return v, ok })
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return p
}

func TestAHostWithoutPoolsOnMountsIsNotChanged(t *testing.T) {
	dir := mounttest.Scratch(t)
	h := open(t, config(dir))
	if _, err := os.Stat(filepath.Join(dir, "state/mnt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for mounts was made: %v", err)
	}
	none := func(string) (string, bool) { return "", false }
	if p, ok, err := h.Open("files", true, "", none); ok || err != nil {
		t.Errorf("a pool on no mount: %v, %v, %v", p, ok, err)
	}
	if all, err := h.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("listed %v, %v", all, err)
	}
}

func TestOneProcessAloneHasTheHoldsOfAnAgent(t *testing.T) {
	c := config(mounttest.Scratch(t))
	open(t, c)
	if _, err := holding.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second one: %v", err)
	}
}

func TestAHoldIsToldAndItsReleaseToo(t *testing.T) {
	dir := mounttest.Scratch(t)
	h := open(t, config(dir))
	pool(t, h, "vault", mounttest.Mkdir(t, dir, "share"))
	request := &agentpb.HoldRequest{Pool: "VAULT", Id: "h1", Holder: "me", ReadOnly: true}
	m, err := h.Acquire(t.Context(), request)
	if err != nil || m.GetState() != "ready" || len(m.GetHolds()) != 1 || !m.GetHolds()[0].GetReadOnly() || m.GetHolds()[0].GetHolder() != "me" {
		t.Errorf("acquire: %v, %v", m, err)
	}
	if _, err := h.Acquire(t.Context(), &agentpb.HoldRequest{Pool: "vault", Id: "h1", Holder: "other"}); errs.As(err).Kind != errs.Invalid {
		t.Errorf("an id of another hold: %v", err)
	}
	if _, err := h.Acquire(t.Context(), &agentpb.HoldRequest{Pool: "none", Id: "h1"}); errs.As(err).Kind != errs.NotFound {
		t.Errorf("an unknown pool: %v", err)
	}
	m, outcome, err := h.Release(t.Context(), request)
	if err != nil || outcome != string(hold.Done) || m.GetState() != "absent" || len(m.GetHolds()) != 0 {
		t.Errorf("release: %v, %q, %v", m, outcome, err)
	}
	if _, outcome, err := h.Release(t.Context(), request); err != nil || !strings.Contains(outcome, "no such hold") {
		t.Errorf("a second release: %q, %v", outcome, err)
	}
}

func TestWhatChangesIsTold(t *testing.T) {
	dir := mounttest.Scratch(t)
	h := open(t, config(dir))
	pool(t, h, "vault", mounttest.Mkdir(t, dir, "share"))
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan []*agentpb.HeldPool, 16), make(chan struct{})
	go func() {
		defer close(ended)
		h.Watch(ctx, func(all []*agentpb.HeldPool) { told <- all })
	}()
	if all := <-told; len(all) != 1 || all[0].GetState() != "absent" || all[0].GetPool() != "vault" {
		t.Errorf("at first: %v", all)
	}
	if _, err := h.Acquire(t.Context(), &agentpb.HoldRequest{Pool: "vault", Id: "h1"}); err != nil {
		t.Fatal(err)
	}
	await := func(what string, ok func(*agentpb.HeldPool) bool) { // States in between may be told, too.
		t.Helper()
		deadline := time.After(20 * time.Second)
		for {
			select {
			case all := <-told:
				if len(all) == 1 && ok(all[0]) {
					return
				}
			case <-deadline:
				t.Fatalf("it was not told of %s", what)
			}
		}
	}
	await("a hold", func(p *agentpb.HeldPool) bool { return p.GetState() == "ready" && len(p.GetHolds()) == 1 })
	if _, _, err := h.Release(t.Context(), &agentpb.HoldRequest{Pool: "vault", Id: "h1"}); err != nil {
		t.Fatal(err)
	}
	await("its release", func(p *agentpb.HeldPool) bool { return p.GetState() == "absent" && len(p.GetHolds()) == 0 })
	cancel()
	<-ended
}

func TestAnEarlierProcessIsKnownBeforeItsPoolsAre(t *testing.T) {
	dir := mounttest.Scratch(t)
	c := config(dir)
	h, err := holding.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	pool(t, h, "vault", mounttest.Mkdir(t, dir, "share"))
	if _, err := h.Acquire(t.Context(), &agentpb.HoldRequest{Pool: "vault", Id: "h1"}); err != nil {
		t.Fatal(err)
	}
	shut(t, h)
	h = open(t, c)
	all, err := h.List(t.Context())
	if err != nil || len(all) != 1 || all[0].GetPool() != "vault" || len(all[0].GetHolds()) != 1 {
		t.Errorf("listed %v, %v", all, err)
	}
	if _, _, err := h.Release(t.Context(), &agentpb.HoldRequest{Id: "h1"}); errs.As(err).Kind != errs.NotFound { // Its pool cannot be shown.
		t.Errorf("release: %v", err)
	}
	if all, err := h.List(t.Context()); err != nil || len(all) == 1 && len(all[0].GetHolds()) != 0 {
		t.Errorf("after the release %v, %v", all, err)
	}
}

func TestAPoolThatIsCheckedReplacesNoneThatIsUsed(t *testing.T) {
	dir := mounttest.Scratch(t)
	h := open(t, config(dir))
	used, other := mounttest.Mkdir(t, dir, "used"), mounttest.Mkdir(t, dir, "other")
	pool(t, h, "vault", used)
	for range 3 {
		trial := pool(t, h, "vault", other)
		if err := trial.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m, err := h.Inspect(t.Context(), "vault")
	if err != nil || m.GetSource() != used {
		t.Errorf("the pool lies on %s, %v", m.GetSource(), err)
	}
}

func TestFiguresAreThere(t *testing.T) {
	dir := mounttest.Scratch(t)
	h := open(t, config(dir))
	pool(t, h, "vault", mounttest.Mkdir(t, dir, "share"))
	if _, err := h.Acquire(t.Context(), &agentpb.HoldRequest{Pool: "vault", Id: "h1"}); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _, _ = h.Release(context.Background(), &agentpb.HoldRequest{Id: "h1"}) }()
	r := prometheus.NewRegistry()
	r.MustRegister(h.Collector())
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				found[f.GetName()+"/"+l.GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	for name, want := range map[string]float64{
		"holdfast_agent_sources/ready": 1, "holdfast_agent_holds/operator": 1, "holdfast_agent_hold_events_total/mounted": 1,
	} {
		if found[name] != want {
			t.Errorf("%s is %v in %v", name, found[name], found)
		}
	}
}
