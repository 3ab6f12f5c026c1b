// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func TestWrittenRowsAreFoundInEveryWay(t *testing.T) {
	s, sh, _ := openShop(t)
	r := must(t, s, func(tx *store.Tx) error {
		if tx.Revision() != 1 {
			t.Errorf("the first update has revision %d in its transaction", tx.Revision())
		}
		return sh.insertAll(tx, "a", "b", "c",
			aReplica("d2", "a", 10, 7000, 7001), aReplica("d1", "b", 5, 7000), aReplica("d1", "a", 1, 7003))
	})
	v := s.Snapshot()
	if r != 1 || v.Revision() != 1 || sh.nodes.Revision(v, "a") != 1 || sh.nodes.Revision(v, "x") != 0 {
		t.Errorf("revision %d, view %d, row %d", r, v.Revision(), sh.nodes.Revision(v, "a"))
	}
	if _, ok := sh.nodes.Get(v, "x"); ok || sh.nodes.Len(v) != 3 {
		t.Errorf("%d nodes, or one too many", sh.nodes.Len(v))
	}
	keys := func(seq func(func(replica) bool)) (all []replicaKey) {
		for r := range seq {
			all = append(all, r.Key)
		}
		return all
	}
	for what, c := range map[string]struct{ got, want []replicaKey }{
		"all":         {keys(sh.replicas.All(v)), []replicaKey{{"d1", "a"}, {"d1", "b"}, {"d2", "a"}}},
		"from":        {keys(sh.replicas.From(v, replicaKey{"d1", "b"})), []replicaKey{{"d1", "b"}, {"d2", "a"}}},
		"from absent": {keys(sh.replicas.From(v, replicaKey{"d1", "aa"})), []replicaKey{{"d1", "b"}, {"d2", "a"}}},
		"definition":  {keys(sh.byDef.Get(v, "d1")), []replicaKey{{"d1", "a"}, {"d1", "b"}}},
		"no such":     {keys(sh.byDef.Get(v, "d")), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if got := slices.Collect(sh.ports.Values(v, nodePort{"a", 7001})); !slices.Equal(got, []nodePort{{"a", 7001}, {"a", 7003}, {"b", 7000}}) {
		t.Errorf("ports from a/7001: %v", got)
	}
	if got := slices.Collect(sh.byNode.Values(v, "")); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("nodes with replicas: %v", got)
	}
	if got := keys(store.Children(sh.replicas, sh.nodes).Get(v, "a")); !slices.Equal(got, []replicaKey{{"d1", "a"}, {"d2", "a"}}) {
		t.Errorf("children of node a: %v", got)
	}
	pairs := 0
	for n, r := range sh.byNode.From(v, "") {
		if pairs++; n != r.Key.Node {
			t.Errorf("the index has %v under %s", r.Key, n)
		}
	}
	if one, ok := sh.ports.One(v, nodePort{"b", 7000}); !ok || one.Key != (replicaKey{"d1", "b"}) || pairs != 3 {
		t.Errorf("port b/7000 has %v; %d pairs", one.Key, pairs)
	}
	if sh.byNode.Len(v, "a") != 2 || sh.byNode.Len(v, "c") != 0 || !sh.byNode.Has(v, "b") || sh.byNode.Has(v, "c") {
		t.Error("the index by node counts wrongly")
	}
	if sh.promised.Of(v, "a") != 11 || sh.promised.Of(v, "c") != 0 {
		t.Errorf("promised: %d on a, %d on c", sh.promised.Of(v, "a"), sh.promised.Of(v, "c"))
	}
	sound(t, s)
}

func TestChildrenNeedTheirParents(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", aReplica("d", "a", 1)) })

	missing := refused[*store.ParentError](t, s, func(tx *store.Tx) error { return sh.insertAll(tx, aReplica("d", "x", 1)) })
	if missing.Error() != "replicas d/x needs nodes x, which does not exist" {
		t.Errorf("the message is %q", missing)
	}
	needed := refused[*store.ChildrenError](t, s, func(tx *store.Tx) error { return sh.nodes.Delete(tx, "a") })
	if needed.Error() != "nodes a is still needed by 1 of replicas: d/a" {
		t.Errorf("the message is %q", needed)
	}

	must(t, s, func(tx *store.Tx) error { return sh.nodes.Update(tx, node{Name: "a", Closing: true}) })
	closing := refused[*store.ParentError](t, s, func(tx *store.Tx) error { return sh.insertAll(tx, aReplica("e", "a", 1)) })
	if !closing.Closing || closing.Error() != "replicas e/a needs nodes a, which is being removed and takes no new references" {
		t.Errorf("the message is %q", closing)
	}
	// A reference that exists stays valid while its parent closes.
	must(t, s, func(tx *store.Tx) error { return sh.replicas.Update(tx, aReplica("d", "a", 2)) })
	must(t, s, func(tx *store.Tx) error {
		return errors.Join(sh.replicas.Delete(tx, replicaKey{"d", "a"}), sh.nodes.Delete(tx, "a"))
	})
	sound(t, s)
}

