// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent

import (
	"context"
	"log/slog"
	"sync"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Agent is an agent whose host is simulated. Node and Dial are required; fields are not to be
// changed once it runs.
type Agent struct {
	Host // the simulated host, with all that tests do to it

	Node      string
	Addresses []string // passed to Dial in turn; without any, Dial is called with ""
	Dial      func(address string) (*grpc.ClientConn, error)

	Providers []model.Provider // all when nil
	Layers    []model.Layer    // all when nil
	StateDir  string           // where the assigned set is kept; nowhere when empty
	Version   string           // "fake" when empty
	Uname     string           // Node when empty
	Limits    agent.Limits
	Log       *slog.Logger

	Devices     agent.Devices            // none when nil
	Numbers     agent.Numbers            // none when nil
	SetLogLevel func(level string) error // none when nil

	wire wire
}

// Run is the agent until ctx ends. It may be called again after it returned: that is a
// restart of the agent on the same host.
func (a *Agent) Run(ctx context.Context) error {
	providers, layers := a.Providers, a.Layers
	if providers == nil {
		providers = model.Providers()
	}
	if layers == nil {
		layers = model.Layers()
	}
	version, uname := a.Version, a.Uname
	if version == "" {
		version = "fake"
	}
	if uname == "" {
		uname = a.Node
	}
	defer a.wire.run(ctx)()
	return agent.Run(ctx, agent.Config{
		Node: a.Node, Addresses: a.Addresses, Dial: a.dial, Host: &a.Host, StateDir: a.StateDir,
		Version: version, Uname: uname, Providers: providers, Layers: layers, Log: a.Log, Limits: a.Limits,
		Devices: a.Devices, Numbers: a.Numbers, SetLogLevel: a.SetLogLevel,
	})
}

// Silence makes the agent stop reporting, as one that hangs does: what it would send waits.
// The session stays open. Speak ends it.
func (a *Agent) Silence() { a.wire.silence() }

// Speak ends what Silence began.
func (a *Agent) Speak() { a.wire.speak() }

// DropSession breaks the connection. The agent dials again by itself.
func (a *Agent) DropSession() { a.wire.drop() }

// Assigned returns the messages that came, oldest first, over all sessions; of many only the
// last ones. They are not to be changed.
func (a *Agent) Assigned() []*agentpb.Assignments { return a.wire.log() }

// Reports returns how many reports were answered, heartbeats included.
func (a *Agent) Reports() int { return a.wire.count(&a.wire.reports) }

// Sessions returns how many sessions have had a first message.
func (a *Agent) Sessions() int { return a.wire.count(&a.wire.sessions) }

func (a *Agent) dial(address string) (agent.Conn, error) {
	conn, err := a.Dial(address)
	if err != nil {
		return nil, err
	}
	return a.wire.wrap(conn), nil
}

// wire stands between the agent and its connections.
type wire struct {
	mu       sync.Mutex
	running  context.Context // calls that are held up end with the run, not with their deadlines
	silenced chan struct{}   // closed by speak; nil when the agent may speak
	open     *wired
	assigned []*agentpb.Assignments
	reports  int
	sessions int
}

// run notes that an agent runs until ctx ends; the answer is to be called when it has ended.
func (w *wire) run(ctx context.Context) (ended func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = ctx
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running = nil
	}
}

func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silenced == nil {
		w.silenced = make(chan struct{})
	}
}

func (w *wire) speak() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silenced != nil {
		close(w.silenced)
		w.silenced = nil
	}
}

func (w *wire) drop() {
	w.mu.Lock()
	open := w.open
	w.mu.Unlock()
	if open != nil {
		_ = open.Close()
	}
}

func (w *wire) log() []*agentpb.Assignments {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*agentpb.Assignments(nil), w.assigned...)
}

func (w *wire) count(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *n
}

func (w *wire) wrap(conn *grpc.ClientConn) *wired {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = &wired{ClientConn: conn, wire: w, closed: make(chan struct{})}
	return w.open
}

// wired is one connection.
type wired struct {
	*grpc.ClientConn
	wire   *wire
	once   sync.Once
	closed chan struct{}
}

// Close implements io.Closer. It may be called again.
func (c *wired) Close() error {
	err := error(nil)
	c.once.Do(func() {
		close(c.closed)
		err = c.ClientConn.Close()
	})
	return err
}

// Invoke implements grpc.ClientConnInterface.
func (c *wired) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.wire.mu.Lock()
	silenced, running := c.wire.silenced, c.wire.running
	c.wire.mu.Unlock()
	if silenced != nil {
		select {
		case <-silenced:
		case <-c.closed:
		case <-running.Done():
		}
	}
	err := c.ClientConn.Invoke(ctx, method, args, reply, opts...)
	if err == nil && method == agentpb.Agent_Report_FullMethodName {
		c.wire.mu.Lock()
		c.wire.reports++
		c.wire.mu.Unlock()
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c *wired) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := c.ClientConn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &recorded{ClientStream: s, wire: c.wire}, nil
}

// recorded is a stream of assignments that are kept for tests.
type recorded struct {
	grpc.ClientStream
	wire  *wire
	later bool // the first message has come
}

// RecvMsg implements grpc.ClientStream.
func (r *recorded) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	a, ok := m.(*agentpb.Assignments)
	if err != nil || !ok {
		return err
	}
	const most = 10_000
	r.wire.mu.Lock()
	defer r.wire.mu.Unlock()
	if len(r.wire.assigned) == most {
		r.wire.assigned = append(r.wire.assigned[:0:0], r.wire.assigned[most/2:]...)
	}
	r.wire.assigned = append(r.wire.assigned, a)
	if !r.later {
		r.later = true
		r.wire.sessions++
	}
	return nil
}
