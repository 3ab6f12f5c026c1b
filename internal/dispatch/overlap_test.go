// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// held makes Destroyed stop when its work is done, until the channel is closed.
func held(let <-chan struct{}) func(*dispatch.Config) {
	return func(c *dispatch.Config) {
		destroyed := c.Destroyed
		c.Destroyed = func(ctx context.Context, node model.NodeKey, gone []dispatch.Gone) error {
			err := destroyed(ctx, node, gone)
			<-let
			return err
		}
	}
}

type ended struct {
	status observed.ResourceStatus
	err    error
}

// wait waits for a generation of the replica on alpha.
func (r *rig) wait(generation uint64) <-chan ended {
	c := make(chan ended, 1)
	go func() {
		st, err := r.seen.Wait(r.Context(), onAlpha, generation)
		c <- ended{st, err}
	}()
	synctest.Wait()
	return c
}

// The store's own news that a row went does not overtake the report that brought it about.
func TestWaiterHearsOfTheDestructionNotOfTheMissingRow(t *testing.T) {
	for _, c := range []struct {
		name      string
		meanwhile func(r *rig)
	}{
		{"the commit is seen first", func(*rig) {}},
		{"all is compared first", func(r *rig) {
			gate := r.engine.Hold(kvtest.BeforeAnswer)
			done := make(chan error, 1)
			go func() {
				_, err := r.store.Update(r.Context(), func(tx *store.Tx) error { return insert(tx, "other") })
				done <- err
			}()
			<-gate.Reached
			gate.Open(errors.New("cut off"))
			if err := <-done; !errors.Is(err, kv.ErrUnknown) {
				r.Error(err)
			}
			time.Sleep(2 * time.Second)
			if r.server.Sessions().Resyncs == 0 {
				r.Error("nothing was compared")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				let := make(chan struct{})
				inBubble(t, func(r *rig) {
					r.create("vol", "alpha")
					client := r.join("alpha")
					g := r.delete(onAlpha)
					client.next()
					waited := r.wait(g)
					go func() { _, _ = client.tryReport(gone("vol", g)) }()
					synctest.Wait()
					if r.has(onAlpha) {
						r.Fatal("the row is still there")
					}
					c.meanwhile(r)
					synctest.Wait()
					if len(waited) != 0 {
						r.Errorf("ended early: %+v", <-waited)
					}
					close(let)
					if w := <-waited; w.err != nil || w.status.Phase != observed.Destroyed {
						r.Errorf("%+v", w)
					}
					synctest.Wait()
					if _, known := r.seen.Resource(onAlpha); known {
						r.Error("the status is still there")
					}
				}, held(let))
			})
		})
	}
}

// The waiter for a deletion hears of it also when the name was taken again at once, and does
// not when the replica stayed.
func TestRowAfterTheWordOfItsHost(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after func(r *rig) // Destroyed does its work
		destroyed     bool
	}{
		{
			name: "made anew",
			after: func(r *rig) {
				r.write(func(tx *store.Tx) error {
					return schema.Resources.Insert(tx, schema.Resource{Definition: "vol", Node: "alpha", Kind: schema.Diskful})
				})
			},
			destroyed: true,
		},
		{name: "marked again", before: func(r *rig) { r.delete(onAlpha) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, end := make(chan struct{}), make(chan struct{})
				inBubble(t, func(r *rig) {
					r.create("vol", "alpha")
					client := r.join("alpha")
					g := r.delete(onAlpha)
					client.next()
					waited := r.wait(g)
					go func() { _, _ = client.tryReport(gone("vol", g)) }()
					synctest.Wait()
					if c.before != nil {
						c.before(r)
					}
					close(begin)
					synctest.Wait()
					if c.after != nil {
						c.after(r)
					}
					close(end)
					synctest.Wait()
					if !r.has(onAlpha) {
						r.Error("no row")
					}
					if got := len(waited) == 1; got != c.destroyed {
						r.Errorf("the wait ended %v", got)
					}
					if st, known := r.seen.Resource(onAlpha); known {
						r.Errorf("%+v", st)
					}
				}, held(end), func(c *dispatch.Config) {
					destroyed := c.Destroyed
					c.Destroyed = func(ctx context.Context, node model.NodeKey, gone []dispatch.Gone) error {
						<-begin
						return destroyed(ctx, node, gone)
					}
				})
			})
		})
	}
}

// What was said in a session that is over is not taken for a word of the next one.
func TestLateWordOfAnEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		inBubble(t, func(r *rig) {
			r.create("vol", "alpha")
			first := r.join("alpha")
			g := change(r, schema.Resources, onAlpha, func(x *schema.Resource) {
				x.Volumes = []schema.Volume{{Pool: "data", Deleting: true}}
			})
			first.next()
			go func() { _, _ = first.tryReport(ready("vol", g)) }()
			synctest.Wait()
			second := r.join("alpha", func(h *agentpb.Hello) { h.Instance = "second" })
			close(let)
			synctest.Wait()
			if st, known := r.seen.Resource(onAlpha); known {
				r.Errorf("%+v", st)
			}
			second.report(ready("vol", g+1))
			if st, _ := r.seen.Resource(onAlpha); !st.Current {
				r.Errorf("%+v", st)
			}
		}, held(let))
	})
}

