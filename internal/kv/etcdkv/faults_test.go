// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
)

// quick makes a cluster choose a new leader soon.
func quick() []string { return []string{"--heartbeat-interval", "50", "--election-timeout", "500"} }

func put(k string, v any) kv.Batch {
	return kv.Batch{Put: []kv.Entry{{Key: k, Value: fmt.Append(nil, v)}}}
}

func patient(t *testing.T, patience time.Duration, endpoints ...string) *etcdkv.Engine {
	t.Helper()
	e, err := etcdkv.New(etcdkv.Settings{Endpoints: endpoints, Prefix: "/" + t.Name(), Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func take(t *testing.T, e kv.Engine) kv.Term {
	t.Helper()
	term, err := e.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func rows(t *testing.T, e kv.Engine) (kv.Revision, map[string]string) {
	t.Helper()
	all := map[string]string{}
	r, entries := e.Load(t.Context())
	for entry, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Key] = string(entry.Value)
	}
	return r, all
}

// While a majority runs and can be reached, appends go on through every fault, each exactly once, and a watcher sees all of them.
func TestAppendsAndWatchersOutliveFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(c *etcdtest.Cluster, w *etcdtest.Wire) (mend func()){
		"PausedLeader": func(c *etcdtest.Cluster, _ *etcdtest.Wire) func() {
			i := c.Leader()
			c.Pause(i)
			return func() { c.Resume(i) }
		},
		"KilledLeader": func(c *etcdtest.Cluster, _ *etcdtest.Wire) func() {
			i := c.Leader()
			c.Kill(i)
			return func() { c.Restart(i) }
		},
		"CutConnection": func(_ *etcdtest.Cluster, w *etcdtest.Wire) func() {
			w.Cut()
			return func() {}
		},
		"KilledFollower": func(c *etcdtest.Cluster, _ *etcdtest.Wire) func() {
			i := (c.Leader() + 1) % 3
			c.Kill(i)
			return func() { c.Restart(i) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 15
			c := etcdtest.Start(t, etcdtest.Options{Members: 3, Flags: quick()})
			w := c.NewWire(0)
			endpoints := append([]string{w.Endpoint}, c.Endpoints[1:]...)
			e, standby := patient(t, time.Minute, endpoints...), patient(t, time.Minute, endpoints...)
			term := take(t, e)
			seen := make(chan kv.Batch, 3*each)
			go func() {
				defer close(seen)
				for b, err := range standby.Watch(t.Context(), 0) {
					if err != nil {
						return
					}
					if seen <- b; b.Revision == 3*each {
						return
					}
				}
			}()
			want, n := map[string]string{}, kv.Revision(0)
			work := func() {
				for range each {
					n++
					b := put(fmt.Sprintf("k%d", n%4), n)
					if r, err := e.Append(t.Context(), term, b); err != nil || r != n {
						t.Fatalf("append %d answers %d, %v", n, r, err)
					}
					want[b.Put[0].Key] = string(b.Put[0].Value)
				}
			}
			work()
			mend := fault(c, w)
			began := time.Now()
			work()
			t.Logf("%d appends after the fault took %s", each, time.Since(began).Round(time.Millisecond))
			mend()
			work()
			next := kv.Revision(1)
			for b := range seen {
				if b.Revision != next || string(b.Put[0].Value) != fmt.Sprint(next) {
					t.Fatalf("the watcher sees %v at %d", b, next)
				}
				next++
			}
			if next != 3*each+1 {
				t.Errorf("the watcher saw %d batches", next-1)
			}
			if r, have := rows(t, e); r != n || !maps.Equal(have, want) {
				t.Errorf("revision %d: %s", r, cmp.Diff(want, have))
			}
		})
	}
}

func TestWithoutAMajorityNothingIsAnsweredAndNothingIsLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 3, Flags: quick()})
	e := patient(t, 5*time.Second, c.Endpoints...)
	term := take(t, e)
	if _, err := e.Append(t.Context(), term, put("a", 1)); err != nil {
		t.Fatal(err)
	}
	c.Pause(0)
	c.Kill(1)
	_, err := e.Append(t.Context(), term, put("a", 2))
	if !errors.Is(err, kv.ErrUnknown) {
		t.Fatalf("append without a majority answers %v", err)
	}
	if _, err := e.Append(t.Context(), term, put("a", 3)); !errors.Is(err, kv.ErrFenced) {
		t.Errorf("the term goes on after an unknown outcome: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := e.Own(soon); err == nil {
		t.Error("the map can be taken without a majority")
	}
	c.Resume(0)
	c.Restart(1)
	c.WaitWritable()
	term = take(t, e)
	r, have := rows(t, e)
	if (r != 1 || have["a"] != "1") && (r != 2 || have["a"] != "2") {
		t.Errorf("afterwards revision %d has %v", r, have)
	}
	if next, err := e.Append(t.Context(), term, put("a", 4)); err != nil || next != r+1 {
		t.Errorf("append afterwards: %d, %v", next, err)
	}
}

