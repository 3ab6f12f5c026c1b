// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// quorum is the quorum of a definition.
func (r *rig) quorum(name string) string {
	d, _ := schema.FindDefinition(r.Store.Snapshot(), name)
	v, _ := d.Props.Get("DrbdOptions/Resource/quorum")
	return v
}

func (r *rig) votes(name, replicas, quorum string) {
	r.t.Helper()
	r.Until(func() bool { return r.replicas(name) == replicas })
	if got := r.quorum(name); got != quorum {
		r.t.Errorf("with %s its quorum is %q, not %q", replicas, got, quorum)
	}
}

func TestTwoDisksGetATieBreakerAndThreeNeedNone(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3, TieBreakers: true})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.votes("vol", "n1 diskful", "")
	made := r.create("vol", on("n2")...)
	if !noticed(made.Notices, errs.TieBreakerCreated) {
		t.Errorf("notices: %v", made.Notices)
	}
	r.votes("vol", "n1 diskful, n2 diskful, n3 tie-breaker", "majority")
	if _, err := r.Resources.AddDisk(t.Context(), "vol", "n3", resources.DiskChange{Pool: cluster.Pool}); err != nil {
		t.Fatal(err)
	}
	r.votes("vol", "n1 diskful, n2 diskful, n3 diskful", "majority")
	notices, err := r.Resources.Delete(t.Context(), "vol", "n3")
	if err != nil || !noticed(notices, errs.NoTieBreaker) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.votes("vol", "n1 diskful, n2 diskful", "off")
}

func TestATieBreakerStaysWhileItIsNeededAndIsNotMadeAgainstAWish(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3, TieBreakers: true})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	const three = "n1 diskful, n2 diskful, n3 tie-breaker"
	r.votes("vol", three, "majority")
	notices, err := r.Resources.Delete(t.Context(), "vol", "n3", true)
	if err != nil || !noticed(notices, errs.TieBreakerTakeover) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.votes("vol", three, "majority")
	if _, err := r.Resources.MakeAvailable(t.Context(), "vol", "n3", resources.Availability{}); err != nil {
		t.Fatal(err)
	}
	r.votes("vol", "n1 diskful, n2 diskful, n3 client", "majority")
	if notices, err = r.Resources.Delete(t.Context(), "vol", "n3"); err != nil || !noticed(notices, errs.TieBreakerTakeover) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.votes("vol", three, "majority")
	if _, err = r.Resources.Delete(t.Context(), "vol", "n3"); err != nil {
		t.Fatal(err)
	}
	r.votes("vol", "n1 diskful, n2 diskful", "off")
	d, _ := schema.FindDefinition(r.Store.Snapshot(), "vol")
	if v, _ := d.Props.Get("DrbdOptions/auto-add-quorum-tiebreaker"); v != "False" {
		t.Errorf("its properties are %v", d.Props)
	}
}

func TestATieBreakerBecomesTheReplicaThatIsAskedFor(t *testing.T) {
	for _, kind := range []schema.ResourceKind{schema.Client, schema.Diskful} {
		r := start(t, cluster.Options{Nodes: 3, TieBreakers: true})
		r.definition("vol", gib)
		r.create("vol", on("n1", "n2")...)
		made := r.create("vol", resources.NewResource{Node: "n3", Kind: kind, Props: map[string]string{"StorPoolName": cluster.Pool}})
		if len(made.Placed) != 1 || made.Placed[0].Kind != kind {
			t.Errorf("made %+v", made)
		}
		r.votes("vol", "n1 diskful, n2 diskful, n3 "+string(kind), "majority")
	}
}

func TestATieBreakerGoesWithTheReasonForIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3, TieBreakers: true})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	notices, err := r.Resources.Delete(t.Context(), "vol", "n2")
	if err != nil || !noticed(notices, errs.TieBreakerRemoved) {
		t.Errorf("notices %v, error %v", notices, err)
	}
	r.votes("vol", "n1 diskful", "off")
	if _, err := r.Resources.DeleteDefinition(t.Context(), "vol"); err != nil {
		t.Fatal(err)
	}
}