func TestDeletionNamesTheFirstChildrenAndCountsAll(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error {
		_ = sh.insertAll(tx, "a", "aa")
		for _, d := range []string{"g", "f", "e", "d", "c", "b", "a"} {
			_ = sh.insertAll(tx, aReplica(d, "a", 1), aReplica(d, "aa", 1))
		}
		return nil
	})
	err := refused[*store.ChildrenError](t, s, func(tx *store.Tx) error { return sh.nodes.Delete(tx, "a") })
	if err.Count != 7 || err.Error() != "nodes a is still needed by 7 of replicas: a/a, b/a, c/a, d/a, e/a, …" {
		t.Errorf("the message is %q", err)
	}
}

func TestUniqueValuesAreUnique(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", "b", aReplica("d", "a", 1, 7000, 7000, 7001)) })
	err := refused[*store.UniqueError](t, s, func(tx *store.Tx) error { return sh.insertAll(tx, aReplica("e", "a", 1, 6999, 7001)) })
	if err.Error() != "replicas e/a cannot have port a/7001: d/a has it" {
		t.Errorf("the message is %q", err)
	}
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, aReplica("e", "b", 1, 7000, 7001)) })
	must(t, s, func(tx *store.Tx) error { return sh.replicas.Update(tx, aReplica("d", "a", 1, 7001, 7002)) })
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, aReplica("f", "a", 1, 7000)) })
	_ = refused[*store.UniqueError](t, s, func(tx *store.Tx) error { return sh.replicas.Update(tx, aReplica("f", "a", 1, 7000, 7002)) })
	sound(t, s)
}

func TestRowsAreInsertedOnceAndUpdatedOnlyWhenThere(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a") })
	if err := refused[*store.ExistsError](t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a") }); err.Error() != "nodes a exists already" {
		t.Errorf("the message is %q", err)
	}
	_ = refused[*store.NotFoundError](t, s, func(tx *store.Tx) error { return sh.nodes.Update(tx, node{Name: "x"}) })
	if err := refused[*store.NotFoundError](t, s, func(tx *store.Tx) error { return sh.nodes.Delete(tx, "x") }); err.Error() != "nodes x does not exist" {
		t.Errorf("the message is %q", err)
	}
}

func TestFailedUpdateLeavesNoTrace(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", aReplica("d", "a", 7, 7000)) })
	reason := errors.New("changed my mind")
	_, err := s.Update(t.Context(), func(tx *store.Tx) error {
		if err := errors.Join(sh.replicas.Delete(tx, replicaKey{"d", "a"}), sh.insertAll(tx, "b", aReplica("e", "b", 9, 7000))); err != nil {
			t.Error(err)
		}
		if sh.promised.Of(tx, "b") != 9 || sh.promised.Of(tx, "a") != 0 || sh.ports.Has(tx, nodePort{"a", 7000}) {
			t.Error("the transaction does not see its own changes")
		}
		return reason
	})
	if !errors.Is(err, reason) {
		t.Errorf("the update answers %v", err)
	}
	must(t, s, func(tx *store.Tx) error {
		if sh.nodes.Len(tx) != 1 || sh.promised.Of(tx, "a") != 7 || !sh.ports.Has(tx, nodePort{"a", 7000}) || sh.byNode.Has(tx, "b") {
			t.Error("something of the failed update is there")
		}
		return nil
	})
	sound(t, s)
}

func TestPanicInAnUpdateDoesNotWedgeTheStore(t *testing.T) {
	s, sh, _ := openShop(t)
	func() {
		defer func() {
			if p := recover(); p != "oh" {
				t.Errorf("the panic came out as %v", p)
			}
		}()
		_, _ = s.Update(t.Context(), func(tx *store.Tx) error {
			_ = sh.insertAll(tx, "a")
			panic("oh")
		})
	}()
	if r := must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a") }); r != 1 {
		t.Errorf("the next update has revision %d", r)
	}
}

func TestTransactionIsOverWithItsUpdate(t *testing.T) {
	s, sh, _ := openShop(t)
	var kept *store.Tx
	must(t, s, func(tx *store.Tx) error { kept = tx; return sh.insertAll(tx, "a") })
	defer func() {
		if recover() == nil {
			t.Error("a transaction can be used after its update")
		}
	}()
	sh.nodes.Get(kept, "a")
}