// A lost answer is found out: the batch is there once, whether the first attempt was applied or not.
func TestALostAnswerIsFoundOut(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	e := patient(t, time.Minute, c.Endpoints...)
	term := take(t, e)
	for i, written := range []bool{true, false, true} {
		etcdkv.LoseOneAnswer(e, written)
		if r, err := e.Append(t.Context(), term, put("n", i)); err != nil || r != kv.Revision(i+1) {
			t.Fatalf("written %v: %d, %v", written, r, err)
		}
	}
	if r, have := rows(t, e); r != 3 || have["n"] != "2" {
		t.Errorf("revision %d has %v", r, have)
	}
}

// A later owner comes before the answer that was lost is asked for again: the history tells.
func TestALostAnswerIsFoundOutBehindALaterOwner(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	for _, written := range []bool{true, false} {
		e, later := patient(t, time.Minute, c.Endpoints...), patient(t, time.Minute, c.Endpoints...)
		term := take(t, e)
		before, _ := rows(t, e)
		etcdkv.LoseOneAnswerTo(e, written, func() { take(t, later) })
		r, err := e.Append(t.Context(), term, put("n", written))
		if written && (err != nil || r != before+1) || !written && !errors.Is(err, kv.ErrFenced) {
			t.Errorf("written %v: %d, %v", written, r, err)
		}
		if _, err := e.Append(t.Context(), term, put("n", 0)); !errors.Is(err, kv.ErrFenced) {
			t.Errorf("written %v: a later append is answered %v", written, err)
		}
	}
}

// An etcd that says that it has no room may have applied the transaction all the same, and a later owner may have come since.
func TestWhatAFullEtcdHasAppliedIsFoundOut(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	for _, w := range []struct {
		written, overtaken bool
		want               error
	}{{true, false, nil}, {false, false, kv.ErrFull}, {true, true, nil}, {false, true, kv.ErrFenced}} {
		e, later := patient(t, time.Minute, c.Endpoints...), patient(t, time.Minute, c.Endpoints...)
		term := take(t, e)
		before, _ := rows(t, e)
		etcdkv.FillUp(e, w.written, func() {
			if w.overtaken {
				take(t, later)
			}
		})
		r, err := e.Append(t.Context(), term, put("n", w.written))
		if !errors.Is(err, w.want) || err == nil && r != before+1 {
			t.Errorf("%+v: %d, %v", w, r, err)
		}
		_, err = e.Append(t.Context(), term, put("n", 0))
		if over := errors.Is(err, kv.ErrFenced); over != w.overtaken || err != nil && !over {
			t.Errorf("%+v: a later append is answered %v", w, err)
		}
	}
}

