// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// maxAsks bounds the questions that one session has open.
const maxAsks = 256

// hostFailed is the error of a question that the host answered with a failure.
func hostFailed(object errs.Object, f *agentpb.Failure, format string, args ...any) error {
	return hostSaid(errs.HostFailed, object, f, format, args...)
}

// hostRefused is hostFailed for a question that not every host has the ability to answer.
func hostRefused(object errs.Object, f *agentpb.Failure, format string, args ...any) error {
	if f.GetReason() == agentpb.Failure_UNSUPPORTED {
		return hostSaid(errs.Unsupported, object, f, format, args...)
	}
	return hostSaid(errs.HostFailed, object, f, format, args...)
}

func hostSaid(kind errs.Kind, object errs.Object, f *agentpb.Failure, format string, args ...any) error {
	e := errs.New(kind, object, format, args...)
	if f.GetStep() != "" {
		return e.Because("%s: %s", f.GetStep(), f.GetMessage())
	}
	return e.Because("%s", f.GetMessage())
}

// ask sends a question in the current session of a node and waits for the answer, which is
// looked up in no time or takes a short work.
func (s *Server) ask(ctx context.Context, node model.NodeKey, q *agentpb.Ask) (*agentpb.AnswerRequest, error) {
	return s.askWithin(ctx, s.cfg.AskTimeout, node, q)
}

// askLong is ask for a question that makes the host work for longer.
func (s *Server) askLong(ctx context.Context, node model.NodeKey, q *agentpb.Ask) (*agentpb.AnswerRequest, error) {
	return s.askWithin(ctx, s.cfg.WorkTimeout, node, q)
}

func (s *Server) askWithin(ctx context.Context, limit time.Duration, node model.NodeKey, q *agentpb.Ask) (*agentpb.AnswerRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	q.Id = uuid.NewString()
	x, answer, err := s.put(node, q)
	if err != nil {
		s.count.asksRefused.Add(1)
		return nil, err
	}
	defer x.withdraw(q.GetId())
	select {
	case a := <-answer:
		return a, nil
	case <-x.over:
		s.count.asksRefused.Add(1)
		return nil, notConnected(node, status.Convert(x.why).Message())
	case <-ctx.Done():
		s.count.asksRefused.Add(1)
		return nil, errs.New(errs.TimedOut, errs.Node, "node %s did not answer", node).
			Because("it was asked %s ago", time.Since(began).Round(time.Millisecond)).
			Fix("look at the log of its agent, then try again").Wrap(ctx.Err())
	}
}

// put adds a question to the current session of a node.
func (s *Server) put(node model.NodeKey, q *agentpb.Ask) (*session, <-chan *agentpb.AnswerRequest, error) {
	h := s.host(node)
	if h == nil {
		return nil, nil, notConnected(node, s.cfg.Observed.Node(node).Reason)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.session
	if x == nil {
		return nil, nil, notConnected(node, s.cfg.Observed.Node(node).Reason)
	}
	if n := len(x.pending); n >= maxAsks {
		return nil, nil, errs.New(errs.Unavailable, errs.Node, "node %s cannot be asked now", node).
			Because("%d questions to it are open", n).Fix("try again later")
	}
	answer := make(chan *agentpb.AnswerRequest, 1)
	x.pending[q.GetId()] = answer
	x.add(func(t *todo) { t.asks = append(t.asks, q) })
	return x, answer, nil
}

// withdraw forgets a question, also one that was not sent yet.
func (x *session) withdraw(id string) {
	x.host.mu.Lock()
	defer x.host.mu.Unlock()
	delete(x.pending, id)
	x.todo.asks = slices.DeleteFunc(x.todo.asks, func(q *agentpb.Ask) bool { return q.GetId() == id })
}

func notConnected(node model.NodeKey, why string) error {
	e := errs.New(errs.NotConnected, errs.Node, "node %s is not connected", node).
		Fix("start the agent on it, or wait until it is back")
	if why != "" {
		e = e.Because("%s", why)
	}
	return e
}

// Answer implements [agentpb.AgentServer]. An answer that nobody waits for any more is taken.
func (s *Server) Answer(ctx context.Context, req *agentpb.AnswerRequest) (*agentpb.AnswerReply, error) {
	node := model.NodeName(req.GetNode()).Key()
	if err := s.admit(ctx, node); err != nil {
		return nil, err
	}
	x := s.session(node, req.GetSession())
	if x == nil {
		return nil, status.Errorf(codes.Aborted, "the session is not the current one of node %s", node)
	}
	x.touch()
	x.host.mu.Lock()
	defer x.host.mu.Unlock()
	if answer, ok := x.pending[req.GetId()]; ok {
		delete(x.pending, req.GetId())
		answer <- req
	}
	return &agentpb.AnswerReply{}, nil
}
