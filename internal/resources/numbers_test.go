// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func TestANodeIDIsNotUsedAgainWhileAPeerMayRememberIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2", "n3")...)
	r.StopAgent("n1")
	r.remove("vol", "n3")
	r.create("vol", on("n3")...)
	if id := *r.row("vol", "n3").NodeID; id != 3 {
		t.Errorf("the new replica has the node id %d, while n1 knows who had 2", id)
	}
	r.remove("vol", "n3")
	again := on("n3")
	again[0].NodeID = new(int32(2))
	_, err := r.Resources.Create(t.Context(), "vol", again)
	refused(t, err, errs.Exhausted, "resource vol cannot use the node id 2 again yet", "node n1 has not confirmed")
	if errs.As(err).Attr != errs.NodeID {
		t.Errorf("the error is about attribute %d", errs.As(err).Attr)
	}
	r.StartAgent("n1")
	r.Until(func() bool {
		d := schema.Definitions.Revision(r.Store.Snapshot(), "vol")
		st, _ := r.Observed.Resource(model.ResourceID{Definition: "vol", Node: "n1"})
		return st.Current && st.Phase == observed.Ready && st.Generation >= uint64(d)
	})
	r.create("vol", again...)
	if d, _ := schema.Definitions.Get(r.Store.Snapshot(), "vol"); len(d.Retired) != 1 || d.Retired[0].NodeID != 3 {
		t.Errorf("retired: %+v", d.Retired)
	}
}

// TestANodeIDIsNotUsedAgainBeforeItsPeersHaveCarriedOutThatItIsGone has a peer that is there,
// and still busy with an older assignment.
func TestANodeIDIsNotUsedAgainBeforeItsPeersHaveCarriedOutThatItIsGone(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2", "n3")...)
	hold := r.Agents["n1"].HoldApplies("vol")
	r.remove("vol", "n3")
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := on("n3")
	again[0].NodeID = new(int32(2))
	_, err := r.Resources.Create(t.Context(), "vol", again)
	refused(t, err, errs.Exhausted, "resource vol cannot use the node id 2 again yet", "node n1 has not confirmed")
	hold.Release()
	r.Until(func() bool {
		_, err := r.Resources.Create(t.Context(), "vol", again)
		return err == nil
	})
}

func TestNodeIDsComeBackWhenAllPeersHaveForgottenThem(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	for range 100 {
		r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client})
		r.remove("vol", "n2")
	}
	if d, _ := schema.Definitions.Get(r.Store.Snapshot(), "vol"); len(d.Retired) != 31 {
		t.Errorf("%d node ids are retired", len(d.Retired))
	}
	r.StopAgent("n1")
	_, err := r.Resources.Create(t.Context(), "vol", []resources.NewResource{{Node: "n2", Kind: schema.Client}})
	refused(t, err, errs.Exhausted, "again yet", "node n1 has not confirmed")
}

func TestThereAreNoMoreReplicasThanDRBDHasNodeIDs(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 33})
	r.definition("vol", mib)
	if _, err := r.autoplace("vol", count(32)); err != nil {
		t.Fatal(err)
	}
	_, err := r.autoplace("vol", count(33))
	refused(t, err, errs.Exhausted, "resource vol has no free node id", "it has 32 replicas")
}

// taken is a host that has numbers in use for something else.
type taken struct{ ports, minors []uint32 }

func (k taken) Watch(ctx context.Context, changed func(ports, minors []uint32)) {
	changed(k.ports, k.minors)
	<-ctx.Done()
}

// crowded starts a cluster whose hosts have told what numbers they use.
func crowded(t *testing.T, hosts map[string]taken) *rig {
	t.Helper()
	r := start(t, cluster.Options{Nodes: len(hosts), Agent: func(a *fakeagent.Agent) { a.Numbers = hosts[a.Node] }})
	r.Until(func() bool {
		for node := range hosts {
			if _, told := r.Observed.Host(model.NodeKey(node)); !told {
				return false
			}
		}
		return true
	})
	return r
}

func TestNumbersThatHostsUseForSomethingElseArePassedOver(t *testing.T) {
	r := crowded(t, map[string]taken{
		"n1": {ports: []uint32{7000, 7002}, minors: []uint32{1000}},
		"n2": {ports: []uint32{22, 7000}, minors: []uint32{1001, 1003}},
	})
	for i, want := range []struct {
		minor, port1, port2 int32
	}{{1002, 7001, 7001}, {1004, 7003, 7002}, {1005, 7004, 7003}} {
		name := fmt.Sprintf("vol-%d", i)
		r.definition(name, mib)
		r.create(name, on("n1", "n2")...)
		vd := slices.Collect(schema.VolumesOf(r.Store.Snapshot(), model.DefinitionName(name).Key()))[0]
		if got := [3]int32{*vd.Minor, r.row(name, "n1").Ports[0], r.row(name, "n2").Ports[0]}; got != [3]int32{want.minor, want.port1, want.port2} {
			t.Errorf("%s has the minor and ports %v, want %v", name, got, want)
		}
	}
}

func TestARangeThatOthersHaveUsedUpSaysSo(t *testing.T) {
	r := crowded(t, map[string]taken{"n1": {ports: []uint32{7001, 7002}, minors: []uint32{5, 6, 7}}})
	r.settings(map[string]string{"TcpPortAutoRange": "7000-7002", "MinorNrAutoRange": "5-7"})
	r.definition("vol", mib)
	_, err := r.Resources.Create(t.Context(), "vol", on("n1"))
	refused(t, err, errs.Exhausted, "there is no free minor number", "all 3 of the range 5-7 are used, 3 of them for something else", "MinorNrAutoRange")
	r.settings(map[string]string{"MinorNrAutoRange": "5-9"})
	r.create("vol", on("n1")...)
	r.definition("next", mib)
	_, err = r.Resources.Create(t.Context(), "next", on("n1"))
	refused(t, err, errs.Exhausted, "there is no free TCP port on node n1", "all 3 of the range 7000-7002 are used, 2 of them for something else")
}
