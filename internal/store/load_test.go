// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// stored is what is in an engine.
func stored(t *testing.T, e kv.Engine) map[string]string {
	t.Helper()
	rows := map[string]string{}
	_, entries := e.Load(t.Context())
	for entry, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		rows[entry.Key] = string(entry.Value)
	}
	return rows
}

// written makes an engine with stored rows.
func written(t *testing.T, rows map[string]string) *kvtest.Memory {
	t.Helper()
	m := kvtest.NewMemory()
	term, err := m.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		b.Put = append(b.Put, kv.Entry{Key: k, Value: []byte(rows[k])})
	}
	if _, err := m.Append(t.Context(), term, b); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestStoredRowsAreReadableText(t *testing.T) {
	s, sh, m := openShop(t)
	must(t, s, func(tx *store.Tx) error {
		return errors.Join(sh.nodes.Insert(tx, node{Name: "a", Labels: map[string]string{"url": "<x&y>"}}), sh.insertAll(tx, aReplica("d", "a", 1, 7000)))
	})
	want := map[string]string{
		"@store":              `{"format":1,"revision":1}`,
		"nodes/a\x00":         `{"schema":0,"revision":1,"row":{"Name":"a","Closing":false,"Labels":{"url":"<x&y>"}}}`,
		"replicas/d\x00a\x00": `{"schema":0,"revision":1,"row":{"Key":{"Definition":"d","Node":"a"},"Ports":[7000],"Size":1,"Properties":null}}`,
	}
	if d := cmp.Diff(want, stored(t, m.Peer())); d != "" {
		t.Errorf("stored rows (-want +got):\n%s", d)
	}
}

func TestUnusableRowsAreSetAsideAndNeverFatal(t *testing.T) {
	row := func(revision int, body string) string {
		return fmt.Sprintf(`{"schema":0,"revision":%d,"row":%s}`, revision, body)
	}
	replicaRow := func(revision int, node, definition string, ports string) string {
		return row(revision, fmt.Sprintf(`{"Key":{"Definition":%q,"Node":%q},"Ports":[%s],"Size":1}`, definition, node, ports))
	}
	rows := map[string]string{
		"@store":                     `{"format":1,"revision":50}`,
		"nodes/a\x00":                row(1, `{"Name":"a","Unheard":1}`),
		"nodes/b\x00":                row(2, `{"Name":"other"}`),
		"nodes/c\x00":                row(3, `{"Name":`),
		"nodes/d\x00":                "\x00\x01\x02",
		"nodes/e\x00":                `{"schema":9,"revision":4,"row":{"Name":"e"}}`,
		"nodes/f\x00":                `{"schema":0,"revision":4}`,
		"nodes/broken key":           row(4, `{"Name":"g"}`),
		"elsewhere/x":                row(5, `{}`),
		"no separator":               "1",
		"replicas/old\x00a\x00":      replicaRow(10, "a", "old", "7000"),
		"replicas/again\x00a\x00":    replicaRow(20, "a", "again", "7001, 7000"),
		"replicas/orphan\x00b\x00":   replicaRow(11, "b", "orphan", "7000"),
		"replicas/stranger\x00x\x00": replicaRow(12, "x", "stranger", ""),
		"replicas/fine\x00a\x00":     replicaRow(13, "a", "fine", "7002"),
	}
	sh := newShop()
	m := written(t, rows)
	s := open(t, m, sh.all(), store.Paranoid())
	v := s.Snapshot()
	if v.Revision() != 50 || sh.nodes.Len(v) != 1 || sh.replicas.Len(v) != 2 || !sh.byDef.Has(v, "old") || !sh.byDef.Has(v, "fine") {
		t.Errorf("revision %d, %d nodes, %d replicas", v.Revision(), sh.nodes.Len(v), sh.replicas.Len(v))
	}
	var got []string
	for _, a := range s.SetAside() {
		if rows[a.Stored] != string(a.Value) {
			t.Errorf("%q was set aside with the value %q", a.Stored, a.Value)
		}
		got = append(got, a.Collection+" "+a.Key+": "+a.Reason)
	}
	want := []string{
		`elsewhere "x": this program has no such collection`,
		`no separator "": this program has no such collection`,
		`nodes b: it holds the row other`,
		`nodes "broken key": it holds the row g`,
		`nodes c: it is not a record: invalid character '}' looking for beginning of value`,
		"nodes d: it is not a record: invalid character '\\x00' looking for beginning of value",
		`nodes e: it has schema 9, this program knows 0`,
		`nodes f: the record has no row`,
		`replicas again/a: replicas again/a cannot have port a/7000: old/a has it`,
		`replicas orphan/b: nodes b, which it needs, is missing`,
		`replicas stranger/x: nodes x, which it needs, is missing`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("set aside (-want +got):\n%s", d)
	}
	sound(t, s)

	// What is set aside stays as it is and cannot be overwritten.
	err := refused[*store.AsideError](t, s, sh.insertNode("b"))
	if !strings.Contains(err.Error(), "nodes b is in the database but unusable (it holds the row other)") {
		t.Errorf("the message is %q", err)
	}
	must(t, s, sh.insertNode("new"))
	now := stored(t, m.Peer())
	for k, v := range rows {
		if k != "@store" && now[k] != v {
			t.Errorf("%q was changed to %q", k, now[k])
		}
	}
	if e := s.Discard(t.Context(), "nodes/b\x00"); e != nil {
		t.Error(e)
	}
	if e := s.Discard(t.Context(), "nodes/b\x00"); e == nil {
		t.Error("a row was discarded twice")
	}
	if _, there := stored(t, m.Peer())["nodes/b\x00"]; there || len(s.SetAside()) != len(want)-1 {
		t.Error("the discarded row is still there")
	}
	must(t, s, sh.insertNode("b"))
}

