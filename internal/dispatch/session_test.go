// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func TestSessionsAreRefused(t *testing.T) {
	onlyAlpha := func(c *dispatch.Config) {
		c.Admit = func(_ context.Context, node model.NodeKey) error {
			if node != "alpha" {
				return errors.New("its certificate is of alpha")
			}
			return nil
		}
	}
	for _, c := range []struct {
		name  string
		node  string
		hello func(*agentpb.Hello)
		setup func(*rig)
		want  codes.Code
	}{
		{name: "a node that is registered", node: "alpha", want: codes.OK},
		{name: "in other letters", node: "ALPHA", want: codes.OK},
		{
			name: "a node that is being deleted", node: "alpha", want: codes.OK,
			setup: func(r *rig) { change(r, schema.Nodes, "alpha", func(n *schema.Node) { n.Deleting = true }) },
		},
		{name: "another node's certificate", node: "beta", want: codes.PermissionDenied},
		{name: "another protocol", node: "alpha", hello: func(h *agentpb.Hello) { h.Protocol = 7 }, want: codes.FailedPrecondition},
		{
			name: "a node that is not registered", node: "alpha", want: codes.NotFound,
			setup: func(r *rig) {
				r.write(func(tx *store.Tx) error {
					for p := range schema.PoolsOf(tx, "alpha") {
						if err := schema.Pools.Delete(tx, model.PoolID{Node: "alpha", Pool: p.Name.Key()}); err != nil {
							return err
						}
					}
					return schema.Nodes.Delete(tx, "alpha")
				})
			},
		},
		{name: "a controller that does not lead", node: "alpha", setup: func(r *rig) { r.stopServing() }, want: codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				if c.setup != nil {
					c.setup(r)
				}
				var changes []func(*agentpb.Hello)
				if c.hello != nil {
					changes = append(changes, c.hello)
				}
				if got := r.dial(c.node, changes...).end(); got != c.want {
					r.Errorf("got %s, want %s", got, c.want)
				}
				if n := r.server.Sessions().Sessions; (n == 1) != (c.want == codes.OK) {
					r.Errorf("%d sessions", n)
				}
			}, onlyAlpha)
		})
	}
}

func TestNodeIsOnlineOnceTheFirstMessageIsTakenOver(t *testing.T) {
	in(t, func(r *rig) {
		r.connection("alpha", observed.Offline)
		c := r.dial("alpha", func(h *agentpb.Hello) {
			h.Uname, h.Version = "host.example", "1.2"
			h.Providers, h.Layers = []string{"LVM", "FROM_THE_FUTURE"}, []string{"STORAGE"}
			h.UnsupportedLayers = map[string]string{"DRBD": "no module"}
		})
		r.connection("alpha", observed.Connected)
		m := c.next()
		c.resultsIn = "" // not taken over yet
		c.report()
		c.resultsIn = "something/9"
		c.report()
		r.connection("alpha", observed.Connected)
		r.create("vol", "alpha")
		c.resultsIn = m.GetResultsIn()
		c.next()
		c.report() // a later message stands for the first as well
		r.connection("alpha", observed.Online)
		n := r.seen.Node("alpha")
		if n.Uname != "host.example" || n.Version != "1.2" || fmt.Sprint(n.Providers, n.Layers) != "[LVM] [STORAGE]" || n.UnsupportedLayers["DRBD"] == "" {
			r.Errorf("facts: %+v", n.Facts)
		}
	})
}

func TestNewSessionEndsTheOneBeforeWithoutAnOffline(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		first := r.join("alpha")
		waited := make(chan error, 1)
		go func() {
			_, err := r.seen.Wait(r.Context(), model.ResourceID{Definition: "vol", Node: "alpha"}, 1)
			waited <- err
		}()
		synctest.Wait()
		second := r.dial("alpha", func(h *agentpb.Hello) { h.Instance = "second" })
		if got := first.end(); got != codes.Aborted {
			r.Errorf("the first session ended with %s", got)
		}
		r.connection("alpha", observed.Connected)
		if unknown, err := first.tryReport(ready("vol", 99)); !unknown || err != nil {
			r.Errorf("late report of the first session: unknown %v, %v", unknown, err)
		}
		second.next()
		second.report()
		r.connection("alpha", observed.Online)
		select {
		case err := <-waited:
			r.Errorf("a wait ended with %v", err)
		default:
		}
		second.report(ready("vol", 99))
		if err := <-waited; err != nil {
			r.Error(err)
		}
		if st := r.server.Sessions(); st.Sessions != 1 || st.Superseded != 1 || st.Full != 2 {
			r.Errorf("%+v", st)
		}
	})
}

