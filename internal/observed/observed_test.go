// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

var (
	alpha = model.ResourceID{Definition: "vol", Node: "alpha"}
	space = model.PoolID{Node: "alpha", Pool: "data"}
)

func resources(st observed.ResourceStatus) observed.Report {
	return observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{"vol": st}}
}

func pools(st observed.PoolStatus) observed.Report {
	return observed.Report{Pools: map[model.PoolKey]observed.PoolStatus{"data": st}}
}

// ready is a replica with one volume that is in use.
func ready(generation uint64) observed.ResourceStatus {
	return observed.ResourceStatus{
		Generation: generation,
		Phase:      observed.Ready,
		Volumes: []observed.VolumeStatus{{
			DevicePath: "/dev/drbd1000", BackingPath: "/dev/vg/vol_00000",
			Usable: new(int64(1 << 30)), Allocated: new(int64(1 << 20)),
			InUse: new(true), Holders: []string{"qemu"}, DiskState: "UpToDate", ResyncDone: new(12.5),
		}},
		DRBD: &observed.DRBDStatus{
			Role: "Primary", MayPromote: new(false), PromotionScore: new(int32(10101)), Quorum: new(true),
			Connections: []observed.DRBDConnection{{
				Node: "beta", State: "Connected", Role: "Secondary",
				DiskStates: map[model.VolumeNumber]string{0: "UpToDate"}, Replication: map[model.VolumeNumber]string{0: "Established"},
			}},
		},
	}
}

// online returns a state with node alpha ONLINE.
func online() *observed.State {
	s := observed.New(time.Now)
	s.Connect("alpha", observed.Facts{Uname: "alpha"}, false)
	s.Ready("alpha")
	return s
}

func TestNodeThatNeverCameIsOffline(t *testing.T) {
	s := observed.New(time.Now)
	if diff := cmp.Diff(observed.NodeStatus{Connection: observed.Offline}, s.Node("alpha")); diff != "" {
		t.Error(diff)
	}
	if _, ok := s.Resource(alpha); ok {
		t.Error("a resource of it is known")
	}
	if _, ok := s.Pool(space); ok {
		t.Error("a pool of it is known")
	}
}

func TestConnectionFollowsTheSession(t *testing.T) {
	clock := time.Unix(1000, 0)
	s := observed.New(func() time.Time { return clock })
	f := observed.Facts{Uname: "alpha.example", Version: "1.0", Providers: []model.Provider{model.LVM}}
	steps := []struct {
		name string
		do   func()
		want observed.NodeStatus
	}{
		{"ready without a session", func() { s.Ready("alpha") }, observed.NodeStatus{Connection: observed.Offline}},
		{
			"connect", func() { s.Connect("alpha", f, false) },
			observed.NodeStatus{Connection: observed.Connected, Since: time.Unix(1002, 0), Heard: time.Unix(1002, 0), Facts: f},
		},
		{
			"ready", func() { s.Ready("alpha") },
			observed.NodeStatus{Connection: observed.Online, Since: time.Unix(1003, 0), Heard: time.Unix(1002, 0), Facts: f},
		},
		{
			"ready again", func() { s.Ready("alpha") },
			observed.NodeStatus{Connection: observed.Online, Since: time.Unix(1003, 0), Heard: time.Unix(1002, 0), Facts: f},
		},
		{
			"heartbeat", func() { s.Report("alpha", observed.Report{}) },
			observed.NodeStatus{Connection: observed.Online, Since: time.Unix(1003, 0), Heard: time.Unix(1005, 0), Facts: f},
		},
		{
			"disconnect", func() { s.Disconnect("alpha", "silent") },
			observed.NodeStatus{Connection: observed.Offline, Since: time.Unix(1006, 0), Heard: time.Unix(1005, 0), Facts: f, Reason: "silent"},
		},
		{
			"disconnect again", func() { s.Disconnect("alpha", "other") },
			observed.NodeStatus{Connection: observed.Offline, Since: time.Unix(1006, 0), Heard: time.Unix(1005, 0), Facts: f, Reason: "silent"},
		},
		{
			"late report", func() { s.Report("alpha", resources(ready(1))) },
			observed.NodeStatus{Connection: observed.Offline, Since: time.Unix(1006, 0), Heard: time.Unix(1005, 0), Facts: f, Reason: "silent"},
		},
	}
	for _, step := range steps {
		clock = clock.Add(time.Second)
		step.do()
		if diff := cmp.Diff(step.want, s.Node("alpha")); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
	if _, ok := s.Resource(alpha); ok {
		t.Error("a report without a session was taken")
	}
}

func TestStatusOfANodeThatWentAwayHidesWhatCanHaveChanged(t *testing.T) {
	s := online()
	s.Report("alpha", resources(ready(3)))
	got, ok := s.Resource(alpha)
	want := ready(3)
	want.Current = true
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Fatalf("online: %v %s", ok, diff)
	}
	if used, known := got.InUse(); !used || !known {
		t.Errorf("online: in use %v, known %v", used, known)
	}

	s.Disconnect("alpha", "gone")
	stale, ok := s.Resource(alpha)
	want = observed.ResourceStatus{Generation: 3, Phase: observed.Ready, Volumes: []observed.VolumeStatus{{
		DevicePath: "/dev/drbd1000", BackingPath: "/dev/vg/vol_00000", Usable: new(int64(1 << 30)),
	}}}
	if diff := cmp.Diff(want, stale); diff != "" || !ok {
		t.Fatalf("offline: %v %s", ok, diff)
	}
	if used, known := stale.InUse(); used || known {
		t.Errorf("offline: in use %v, known %v", used, known)
	}
	if got.Volumes[0].InUse == nil {
		t.Error("the status that was handed out before has changed")
	}
}

