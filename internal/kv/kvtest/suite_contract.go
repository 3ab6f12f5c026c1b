// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

func (s Subject) emptyMap(t *testing.T) {
	e := s.fresh(t)
	e.wantRows(0, map[string]string{})
	if r := e.append(kv.Batch{}); r != 1 {
		t.Errorf("the first batch has revision %d", r)
	}
	e.wantRows(1, map[string]string{})
}

func (s Subject) batchesFollowEachOther(t *testing.T) {
	e := s.fresh(t)
	for i, step := range []struct {
		batch kv.Batch
		want  map[string]string
	}{
		{batch("a=1", "b=2"), map[string]string{"a": "1", "b": "2"}},
		{batch("a=3"), map[string]string{"a": "3", "b": "2"}},
		{batch("-b", "c=4"), map[string]string{"a": "3", "c": "4"}},
		{batch("-never"), map[string]string{"a": "3", "c": "4"}},
		{batch("c="), map[string]string{"a": "3", "c": ""}},
		{batch("-a", "-c"), map[string]string{}},
		{batch("a=5"), map[string]string{"a": "5"}},
	} {
		want := kv.Revision(i + 1)
		if r := e.append(step.batch); r != want {
			t.Errorf("batch %d has revision %d", want, r)
		}
		e.wantRows(want, step.want)
	}
}

func (s Subject) anyBytesComeBack(t *testing.T) {
	e := s.fresh(t)
	var every []byte
	for i := range 256 {
		every = append(every, byte(i))
	}
	want := map[string]string{
		"\x00": "", "\x00\x00": "\x00", "\xff": "\xff\xff", "a/": "dir", "a/\x00b": "\n", "ä": "ö",
		strings.Repeat("k", kv.MaxKey): string(every),
	}
	for b := range 256 {
		want["byte "+string([]byte{byte(b)})] = fmt.Sprint(b)
	}
	var all kv.Batch
	n := kv.Revision(0)
	for k, v := range want {
		all.Put = append(all.Put, kv.Entry{Key: k, Value: []byte(v)})
		if len(all.Put) == kv.MaxRows {
			n = e.append(all)
			all = kv.Batch{}
		}
	}
	if len(all.Put) > 0 {
		n = e.append(all)
	}
	e.wantRows(n, want)
}

func (s Subject) batchIsNotKept(t *testing.T) {
	e := s.fresh(t)
	b := batch("a=1", "-b")
	e.append(b)
	b.Put[0].Value[0] = 'X'
	b.Put[0].Key, b.Delete[0] = "other", "other"
	e.wantRows(1, map[string]string{"a": "1"})
	seen, err := collect(t.Context(), e, 0, 1)
	if err != nil || effect(nil, seen[0]) != text(batch("a=1")) {
		t.Errorf("watch shows %v, %v", seen, err)
	}
}

func (s Subject) limitsHold(t *testing.T) {
	e := s.fresh(t)
	var rows kv.Batch
	for i := range kv.MaxRows {
		rows.Put = append(rows.Put, kv.Entry{Key: fmt.Sprintf("row %03d", i)})
	}
	large := kv.Batch{Put: []kv.Entry{{Key: "large", Value: bytes.Repeat([]byte{7}, kv.MaxBytes-len("large"))}}}
	e.append(rows)
	last := e.append(large)
	_, before := e.rows()

	for name, b := range map[string]kv.Batch{
		"rows":      {Put: rows.Put, Delete: []string{"one more"}},
		"bytes":     {Put: append(slices.Clone(large.Put), kv.Entry{Key: "x"})},
		"empty key": {Put: []kv.Entry{{Key: ""}}},
		"long key":  {Delete: []string{strings.Repeat("k", kv.MaxKey+1)}},
		"put twice": {Put: []kv.Entry{{Key: "a"}, {Key: "a"}}},
		"both":      batch("a=1", "-a"),
	} {
		var limit *kv.LimitError
		if _, err := e.Append(t.Context(), e.term, b); !errors.As(err, &limit) {
			t.Errorf("%s: append answers %v", name, err)
		}
	}
	e.wantRows(last, before)
	e.append(batch("after=1"))
}

func (s Subject) reopening(t *testing.T) {
	attach := s.New(t)
	want := map[string]string{}
	var term kv.Term
	for i := range 5 {
		e := own(t, attach())
		if e.term <= term {
			t.Errorf("term %d comes after term %d", e.term, term)
		}
		term = e.term
		e.wantRows(kv.Revision(2*i), want)
		b := batch(fmt.Sprintf("k%d=%d", i%3, i), fmt.Sprintf("-k%d", (i+1)%3))
		e.append(b)
		fold(want, b)
		e.append(batch("same=1"))
		want["same"] = "1"
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func (s Subject) closedEngineRefuses(t *testing.T) {
	e := s.fresh(t)
	e.append(batch("a=1"))
	_, under := e.Load(t.Context())
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	_, err := e.Own(t.Context())
	wantError(t, "own", err, kv.ErrClosed)
	_, err = e.Append(t.Context(), e.term, batch("b=1"))
	wantError(t, "append", err, kv.ErrClosed)
	_, entries := e.Load(t.Context())
	wantError(t, "load", failure(entries), kv.ErrClosed)
	wantError(t, "load from before", failure(under), kv.ErrClosed)
	wantError(t, "watch", failure(e.Watch(t.Context(), 1)), kv.ErrClosed)
}

func (s Subject) endedContext(t *testing.T) {
	e := s.fresh(t)
	e.append(batch("a=1"))
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("a reason of the caller")
	cancel(reason)
	_, err := e.Append(ctx, e.term, batch("b=1"))
	wantError(t, "append", err, reason)
	_, err = e.Own(ctx)
	wantError(t, "own", err, reason)
	_, entries := e.Load(ctx)
	wantError(t, "load", failure(entries), reason)
	e.wantRows(1, map[string]string{"a": "1"})
	e.append(batch("c=1"))
}

func wantError(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s answers %v, want %v", what, err, kind)
	}
}
