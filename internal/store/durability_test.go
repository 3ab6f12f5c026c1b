// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// answer is what an update has answered.
type answer struct {
	revision store.Revision
	err      error
}

// start makes an update in the background.
func start(s *store.Store, fn func(*store.Tx) error) <-chan answer {
	return startWith(context.Background(), s, fn)
}

func startWith(ctx context.Context, s *store.Store, fn func(*store.Tx) error) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		r, err := s.Update(ctx, fn)
		c <- answer{r, err}
	}()
	return c
}

func (s shop) insertNode(name string) func(*store.Tx) error {
	return func(tx *store.Tx) error { return s.nodes.Insert(tx, node{Name: name}) }
}

// bubble is a store in a bubble of testing/synctest.
type bubble struct {
	t  *testing.T
	s  *store.Store
	sh shop
	m  *kvtest.Memory
}

// within runs a test in a bubble of its own: synctest.Wait tells when all updates wait for a gate, and time passes at once.
func within(t *testing.T, test func(bubble)) {
	t.Helper()
	sh := newShop()
	synctest.Test(t, func(t *testing.T) {
		m := kvtest.NewMemory()
		s := open(t, m, sh.all(), store.Paranoid())
		test(bubble{t, s, sh, m})
		_ = s.Close()
	})
}

func unanswered(t *testing.T, c <-chan answer, what string) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		t.Errorf("%s was answered: %d, %v", what, a.revision, a.err)
	default:
	}
}

func TestUpdateAnswersWhenItIsDurable(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		for _, step := range []kvtest.Step{kvtest.BeforeAppend, kvtest.BeforeAnswer} {
			name := fmt.Sprint("node", step)
			gate := m.Hold(step)
			a := start(s, sh.insertNode(name))
			<-gate.Reached
			unanswered(t, a, "an update that is not durable")
			if _, seen := sh.nodes.Get(s.Snapshot(), name); seen {
				t.Error("a view shows a row that is not known to be durable")
			}
			gate.Open(nil)
			if got := <-a; got.err != nil {
				t.Error(got.err)
			}
			if _, seen := sh.nodes.Get(s.Snapshot(), name); !seen {
				t.Error("a view taken after the answer does not show the row")
			}
		}
	})
}

func TestNoAnswerRestsOnWhatIsNotDurable(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		insert := start(s, sh.insertNode("a"))
		<-gate.Reached
		var found bool
		fails := start(s, sh.insertNode("a"))
		reads := start(s, func(tx *store.Tx) error {
			_, found = sh.nodes.Get(tx, "a")
			return nil
		})
		unanswered(t, fails, "a failure that rests on a row that is not durable")
		unanswered(t, reads, "a read of a row that is not durable")
		gate.Open(nil)
		if a := <-fails; errorOf[*store.ExistsError](a.err) == nil {
			t.Errorf("the failing update answers %v", a.err)
		}
		if a := <-reads; a.err != nil || a.revision != 1 || !found || (<-insert).err != nil {
			t.Errorf("the reading update answers %d, %v", a.revision, a.err)
		}
	})
}

func errorOf[E error](err error) error {
	if e, ok := errors.AsType[E](err); ok {
		return e
	}
	return nil
}

func TestAnswersThatRestOnAFailedCommitAreTakenBack(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		first := start(s, sh.insertNode("a"))
		<-gate.Reached
		later := map[string]<-chan answer{
			"an update that builds on it":         start(s, sh.insertNode("b")),
			"a failure that rests on it":          start(s, sh.insertNode("a")),
			"a read that rests on it":             start(s, func(*store.Tx) error { return nil }),
			"a refusal of the caller on its base": start(s, func(*store.Tx) error { return errors.New("no") }),
		}
		synctest.Wait()
		gate.Open(kv.ErrFull)
		if a := <-first; !errors.Is(a.err, store.ErrFull) {
			t.Errorf("the update answers %v", a.err)
		}
		for what, c := range later {
			if a := <-c; !errors.Is(a.err, store.ErrAborted) {
				t.Errorf("%s answers %v", what, a.err)
			}
		}
		if r := must(t, s, sh.insertNode("a")); r != 1 || sh.nodes.Len(s.Snapshot()) != 1 {
			t.Errorf("the next update has revision %d; %d nodes", r, sh.nodes.Len(s.Snapshot()))
		}
		sound(t, s)
	})
}

