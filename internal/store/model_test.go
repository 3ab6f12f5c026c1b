// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// model is what a store should hold, in plain maps, with the rules written out naively.
type model struct {
	revision store.Revision
	nodes    map[string]node
	replicas map[replicaKey]replica
	written  map[string]store.Revision // by text of the key
}

func newModel() model {
	return model{nodes: map[string]node{}, replicas: map[replicaKey]replica{}, written: map[string]store.Revision{}}
}

func (m model) clone() model {
	return model{m.revision, maps.Clone(m.nodes), maps.Clone(m.replicas), maps.Clone(m.written)}
}

// command is one operation of a transaction.
type command struct {
	verb string // insert, update, delete
	node *node
	repl *replica
}

func (c command) String() string {
	if c.node != nil {
		return fmt.Sprintf("%s node %s closing=%v", c.verb, c.node.Name, c.node.Closing)
	}
	return fmt.Sprintf("%s replica %v ports=%v size=%d", c.verb, c.repl.Key, c.repl.Ports, c.repl.Size)
}

// do applies a command to the store.
func (c command) do(sh shop, tx *store.Tx) error {
	switch {
	case c.node != nil && c.verb == "insert":
		return sh.nodes.Insert(tx, *c.node)
	case c.node != nil && c.verb == "update":
		return sh.nodes.Update(tx, *c.node)
	case c.node != nil:
		return sh.nodes.Delete(tx, c.node.Name)
	case c.verb == "insert":
		return sh.replicas.Insert(tx, *c.repl)
	case c.verb == "update":
		return sh.replicas.Update(tx, *c.repl)
	default:
		return sh.replicas.Delete(tx, c.repl.Key)
	}
}

// apply applies a command to the model. The result is the kind of refusal, empty when it is allowed.
func (m *model) apply(c command) string {
	if c.node != nil {
		return m.applyNode(c.verb, *c.node)
	}
	return m.applyReplica(c.verb, *c.repl)
}

func (m *model) applyNode(verb string, n node) string {
	_, exists := m.nodes[n.Name]
	switch {
	case verb == "insert" && exists:
		return "exists"
	case verb != "insert" && !exists:
		return "not found"
	case verb == "delete":
		for _, r := range m.replicas {
			if r.Key.Node == n.Name {
				return "children"
			}
		}
		delete(m.nodes, n.Name)
		delete(m.written, n.Name)
	default:
		m.nodes[n.Name] = n
		m.written[n.Name] = m.revision + 1
	}
	return ""
}

func (m *model) applyReplica(verb string, r replica) string {
	_, exists := m.replicas[r.Key]
	text := r.Key.Definition + "/" + r.Key.Node
	switch {
	case verb == "insert" && exists:
		return "exists"
	case verb != "insert" && !exists:
		return "not found"
	case verb == "delete":
		delete(m.replicas, r.Key)
		delete(m.written, text)
		return ""
	}
	if n, ok := m.nodes[r.Key.Node]; !exists && (!ok || n.Closing) {
		return "parent"
	}
	for _, other := range m.replicas {
		if other.Key == r.Key || other.Key.Node != r.Key.Node {
			continue
		}
		if slices.ContainsFunc(r.Ports, func(p int) bool { return slices.Contains(other.Ports, p) }) {
			return "unique"
		}
	}
	m.replicas[r.Key] = r
	m.written[text] = m.revision + 1
	return ""
}