// In a resumed session, what the agent says now counts before what it said earlier.
func TestResumedSessionSaysNewsFirst(t *testing.T) {
	in(t, func(r *rig) {
		g := r.create("vol", "alpha")
		first := r.join("alpha")
		first.report(ready("vol", g))
		first.hangUp()
		synctest.Wait()
		second := r.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = first.resultsIn })
		waited := r.wait(g)
		second.next()
		second.report(&agentpb.ResourceStatus{Name: "vol", Generation: g, State: agentpb.ResourceStatus_FAILED})
		if w := <-waited; w.err != nil || w.status.Phase != observed.Failed {
			r.Errorf("%+v", w)
		}
	})
}

// A session that is over sends nothing more, so that the one after it knows what was sent.
func TestEndedSessionSendsNothing(t *testing.T) {
	for range 20 {
		in(t, func(r *rig) {
			begin := func(instance string) (*pipe, <-chan error) {
				p := &pipe{ctx: r.Context(), took: make(chan *agentpb.Assignments)}
				over := make(chan error, 1)
				go func() {
					over <- r.server.Session(&agentpb.Hello{Node: "alpha", Protocol: dispatch.Protocol, Instance: instance}, p)
				}()
				synctest.Wait() // its first message is on its way
				return p, over
			}
			first, over := begin("1")
			r.create("vol", "alpha") // the first session is to look at it
			second, _ := begin("2")
			if err := <-over; status.Code(err) != codes.Aborted {
				r.Error(err)
			}
			g := change(r, schema.Resources, onAlpha, func(*schema.Resource) {})
			<-first.took
			synctest.Wait()
			select {
			case m := <-first.took:
				r.Errorf("the ended session sends %v", m)
			default:
			}
			<-second.took
			r.same(<-second.took, &agentpb.Assignments{Resources: []*agentpb.Resource{vol("vol", g)}})
		})
	}
}

// A question that nobody waits for any more is not put.
func TestWithdrawnAskIsNotSent(t *testing.T) {
	in(t, func(r *rig) {
		slow := &pipe{ctx: r.Context(), took: make(chan *agentpb.Assignments)}
		go func() {
			_ = r.server.Session(&agentpb.Hello{Node: "alpha", Protocol: dispatch.Protocol, Instance: "1"}, slow)
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(r.Context())
		answer := r.checkPool(ctx)
		cancel()
		<-answer
		r.create("vol", "alpha")
		<-slow.took
		if m := <-slow.took; len(m.GetAsks()) != 0 || len(m.GetResources()) != 1 {
			r.Errorf("%v", m)
		}
	})
}

// gateLog is a log that stops its writer at one message until it is let go.
type gateLog struct {
	slog.Handler
	message string
	at      chan struct{}
	let     chan struct{}
}

func (g *gateLog) Enabled(context.Context, slog.Level) bool { return true }

func (g *gateLog) Handle(_ context.Context, rec slog.Record) error {
	if rec.Message == g.message {
		select {
		case <-g.at: // not the first one
		default:
			close(g.at)
			<-g.let
		}
	}
	return nil
}

// The removal of a node, seen late, does not concern a later node of that name.
func TestNodeMadeAnewKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &gateLog{Handler: slog.DiscardHandler, message: "node removed", at: make(chan struct{}), let: make(chan struct{})}
		inBubble(t, func(r *rig) {
			r.write(func(tx *store.Tx) error { return schema.Nodes.Insert(tx, schema.Node{Name: "third"}) })
			r.join("beta").hangUp()
			r.write(func(tx *store.Tx) error { return schema.Nodes.Delete(tx, "third") })
			<-gate.at // the removal of beta waits behind that of third
			r.write(func(tx *store.Tx) error {
				return errors.Join(schema.Pools.Delete(tx, model.PoolID{Node: "beta", Pool: "data"}), schema.Nodes.Delete(tx, "beta"))
			})
			r.write(func(tx *store.Tx) error { return schema.Nodes.Insert(tx, schema.Node{Name: "beta"}) })
			c := r.join("beta")
			close(gate.let)
			if got := c.end(); got != codes.OK {
				r.Errorf("ended with %s", got)
			}
			r.connection("beta", observed.Online)
			r.write(func(tx *store.Tx) error {
				return schema.Pools.Insert(tx, schema.Pool{Node: "beta", Name: "Data", Provider: model.LVM})
			})
			r.same(c.next(), &agentpb.Assignments{Pools: []*agentpb.Pool{{Name: "Data", Provider: "LVM"}}})
		}, func(c *dispatch.Config) { c.Log = slog.New(gate) })
	})
}