func TestWritesOfOneRowInOneUpdateCollapse(t *testing.T) {
	s, sh, m := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", "gone", "back") })
	must(t, s, func(tx *store.Tx) error {
		return errors.Join(
			sh.nodes.Update(tx, node{Name: "a", Labels: map[string]string{"n": "1"}}),
			sh.nodes.Update(tx, node{Name: "a", Labels: map[string]string{"n": "2"}}),
			sh.nodes.Delete(tx, "gone"),
			sh.nodes.Delete(tx, "back"), sh.nodes.Insert(tx, node{Name: "back", Closing: true}),
			sh.nodes.Insert(tx, node{Name: "brief"}), sh.nodes.Delete(tx, "brief"))
	})
	for c, err := range s.Watch(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, ch := range c.Changes {
			k, before, after, ok := sh.nodes.Changed(ch)
			seen = append(seen, k)
			if !ok || (k == "gone") != (after == nil) || before == nil || k == "back" && !after.Closing || k == "a" && after.Labels["n"] != "2" {
				t.Errorf("change %s: %+v to %+v", ch.Text(), before, after)
			}
		}
		if !slices.Equal(seen, []string{"a", "gone", "back"}) {
			t.Errorf("changed: %v", seen)
		}
		break
	}
	// Nothing at all comes of a row that comes and goes.
	if r := must(t, s, func(tx *store.Tx) error {
		return errors.Join(sh.nodes.Insert(tx, node{Name: "brief"}), sh.nodes.Delete(tx, "brief"))
	}); r != 2 {
		t.Errorf("an update without effect has revision %d", r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, m.Peer(), sh.all())
	if v := s.Snapshot(); v.Revision() != 2 || sh.nodes.Len(v) != 2 || sh.nodes.Revision(v, "back") != 2 {
		t.Errorf("after reopening: revision %d, %d nodes", v.Revision(), sh.nodes.Len(v))
	}
}

func TestIterationShowsTheRowsAsTheyWereWhenItBegan(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error {
		return sh.insertAll(tx, "a", "b", "c", aReplica("d", "a", 1), aReplica("d", "c", 1))
	})
	for _, dirty := range []bool{false, true} {
		_, _ = s.Update(t.Context(), func(tx *store.Tx) error {
			if dirty {
				_ = sh.insertAll(tx, "bb")
				_ = sh.nodes.Delete(tx, "bb")
				_ = sh.replicas.Update(tx, aReplica("d", "a", 2))
			}
			seen := 0
			for r := range sh.byDef.Get(tx, "d") {
				seen++
				if err := errors.Join(sh.replicas.Delete(tx, r.Key), sh.insertAll(tx, aReplica("d", "b", 1))); err != nil && seen == 1 {
					t.Error(err)
				}
				for n := range sh.nodes.All(tx) {
					_ = sh.insertAll(tx, n.Name+"'")
				}
			}
			if seen != 2 || sh.nodes.Len(tx) != 9 {
				t.Errorf("dirty %v: %d replicas seen, %d nodes at the end", dirty, seen, sh.nodes.Len(tx))
			}
			return errors.New("enough")
		})
	}
}

func TestLowestFreeNumberIsFound(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error {
		return sh.insertAll(tx, "a", "b", "c", aReplica("d", "b", 1, 7000, 7001, 7002, 7005, 7006, 7008), aReplica("d", "a", 1, 7007, -1), aReplica("d", "c", 1, 0))
	})
	for _, c := range []struct {
		node         string
		lo, hi, want int // want -1000: none
	}{
		{"b", 7000, 7010, 7003},
		{"b", 6999, 7010, 6999},
		{"b", 7001, 7010, 7003},
		{"b", 7004, 7010, 7004},
		{"b", 7005, 7010, 7007},
		{"b", 7008, 7010, 7009},
		{"b", 7000, 7002, -1000},
		{"b", 7000, 7003, 7003},
		{"b", 7010, 7000, -1000},
		{"b", -5, 7010, -5},
		{"a", -1, 5, 0},
		{"c", 0, 0, -1000},
		{"c", -1, 0, -1},
		{"x", 1, 2, 1},
	} {
		got, ok := sh.ports.Free(s.Snapshot(), nodePort{c.node, c.lo}, nodePort{c.node, c.hi})
		if !ok {
			got = nodePort{c.node, -1000}
		}
		if got != (nodePort{c.node, c.want}) {
			t.Errorf("free on %s from %d to %d: %d, want %d", c.node, c.lo, c.hi, got.Port, c.want)
		}
	}
}

func TestUpdateLargerThanACommitIsRefused(t *testing.T) {
	s, sh, _ := openShop(t)
	many := func(n int) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			for i := range n {
				if err := sh.nodes.Insert(tx, node{Name: nodeName(i)}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := refused[*store.LimitError](t, s, many(100)); err.Error() != "the update has 100 rows, at most 99 are possible" {
		t.Errorf("the message is %q", err)
	}
	must(t, s, many(99))

	text := func(n int) map[string]string { return map[string]string{"text": string(make([]byte, n))} } // each byte takes 6 in JSON
	_ = refused[*store.LimitError](t, s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: "large", Labels: text(1 << 18)}) })
	must(t, s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: "large", Labels: text(1 << 17)}) })
	plain := slices.Repeat([]byte("x"), 1_000_000)
	must(t, s, func(tx *store.Tx) error {
		return sh.nodes.Insert(tx, node{Name: "plain", Labels: map[string]string{"text": string(plain)}})
	})
	sound(t, s)
}

func TestRowsThatWouldNotReadBackAreRefused(t *testing.T) {
	s, sh, _ := openShop(t)
	_ = refused[*store.RowError](t, s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: "bad\xff"}) })
	_ = refused[*store.RowError](t, s, func(tx *store.Tx) error {
		return sh.nodes.Insert(tx, node{Name: "a", Labels: map[string]string{"\xc3": ""}})
	})
	_ = refused[*store.RowError](t, s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: string(make([]byte, kv.MaxKey))}) })
}
