// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// eventually waits until a condition holds, which it must do soon.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("what was waited for did not come")
		}
	}
}

// churn changes a shop at random.
func churn(t *testing.T, s shop, st *store.Store, r *rand.Rand, updates int) {
	t.Helper()
	for i := range updates {
		key := replicaKey{Definition: fmt.Sprintf("d%d", r.IntN(8)), Node: fmt.Sprintf("n%d", r.IntN(3))}
		must(t, st, func(tx *store.Tx) error {
			if _, there := s.nodes.Get(tx, key.Node); !there {
				return s.nodes.Insert(tx, node{Name: key.Node})
			}
			v, there := s.replicas.Get(tx, key)
			switch {
			case !there:
				return s.replicas.Insert(tx, aReplica(key.Definition, key.Node, int64(i)))
			case r.IntN(3) == 0:
				return s.replicas.Delete(tx, key)
			default:
				v.Size = int64(i)
				return s.replicas.Update(tx, v)
			}
		})
	}
}

func replicasOf(s shop, r store.Reader) []replica {
	return slices.Collect(s.replicas.All(r))
}

func TestAStandbyShowsWhatIsDurableAndTakesOver(t *testing.T) {
	engine := kvtest.NewMemory()
	s := newShop()
	owner, err := store.Open(t.Context(), engine, s.all())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close() }()
	r := rand.New(rand.NewPCG(1, 2))
	churn(t, s, owner, r, 50)
	standby, err := store.Follow(t.Context(), engine.Peer(), s.all(), store.Paranoid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = standby.Close() }()
	for range 5 {
		churn(t, s, owner, r, 40)
		eventually(t, func() bool { return standby.Snapshot().Revision() == owner.Snapshot().Revision() })
		if d := cmp.Diff(replicasOf(s, owner.Snapshot()), replicasOf(s, standby.Snapshot())); d != "" {
			t.Fatalf("the standby shows other rows (-owner +standby):\n%s", d)
		}
		if p := store.Verify(standby.Snapshot()); len(p) > 0 {
			t.Fatal(p)
		}
	}
	_, err = standby.Update(t.Context(), func(*store.Tx) error { return nil })
	if !errors.Is(err, store.ErrStandby) {
		t.Errorf("an update of a standby answers %v", err)
	}
	churn(t, s, owner, r, 10) // perhaps not seen yet
	want := replicasOf(s, owner.Snapshot())
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, replicasOf(s, standby.Snapshot())); d != "" {
		t.Errorf("after the promotion (-want +got):\n%s", d)
	}
	_, err = owner.Update(t.Context(), func(tx *store.Tx) error { return s.nodes.Insert(tx, node{Name: "late"}) })
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("an update of the deposed owner answers %v", err)
	}
	<-owner.Fenced()
	churn(t, s, standby, r, 20)
	if p := store.Verify(standby.Snapshot()); len(p) > 0 {
		t.Error(p)
	}
}

func TestAStandbyReadsAgainWhenItMissedTooMuch(t *testing.T) {
	engine := kvtest.NewMemory()
	s := newShop()
	owner, err := store.Open(t.Context(), engine, s.all())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close() }()
	late := &lateWatch{Engine: engine.Peer(), hold: make(chan struct{})}
	standby, err := store.Follow(t.Context(), late, s.all(), store.Retry(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = standby.Close() }()
	churn(t, s, owner, rand.New(rand.NewPCG(3, 4)), 30)
	engine.Compact(1)
	close(late.hold)
	eventually(t, func() bool { return standby.Snapshot().Revision() == owner.Snapshot().Revision() })
	if d := cmp.Diff(replicasOf(s, owner.Snapshot()), replicasOf(s, standby.Snapshot())); d != "" {
		t.Errorf("the standby shows other rows (-owner +standby):\n%s", d)
	}
}

// lateWatch lets watches begin late.
type lateWatch struct {
	kv.Engine
	hold chan struct{}
}

func (l *lateWatch) Watch(ctx context.Context, after kv.Revision) iter.Seq2[kv.Batch, error] {
	return func(yield func(kv.Batch, error) bool) {
		select {
		case <-l.hold:
		case <-ctx.Done():
		}
		l.Engine.Watch(ctx, after)(yield)
	}
}