// kindOf names the refusal that an error is.
func kindOf(err error) string {
	for kind, is := range map[string]error{
		"exists": errorOf[*store.ExistsError](err), "not found": errorOf[*store.NotFoundError](err), "parent": errorOf[*store.ParentError](err),
		"children": errorOf[*store.ChildrenError](err), "unique": errorOf[*store.UniqueError](err),
	} {
		if is != nil {
			return kind
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func anyNode() *rapid.Generator[node] {
	return rapid.Custom(func(t *rapid.T) node {
		return node{Name: rapid.SampledFrom([]string{"a", "a\x00", "aa", "b", ""}).Draw(t, "name"), Closing: rapid.IntRange(0, 3).Draw(t, "closing") == 0}
	})
}

func anyReplica() *rapid.Generator[replica] {
	return rapid.Custom(func(t *rapid.T) replica {
		return replica{
			Key:   replicaKey{rapid.SampledFrom([]string{"d", "e", "d\x00a", ""}).Draw(t, "definition"), anyNode().Draw(t, "on").Name},
			Ports: rapid.SliceOfN(rapid.IntRange(-2, 5), 0, 3).Draw(t, "ports"),
			Size:  rapid.Int64Range(-3, 3).Draw(t, "size"),
		}
	})
}

func anyCommand() *rapid.Generator[command] {
	return rapid.Custom(func(t *rapid.T) command {
		c := command{verb: rapid.SampledFrom([]string{"insert", "insert", "update", "delete"}).Draw(t, "verb")}
		if rapid.Bool().Draw(t, "is a node") {
			n := anyNode().Draw(t, "node")
			c.node = &n
		} else {
			r := anyReplica().Draw(t, "replica")
			c.repl = &r
		}
		return c
	})
}

// machine runs a store and its model side by side.
type machine struct {
	t       *testing.T
	sh      shop
	memory  *kvtest.Memory
	s       *store.Store
	model   model
	watched model // what a watcher has made of the commits
}

// transact draws some commands, runs them as one update, and returns the model after them; it is the model before them when the update
// was refused.
func (m *machine) transact(rt *rapid.T) (model, error) {
	commands := rapid.SliceOfN(anyCommand(), 0, 4).Draw(rt, "commands")
	regret := rapid.IntRange(0, 9).Draw(rt, "regret") == 0
	next, want := m.model.clone(), ""
	for _, c := range commands {
		if want = next.apply(c); want != "" {
			break
		}
	}
	if regret && want == "" {
		want = "regret"
	}
	changed := changes(m.model, next)
	_, err := m.s.Update(context.Background(), func(tx *store.Tx) error {
		mine := m.model.clone()
		for _, c := range commands {
			err := c.do(m.sh, tx)
			if kind := mine.apply(c); kind != kindOf(err) {
				rt.Fatalf("%s: %v, the model says %q", c, err, kind)
			}
			if err != nil {
				return err
			}
			m.compare(rt, mine, tx)
		}
		if regret {
			return errors.New("regret")
		}
		return nil
	})
	if want != "" || !changed {
		next = m.model
	} else {
		next.revision++
	}
	if err == nil && want != "" {
		rt.Fatalf("%v was allowed, the model says %q", commands, want)
	}
	return next, err
}

// changes reports whether an update that leads from one model to another has written anything: rows that came and went again have not.
func changes(before, after model) bool {
	return !maps.Equal(before.written, after.written)
}

// compare compares everything that a reader shows with a model.
func (m *machine) compare(rt *rapid.T, want model, r store.Reader) {
	sh := m.sh
	got := newModel()
	for n := range sh.nodes.All(r) {
		got.nodes[n.Name] = n
		got.written[n.Name] = sh.nodes.Revision(r, n.Name)
	}
	for x := range sh.replicas.All(r) {
		got.replicas[x.Key] = x
		got.written[x.Key.Definition+"/"+x.Key.Node] = sh.replicas.Revision(r, x.Key)
	}
	got.revision = want.revision
	if d := cmp.Diff(want, got, cmp.AllowUnexported(model{})); d != "" {
		rt.Fatalf("the rows are not those of the model (-model +store):\n%s", d)
	}
	for _, name := range []string{"a", "a\x00", "aa", "b", "", "x"} {
		on, sum, ports := 0, int64(0), map[int]bool{}
		for _, x := range want.replicas {
			if x.Key.Node == name {
				on, sum = on+1, sum+x.Size
				for _, p := range x.Ports {
					ports[p] = true
				}
			}
		}
		if n := len(slices.Collect(sh.byNode.Get(r, name))); n != on || sh.byNode.Len(r, name) != on || sh.byNode.Has(r, name) != (on > 0) {
			rt.Fatalf("%d replicas by node %q, want %d", n, name, on)
		}
		if got := sh.promised.Of(r, name); got != sum {
			rt.Fatalf("%d promised on %q, want %d", got, name, sum)
		}
		free := -2
		for ports[free] {
			free++
		}
		if got, ok := sh.ports.Free(r, nodePort{name, -2}, nodePort{name, 9}); !ok || got.Port != free {
			rt.Fatalf("port %d is free on %q, want %d", got.Port, name, free)
		}
		if n := len(slices.Collect(until(sh.ports.Values(r, nodePort{name, -2}), nodePort{name, 10}))); n != len(ports) {
			rt.Fatalf("%d ports on %q, want %d", n, name, len(ports))
		}
	}
}

// until ends a sequence of ports before one.
func until(ports func(func(nodePort) bool), end nodePort) func(func(nodePort) bool) {
	return func(yield func(nodePort) bool) {
		for p := range ports {
			if strings.Compare(p.Node, end.Node) > 0 || p.Node == end.Node && p.Port >= end.Port || !yield(p) {
				return
			}
		}
	}
}

// update makes an update that the engine takes.
func (m *machine) update(rt *rapid.T) {
	next, err := m.transact(rt)
	if errors.Is(err, store.ErrAborted) {
		rt.Fatalf("aborted: %v", err)
	}
	m.model = next
}

// updateOnAFullDisk makes an update that the engine refuses.
func (m *machine) updateOnAFullDisk(rt *rapid.T) {
	m.memory.Fail(kv.ErrFull)
	next, err := m.transact(rt)
	if err == nil && next.revision != m.model.revision {
		rt.Fatal("an update succeeds on a full disk")
	}
	m.memory.Fail(nil)
}

// updateWithUnknownOutcome makes an update whose outcome the engine does not tell, and lets the store find out.
func (m *machine) updateWithUnknownOutcome(rt *rapid.T) {
	written := rapid.Bool().Draw(rt, "written")
	step := map[bool]kvtest.Step{false: kvtest.BeforeAppend, true: kvtest.BeforeAnswer}[written]
	gate := m.memory.Hold(step)
	gate.Open(kv.ErrUnknown)
	next, err := m.transact(rt)
	m.memory.Release()
	if errors.Is(err, store.ErrUnknown) {
		if written {
			m.model = next
		}
		time.Sleep(2 * time.Second) // of the bubble
		m.watched = m.model.clone() // a watcher looks at the whole state again
	}
}

// crash ends the store as a kill would, with an update under way that is written or not.
func (m *machine) crash(rt *rapid.T) {
	written := rapid.Bool().Draw(rt, "written")
	step := map[bool]kvtest.Step{false: kvtest.BeforeAppend, true: kvtest.BeforeAnswer}[written]
	gate, done := m.memory.Hold(step), make(chan struct{})
	go func() {
		select {
		case <-gate.Reached:
			m.memory.Crash()
		case <-done:
		}
	}()
	next, err := m.transact(rt)
	close(done)
	if errors.Is(err, store.ErrUnknown) && written {
		m.model = next
	}
	m.memory.Crash()
	m.reopen(rt)
}

func (m *machine) reopen(rt *rapid.T) {
	if m.s != nil {
		_ = m.s.Close()
	}
	m.memory = m.memory.Peer()
	s, err := store.Open(m.t.Context(), m.memory, m.sh.all(), store.Paranoid())
	if err != nil {
		rt.Fatal(err)
	}
	m.s = s
	if a := s.SetAside(); len(a) > 0 {
		rt.Fatalf("set aside: %v", a)
	}
	m.watched = m.model.clone()
}

// check compares the durable state with the model, and what a watcher has seen with both.
func (m *machine) check(rt *rapid.T) {
	v := m.s.Snapshot()
	if v.Revision() != m.model.revision {
		rt.Fatalf("the state is at revision %d, the model at %d", v.Revision(), m.model.revision)
	}
	m.compare(rt, m.model, v)
	for _, p := range store.Verify(v) {
		rt.Fatalf("the state is not sound: %s", p)
	}
	if m.watched.revision < v.Revision() {
		for c, err := range m.s.Watch(m.t.Context(), m.watched.revision) {
			if err != nil {
				rt.Fatalf("watch: %v", err)
			}
			m.watched.follow(rt, m.sh, c)
			if c.Revision == v.Revision() {
				break
			}
		}
	}
	m.compare(rt, m.watched, v)
}

// follow applies a commit, and checks that it changes what was there before.
func (m *model) follow(rt *rapid.T, sh shop, c store.Commit) {
	m.revision++
	if c.Revision != m.revision {
		rt.Fatalf("the watcher sees revision %d after %d", c.Revision, m.revision-1)
	}
	for _, ch := range c.Changes {
		if k, before, after, ok := sh.nodes.Changed(ch); ok {
			change(rt, m.nodes, k, before, after)
			stamp(m.written, k, after != nil, ch.Revision)
		} else if k, before, after, ok := sh.replicas.Changed(ch); ok {
			change(rt, m.replicas, k, before, after)
			stamp(m.written, k.Definition+"/"+k.Node, after != nil, ch.Revision)
		}
	}
}

func change[K comparable, V any](rt *rapid.T, rows map[K]V, k K, before, after *V) {
	have, there := rows[k]
	if there != (before != nil) || there && !cmp.Equal(have, *before) {
		rt.Fatalf("the watcher sees %v before the change of %v, it had %v", before, k, have)
	}
	if after == nil {
		delete(rows, k)
	} else {
		rows[k] = *after
	}
}

func stamp(written map[string]store.Revision, key string, there bool, r store.Revision) {
	if there {
		written[key] = r
	} else {
		delete(written, key)
	}
}

// TestStoreIsItsModel runs random transactions, faults, crashes and reopenings.
func TestStoreIsItsModel(t *testing.T) {
	sh := newShop()
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		synctest.Test(t, func(t *testing.T) {
			defer func() { failed = recover() }() // how rapid ends a run that fails
			m := &machine{t: t, sh: sh, memory: kvtest.NewMemory(), model: newModel(), watched: newModel()}
			m.reopen(rt)
			defer func() { _ = m.s.Close() }()
			rt.Repeat(map[string]func(*rapid.T){
				"update":                      m.update,
				"update once more":            m.update,
				"update on a full disk":       m.updateOnAFullDisk,
				"update with unknown outcome": m.updateWithUnknownOutcome,
				"crash while updating":        m.crash,
				"reopen":                      m.reopen,
				"":                            m.check,
			})
		})
		if failed != nil {
			panic(failed)
		}
	})
}