func TestWaitingUpdatesShareCommits(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		all := []<-chan answer{start(s, sh.insertNode("first"))}
		<-gate.Reached
		for i := range 150 {
			all = append(all, start(s, sh.insertNode(nodeName(i))))
		}
		synctest.Wait()
		all = append(all, start(s, func(tx *store.Tx) error { return sh.nodes.Delete(tx, "first") }))
		synctest.Wait()
		if q := s.Stats().Queued; q != 152 {
			t.Errorf("%d updates wait", q)
		}
		gate.Open(nil)
		seen := map[store.Revision]bool{}
		for _, c := range all {
			a := <-c
			if a.err != nil || seen[a.revision] {
				t.Fatalf("revision %d, %v", a.revision, a.err)
			}
			seen[a.revision] = true
		}
		last := store.Revision(0)
		for c, err := range s.Watch(t.Context(), 0) {
			if last++; err != nil || c.Revision != last || len(c.Changes) != 1 {
				t.Fatalf("the watch shows revision %d with %d changes as number %d: %v", c.Revision, len(c.Changes), last, err)
			}
			if last == 152 {
				break
			}
		}
		again := open(t, m.Peer(), sh.all())
		if v := again.Snapshot(); v.Revision() != 152 || sh.nodes.Len(v) != 150 {
			t.Errorf("stored: revision %d with %d nodes", v.Revision(), sh.nodes.Len(v))
		}
		_ = again.Close()
		st := s.Stats()
		if st.Updates != 152 || st.Commits != 3 || st.Rows != 155 || st.Held["nodes"] != 150 {
			t.Errorf("%d updates in %d commits with %d rows; %d nodes", st.Updates, st.Commits, st.Rows, st.Held["nodes"])
		}
	})
}

func TestLargeUpdatesDoNotShareACommit(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		all := []<-chan answer{start(s, sh.insertNode("first"))}
		<-gate.Reached
		for i := range 3 {
			labels := map[string]string{"text": strings.Repeat("x", 600_000)}
			all = append(all, start(s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: nodeName(i), Labels: labels}) }))
		}
		synctest.Wait()
		gate.Open(nil)
		for _, c := range all {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
		if st := s.Stats(); st.Commits != 4 {
			t.Errorf("%d commits", st.Commits)
		}
	})
}

func TestUpdateThatIsTooLargeFailsAlone(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		first := start(s, sh.insertNode("first"))
		<-gate.Reached
		labels := map[string]string{"text": strings.Repeat("x", kv.MaxBytes)}
		large := start(s, func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: "large", Labels: labels}) })
		synctest.Wait()
		behind := start(s, sh.insertNode("behind"))
		synctest.Wait()
		gate.Open(nil)
		if a := <-large; errorOf[*store.LimitError](a.err) == nil {
			t.Errorf("the large update answers %v", a.err)
		}
		if a, b := <-first, <-behind; a.err != nil || b.err != nil || b.revision != 2 {
			t.Errorf("the others answer %v and %d, %v", a.err, b.revision, b.err)
		}
	})
}

func TestAnswerWaitsForTheNewestUpdateThatItRestsOn(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		one, two := m.Hold(kvtest.BeforeAppend), m.Hold(kvtest.BeforeAppend)
		first := start(s, sh.insertNode("a"))
		<-one.Reached
		second := start(s, sh.insertNode("b"))
		synctest.Wait()
		read := start(s, func(*store.Tx) error { return nil })
		synctest.Wait()
		one.Open(nil)
		if a := <-first; a.err != nil {
			t.Error(a.err)
		}
		<-two.Reached
		unanswered(t, read, "a read of two updates of which one is durable")
		two.Open(kv.ErrFull)
		if a, b := <-second, <-read; !errors.Is(a.err, store.ErrFull) || !errors.Is(b.err, store.ErrAborted) {
			t.Errorf("the update answers %v, the read %v", a.err, b.err)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		first := start(s, sh.insertNode("first"))
		<-gate.Reached
		var err error
		for i := range store.MaxQueue {
			ctx, cancel := context.WithCancel(t.Context())
			_, err = s.Update(ctx, func(tx *store.Tx) error {
				cancel() // it takes its place in the queue, and no one waits for it
				return sh.insertNode(nodeName(i))(tx)
			})
			cancel()
			if i < store.MaxQueue-1 && !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("update %d answers %v", i, err)
			}
		}
		if !errors.Is(err, store.ErrBusy) {
			t.Errorf("one update too many answers %v", err)
		}
		gate.Open(nil)
		if a := <-first; a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestViewStaysAsItIs(t *testing.T) {
	s, sh, _ := openShop(t)
	must(t, s, func(tx *store.Tx) error { return sh.insertAll(tx, "a", aReplica("d", "a", 1, 7000)) })
	v := s.Snapshot()
	for i := range 300 {
		must(t, s, func(tx *store.Tx) error {
			return errors.Join(sh.replicas.Update(tx, aReplica("d", "a", int64(i), 7001+i)), sh.insertAll(tx, nodeName(i)))
		})
	}
	if r, _ := sh.replicas.Get(v, replicaKey{"d", "a"}); r.Size != 1 || sh.nodes.Len(v) != 1 || !sh.ports.Has(v, nodePort{"a", 7000}) || sh.promised.Of(v, "a") != 1 {
		t.Errorf("the view has changed: %+v", r)
	}
	if p := store.Verify(v); len(p) > 0 {
		t.Errorf("the view is not sound: %v", p)
	}
	sound(t, s)
}
