// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// connections tells what is set for the connections of a definition.
func (r *rig) connections(name string) map[model.NodePairID]map[string]string {
	all := map[model.NodePairID]map[string]string{}
	for c := range schema.ResourceConnections.All(r.Store.Snapshot()) {
		if c.Definition == model.DefinitionName(name).Key() {
			all[c.Pair] = c.Props.Map()
		}
	}
	return all
}

func TestConnectionsLiveAsLongAsTheirProperties(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	const twoPrimaries, path = "DrbdOptions/Net/allow-two-primaries", "Paths/one/N2"
	modify := func(a, b string, c model.PropsChange) []errs.Notice {
		t.Helper()
		notices, err := r.Resources.ModifyConnection(t.Context(), "Vol", a, b, c)
		if err != nil {
			t.Fatal(err)
		}
		return notices
	}
	modify("n1", "n2", model.PropsChange{})
	if all := r.connections("vol"); len(all) != 0 {
		t.Errorf("an edit that sets nothing has left %v", all)
	}
	modify("N2", "n1", model.PropsChange{Set: map[string]string{twoPrimaries: "yes"}})
	modify("n1", "n2", model.PropsChange{Set: map[string]string{path: "default"}})
	pair := model.PairOf("n1", "n2")
	if got := r.connections("vol")[pair]; len(got) != 2 || got[twoPrimaries] != "yes" || got[path] != "default" {
		t.Errorf("both edits together are %v", got)
	}
	noted(t, modify("n1", "n2", model.PropsChange{Delete: []string{twoPrimaries, "Aux/none"}}), errs.PropertyWasUnset, "Aux/none")
	modify("n1", "n2", model.PropsChange{DeleteNamespaces: []string{"Paths"}})
	if all := r.connections("vol"); len(all) != 0 {
		t.Errorf("the last property is gone, and there is still %v", all)
	}

	modify("n1", "n2", model.PropsChange{Set: map[string]string{"Aux/a": "1"}})
	if _, err := r.Resources.Delete(t.Context(), "vol", "n2"); err != nil {
		t.Fatal(err)
	}
	if all := r.connections("vol"); len(all) != 0 {
		t.Errorf("one end is gone, and there is still %v", all)
	}
}

func TestConnectionsRefuseWhatCannotBe(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	for _, c := range []struct {
		what, name, a, b string
		key, value       string
		kind             errs.Kind
		says             string
	}{
		{"a definition that is not there", "none", "n1", "n2", "Aux/a", "1", errs.NotFound, "resource definition none"},
		{"a node that is not there", "vol", "n1", "n9", "Aux/a", "1", errs.NotFound, "node n9"},
		{"a node without a replica", "vol", "n1", "n3", "Aux/a", "1", errs.NotFound, "resource vol does not exist on node n3"},
		{"a node with itself", "vol", "n1", "N1", "Aux/a", "1", errs.Invalid, "node n1 has no connection with itself"},
		{"a key of another object", "vol", "n1", "n2", "PrefNic", "x", errs.Invalid, "PrefNic"},
		{"a path over a third node", "vol", "n1", "n2", "Paths/one/n3", "default", errs.Invalid, "not an end of the connection"},
		{"a path over no interface", "vol", "n1", "n2", "Paths/one/n2", "eth9", errs.Invalid, "node n2 has no network interface eth9"},
	} {
		t.Run(c.what, func(t *testing.T) {
			change := model.PropsChange{Set: map[string]string{c.key: c.value, "Aux/fine": "yes"}}
			_, err := r.Resources.ModifyConnection(t.Context(), c.name, c.a, c.b, change)
			refused(t, err, c.kind, c.says)
		})
	}
	if all := r.connections("vol"); len(all) != 0 {
		t.Errorf("what was refused has left %v", all)
	}
}
