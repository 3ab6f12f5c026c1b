// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// poolDefinitions tells which pool definitions there are, with what is set for each.
func poolDefinitions(c *cluster.Cluster) []string {
	var all []string
	for _, d := range schema.PoolDefinitionsOf(c.Store.Snapshot()) {
		text := string(d.Name)
		for k, v := range d.Props.All() {
			text += fmt.Sprintf(" %s=%s", k, v)
		}
		all = append(all, text)
	}
	return all
}

func TestPoolDefinitionsAreThereWithTheirPools(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 2})
	t.Cleanup(c.Check)
	want := func(list ...string) {
		t.Helper()
		if diff := cmp.Diff(list, poolDefinitions(c)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	want("data", "DfltDisklessStorPool", "DfltStorPool")
	if _, err := c.Inventory.CreatePoolDefinition(t.Context(), "Fast", map[string]string{"/Aux/why": "nvme"}); err != nil {
		t.Fatal(err)
	}
	for _, change := range []model.PropsChange{
		{Set: map[string]string{"MaxOversubscriptionRatio": "2", "Aux/a": "1"}}, {Delete: []string{"Aux/a"}},
	} {
		if _, err := c.Inventory.ModifyPoolDefinition(t.Context(), "DATA", change); err != nil {
			t.Fatal(err)
		}
	}
	want("data MaxOversubscriptionRatio=2", "DfltDisklessStorPool", "DfltStorPool", "Fast Aux/why=nvme")

	c.AddPool("n1", "fast")
	for _, p := range []struct{ node, pool string }{{"n1", "fast"}, {"n2", "data"}} {
		if err := c.Inventory.DeletePool(t.Context(), p.node, p.pool); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Inventory.DeletePoolDefinition(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	want("data MaxOversubscriptionRatio=2", "DfltDisklessStorPool", "DfltStorPool")
}

func TestPoolDefinitionsRefuseWhatCannotBe(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 2})
	create := func(name, key, value string) error {
		_, err := c.Inventory.CreatePoolDefinition(t.Context(), name, map[string]string{key: value})
		return err
	}
	modify := func(name, key, value string) error {
		_, err := c.Inventory.ModifyPoolDefinition(t.Context(), name, model.PropsChange{Set: map[string]string{key: value}})
		return err
	}
	remove := func(name string) error { return c.Inventory.DeletePoolDefinition(t.Context(), name) }
	for _, x := range []struct {
		what string
		err  error
		kind errs.Kind
		says string
	}{
		{"a name that is none", create("a", "Aux/a", "1"), errs.Invalid, ""},
		{"a name that a pool has", create("DATA", "Aux/a", "1"), errs.Exists, "storage pool definition data exists already"},
		{"a backend", create("fast", "StorDriver/StorPoolName", "vg"), errs.Invalid, ""},
		{
			"a backend", modify("data", "StorDriver/LvmVg", "vg"), errs.Invalid,
			`the property "StorDriver/LvmVg" cannot be set for all storage pools of a name: it says where the volumes of one pool lie (give it when the pool is created)`,
		},
		{"a key of another object", modify("data", "TcpPortAutoRange", "1-2"), errs.Invalid, ""},
		{"none", modify("none", "Aux/a", "1"), errs.NotFound, "storage pool definition none does not exist: no node has a storage pool of that name"},
		{"none", remove("none"), errs.NotFound, "storage pool definition none does not exist: no node has a storage pool of that name"},
		{
			"one with pools", remove("data"), errs.HasChildren,
			"storage pool definition data cannot be deleted: there are pools of that name on n1, n2 (delete those first)",
		},
		{"the default", remove("dfltstorpool"), errs.Protected, "storage pool definition DfltStorPool cannot be deleted: every cluster has it"},
	} {
		t.Run(x.what, func(t *testing.T) {
			if e := errs.As(x.err); e == nil || e.Kind != x.kind || x.says != "" && e.Error() != x.says {
				t.Errorf("got  %v\nwant %s", x.err, x.says)
			}
		})
	}
}
