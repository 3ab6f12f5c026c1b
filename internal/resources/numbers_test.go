// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

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