func TestLostMetaRowIsMadeUpFor(t *testing.T) {
	sh := newShop()
	s := open(t, written(t, map[string]string{"nodes/a\x00": `{"schema":0,"revision":7,"row":{"Name":"a"}}`}), sh.all())
	if r := must(t, s, sh.insertNode("b")); r != 8 {
		t.Errorf("the next revision is %d", r)
	}
}

func TestMapOfAnotherFormatIsRefused(t *testing.T) {
	sh := newShop()
	_, err := store.Open(t.Context(), written(t, map[string]string{"@store": `{"format":2,"revision":1}`}), sh.all())
	if err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("open answers %v", err)
	}
}

func TestRowsOfEarlierSchemasAreBroughtForward(t *testing.T) {
	type disk struct{ Name, Bytes string }
	disks := store.Define("disks", func(d *disk) string { return d.Name },
		store.Version[disk](3, func(from int, raw []byte) ([]byte, error) {
			switch from {
			case 0:
				return []byte(strings.ReplaceAll(string(raw), "Size", "KiB")), nil
			case 1:
				return []byte(strings.ReplaceAll(string(raw), "KiB", "Bytes")), nil
			default:
				return nil, errors.New("no one knows")
			}
		}))
	m := written(t, map[string]string{
		"disks/a\x00": `{"schema":3,"revision":1,"row":{"Name":"a","Bytes":"1"}}`,
		"disks/b\x00": `{"schema":2,"revision":1,"row":{"Name":"b","Bytes":"1"}}`,
	})
	s := open(t, m, []store.Registered{disks})
	if a := s.SetAside(); len(a) != 1 || a[0].Reason != "upgrade from schema 2: no one knows" || disks.Len(s.Snapshot()) != 1 {
		t.Errorf("set aside: %v", a)
	}

	disks = store.Define("disks", func(d *disk) string { return d.Name },
		store.Version[disk](2, func(from int, raw []byte) ([]byte, error) {
			return []byte(strings.ReplaceAll(string(raw), []string{"Size", "KiB"}[from], []string{"KiB", "Bytes"}[from])), nil
		}))
	m = written(t, map[string]string{
		"disks/a\x00": `{"schema":0,"revision":1,"row":{"Name":"a","Size":"1"}}`,
		"disks/b\x00": `{"schema":1,"revision":1,"row":{"Name":"b","KiB":"2"}}`,
		"disks/c\x00": `{"schema":2,"revision":1,"row":{"Name":"c","Bytes":"3"}}`,
	})
	s = open(t, m, []store.Registered{disks}, store.Paranoid())
	var got string
	for d := range disks.All(s.Snapshot()) {
		got += d.Name + d.Bytes
	}
	if got != "a1b2c3" || len(s.SetAside()) > 0 {
		t.Errorf("loaded %s, set aside %v", got, s.SetAside())
	}
	must(t, s, func(tx *store.Tx) error { return disks.Update(tx, disk{"a", "4"}) })
	if now := stored(t, m.Peer())["disks/a\x00"]; now != `{"schema":2,"revision":2,"row":{"Name":"a","Bytes":"4"}}` {
		t.Errorf("stored as %s", now)
	}
}