// An agent process that has exactly what it was sent last gets what changed since; any other
// gets all.
func TestSessionIsResumed(t *testing.T) {
	for _, c := range []struct {
		name    string
		hello   func(h *agentpb.Hello, last string)
		resumed bool
	}{
		{"by the same process", func(h *agentpb.Hello, last string) { h.AppliesTo = last }, true},
		{"by a new process", func(h *agentpb.Hello, last string) { h.AppliesTo, h.Instance = last, "second" }, false},
		{"by a process without an instance", func(h *agentpb.Hello, last string) { h.AppliesTo, h.Instance = last, "" }, false},
		{"from something else", func(h *agentpb.Hello, last string) { h.AppliesTo = last + "1" }, false},
		{"from nothing", func(*agentpb.Hello, string) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				a := r.create("aa", "alpha")
				b := r.create("bb", "alpha")
				first := r.join("alpha")
				first.report(ready("aa", a, 0), ready("bb", b, 0))
				first.hangUp()
				r.connection("alpha", observed.Offline)
				r.write(func(tx *store.Tx) error {
					return schema.Resources.Delete(tx, model.ResourceID{Definition: "bb", Node: "alpha"})
				})
				d := r.create("dd", "alpha")

				second := r.dial("alpha", func(h *agentpb.Hello) { c.hello(h, first.resultsIn) })
				m := second.next()
				want := &agentpb.Assignments{
					Full: true, Pools: []*agentpb.Pool{alphaPool}, Resources: []*agentpb.Resource{vol("aa", a), vol("dd", d)},
				}
				if c.resumed {
					want = &agentpb.Assignments{Resources: []*agentpb.Resource{vol("dd", d)}, GoneResources: []string{"bb"}}
					if m.GetAppliesTo() != first.resultsIn {
						r.Errorf("applies to %q", m.GetAppliesTo())
					}
				}
				r.same(m, want)
				id := model.ResourceID{Definition: "aa", Node: "alpha"}
				if st, _ := r.seen.Resource(id); st.Current {
					r.Error("current before the agent has said anything")
				}
				second.report()
				r.connection("alpha", observed.Online)
				if st, _ := r.seen.Resource(id); st.Current != c.resumed {
					r.Errorf("current %v", st.Current)
				}
			})
		})
	}
}

func TestResumedSessionWithoutChangesStillSaysThatItIsThere(t *testing.T) {
	in(t, func(r *rig) {
		first := r.join("alpha")
		first.hangUp()
		synctest.Wait()
		second := r.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = first.resultsIn })
		m := second.next()
		if m.GetFull() || m.GetAppliesTo() != first.resultsIn || m.GetResultsIn() == "" || m.GetHeartbeat() == nil {
			r.Errorf("%v", m)
		}
		second.report()
		r.connection("alpha", observed.Online)
	})
}

// A message that the agent may not have got is not built on.
func TestSessionIsNotResumedOverALostMessage(t *testing.T) {
	in(t, func(r *rig) {
		g := r.create("aa", "alpha")
		first := r.join("alpha")
		has := first.resultsIn
		b := r.create("bb", "alpha")
		first.next() // which the agent loses
		first.hangUp()
		synctest.Wait()
		r.same(r.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = has }).next(), &agentpb.Assignments{
			Full: true, Pools: []*agentpb.Pool{alphaPool}, Resources: []*agentpb.Resource{vol("aa", g), vol("bb", b)},
		})
	})
}

