// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// session is one stream to one agent.
type session struct {
	id      string
	host    *host
	resumed bool
	since   store.Revision // the node was registered then
	began   time.Time
	heard   atomic.Int64 // nanoseconds after began
	wake    chan struct{}

	stopping <-chan struct{} // closed when the server stops

	ending sync.Once
	over   chan struct{}
	why    error // set before over is closed; a status of gRPC

	// Guarded by host.mu.
	todo    todo
	ready   bool
	pending map[string]chan<- *agentpb.AnswerRequest

	messages uint64 // sent; belongs to the goroutine that sends
}

// add changes what the session has to do, and wakes it. The caller holds host.mu.
func (x *session) add(f func(*todo)) {
	f(&x.todo)
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// end makes the session end with an error. The first call counts.
func (x *session) end(code codes.Code, format string, args ...any) {
	x.ending.Do(func() {
		x.why = status.Errorf(code, format, args...)
		close(x.over)
	})
}

func (x *session) touch() { x.heard.Store(int64(time.Since(x.began))) }

func (x *session) silence() time.Duration {
	return time.Since(x.began) - time.Duration(x.heard.Load())
}

// Session implements [agentpb.AgentServer].
func (s *Server) Session(hello *agentpb.Hello, stream grpc.ServerStreamingServer[agentpb.Assignments]) error {
	x, err := s.begin(stream.Context(), hello)
	if err != nil {
		return err
	}
	defer s.live.Done()
	// Sending is a goroutine of its own because it blocks while the agent does not read. It
	// ends when this call returns: that ends the stream.
	s.live.Go(func() { s.send(x, stream) })
	s.attend(stream.Context(), x)
	s.finish(x)
	return x.why
}

// begin makes a session the current one of its node. After success the caller owes a Done to
// s.live.
func (s *Server) begin(ctx context.Context, hello *agentpb.Hello) (*session, error) {
	node := model.NodeName(hello.GetNode()).Key()
	if err := s.admit(ctx, node); err != nil {
		return nil, err
	}
	switch p := hello.GetProtocol(); {
	case p > Protocol:
		return nil, status.Errorf(codes.FailedPrecondition,
			"the agent of node %s speaks protocol %d, the controller up to %d: update the controller", node, p, Protocol)
	case p < OldestProtocol:
		return nil, status.Errorf(codes.FailedPrecondition,
			"the agent of node %s speaks protocol %d, the controller from %d on: update the agent", node, p, OldestProtocol)
	}
	h, stopping, err := s.enter(node)
	if err != nil {
		return nil, err
	}
	x := &session{
		id: uuid.NewString(), host: h, began: time.Now(), stopping: stopping,
		wake: make(chan struct{}, 1), over: make(chan struct{}),
		pending: make(map[string]chan<- *agentpb.AnswerRequest),
	}
	x.add(func(t *todo) { t.all = true })
	if err := s.install(x, hello); err != nil {
		s.live.Done()
		return nil, err
	}
	s.cfg.Log.Info("agent connected", "node", node, "version", hello.GetVersion(), "resumed", x.resumed)
	return x, nil
}

// enter counts a session as live and returns the record of its node, unless the server does
// not run. The channel is closed when the server stops.
func (s *Server) enter(node model.NodeKey) (*host, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping == nil {
		return nil, nil, status.Error(codes.Unavailable, "this controller does not lead now")
	}
	h, ok := s.hosts[node]
	if !ok {
		if _, registered := schema.Nodes.Get(s.cfg.Store.Snapshot(), node); !registered {
			return nil, nil, unregistered(node)
		}
		h = &host{node: node, sent: sent{keys: s.cfg.Keys}, confirmed: make(map[model.DefinitionKey]int)}
		s.hosts[node] = h
	}
	s.live.Add(1)
	return h, s.stopping, nil
}

// install puts x in the place of the session before it.
func (s *Server) install(x *session, hello *agentpb.Hello) error {
	h := x.host
	h.sent.mu.Lock()
	defer h.sent.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	view := s.cfg.Store.Snapshot()
	if _, registered := schema.Nodes.Get(view, h.node); !registered || h.dropped {
		return unregistered(h.node)
	}
	x.since = view.Revision()
	if x.resumed = h.sent.resumes(hello); !x.resumed {
		h.sent.reset(hello.GetInstance())
	}
	if old := h.session; old != nil {
		s.count.superseded.Add(1)
		old.end(codes.Aborted, "another agent, or a new start of this one, has a session for node %s now", h.node)
	}
	h.session = x
	s.cfg.Observed.Connect(h.node, factsOf(hello), x.resumed)
	return nil
}

func unregistered(node model.NodeKey) error {
	return status.Errorf(codes.NotFound, "no node %s is registered: create it first", node)
}

func (s *Server) admit(ctx context.Context, node model.NodeKey) error {
	if s.cfg.Admit == nil {
		return nil
	}
	if err := s.cfg.Admit(ctx, node); err != nil {
		return status.Errorf(codes.PermissionDenied, "the caller is not taken for the agent of node %s: %v", node, err)
	}
	return nil
}

// attend returns when the session is over, and sees to that when the stream or the server
// ends or the agent is silent.
func (s *Server) attend(stream context.Context, x *session) {
	silent := time.NewTimer(s.cfg.OfflineAfter)
	defer silent.Stop()
	for {
		select {
		case <-x.over:
			return
		case <-stream.Done():
			x.end(codes.Canceled, "the connection to the agent was lost")
		case <-x.stopping:
			x.end(codes.Unavailable, "the controller stops serving")
		case <-silent.C:
			if left := s.cfg.OfflineAfter - x.silence(); left > 0 {
				silent.Reset(left)
				continue
			}
			s.count.silent.Add(1)
			x.end(codes.DeadlineExceeded, "nothing was heard from the agent for %s", s.cfg.OfflineAfter)
		}
	}
}

// finish takes a session that is over away, unless a newer one has done so.
func (s *Server) finish(x *session) {
	h := x.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session != x {
		return
	}
	h.session = nil
	reason := status.Convert(x.why).Message()
	s.cfg.Observed.Disconnect(h.node, reason)
	s.cfg.Log.Warn("agent disconnected", "node", h.node, "reason", reason)
}

// send sends assignments until the session is over, and ends it when the stream breaks.
func (s *Server) send(x *session, stream grpc.ServerStreamingServer[agentpb.Assignments]) {
	for {
		select {
		case <-x.wake:
		case <-x.over:
			return
		}
		m := s.next(x)
		if m == nil {
			continue
		}
		if err := stream.Send(m); err != nil {
			x.end(codes.Unavailable, "the connection to the agent was lost: %v", err)
			return
		}
		s.count.messages.Add(1)
		s.count.assigned.Add(int64(len(m.GetResources())))
	}
}

// next makes the next message of a session, or nil when there is nothing to say.
func (s *Server) next(x *session) *agentpb.Assignments {
	h := x.host
	h.sent.mu.Lock()
	defer h.sent.mu.Unlock()
	h.mu.Lock()
	t := x.todo
	x.todo = todo{}
	current := h.session == x
	h.mu.Unlock()
	if !current {
		return nil
	}
	view := s.cfg.Store.Snapshot()
	first := x.messages == 0
	m := &agentpb.Assignments{Session: x.id, Asks: t.asks}
	h.sent.update(m, view, h.node, &t)
	switch {
	case first:
		m.Full = !x.resumed
		m.Heartbeat = durationpb.New(s.cfg.Heartbeat)
		if x.resumed {
			s.count.resumed.Add(1)
		} else {
			s.count.full.Add(1)
		}
	case len(m.GetPools())+len(m.GetGonePools())+len(m.GetResources())+len(m.GetGoneResources()) > 0:
	case len(m.GetAsks()) > 0: // asks alone have no place in the chain
		return m
	default:
		return nil
	}
	if !m.GetFull() {
		m.AppliesTo = h.sent.resultsIn
	}
	x.messages++
	m.ResultsIn = x.id + "/" + strconv.FormatUint(x.messages, 10)
	h.sent.resultsIn = m.GetResultsIn()
	return m
}
