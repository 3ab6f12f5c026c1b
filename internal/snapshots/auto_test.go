// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func TestAutomaticSnapshotsAreTakenInTimeAndKeptInNumber(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, WithoutLoops: true, Agent: func(a *fakeagent.Agent) { a.Layers = []model.Layer{model.Storage} }})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.Snapshots.Now = func() time.Time { return now }
	set := func(k, v string) {
		t.Helper()
		if _, err := r.Catalog.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{
			Props: model.PropsChange{Set: map[string]string{k: v}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	pass := func(later time.Duration, want string) {
		t.Helper()
		now = now.Add(later)
		r.Snapshots.TakeDue(t.Context())
		r.wantParts("vol", want)
	}
	r.resource("vol", []int64{gib}, "n1")
	pass(time.Hour, "")
	if _, err := r.Inventory.ModifySettings(t.Context(), model.PropsChange{Set: map[string]string{"AutoSnapshot/Keep": "2"}}); err != nil {
		t.Fatal(err)
	}
	set("AutoSnapshot/RunEvery", "10")
	const taken = " taken: n1 taken"
	pass(0, "autosnap-00001"+taken)
	pass(9*time.Minute, "autosnap-00001"+taken)
	pass(time.Minute, "autosnap-00001"+taken+"; autosnap-00002"+taken)
	pass(time.Hour, "autosnap-00002"+taken+"; autosnap-00003"+taken)
	r.take("vol", "mine")
	r.StopAgent("n1")
	pass(time.Hour, "autosnap-00002"+taken+"; autosnap-00003"+taken+"; mine"+taken)
	r.StartAgent("n1")
	pass(0, "autosnap-00003"+taken+"; autosnap-00004"+taken+"; mine"+taken)
	r.Agents["n1"].FailCopies("vol", -1, nil)
	now = now.Add(time.Hour)
	r.Snapshots.TakeDue(t.Context())
	r.untilParts("vol", "autosnap-00003"+taken+"; autosnap-00004"+taken+"; autosnap-00005 failed; mine"+taken)
	r.Agents["n1"].FailCopies("vol", 0, nil)
	pass(time.Minute, "autosnap-00003"+taken+"; autosnap-00004"+taken+"; autosnap-00005 failed; mine"+taken)
	pass(time.Hour, "autosnap-00004"+taken+"; autosnap-00006"+taken+"; mine"+taken)
	set("AutoSnapshot/Keep", "1")
	pass(0, "autosnap-00006"+taken+"; mine"+taken)
	set("AutoSnapshot/RunEvery", "0")
	pass(24*time.Hour, "autosnap-00006"+taken+"; mine"+taken)
}

func TestAnAutomaticSnapshotThatCannotBeTakenIsLoggedOnce(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, WithoutLoops: true, Agent: func(a *fakeagent.Agent) { a.Layers = []model.Layer{model.Storage} }})
	var log bytes.Buffer
	r.Snapshots.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.resource("vol", []int64{gib}, "n1")
	if _, err := r.Inventory.ModifySettings(t.Context(), model.PropsChange{Set: map[string]string{"AutoSnapshot/RunEvery": "10"}}); err != nil {
		t.Fatal(err)
	}
	now := r.Snapshots.Now()
	r.Snapshots.Now = func() time.Time { return now }
	for outage := range 2 {
		r.StopAgent("n1")
		for range 3 {
			r.Snapshots.TakeDue(t.Context())
		}
		if n := strings.Count(log.String(), "could not be taken"); n != outage+1 {
			t.Errorf("after %d outages it was logged %d times: %s", outage+1, n, log.String())
		}
		r.StartAgent("n1")
		r.Snapshots.TakeDue(t.Context())
		now = now.Add(time.Hour)
	}
	r.wantParts("vol", "autosnap-00001 taken: n1 taken; autosnap-00002 taken: n1 taken")
}
