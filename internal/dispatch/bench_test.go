// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// cluster is a server with a session for each of many nodes, without a transport.
type cluster struct {
	testing.TB
	store  *store.Store
	server *dispatch.Server
	took   chan *agentpb.Assignments // of all sessions
	nodes  int
}

func node(i int) model.NodeKey { return model.NodeKey(fmt.Sprintf("node-%04d", i)) }

// newCluster has resources spread evenly, each with 2 replicas.
func newCluster(tb testing.TB, nodes, resources int) *cluster {
	tb.Helper()
	st, err := store.Open(tb.Context(), kvtest.NewMemory(), schema.Collections())
	if err != nil {
		tb.Fatal(err)
	}
	c := &cluster{TB: tb, store: st, nodes: nodes, took: make(chan *agentpb.Assignments, 3*nodes)}
	c.server = dispatch.New(dispatch.Config{
		Store: st, Observed: observed.New(time.Now), OfflineAfter: time.Hour,
		Destroyed: func(ctx context.Context, _ model.NodeKey, gone []dispatch.Gone) error {
			_, err := st.Update(ctx, func(tx *store.Tx) error { return remove(tx, gone) })
			return err
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.server.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		_ = errors.Join(<-done, st.Close())
	})
	c.write(func(tx *store.Tx) error { return schema.Groups.Insert(tx, schema.Group{Name: "group"}) })
	for i := range nodes {
		c.write(func(tx *store.Tx) error {
			return errors.Join(
				schema.Nodes.Insert(tx, schema.Node{Name: model.NodeName(node(i))}),
				schema.Pools.Insert(tx, schema.Pool{Node: node(i), Name: "Data", Provider: model.LVM}),
			)
		})
	}
	for i := 0; i < resources; i += 10 {
		c.write(func(tx *store.Tx) error {
			var err error
			for j := i; j < min(i+10, resources); j++ {
				err = errors.Join(err, insert(tx, model.DefinitionName(fmt.Sprintf("vol-%d", j)), node(j%nodes), node((j+1)%nodes)))
			}
			return err
		})
	}
	return c
}

func (c *cluster) write(fn func(*store.Tx) error) {
	c.Helper()
	if _, err := c.store.Update(c.Context(), fn); err != nil {
		c.Fatal(err)
	}
}

// open begins a session and returns its first message.
func (c *cluster) open(n model.NodeKey) *agentpb.Assignments {
	p := &pipe{ctx: c.Context(), took: c.took}
	for {
		broken := make(chan error, 1)
		go func() {
			broken <- c.server.Session(&agentpb.Hello{Node: string(n), Protocol: dispatch.Protocol, Instance: "1"}, p)
		}()
		select {
		case m := <-c.took:
			return m
		case err := <-broken:
			if status.Code(err) != codes.Unavailable { // until Run has begun
				c.Fatal(err)
			}
			runtime.Gosched()
		}
	}
}

// BenchmarkFanOut is one commit that places a resource on 3 of the nodes, until their agents
// have got it.
func BenchmarkFanOut(b *testing.B) {
	for _, size := range []struct{ nodes, resources int }{{10, 200}, {1000, 20_000}} {
		b.Run(fmt.Sprintf("nodes=%d/resources=%d", size.nodes, size.resources), func(b *testing.B) {
			c := newCluster(b, size.nodes, size.resources)
			for i := range size.nodes {
				c.open(node(i))
			}
			i := 0
			for b.Loop() {
				i++
				c.write(func(tx *store.Tx) error {
					return insert(tx, model.DefinitionName(fmt.Sprintf("new-%d", i)),
						node(i%c.nodes), node((i+1)%c.nodes), node((i+2)%c.nodes))
				})
				for got := 0; got < 3; {
					got += len((<-c.took).GetResources())
				}
			}
		})
	}
}

// BenchmarkReconnect is a new session, until its agent has got the full set.
func BenchmarkReconnect(b *testing.B) {
	for _, size := range []struct{ nodes, resources int }{{1000, 20_000}, {100, 20_000}} {
		b.Run(fmt.Sprintf("objects=%d/resources=%d", 2*size.resources/size.nodes, size.resources), func(b *testing.B) {
			c := newCluster(b, size.nodes, size.resources)
			for b.Loop() {
				if m := c.open(node(1)); len(m.GetResources()) != 2*size.resources/size.nodes {
					b.Fatal(len(m.GetResources()))
				}
			}
		})
	}
}

// BenchmarkReport is a report of some replicas, none being the heartbeat.
func BenchmarkReport(b *testing.B) {
	for _, statuses := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("statuses=%d", statuses), func(b *testing.B) {
			c := newCluster(b, 10, 10*max(statuses, 1))
			m := c.open(node(1))
			req := &agentpb.ReportRequest{Node: string(node(1)), Session: m.GetSession(), Applied: m.GetResultsIn()}
			for i := range statuses {
				st := ready(m.GetResources()[i].GetName(), m.GetResources()[i].GetGeneration(), 0)
				req.Resources = append(req.Resources, st)
			}
			i := uint64(0)
			for b.Loop() {
				i++
				for _, st := range req.GetResources() {
					st.Generation = i // each is news
				}
				if _, err := c.server.Report(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLargestGroup is a change of the filesystem in a group of all resources, until all
// agents have got what follows.
func BenchmarkLargestGroup(b *testing.B) {
	c := newCluster(b, 1000, 20_000)
	for i := range c.nodes {
		c.open(node(i))
	}
	i := 0
	for b.Loop() {
		i++
		c.write(func(tx *store.Tx) error {
			return schema.Groups.Update(tx, schema.Group{
				Name: "group", Props: model.PropsOf(map[string]string{"FileSystem/Type": fmt.Sprint("fs", i)}),
			})
		})
		for got := 0; got < 40_000; {
			got += len((<-c.took).GetResources())
		}
	}
}
