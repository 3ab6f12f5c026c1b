// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a whole cluster in one process for tests: a real controller with its
// REST API on loopback, and simulated hosts whose agents speak the real protocol.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Pool is the name of the pool that every node of a cluster has.
const Pool = "data"

// Options say what a cluster consists of. The zero value is a controller without nodes on
// the memory engine.
type Options struct {
	Engine   kv.Engine
	Nodes    int                    // registered as n1, n2, ..., each online with a pool when Start returns
	Agent    func(*fakeagent.Agent) // changes an agent before it starts
	Provider model.Provider         // of the pools; FILE_THIN when empty
	PoolSize int64                  // bytes; the default of the simulation when 0
	Patience time.Duration          // how long a call waits for hosts
	TLS      bool                   // agents speak mutual TLS, with certificates made for each connection; plain text without it
	Renewed  time.Duration          // how often agents make their connections anew; the controller's default when 0
	Settings []store.Setting
	Log      *slog.Logger // of the controller; nothing is logged when nil

	WithoutLoops bool // the leader's loops do not run: the test runs them
	TieBreakers  bool // definitions get tie-breakers by themselves, as they do by default
}

// Cluster is a running cluster.
type Cluster struct {
	*controller.Controller
	URL          string // of the REST API
	AgentAddress string // that agents dial
	Agents       map[string]*fakeagent.Agent

	t        testing.TB
	ctx      context.Context
	provider model.Provider
	secure   bool
	stops    map[string]func()
}

// Start starts a cluster, which ends with the test.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	if o.Engine == nil {
		o.Engine = kvtest.NewMemory()
	}
	if o.Provider == "" {
		o.Provider = model.FileThin
	}
	ctx, cancel := context.WithCancel(context.Background())
	k, err := controller.New(ctx, controller.Config{
		Engine: o.Engine, Log: o.Log, Patience: o.Patience, StoreSettings: o.Settings, WithoutLoops: o.WithoutLoops, Plaintext: !o.TLS, ConnectionAge: o.Renewed,
		Build: rest.Build{Version: "1.34.0", Commit: "test", Time: "2026-01-01T00:00:00Z"},
	})
	if err != nil {
		cancel()
		tb.Fatal(err)
	}
	agents, clients := listen(tb), listen(tb)
	served := make(chan error, 1)
	go func() { served <- k.Serve(ctx, agents, clients) }()
	c := &Cluster{
		Controller: k, URL: "http://" + clients.Addr().String(), Agents: map[string]*fakeagent.Agent{},
		t: tb, ctx: ctx, provider: o.Provider, secure: o.TLS, AgentAddress: agents.Addr().String(), stops: map[string]func(){},
	}
	tb.Cleanup(func() {
		for _, stop := range c.stops {
			stop()
		}
		// A connection that was dialled and never used holds up the server's graceful end.
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			tb.Errorf("the controller ended with: %v", err)
		}
		if err := k.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			tb.Errorf("close the store: %v", err)
		}
	})
	if !o.TieBreakers {
		off := model.PropsChange{Set: map[string]string{"DrbdOptions/auto-add-quorum-tiebreaker": "False"}}
		if _, err := c.Inventory.ModifySettings(ctx, off); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range o.Nodes {
		a := c.Register(fmt.Sprintf("n%d", i+1))
		if o.PoolSize != 0 {
			a.Resize(Pool, o.PoolSize)
		}
		if o.Agent != nil {
			o.Agent(a)
		}
		c.StartAgent(a.Node)
		c.AddPool(a.Node, Pool)
	}
	return c
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Register registers a node, whose agent does not run yet.
func (c *Cluster) Register(name string) *fakeagent.Agent {
	c.t.Helper()
	_, err := c.Inventory.CreateNode(c.ctx, inventory.NewNode{
		Name: name, Interfaces: []inventory.NewInterface{{Name: "default", Address: "127.0.0.1"}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	credentials := insecure.NewCredentials()
	if c.secure {
		credentials = identity.Transport(func() (identity.Credential, error) { return c.Identity.Issue(model.NodeName(name)) }, time.Now)
	}
	a := &fakeagent.Agent{Node: name, Dial: func(string) (*grpc.ClientConn, error) {
		return grpc.NewClient(c.AgentAddress, grpc.WithTransportCredentials(credentials))
	}}
	c.Agents[name] = a
	return a
}

// StartAgent starts the agent of a registered node and waits until the node is online.
func (c *Cluster) StartAgent(name string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Agents[name].Run(ctx) }()
	c.stops[name] = func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("agent %s ended with: %v", name, err)
		}
	}
	c.Until(func() bool { return c.Observed.Node(model.NodeName(name).Key()).Connection == observed.Online })
}

// StopAgent ends the agent of a node and waits until the controller has noticed.
func (c *Cluster) StopAgent(name string) {
	c.t.Helper()
	c.stops[name]()
	delete(c.stops, name)
	c.Until(func() bool { return c.Observed.Node(model.NodeName(name).Key()).Connection == observed.Offline })
}

// AddPool creates a pool on a node that is online, and waits until its space is known.
func (c *Cluster) AddPool(node, name string) {
	c.t.Helper()
	_, err := c.Inventory.CreatePool(c.ctx, node, inventory.NewPool{
		Name: name, Provider: string(c.provider), Props: map[string]string{"StorDriver/StorPoolName": "/srv/" + name},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	id := model.PoolID{Node: model.NodeName(node).Key(), Pool: model.PoolName(name).Key()}
	c.Until(func() bool {
		p, ok := c.Observed.Pool(id)
		return ok && p.Total != nil
	})
}

// Until waits until a condition on what agents said, or on the store, holds. It looks at each
// change, and fails the test when the condition does not hold in a long time.
func (c *Cluster) Until(holds func() bool) {
	c.t.Helper()
	const long = 60 * time.Second
	ctx, cancel := context.WithTimeout(c.ctx, long)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatal("what was waited for did not come")
		}
	}
}

// Check fails the test when the database holds what it must not.
func (c *Cluster) Check() {
	c.t.Helper()
	for _, p := range schema.Check(c.Store.Snapshot()) {
		c.t.Errorf("schema check: %s", p)
	}
}
