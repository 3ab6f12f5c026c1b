// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func TestFullDiskIsLeftAsSoonAsThereIsSpace(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		must(t, s, sh.insertNode("a"))
		m.Fail(kv.ErrFull)
		for range 3 {
			if a := <-start(s, sh.insertNode("b")); !errors.Is(a.err, store.ErrFull) {
				t.Errorf("an update on a full disk answers %v", a.err)
			}
			if !errors.Is(s.Err(), store.ErrFull) || sh.nodes.Len(s.Snapshot()) != 1 {
				t.Errorf("the store says %v and shows %d nodes", s.Err(), sh.nodes.Len(s.Snapshot()))
			}
		}
		time.Sleep(10 * time.Second) // in the bubble's time: it tries in vain
		if !errors.Is(s.Err(), store.ErrFull) {
			t.Errorf("the store says %v on a full disk", s.Err())
		}
		m.Fail(nil)
		time.Sleep(2 * time.Second)
		if s.Err() != nil {
			t.Errorf("the store says %v though there is space again", s.Err())
		}
		if r := must(t, s, sh.insertNode("b")); r != 2 {
			t.Errorf("the next update has revision %d", r)
		}
	})
}

func TestFencedStoreRefusesUpdatesAndGoesOnReading(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		must(t, s, sh.insertNode("a"))
		gate := m.Hold(kvtest.BeforeAppend)
		late := start(s, sh.insertNode("late"))
		<-gate.Reached
		other := open(t, m.Peer(), sh.all())
		must(t, other, sh.insertNode("b"))
		gate.Open(nil)
		if a := <-late; !errors.Is(a.err, store.ErrFenced) {
			t.Errorf("the update that came too late answers %v", a.err)
		}
		<-s.Fenced()
		if a := <-start(s, sh.insertNode("c")); !errors.Is(a.err, store.ErrFenced) || !errors.Is(s.Err(), store.ErrFenced) {
			t.Errorf("the next update answers %v, the store says %v", a.err, s.Err())
		}
		if sh.nodes.Len(s.Snapshot()) != 1 || sh.nodes.Len(other.Snapshot()) != 2 {
			t.Errorf("%d and %d nodes", sh.nodes.Len(s.Snapshot()), sh.nodes.Len(other.Snapshot()))
		}
		time.Sleep(time.Hour)
		must(t, other, sh.insertNode("d")) // the fenced store has not taken the map back
		_ = other.Close()
	})
}

func TestIdleStoreLearnsThatItIsFencedWhenItTriesAgain(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		m.Fail(kv.ErrFull)
		<-start(s, sh.insertNode("a"))
		other := open(t, m.Peer(), sh.all())
		m.Fail(nil)
		<-s.Fenced()
		_ = other.Close()
	})
}

func TestUnknownOutcomeIsLookedUp(t *testing.T) {
	for _, written := range []bool{false, true} {
		within(t, func(in bubble) {
			t, s, sh, m := in.t, in.s, in.sh, in.m
			must(t, s, sh.insertNode("a"))
			gate := m.Hold(map[bool]kvtest.Step{false: kvtest.BeforeAppend, true: kvtest.BeforeAnswer}[written])
			first := start(s, sh.insertNode("b"))
			<-gate.Reached
			behind := start(s, sh.insertNode("c"))
			synctest.Wait()
			gate.Open(kv.ErrUnknown)
			if a := <-first; !errors.Is(a.err, store.ErrUnknown) {
				t.Errorf("the update answers %v", a.err)
			}
			if a := <-behind; !errors.Is(a.err, store.ErrAborted) || errors.Is(a.err, store.ErrUnknown) {
				t.Errorf("the update behind it answers %v: its outcome is known", a.err)
			}
			if a := <-start(s, sh.insertNode("d")); !errors.Is(a.err, store.ErrUnavailable) || errors.Is(a.err, store.ErrUnknown) {
				t.Errorf("an update before the store knows answers %v", a.err)
			}
			if sh.nodes.Len(s.Snapshot()) != 1 || s.Err() == nil {
				t.Errorf("%d nodes, the store says %v", sh.nodes.Len(s.Snapshot()), s.Err())
			}
			time.Sleep(2 * time.Second)
			nodes, next := 1, store.Revision(2)
			if written {
				nodes, next = 2, 3
			}
			if sh.nodes.Len(s.Snapshot()) != nodes || s.Err() != nil {
				t.Errorf("written %v: %d nodes, the store says %v", written, sh.nodes.Len(s.Snapshot()), s.Err())
			}
			if r := must(t, s, sh.insertNode("e")); r != next {
				t.Errorf("written %v: the next update has revision %d", written, r)
			}
			sound(t, s)
		})
	}
}

func TestEndedContextGivesUpTheAnswerNotTheUpdate(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("the client went away")
		update := startWith(ctx, s, sh.insertNode("a"))
		<-gate.Reached
		read := startWith(ctx, s, func(*store.Tx) error { return nil })
		synctest.Wait()
		cancel(reason)
		if a := <-update; !errors.Is(a.err, store.ErrUnknown) || !errors.Is(a.err, reason) {
			t.Errorf("the update answers %v", a.err)
		}
		if a := <-read; !errors.Is(a.err, reason) || errors.Is(a.err, store.ErrUnknown) {
			t.Errorf("the read answers %v", a.err)
		}
		if a := <-startWith(ctx, s, sh.insertNode("never")); !errors.Is(a.err, reason) || errors.Is(a.err, store.ErrUnknown) {
			t.Errorf("an update with an ended context answers %v", a.err)
		}
		gate.Open(nil)
		synctest.Wait()
		if _, ok := sh.nodes.Get(s.Snapshot(), "a"); !ok || sh.nodes.Len(s.Snapshot()) != 1 {
			t.Error("the update that was given up is not there")
		}
	})
}

func TestCloseLetsWaitingUpdatesBecomeDurable(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAppend)
		first := start(s, sh.insertNode("a"))
		<-gate.Reached
		second := start(s, sh.insertNode("b"))
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		if a := <-start(s, sh.insertNode("c")); !errors.Is(a.err, store.ErrClosed) {
			t.Errorf("an update of a closing store answers %v", a.err)
		}
		gate.Open(nil)
		if a, b, err := <-first, <-second, <-closed; a.err != nil || b.err != nil || err != nil {
			t.Errorf("%v, %v; close: %v", a.err, b.err, err)
		}
		if v := s.Snapshot(); sh.nodes.Len(v) != 2 {
			t.Errorf("a view of the closed store shows %d nodes", sh.nodes.Len(v))
		}
		if err := s.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
	})
}

func TestCloseGivesUpOnAnEngineThatDoesNotAnswer(t *testing.T) {
	within(t, func(in bubble) {
		t, s, sh, m := in.t, in.s, in.sh, in.m
		gate := m.Hold(kvtest.BeforeAnswer)
		update := start(s, sh.insertNode("a"))
		<-gate.Reached
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if a := <-update; !errors.Is(a.err, store.ErrUnknown) || time.Since(began) > time.Minute {
			t.Errorf("the update answers %v after %s", a.err, time.Since(began))
		}
	})
}