// Two owners that both believe they own the map take it from each other all the time. What either was told is durable is in the
// history, once, and nothing else but what it could not be told of.
func TestTwoOwnersWhoBothBelieve(t *testing.T) {
	const enough = 150
	c := etcdtest.Start(t, etcdtest.Options{})
	type claim struct {
		revision kv.Revision
		value    string
	}
	var mu sync.Mutex
	var told []claim
	var owners sync.WaitGroup
	for o := range 2 {
		e := patient(t, time.Minute, c.Endpoints...)
		owners.Go(func() {
			for i := 0; ; i++ {
				term, err := e.Own(t.Context())
				for range 10 {
					if err != nil {
						break
					}
					var r kv.Revision
					value := fmt.Sprintf("%d of %d", i, o)
					if r, err = e.Append(t.Context(), term, put("who", value)); err == nil {
						mu.Lock()
						told = append(told, claim{r, value})
						mu.Unlock()
					}
				}
				mu.Lock()
				done := len(told) >= enough || t.Context().Err() != nil
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	owners.Wait()
	reader := patient(t, time.Minute, c.Endpoints...)
	newest, _ := rows(t, reader)
	values := map[kv.Revision]string{}
	for b, err := range reader.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		values[b.Revision] = string(b.Put[0].Value)
		if b.Revision == newest {
			break
		}
	}
	for _, c := range told {
		if values[c.revision] != c.value {
			t.Errorf("%q was told to be revision %d, which is %q", c.value, c.revision, values[c.revision])
		}
	}
	t.Logf("%d batches told, %d in the history", len(told), newest)
}

func TestAReignEndsWithItsElectionKey(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	client := c.Client()
	elected, err := client.Put(t.Context(), "/lead", "me")
	if err != nil {
		t.Fatal(err)
	}
	e := patient(t, time.Minute, c.Endpoints...)
	e.Reign(etcdkv.Reign{Key: "/lead", Created: elected.Header.GetRevision()})
	term := take(t, e)
	if _, err := e.Append(t.Context(), term, put("a", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Delete(t.Context(), "/lead"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := e.Append(t.Context(), term, put("a", 2)); !errors.Is(err, kv.ErrFenced) {
			t.Errorf("append after the reign answers %v", err)
		}
		if _, err := client.Put(t.Context(), "/lead", "another"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Own(t.Context()); !errors.Is(err, kv.ErrFenced) {
		t.Errorf("own after the reign answers %v", err)
	}
	if r, have := rows(t, e); r != 1 || have["a"] != "1" {
		t.Errorf("revision %d has %v", r, have)
	}
}

// Others in the same etcd compact its history while a watcher is cut off. It has seen everything of its own map, so it goes on.
func TestAWatcherOutlivesTheCompactionOfOthers(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	e, standby := patient(t, time.Minute, c.Endpoints...), patient(t, time.Minute, c.Endpoints...)
	term := take(t, e)
	if _, err := e.Append(t.Context(), term, put("a", 1)); err != nil {
		t.Fatal(err)
	}
	seen, failed := make(chan kv.Batch), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for b, err := range standby.Watch(ctx, 0) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case seen <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	if b := <-seen; b.Revision != 1 {
		t.Fatal(b)
	}
	client := c.Client()
	for i := range 50 {
		if _, err := client.Put(t.Context(), "/others", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	etcdkv.Compact(e)
	c.Kill(0)
	c.Restart(0)
	c.WaitWritable()
	for n := kv.Revision(2); n <= 3; n++ {
		if _, err := e.Append(t.Context(), term, put("a", n)); err != nil {
			t.Fatal(err)
		}
		select {
		case b := <-seen:
			if b.Revision != n {
				t.Fatalf("the watcher sees %d after %d", b.Revision, n-1)
			}
		case err := <-failed:
			t.Fatal(err)
		}
	}
}

// The history of an etcd that nobody compacts does not grow for ever.
func TestHistoryIsForgotten(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	e := patient(t, time.Minute, c.Endpoints...)
	term := take(t, e)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Forget(ctx, 20*time.Millisecond, func(err error) { t.Error(err) })
	}()
	forgotten := false
	for n := kv.Revision(1); n < 2000 && !forgotten; n++ {
		if _, err := e.Append(t.Context(), term, put("a", n)); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			continue // a watch after the first one would wait
		}
		for _, err := range e.Watch(t.Context(), 1) {
			if forgotten = errors.Is(err, kv.ErrCompacted); !forgotten && err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	stop()
	<-ended
	if !forgotten {
		t.Error("the history was kept")
	}
}
