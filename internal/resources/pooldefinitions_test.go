// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

func TestPoolsInheritFromTheirDefinition(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 1, PoolSize: 100 * gib})
	r.group("once", count(1))
	set := func(props map[string]string) model.PropsChange { return model.PropsChange{Set: props} }
	largest := func() string {
		t.Helper()
		info, err := r.Resources.QuerySize("once", model.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return model.FormatSize(info.MaxVolume)
	}
	r.settings(map[string]string{"MaxOversubscriptionRatio": "3"})
	same(t, "as the controller says", largest(), "300 GiB")
	if _, err := r.Inventory.ModifyPoolDefinition(t.Context(), cluster.Pool, set(map[string]string{"MaxOversubscriptionRatio": "2"})); err != nil {
		t.Fatal(err)
	}
	same(t, "as the definition says", largest(), "200 GiB")
	if _, err := r.Inventory.ModifyPool(t.Context(), "n1", cluster.Pool, set(map[string]string{"MaxOversubscriptionRatio": "1"})); err != nil {
		t.Fatal(err)
	}
	same(t, "as the pool itself says", largest(), "100 GiB")

	if _, err := r.Inventory.ModifyPoolDefinition(t.Context(), cluster.Pool, set(map[string]string{"AutoplaceTarget": "no"})); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resources.QuerySize("once", model.Filter{})
	if err == nil {
		t.Error("a pool is used that its definition has taken out")
	}
}