func TestFunctionsThatPanicOnAStoredRowAreNotFatal(t *testing.T) {
	type thing struct {
		Name string
		Tags []string
	}
	things := store.Define("things", func(x *thing) string { return x.Name })
	store.By(things, "tag", func(x *thing) []string { return x.Tags[:1] })
	s := open(t, written(t, map[string]string{"things/a\x00": `{"schema":0,"revision":1,"row":{"Name":"a"}}`}), []store.Registered{things})
	if a := s.SetAside(); len(a) != 1 || !strings.Contains(a[0].Reason, "panics") {
		t.Errorf("set aside: %v", a)
	}
}

func TestCollectionsAreOpenedWithTheirParentsAndChildren(t *testing.T) {
	sh := newShop()
	for _, part := range [][]store.Registered{{sh.nodes}, {sh.replicas}, {sh.nodes, sh.replicas, sh.nodes}, {sh.nodes, sh.replicas, defineNodes()}} {
		if _, err := store.Open(t.Context(), kvtest.NewMemory(), part); err == nil {
			t.Errorf("a store of %d collections was opened", len(part))
		}
	}
	s := open(t, kvtest.NewMemory(), []store.Registered{sh.replicas, sh.nodes})
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", aReplica("d", "a", 1)) })
	defer func() {
		if recover() == nil {
			t.Error("an index was declared on a collection that is in use")
		}
	}()
	store.By(sh.nodes, "late", func(*node) []int { return nil })
}

func TestDeclarationsThatCannotWorkPanic(t *testing.T) {
	type hidden struct {
		Name   string
		secret int //nolint:unused // The point of the test.
	}
	type skipped struct {
		Name string
		Skip int `json:"-"`
	}
	type open struct {
		Name string
		Any  any
	}
	type channel struct {
		Name string
		C    chan int
	}
	for name, define := range map[string]func(){
		"name":     func() { store.Define("Nodes", func(n *node) string { return n.Name }) },
		"slash":    func() { store.Define("no/des", func(n *node) string { return n.Name }) },
		"key":      func() { store.Define("n", func(*node) float64 { return 0 }) },
		"hidden":   func() { store.Define("n", func(h *hidden) string { return h.Name }) },
		"skipped":  func() { store.Define("n", func(h *skipped) string { return h.Name }) },
		"any":      func() { store.Define("n", func(h *open) string { return h.Name }) },
		"channel":  func() { store.Define("n", func(h *channel) string { return h.Name }) },
		"no value": func() { store.By(defineNodes(), "x", func(*node) [][]int { return nil }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the declaration was taken", name)
				}
			}()
			define()
		}()
	}
}