func TestSpaceOfANodeThatWentAwayIsUnknown(t *testing.T) {
	s := online()
	st := observed.PoolStatus{Total: new(int64(100)), Free: new(int64(60)), Allocated: new(int64(40)), Granularity: 4096, SupportsSnapshots: true}
	s.Report("alpha", pools(st))
	got, ok := s.Pool(space)
	if !ok || !got.Current || *got.Free != 60 || got.At.IsZero() {
		t.Fatalf("online: %v %+v", ok, got)
	}
	s.Disconnect("alpha", "gone")
	for _, when := range []string{"offline", "connected again", "online again, not said again"} {
		got, ok := s.Pool(space)
		if !ok || got.Current || got.Total != nil || got.Free != nil || got.Allocated != nil || got.Granularity != 4096 {
			t.Errorf("%s: %v %+v", when, ok, got)
		}
		if when == "offline" {
			s.Connect("alpha", observed.Facts{}, false)
		} else {
			s.Ready("alpha")
		}
	}
	s.Report("alpha", pools(st))
	if got, _ := s.Pool(space); !got.Current || got.Free == nil {
		t.Errorf("said again: %+v", got)
	}
}

func TestResumedSessionMakesCurrentOnlyWhatItsChainSaid(t *testing.T) {
	s := online()
	s.Report("alpha", resources(ready(3)))
	s.Connect("alpha", observed.Facts{}, false) // a new chain, in which vol is not said again
	s.Ready("alpha")
	s.Report("alpha", pools(observed.PoolStatus{Free: new(int64(7))}))
	s.Disconnect("alpha", "gone")
	for range 2 { // a resumed session that breaks before it was ready is part of the chain
		s.Connect("alpha", observed.Facts{}, true)
		if got, _ := s.Pool(space); got.Current {
			t.Error("current before the agent has said what changed")
		}
	}
	s.Ready("alpha")
	if got, _ := s.Pool(space); !got.Current || *got.Free != 7 {
		t.Errorf("pool, said in the chain: %+v", got)
	}
	if got, _ := s.Resource(alpha); got.Current {
		t.Error("resource, said before the chain, is current")
	}
}

func TestInUse(t *testing.T) {
	vol := func(used ...*bool) (list []observed.VolumeStatus) {
		for _, u := range used {
			list = append(list, observed.VolumeStatus{InUse: u})
		}
		return list
	}
	yes, no := new(true), new(false)
	for _, c := range []struct {
		name        string
		st          observed.ResourceStatus
		used, known bool
	}{
		{"not current", observed.ResourceStatus{Phase: observed.Ready, Volumes: vol(no)}, false, false},
		{"nothing said yet", observed.ResourceStatus{Current: true}, false, false},
		{"no volumes", observed.ResourceStatus{Current: true, Phase: observed.Ready}, false, true},
		{"destroyed", observed.ResourceStatus{Current: true, Phase: observed.Destroyed}, false, true},
		{"none used", observed.ResourceStatus{Current: true, Volumes: vol(no, no)}, false, true},
		{"one unknown", observed.ResourceStatus{Current: true, Volumes: vol(no, nil)}, false, false},
		{"one unknown, one used", observed.ResourceStatus{Current: true, Volumes: vol(nil, yes)}, true, true},
	} {
		if used, known := c.st.InUse(); used != c.used || known != c.known {
			t.Errorf("%s: in use %v, known %v; want %v, %v", c.name, used, known, c.used, c.known)
		}
	}
}

