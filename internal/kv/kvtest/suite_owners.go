// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

func (s Subject) newTermFences(t *testing.T) {
	e := s.fresh(t)
	old := e.term
	e.append(batch("a=1"))
	term, err := e.Own(t.Context())
	if err != nil || term <= old {
		t.Fatalf("own again: term %d after %d, %v", term, old, err)
	}
	for range 3 {
		_, err = e.Append(t.Context(), old, batch("a=2"))
		wantError(t, "append in the old term", err, kv.ErrFenced)
	}
	_, err = e.Append(t.Context(), 0, batch("a=2"))
	wantError(t, "append in no term", err, kv.ErrFenced)
	e.wantRows(1, map[string]string{"a": "1"})
	e.term = term
	e.append(batch("a=3"))
	e.wantRows(2, map[string]string{"a": "3"})
}

func (s Subject) newOwnerFences(t *testing.T) {
	if s.OwnWaits {
		t.Skip("owners wait for each other")
	}
	attach := s.New(t)
	first := own(t, attach())
	first.append(batch("a=1"))
	second := own(t, attach())
	for range 3 {
		_, err := first.Append(t.Context(), first.term, batch("a=first"))
		wantError(t, "append of the earlier owner", err, kv.ErrFenced)
	}
	second.append(batch("b=2"))
	_, err := first.Append(t.Context(), first.term, kv.Batch{})
	wantError(t, "empty append of the earlier owner", err, kv.ErrFenced)
	second.wantRows(2, map[string]string{"a": "1", "b": "2"})
}

func (s Subject) ownerIsWaitedFor(t *testing.T) {
	if !s.OwnWaits {
		t.Skip("owners do not wait for each other")
	}
	attach := s.New(t)
	first := own(t, attach())
	second := attach()
	t.Cleanup(func() { _ = second.Close() })

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := second.Own(ctx)
	wantError(t, "own while there is an owner", err, kv.ErrInUse)
	wantError(t, "own while there is an owner", err, context.DeadlineExceeded)
	first.append(batch("a=1"))

	took := make(chan error, 1)
	go func() {
		term, err := second.Own(context.Background())
		if err == nil && term <= first.term {
			err = fmt.Errorf("term %d comes after term %d", term, first.term)
		}
		took <- err
	}()
	first.append(batch("b=2"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-took; err != nil {
		t.Fatalf("own after the owner: %v", err)
	}
	if r, rows := load(t, second); r != 2 || len(rows) != 2 {
		t.Errorf("the second owner sees revision %d: %v", r, rows)
	}

	third := attach()
	go func() {
		_, err := third.Own(context.Background())
		took <- err
	}()
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "own of an engine that is closed", <-took, kv.ErrClosed)
}

// fencedWhileAppending lets a second owner come while an append of the first one is held at each step.
func (s Subject) fencedWhileAppending(t *testing.T) {
	if s.Hold == nil || s.OwnWaits {
		t.Skip("appends cannot be held while another owner comes")
	}
	for _, c := range []struct {
		step    Step
		written bool
	}{{BeforeAppend, false}, {BeforeAnswer, true}} {
		attach := s.New(t)
		first := own(t, attach())
		first.append(batch("a=1"))
		gate := s.Hold(first.Engine, c.step)
		answer := make(chan error, 1)
		go func() {
			_, err := first.Append(context.Background(), first.term, batch("a=first"))
			answer <- err
		}()
		<-gate.Reached
		second := own(t, attach())
		want, revision := map[string]string{"a": "1"}, kv.Revision(1)
		if c.written {
			want, revision = map[string]string{"a": "first"}, 2
		}
		second.wantRows(revision, want)
		second.append(batch("b=2")) // it need not wait for the one that is held
		revision++
		want["b"] = "2"
		gate.Open(nil)
		switch err := <-answer; {
		case c.written && err != nil && !errors.Is(err, kv.ErrUnknown):
			t.Errorf("step %d: a batch that is durable was answered with %v", c.step, err)
		case !c.written:
			wantError(t, "append that comes too late", err, kv.ErrFenced)
		}
		_, err := first.Append(t.Context(), first.term, batch("a=again"))
		wantError(t, "a later append", err, kv.ErrFenced)
		second.wantRows(revision, want)
	}
}

func (s Subject) unknownOutcome(t *testing.T) {
	if s.Unknown == nil {
		t.Skip("outcomes of the engine cannot be made unknown")
	}
	for _, written := range []bool{false, true} {
		e := s.fresh(t)
		e.append(batch("a=1", "b=1"))
		s.Unknown(e.Engine, written)
		_, err := e.Append(t.Context(), e.term, batch("a=2", "-b", "c=2"))
		wantError(t, "append", err, kv.ErrUnknown)
		for range 2 {
			if _, err := e.Append(t.Context(), e.term, batch("d=3")); err == nil || errors.Is(err, kv.ErrUnknown) {
				t.Errorf("written %v: the next append of the term answers %v", written, err)
			}
		}
		term, err := e.Own(t.Context())
		if err != nil {
			t.Fatalf("own: %v", err)
		}
		e.term = term
		r := kv.Revision(1)
		if written {
			r = 2
			e.wantRows(r, map[string]string{"a": "2", "c": "2"})
		} else {
			e.wantRows(r, map[string]string{"a": "1", "b": "1"})
		}
		if got := e.append(batch("e=4")); got != r+1 {
			t.Errorf("written %v: revision %d follows %d", written, got, r)
		}
		if b, err := collect(t.Context(), e, r, 1); err != nil || text(b[0]) != text(batch("e=4")) {
			t.Errorf("written %v: watch after it: %v, %v", written, b, err)
		}
	}
}

// randomWork runs random appends, reopenings and new terms against a plain map.
func (s Subject) randomWork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attach := s.New(t)
		e := own(t, attach())
		want, revision := map[string]string{}, kv.Revision(0)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				b := anyBatch(rt)
				revision++
				if r := e.append(b); r != revision {
					rt.Fatalf("revision %d, want %d", r, revision)
				}
				fold(want, b)
			},
			"reopen": func(*rapid.T) {
				_ = e.Close()
				e = own(t, attach())
			},
			"own": func(rt *rapid.T) {
				term, err := e.Own(t.Context())
				if err != nil || term <= e.term {
					rt.Fatalf("own: term %d after %d, %v", term, e.term, err)
				}
				e.term = term
			},
			"": func(*rapid.T) { e.wantRows(revision, want) },
		})
		_ = e.Close()
	})
}

func anyBatch(rt *rapid.T) kv.Batch {
	keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c\x00\x01\xff/]{1,3}`), 0, 6, rapid.ID).Draw(rt, "keys")
	var b kv.Batch
	for _, k := range keys {
		if rapid.Bool().Draw(rt, "put") {
			b.Put = append(b.Put, kv.Entry{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "value")})
		} else {
			b.Delete = append(b.Delete, k)
		}
	}
	return b
}
