// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// TestVerifyFindsWhatIsWrong damages states behind the store's back.
func TestVerifyFindsWhatIsWrong(t *testing.T) {
	type rows = map[string]any
	type toggle = func(at int, key string)
	for _, c := range []struct {
		what       string
		collection string
		how        func(rows rows, drop func(string), index, total toggle)
		want       []string
	}{
		{"nothing", "nodes", func(rows, func(string), toggle, toggle) {}, nil},
		{"a missing parent", "nodes", func(_ rows, drop func(string), _, _ toggle) { drop("a\x00") }, []string{
			"replicas d/a: refers to nodes a, which is missing",
			"replicas e/a: refers to nodes a, which is missing",
		}},
		{"an index entry too many", "replicas", func(_ rows, _ func(string), index, _ toggle) { index(1, "x\x00d\x00a\x00") }, []string{
			"replicas : index definition has an entry of no row: x",
		}},
		{"an index entry too few", "replicas", func(_ rows, _ func(string), index, _ toggle) { index(1, "d\x00d\x00a\x00") }, []string{
			"replicas : index definition lacks the entry d",
		}},
		{"a wrong total", "replicas", func(_ rows, _ func(string), _, total toggle) { total(0, "a\x00"); total(0, "x\x00") }, []string{
			"replicas : total promised of a is 12345, a recount gives 3",
			"replicas : total promised of x is 12345, a recount gives 0",
		}},
		{"a row under another key", "nodes", func(r rows, _ func(string), _, _ toggle) { r["b"].(*node).Name = "c" }, []string{
			"nodes b: holds the row c",
		}},
		{"a number given twice", "replicas", func(r rows, _ func(string), _, _ toggle) { r["e/a"].(*replica).Ports[0] = 7000 }, []string{
			"replicas : index port has an entry of no row: a/7001",
			"replicas : index port lacks the entry a/7000",
			"replicas e/a: shares port a/7000 with d/a",
		}},
		{"a row that does not read back", "nodes", func(r rows, _ func(string), _, _ toggle) {
			r["b"].(*node).Labels = map[string]string{"\xff": ""}
		}, []string{
			`nodes b: is a row that cannot be stored: nodes b cannot be stored: it has the string "\xff", which is not UTF-8`,
		}},
	} {
		sh := newShop()
		s, err := store.Open(t.Context(), kvtest.NewMemory(), sh.all())
		if err != nil {
			t.Fatal(err)
		}
		must(t, s, func(tx *store.Tx) error {
			return sh.insertAll(tx, "a", "b", aReplica("d", "a", 1, 7000), aReplica("e", "a", 2, 7001))
		})
		s.Damage(c.collection, c.how)
		var got []string
		for _, p := range store.Verify(s.Snapshot()) {
			got = append(got, p.String())
		}
		slices.Sort(got)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, d)
		}
		_ = s.Close()
	}
}