func TestIteratorsYieldWhatOneNodeSaid(t *testing.T) {
	s := online()
	s.Connect("beta", observed.Facts{}, false)
	s.Report("alpha", resources(ready(1)))
	s.Report("beta", pools(observed.PoolStatus{}))
	count := func(node model.NodeKey) (r, p int) {
		for range s.Resources(node) {
			r++
		}
		for range s.Pools(node) {
			p++
		}
		return r, p
	}
	if r, p := count("alpha"); r != 1 || p != 0 {
		t.Errorf("alpha has %d resources and %d pools", r, p)
	}
	if r, p := count("beta"); r != 0 || p != 1 {
		t.Errorf("beta has %d resources and %d pools", r, p)
	}
	if r, p := count("gamma"); r != 0 || p != 0 {
		t.Errorf("gamma has %d resources and %d pools", r, p)
	}
	seen := map[model.NodeKey]observed.Connection{}
	for k, st := range s.Nodes() {
		seen[k] = st.Connection
	}
	if diff := cmp.Diff(map[model.NodeKey]observed.Connection{"alpha": observed.Online, "beta": observed.Connected}, seen); diff != "" {
		t.Error(diff)
	}
	s.ForgetNode("alpha")
	s.ForgetPool(model.PoolID{Node: "beta", Pool: "data"})
	if got := s.Node("alpha"); got.Connection != observed.Offline || got.Since != (time.Time{}) {
		t.Errorf("forgotten node: %+v", got)
	}
	if _, p := count("beta"); p != 0 {
		t.Error("a forgotten pool is still there")
	}
}

func TestWhatDRBDSaysIsANewsWhenAnyOfItChanges(t *testing.T) {
	for name, change := range map[string]func(*observed.ResourceStatus){
		"nothing":      nil,
		"role":         func(r *observed.ResourceStatus) { r.DRBD.Role = "Secondary" },
		"may promote":  func(r *observed.ResourceStatus) { r.DRBD.MayPromote = new(true) },
		"score":        func(r *observed.ResourceStatus) { r.DRBD.PromotionScore = nil },
		"quorum":       func(r *observed.ResourceStatus) { r.DRBD.Quorum = new(false) },
		"suspended":    func(r *observed.ResourceStatus) { r.DRBD.Suspended = true },
		"peers":        func(r *observed.ResourceStatus) { r.DRBD.Connections = nil },
		"peer":         func(r *observed.ResourceStatus) { r.DRBD.Connections[0].Node = "gamma" },
		"connection":   func(r *observed.ResourceStatus) { r.DRBD.Connections[0].State = "StandAlone" },
		"peer's role":  func(r *observed.ResourceStatus) { r.DRBD.Connections[0].Role = "Primary" },
		"peer's disk":  func(r *observed.ResourceStatus) { r.DRBD.Connections[0].DiskStates[0] = "Outdated" },
		"replication":  func(r *observed.ResourceStatus) { r.DRBD.Connections[0].Replication[0] = "SyncSource" },
		"resync":       func(r *observed.ResourceStatus) { r.Volumes[0].ResyncDone = new(13.0) },
		"DRBD is gone": func(r *observed.ResourceStatus) { r.DRBD = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := online()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.Report("alpha", resources(ready(1)))
			changes := s.Subscribe(ctx)
			next := ready(1)
			if change != nil {
				change(&next)
			}
			s.Report("alpha", resources(next))
			s.Report("alpha", pools(observed.PoolStatus{}))
			for c := range changes {
				if told := len(c.Resources) > 0; told != (change != nil) {
					t.Errorf("told of a change: %v", told)
				}
				break
			}
			if got, _ := s.Resource(alpha); cmp.Diff(next.DRBD, got.DRBD) != "" {
				t.Error(cmp.Diff(next.DRBD, got.DRBD))
			}
		})
	}
}
