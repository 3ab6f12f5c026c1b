// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Subject is what the suite needs to know of an engine. Only New is required; tests for which the engine has no means are left out.
type Subject struct {
	// New makes an empty map. The function that it returns gives another engine on the map at each call, as another process would have
	// one.
	New func(t *testing.T) func() kv.Engine

	// OwnWaits: the owner holds a lock, so that Own of another engine waits until the owner is closed. Otherwise Own fences the owner at
	// once.
	OwnWaits bool

	// Hold makes the next append of an engine stop at a step, as [Memory.Hold] does.
	Hold func(e kv.Engine, s Step) *Gate

	// Unknown makes the next append of an engine end with an unknown outcome, written or not.
	Unknown func(e kv.Engine, written bool)

	// Compact makes the map forget the history before its newest revision.
	Compact func(e kv.Engine)

	// Child opens an engine on the map that is kept in a directory. It is for maps that outlive a process: the suite starts its own test
	// program again, which must call [TestEngine] in a test of the same name, and kills it.
	Child func(dir string) kv.Engine
}

// TestEngine tests that an engine keeps the contract of package kv.
func TestEngine(t *testing.T, s Subject) {
	if dir := childDirectory(); dir != "" {
		s.actAsChild(t, dir)
		return
	}
	t.Run("EmptyMap", s.emptyMap)
	t.Run("BatchesFollowEachOther", s.batchesFollowEachOther)
	t.Run("AnyBytesComeBack", s.anyBytesComeBack)
	t.Run("BatchIsNotKept", s.batchIsNotKept)
	t.Run("LimitsHold", s.limitsHold)
	t.Run("EverythingIsThereAfterReopening", s.reopening)
	t.Run("ClosedEngineRefuses", s.closedEngineRefuses)
	t.Run("EndedContextWritesNothing", s.endedContext)
	t.Run("LoadShowsOneRevision", s.loadShowsOneRevision)
	t.Run("LoadIsTheFoldOfWatch", s.loadIsTheFoldOfWatch)
	t.Run("WatchEndsWithItsContext", s.watchEndsWithItsContext)
	t.Run("WatchEndsWithTheEngine", s.watchEndsWithTheEngine)
	t.Run("CompactedHistoryIsAnError", s.compactedHistory)
	t.Run("ConcurrentAppendsAreOrdered", s.concurrentAppends)
	t.Run("NewTermFencesTheOldOne", s.newTermFences)
	t.Run("NewOwnerFencesTheOldOne", s.newOwnerFences)
	t.Run("OwnerIsWaitedFor", s.ownerIsWaitedFor)
	t.Run("FencedWhileAppending", s.fencedWhileAppending)
	t.Run("UnknownOutcomeEndsTheTerm", s.unknownOutcome)
	t.Run("RandomWork", s.randomWork)
	t.Run("KilledProcessLosesNothing", s.killedProcess)
}

// owned is an engine with its term.
type owned struct {
	kv.Engine
	t    *testing.T
	term kv.Term
}

// own opens an engine of a map and takes the map.
func own(t *testing.T, e kv.Engine) *owned {
	t.Helper()
	t.Cleanup(func() { _ = e.Close() })
	term, err := e.Own(t.Context())
	if err != nil {
		t.Fatalf("own: %v", err)
	}
	return &owned{Engine: e, t: t, term: term}
}

// fresh is an engine on an empty map, which it owns.
func (s Subject) fresh(t *testing.T) *owned {
	t.Helper()
	return own(t, s.New(t)())
}

// append appends a batch and fails the test when that fails.
func (o *owned) append(b kv.Batch) kv.Revision {
	o.t.Helper()
	r, err := o.Append(o.t.Context(), o.term, b)
	if err != nil {
		o.t.Fatalf("append: %v", err)
	}
	return r
}

// rows is what Load shows, and its revision.
func (o *owned) rows() (kv.Revision, map[string]string) {
	o.t.Helper()
	return load(o.t, o.Engine)
}

func load(t *testing.T, e kv.Engine) (kv.Revision, map[string]string) {
	t.Helper()
	rows, last := map[string]string{}, ""
	r, entries := e.Load(t.Context())
	for entry, err := range entries {
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		if last != "" && entry.Key <= last {
			t.Fatalf("load: key %q comes after %q", entry.Key, last)
		}
		last = entry.Key
		rows[entry.Key] = string(entry.Value)
	}
	return r, rows
}

// wantRows compares what Load shows.
func (o *owned) wantRows(revision kv.Revision, want map[string]string) {
	o.t.Helper()
	r, rows := o.rows()
	if r != revision {
		o.t.Errorf("load shows revision %d, want %d", r, revision)
	}
	if d := cmp.Diff(want, rows); d != "" {
		o.t.Errorf("load shows other rows (-want +got):\n%s", d)
	}
}

// batch makes a batch from words: "k=v" puts, "-k" deletes.
func batch(words ...string) kv.Batch {
	var b kv.Batch
	for _, w := range words {
		if k, v, put := strings.Cut(w, "="); put {
			b.Put = append(b.Put, kv.Entry{Key: k, Value: []byte(v)})
		} else {
			b.Delete = append(b.Delete, strings.TrimPrefix(w, "-"))
		}
	}
	return b
}

// fold applies a batch to rows.
func fold(rows map[string]string, b kv.Batch) {
	for _, e := range b.Put {
		rows[e.Key] = string(e.Value)
	}
	for _, k := range b.Delete {
		delete(rows, k)
	}
}

// collect takes n batches from a watch after a revision and checks their numbers.
func collect(ctx context.Context, e kv.Engine, after kv.Revision, n int) ([]kv.Batch, error) {
	var all []kv.Batch
	if n == 0 {
		return nil, nil
	}
	for b, err := range e.Watch(ctx, after) {
		if err != nil {
			return all, err
		}
		if b.Revision != after+kv.Revision(len(all))+1 {
			return all, fmt.Errorf("watch after %d yields revision %d as number %d", after, b.Revision, len(all)+1)
		}
		if all = append(all, b); len(all) == n {
			break
		}
	}
	return all, nil
}

// text is a batch in a form to compare.
func text(b kv.Batch) string {
	puts := map[string]string{}
	fold(puts, kv.Batch{Put: b.Put})
	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(puts)) {
		fmt.Fprintf(&s, "%q=%q ", k, puts[k])
	}
	for _, k := range slices.Sorted(slices.Values(b.Delete)) {
		fmt.Fprintf(&s, "-%q ", k)
	}
	return s.String()
}

// effect is a batch without the deletes of keys that are absent in the rows before it: a watcher need not see those.
func effect(before map[string]string, b kv.Batch) string {
	b.Delete = slices.DeleteFunc(slices.Clone(b.Delete), func(k string) bool {
		_, there := before[k]
		return !there
	})
	return text(b)
}

// failure is the first error of a sequence.
func failure[V any](seq iter.Seq2[V, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}
