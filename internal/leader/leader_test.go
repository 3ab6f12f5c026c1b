// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
	"github.com/holdfast-storage/holdfast/internal/leader"
)

func election(t *testing.T, c *etcdtest.Cluster, name string, clock func() time.Duration) *leader.Election {
	t.Helper()
	e, err := leader.New(leader.Settings{
		Etcd: etcdkv.Settings{Endpoints: c.Endpoints}, Self: leader.Candidate{Name: name, API: "http://" + name}, Lease: 2 * time.Second, Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func campaign(t *testing.T, e *leader.Election) *leader.Reign {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := e.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOneLeadsAndTheNextOneFollows(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := election(t, c, "a", nil), election(t, c, "b", nil)
	first := campaign(t, a)
	if !first.Holds() {
		t.Error("the reign does not hold at its beginning")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.Campaign(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second candidate is answered %v", err)
	}
	if l, err := b.Leader(); err != nil || l == nil || l.Name != "a" || l.API != "http://a" {
		t.Errorf("the second candidate sees %v, %v", l, err)
	}
	won := make(chan *leader.Reign, 1)
	go func() {
		r, _ := b.Campaign(t.Context())
		won <- r
	}()
	began := time.Now()
	first.Resign(t.Context())
	if first.Holds() {
		t.Error("the reign holds after it was resigned")
	}
	second := <-won
	if took := time.Since(began); second == nil || took > time.Second {
		t.Errorf("the next one took over after %s", took)
	}
	second.Resign(t.Context())
}

// A controller that hangs is followed by another one, and notices when it goes on. The clock of the test stands for that of its
// host, which goes on while the controller hangs.
func TestAReignThatIsNotRenewedEndsBeforeTheNextOneBegins(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	var ahead atomic.Int64
	begin := time.Now()
	a := election(t, c, "a", func() time.Duration { return time.Since(begin) + time.Duration(ahead.Load()) })
	r := campaign(t, a)
	ahead.Store(int64(1700 * time.Millisecond)) // of 2 s, less a margin
	if r.Holds() {
		t.Error("the reign holds on the margin of its lease")
	}
	<-r.Lost()
}

// Whoever was deposed cannot write, whatever it believes: its commits compare the election key.
func TestADeposedLeaderCannotWrite(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := election(t, c, "a", nil), election(t, c, "b", nil)
	engine := func(r *leader.Reign) *etcdkv.Engine {
		e, err := etcdkv.New(etcdkv.Settings{Endpoints: c.Endpoints})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		e.Reign(r.Proof())
		return e
	}
	first := campaign(t, a)
	old := engine(first)
	term, err := old.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	row := kv.Batch{Put: []kv.Entry{{Key: "a", Value: []byte("1")}}}
	if _, err := old.Append(t.Context(), term, row); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().Delete(t.Context(), "/holdfast/leader"); err != nil { // as the end of the lease does
		t.Fatal(err)
	}
	// Nobody has taken the map yet, and the first leader may not have noticed.
	second := campaign(t, b)
	if _, err := old.Append(t.Context(), term, row); !errors.Is(err, kv.ErrFenced) {
		t.Errorf("the deposed leader is answered %v", err)
	}
	if _, err := old.Own(t.Context()); !errors.Is(err, kv.ErrFenced) {
		t.Errorf("the deposed leader takes the map again: %v", err)
	}
	<-first.Lost()
	next := engine(second)
	term, err = next.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := next.Append(t.Context(), term, row); err != nil || r != 2 {
		t.Errorf("the new leader's first batch: %d, %v", r, err)
	}
	second.Resign(t.Context())
}

func TestAReignOutlivesTheLeaderOfEtcd(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 3, Flags: []string{"--heartbeat-interval", "50", "--election-timeout", "500"}})
	e, err := leader.New(leader.Settings{Etcd: etcdkv.Settings{Endpoints: c.Endpoints}, Self: leader.Candidate{Name: "a"}, Lease: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	r := campaign(t, e)
	c.Kill(c.Leader())
	enough := time.NewTimer(7 * time.Second)
	defer enough.Stop()
	select {
	case <-r.Lost():
		t.Error("the reign ended with a member of etcd")
	case <-enough.C:
	}
	if !r.Holds() {
		t.Error("the reign does not hold")
	}
	r.Resign(t.Context())
}