func TestALaterGenerationIsRefusedAndAnEarlierOneUpgraded(t *testing.T) {
	engine := kvtest.NewMemory()
	s := newShop()
	open := func(o store.Origin) (*store.Store, error) {
		return store.Open(t.Context(), engine.Peer(), s.all(), store.WrittenBy(o))
	}
	one, two := store.Origin{Generation: 1, Program: "1.0"}, store.Origin{Generation: 2, Program: "2.0"}
	st, err := open(one)
	if err != nil {
		t.Fatal(err)
	}
	if o := st.Snapshot().Origin(); o != (store.Origin{}) {
		t.Errorf("a new database says %+v", o)
	}
	if err := st.Upgrade(t.Context(), one, func(*store.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	_ = st.Close()
	st, err = open(two)
	if err != nil {
		t.Fatal(err)
	}
	if o := st.Snapshot().Origin(); o != one {
		t.Errorf("the database says %+v, want %+v", o, one)
	}
	stop := errors.New("stopped in the middle")
	if err := st.Upgrade(t.Context(), two, func(tx *store.Tx) error {
		return errors.Join(s.nodes.Insert(tx, node{Name: "half"}), stop)
	}); !errors.Is(err, stop) {
		t.Error(err)
	}
	if o := st.Snapshot().Origin(); o != one || s.nodes.Len(st.Snapshot()) != 0 {
		t.Errorf("after half an upgrade the database says %+v", o)
	}
	if err := st.Upgrade(t.Context(), two, func(tx *store.Tx) error { return s.nodes.Insert(tx, node{Name: "new"}) }); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Update(t.Context(), func(tx *store.Tx) error { return s.nodes.Insert(tx, node{Name: "more"}) }); err != nil {
		t.Fatal(err)
	}
	_ = st.Close()
	var newer *store.NewerError
	if _, err := open(one); !errors.As(err, &newer) || newer.Database != two || newer.Known != 1 {
		t.Errorf("an older program is answered %v", err)
	}
	v, _, err := store.Read(t.Context(), engine.Peer(), s.all())
	if err != nil || v.Origin() != two {
		t.Errorf("read: %v", err)
	}
}

// A standby that has not seen everything when it is promoted reads the whole map.
func TestAStandbyThatLagsTakesOverTheWholeState(t *testing.T) {
	engine := kvtest.NewMemory()
	s := newShop()
	owner, err := store.Open(t.Context(), engine, s.all())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close() }()
	late := &lateWatch{Engine: engine.Peer(), hold: make(chan struct{})}
	standby, err := store.Follow(t.Context(), late, s.all())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = standby.Close() }()
	churn(t, s, owner, rand.New(rand.NewPCG(5, 6)), 30)
	want := replicasOf(s, owner.Snapshot())
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, replicasOf(s, standby.Snapshot())); d != "" {
		t.Errorf("after the promotion (-want +got):\n%s", d)
	}
	churn(t, s, standby, rand.New(rand.NewPCG(7, 8)), 5)
}

// deposed is an engine whose append has an unknown outcome, because its owner was deposed meanwhile.
type deposed struct {
	kv.Engine
	owned int
}

func (d *deposed) Own(ctx context.Context) (kv.Term, error) {
	if d.owned++; d.owned > 1 {
		return 0, kv.ErrFenced
	}
	return d.Engine.Own(ctx)
}

func (d *deposed) Append(context.Context, kv.Term, kv.Batch) (kv.Revision, error) {
	return 0, kv.ErrUnknown
}

// An owner that learns of its deposition only when it takes the map again says so, and does not go on trying.
func TestAnOwnerThatCannotTakeTheMapAgainIsFenced(t *testing.T) {
	s := newShop()
	st, err := store.Open(t.Context(), &deposed{Engine: kvtest.NewMemory()}, s.all(), store.Retry(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	insert := func() error {
		_, err := st.Update(t.Context(), func(tx *store.Tx) error { return s.nodes.Insert(tx, node{Name: "n"}) })
		return err
	}
	if err := insert(); !errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
	<-st.Fenced()
	if err := insert(); !errors.Is(err, store.ErrFenced) {
		t.Error(err)
	}
}
