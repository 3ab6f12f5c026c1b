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

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// pipe is the server's end of a session without a transport: Send hands each message over
// and returns when it was taken.
type pipe struct {
	grpc.ServerStream
	ctx  context.Context
	took chan *agentpb.Assignments
}

func (p *pipe) Context() context.Context { return p.ctx }

func (p *pipe) Send(m *agentpb.Assignments) error {
	select {
	case p.took <- m:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func TestSlowAgentCostsNoQueueAndHoldsUpNobody(t *testing.T) {
	in(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		ended := make(chan error, 1)
		slow := &pipe{ctx: ctx, took: make(chan *agentpb.Assignments)}
		go func() {
			ended <- r.server.Session(&agentpb.Hello{Node: "alpha", Protocol: dispatch.Protocol, Instance: "1"}, slow)
		}()
		synctest.Wait() // the first message is on its way
		for i := range 5 {
			r.create(model.DefinitionName(fmt.Sprintf("vol-%d", i)), "alpha", "beta")
		}
		fast := r.join("beta")
		const rounds = 200
		var last uint64
		for i := range rounds {
			key := model.DefinitionKey(fmt.Sprintf("vol-%d", i%5))
			last = change(r, schema.Definitions, key, func(d *schema.Definition) { d.PeerSlots = int32(i) })
			r.same(fast.next(), &agentpb.Assignments{Resources: []*agentpb.Resource{vol(fmt.Sprintf("vol-%d", i%5), last)}})
			name := model.DefinitionName(fmt.Sprintf("brief-%d", i))
			r.create(name, "alpha")
			r.write(func(tx *store.Tx) error {
				return schema.Resources.Delete(tx, model.ResourceID{Definition: name.Key(), Node: "alpha"})
			})
		}
		if m := <-slow.took; !m.GetFull() || len(m.GetResources()) != 0 {
			r.Errorf("the first message: %v", m)
		}
		synctest.Wait()
		m := <-slow.took
		if len(m.GetResources()) != 5 || len(m.GetGoneResources()) != 0 {
			r.Errorf("%d resources, %d gone", len(m.GetResources()), len(m.GetGoneResources()))
		}
		newest := uint64(0)
		for _, x := range m.GetResources() {
			newest = max(newest, x.GetGeneration())
		}
		if newest != last {
			r.Errorf("the newest generation is %d, want %d", newest, last)
		}
		synctest.Wait()
		select {
		case m := <-slow.took:
			r.Errorf("one more: %v", m)
		default:
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			r.Error(err)
		}
	})
}

// An agent that reads nothing keeps the transport full. Its session ends all the same.
func TestSessionEndsWhileTheTransportIsFull(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want codes.Code
	}{
		{"when nothing is heard", func(*rig) { time.Sleep(15 * time.Second) }, codes.DeadlineExceeded},
		{"when the controller stops", func(r *rig) { r.stopServing() }, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				fill := func(with string) {
					change(r, schema.Pools, model.PoolID{Node: "alpha", Pool: "data"}, func(p *schema.Pool) {
						p.Props = model.PropsOf(map[string]string{"Aux/long": strings.Repeat(with, 500_000)})
					})
				}
				fill("a")
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				stream, err := agentpb.NewAgentClient(r.conn).Session(ctx, &agentpb.Hello{Node: "alpha", Protocol: dispatch.Protocol})
				if err != nil {
					r.Fatal(err)
				}
				r.connection("alpha", observed.Connected)
				fill("b")
				if n := r.server.Sessions().Messages; n != 1 {
					r.Fatalf("%d messages went through, the transport is not full", n)
				}
				c.do(r)
				r.connection("alpha", observed.Offline)
				if n := r.server.Sessions().Sessions; n != 0 {
					r.Errorf("%d sessions", n)
				}
				_, err = stream.Recv()
				for err == nil {
					_, err = stream.Recv()
				}
				if got := status.Code(err); got != c.want {
					r.Errorf("ended with %v", err)
				}
			})
		})
	}
}

func TestMassReconnectConverges(t *testing.T) {
	in(t, func(r *rig) {
		const nodes = 100
		r.write(func(tx *store.Tx) error {
			var err error
			for i := range nodes - 2 {
				err = errors.Join(err, schema.Nodes.Insert(tx, schema.Node{Name: model.NodeName(fmt.Sprintf("node-%d", i))}))
			}
			return err
		})
		names := []string{"alpha", "beta"}
		for i := range nodes - 2 {
			names = append(names, fmt.Sprintf("node-%d", i))
		}
		clients := make([]*client, nodes)
		for range 5 {
			for i, name := range names {
				if clients[i] != nil {
					clients[i].hangUp()
				}
				clients[i] = r.dial(name)
			}
			for _, c := range clients {
				c.next()
				c.report()
			}
			for _, name := range names {
				r.connection(model.NodeKey(name), observed.Online)
			}
		}
		if n := r.server.Sessions().Sessions; n != nodes {
			r.Errorf("%d sessions", n)
		}
	})
}
