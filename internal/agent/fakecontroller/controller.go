// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package fakecontroller is the controller for tests of agents: a server of the real protocol
// that sends what a test tells it to and remembers what agents report.
//
// It has no opinion: it does not order sessions, check chains or keep a set. All methods may be
// called at once. A context bounds each wait; a test in a synctest bubble needs no other.
package fakecontroller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

// ErrUnknownSession is what OnReport answers for the controller to say that it does not know
// the session.
var ErrUnknownSession = errors.New("unknown session")

// Controller is a fake controller. Use Start.
type Controller struct {
	server   *grpc.Server
	listener *bufconn.Listener
	serving  sync.WaitGroup
	opened   chan *Session

	mu       sync.Mutex
	refuse   error // of sessions
	onReport func(context.Context, *agentpb.ReportRequest) error
	nodes    map[string]*Node
	answers  map[string]*agentpb.AnswerRequest
	moved    chan struct{} // closed and made anew when anything was reported
}

// Node is what agents of one node have reported over all sessions. Keys are folded names.
type Node struct {
	Resources map[string]*agentpb.ResourceStatus
	Pools     map[string]*agentpb.PoolStatus
	Jobs      map[string]*agentpb.JobStatus // by id; those that were forgotten are gone
	Host      *agentpb.HostStatus
	Applied   string
	Reports   int
}

// Session is one stream to one agent.
type Session struct {
	Hello *agentpb.Hello
	ID    string

	send chan *agentpb.Assignments
	end  chan error
	done <-chan struct{}
}

// Start returns a controller that serves until Stop.
func Start(opts ...grpc.ServerOption) *Controller {
	c := &Controller{
		server:   grpc.NewServer(append(opts, grpc.WaitForHandlers(true))...),
		listener: bufconn.Listen(1 << 20),
		opened:   make(chan *Session, 1000),
		nodes:    map[string]*Node{},
		answers:  map[string]*agentpb.AnswerRequest{},
		moved:    make(chan struct{}),
	}
	agentpb.RegisterAgentServer(c.server, service{Controller: c})
	c.serving.Go(func() { _ = c.server.Serve(c.listener) })
	return c
}

// Stop ends all sessions and the server.
func (c *Controller) Stop() {
	c.server.Stop()
	c.serving.Wait()
}

// Dial connects to the controller, whatever the address.
func (c *Controller) Dial(string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///controller",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.listener.DialContext(ctx) }))
}

// Refuse makes the controller refuse sessions with err, or accept them again when nil.
func (c *Controller) Refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = err
}

// OnReport has fn called with each report before it is remembered; an error of fn is the
// answer and nothing is remembered. Nil takes it away.
func (c *Controller) OnReport(fn func(context.Context, *agentpb.ReportRequest) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onReport = fn
}

// Accept returns the next session that an agent opened.
func (c *Controller) Accept(ctx context.Context) (*Session, error) {
	select {
	case s := <-c.opened:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("no agent opened a session: %w", ctx.Err())
	}
}

// Send sends assignments, with the session's id filled in.
func (s *Session) Send(ctx context.Context, m *agentpb.Assignments) error {
	m.Session = s.ID
	select {
	case s.send <- m:
		return nil
	case <-s.done:
		return fmt.Errorf("session %s has ended", s.ID)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends the session with err. It may be called once.
func (s *Session) End(err error) { s.end <- err }

// Done is closed when the session has ended, whoever ended it.
func (s *Session) Done() <-chan struct{} { return s.done }

// Await returns what a node has reported as soon as ok accepts it. The answer is a copy.
func (c *Controller) Await(ctx context.Context, node string, ok func(Node) bool) (Node, error) {
	for {
		c.mu.Lock()
		n, moved := c.node(node).copy(), c.moved
		c.mu.Unlock()
		if ok(n) {
			return n, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return n, fmt.Errorf("node %s did not report what was waited for: %w", node, ctx.Err())
		}
	}
}

// Answer returns the answer to an ask.
func (c *Controller) Answer(ctx context.Context, id string) (*agentpb.AnswerRequest, error) {
	for {
		c.mu.Lock()
		a, moved := c.answers[id], c.moved
		c.mu.Unlock()
		if a != nil {
			return a, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, fmt.Errorf("no answer to ask %s: %w", id, ctx.Err())
		}
	}
}

// Forget drops all that was reported.
func (c *Controller) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.nodes)
}

// service is the protocol's side of a controller.
type service struct {
	agentpb.UnimplementedAgentServer
	*Controller
}

// Session implements agentpb.AgentServer.
func (c service) Session(hello *agentpb.Hello, stream grpc.ServerStreamingServer[agentpb.Assignments]) error {
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	s := &Session{
		Hello: hello, ID: fmt.Sprintf("%s-%p", hello.GetNode(), stream),
		send: make(chan *agentpb.Assignments), end: make(chan error, 1), done: stream.Context().Done(),
	}
	select {
	case c.opened <- s:
	case <-s.done:
		return stream.Context().Err()
	}
	for {
		select {
		case m := <-s.send:
			if err := stream.Send(m); err != nil {
				return err
			}
		case err := <-s.end:
			return err
		case <-s.done:
			return stream.Context().Err()
		}
	}
}

// Report implements agentpb.AgentServer.
func (c service) Report(ctx context.Context, r *agentpb.ReportRequest) (*agentpb.ReportReply, error) {
	c.mu.Lock()
	fn := c.onReport
	c.mu.Unlock()
	if fn != nil {
		switch err := fn(ctx, r); {
		case errors.Is(err, ErrUnknownSession):
			return &agentpb.ReportReply{UnknownSession: true}, nil
		case err != nil:
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(r.GetNode())
	for _, s := range r.GetResources() {
		n.Resources[strings.ToLower(s.GetName())] = s
	}
	for _, s := range r.GetPools() {
		n.Pools[strings.ToLower(s.GetName())] = s
	}
	for _, s := range r.GetJobs() {
		n.Jobs[s.GetJob().GetId()] = s
		if s.GetForgotten() {
			delete(n.Jobs, s.GetJob().GetId())
		}
	}
	if r.GetHost() != nil {
		n.Host = r.GetHost()
	}
	n.Applied = r.GetApplied()
	n.Reports++
	c.move()
	return &agentpb.ReportReply{}, nil
}

// Answer implements agentpb.AgentServer.
func (c service) Answer(_ context.Context, a *agentpb.AnswerRequest) (*agentpb.AnswerReply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[a.GetId()] = a
	c.move()
	return &agentpb.AnswerReply{}, nil
}

// move wakes all that wait for reports. The caller holds c.mu.
func (c *Controller) move() {
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *Controller) node(name string) *Node {
	n := c.nodes[name]
	if n == nil {
		n = &Node{
			Resources: map[string]*agentpb.ResourceStatus{}, Pools: map[string]*agentpb.PoolStatus{}, Jobs: map[string]*agentpb.JobStatus{},
		}
		c.nodes[name] = n
	}
	return n
}

func (n *Node) copy() Node {
	c := *n
	c.Resources, c.Pools, c.Jobs = maps.Clone(n.Resources), maps.Clone(n.Pools), maps.Clone(n.Jobs)
	return c
}