func TestSilentNodeGoesOffline(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		began := time.Now()
		for range 10 {
			time.Sleep(14 * time.Second)
			c.report()
		}
		r.connection("alpha", observed.Online)
		if c.end() != codes.OK {
			r.Error("a node that reports lost its session")
		}
		time.Sleep(15*time.Second - time.Nanosecond)
		r.connection("alpha", observed.Online)
		time.Sleep(time.Nanosecond)
		r.connection("alpha", observed.Offline)
		if got := c.end(); got != codes.DeadlineExceeded {
			r.Errorf("the session ended with %s", got)
		}
		n := r.seen.Node("alpha")
		if silent := n.Since.Sub(n.Heard); silent != 15*time.Second || !strings.Contains(n.Reason, "15s") {
			r.Errorf("OFFLINE after %s: %s (%s after the start)", silent, n.Reason, time.Since(began))
		}
		if unknown, err := c.tryReport(); !unknown || err != nil {
			r.Errorf("report after the end: unknown %v, %v", unknown, err)
		}
		r.connection("alpha", observed.Offline)
		if r.server.Sessions().Silent != 1 {
			r.Errorf("%+v", r.server.Sessions())
		}
	})
}

func TestNodeIsOfflineAsSoonAsItsStreamEnds(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		began := time.Now()
		c.hangUp()
		r.connection("alpha", observed.Offline)
		if d := time.Since(began); d != 0 {
			r.Errorf("after %s", d)
		}
	})
}

func TestDeletedNodeLosesItsSession(t *testing.T) {
	deleteBeta := func(tx *store.Tx) error {
		return errors.Join(schema.Pools.Delete(tx, model.PoolID{Node: "beta", Pool: "data"}), schema.Nodes.Delete(tx, "beta"))
	}
	addBeta := func(tx *store.Tx) error { return schema.Nodes.Insert(tx, schema.Node{Name: "beta", UUID: "3"}) }
	in(t, func(r *rig) {
		c := r.join("beta")
		c.reportPools(&agentpb.PoolStatus{Name: "Data"})
		r.write(deleteBeta)
		if got := c.end(); got != codes.NotFound {
			r.Errorf("ended with %s", got)
		}
		r.connection("beta", observed.Offline)
		if _, known := r.seen.Pool(model.PoolID{Node: "beta", Pool: "data"}); known || !r.seen.Node("beta").Since.IsZero() {
			r.Error("a status of the node is left")
		}
		if got := r.dial("beta").end(); got != codes.NotFound {
			r.Errorf("dialled again: %s", got)
		}
		r.write(addBeta)
		again := r.dial("beta", func(h *agentpb.Hello) { h.AppliesTo = c.resultsIn })
		r.same(again.next(), &agentpb.Assignments{Full: true})
		again.report()
		r.connection("beta", observed.Online)
		r.write(func(tx *store.Tx) error {
			return schema.Pools.Insert(tx, schema.Pool{Node: "beta", Name: "Data", Provider: model.LVM})
		})
		r.same(again.next(), &agentpb.Assignments{Pools: []*agentpb.Pool{{Name: "Data", Provider: "LVM"}}})
	})
}

func TestStoppedControllerEndsItsSessions(t *testing.T) {
	in(t, func(r *rig) {
		a, b := r.join("alpha"), r.join("beta")
		r.stopServing()
		if err := <-r.served; err != nil {
			r.Error(err)
		}
		for _, c := range []*client{a, b} {
			if got := c.end(); got != codes.Unavailable {
				r.Errorf("ended with %s", got)
			}
		}
		r.connection("alpha", observed.Offline)
		r.serve() // leads again
		c := r.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = a.resultsIn })
		if m := c.next(); m.GetFull() {
			r.Error("not resumed")
		}
		if err := r.server.Run(r.Context()); err == nil {
			r.Error("a second Run at once")
		}
	})
}

func TestDeposedControllerEndsItsSessions(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		if _, err := r.engine.Peer().Own(r.Context()); err != nil {
			r.Fatal(err)
		}
		_, err := r.store.Update(r.Context(), func(tx *store.Tx) error { return insert(tx, "vol", "alpha") })
		if !errors.Is(err, store.ErrFenced) {
			r.Fatal(err)
		}
		if err := <-r.served; !errors.Is(err, store.ErrFenced) {
			r.Error(err)
		}
		if got := c.end(); got != codes.Unavailable {
			r.Errorf("ended with %s", got)
		}
	})
}
