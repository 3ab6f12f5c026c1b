// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// nodeConnections tells what is set for the connections of nodes.
func nodeConnections(c *cluster.Cluster) map[string]map[string]string {
	all := map[string]map[string]string{}
	for x := range schema.NodeConnections.All(c.Store.Snapshot()) {
		all[string(x.Pair.A)+"-"+string(x.Pair.B)] = x.Props.Map()
	}
	return all
}

func TestNodeConnectionsLiveAsLongAsTheirProperties(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	t.Cleanup(c.Check)
	for _, name := range []string{"Alpha", "beta", "gamma"} {
		c.Register(name)
	}
	modify := func(a, b string, change model.PropsChange) []errs.Notice {
		t.Helper()
		notices, err := c.Inventory.ModifyNodeConnection(t.Context(), a, b, change)
		if err != nil {
			t.Fatal(err)
		}
		return notices
	}
	want := func(all map[string]map[string]string) {
		t.Helper()
		if diff := cmp.Diff(all, nodeConnections(c)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	none := map[string]map[string]string{}
	modify("alpha", "beta", model.PropsChange{Delete: []string{"Aux/none"}})
	want(none)
	modify("beta", "ALPHA", model.PropsChange{Set: map[string]string{"/Paths/p1/Alpha": "default", "DrbdOptions/Net/ping-int": "7"}})
	modify("alpha", "beta", model.PropsChange{Set: map[string]string{"Paths/p1/beta": "default"}, Delete: []string{"DrbdOptions/Net/ping-int"}})
	modify("alpha", "gamma", model.PropsChange{Set: map[string]string{"Aux/far": "yes"}})
	want(map[string]map[string]string{
		"alpha-beta": {"Paths/p1/Alpha": "default", "Paths/p1/beta": "default"}, "alpha-gamma": {"Aux/far": "yes"},
	})
	notices := modify("alpha", "beta", model.PropsChange{DeleteNamespaces: []string{"Paths/p1"}})
	if len(notices) != 2 || notices[0].Kind != errs.PropertyRemoved || notices[0].Object != errs.NodeConnection {
		t.Errorf("the notices are %+v", notices)
	}
	want(map[string]map[string]string{"alpha-gamma": {"Aux/far": "yes"}})
	if err := c.Inventory.DeleteNode(t.Context(), "gamma"); err != nil {
		t.Fatal(err)
	}
	want(none)
}

func TestNodeConnectionsRefuseWhatCannotBe(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	c.Register("alpha")
	c.Register("beta")
	for _, x := range []struct {
		what, a, b, key, value string
		kind                   errs.Kind
		says                   string
	}{
		{"a node that is not there", "alpha", "none", "Aux/a", "1", errs.NotFound, "node none does not exist (register it first: node create none ADDRESS)"},
		{"another that is not there", "none", "alpha", "Aux/a", "1", errs.NotFound, "node none does not exist (register it first: node create none ADDRESS)"},
		{"a node with itself", "alpha", "ALPHA", "Aux/a", "1", errs.Invalid, "node alpha has no connection with itself (name two different nodes)"},
		{
			"a path elsewhere", "alpha", "beta", "Paths/p/gamma", "default", errs.Invalid,
			`the path p cannot be set: the property "Paths/p/gamma" names the node gamma, which is not an end of the connection (name alpha or beta)`,
		},
		{
			"a path over no interface", "alpha", "beta", "Paths/p/beta", "eth9", errs.Invalid,
			"the path p cannot be set: node beta has no network interface eth9 (use one of its interfaces: default)",
		},
		{
			"a value that is none", "alpha", "beta", "DrbdOptions/Net/ping-int", "often", errs.Invalid,
			`the property "DrbdOptions/Net/ping-int" of node connections cannot be set to "often": the value is not allowed (use a whole number from 1 to 120 (seconds))`,
		},
	} {
		t.Run(x.what, func(t *testing.T) {
			_, err := c.Inventory.ModifyNodeConnection(t.Context(), x.a, x.b, model.PropsChange{Set: map[string]string{"Aux/fine": "1", x.key: x.value}})
			if e := errs.As(err); e == nil || e.Kind != x.kind || e.Error() != x.says {
				t.Errorf("got  %v\nwant %s", err, x.says)
			}
		})
	}
	if all := nodeConnections(c); len(all) != 0 {
		t.Errorf("what was refused has left %v", all)
	}
}
