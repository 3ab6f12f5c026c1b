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
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// maxAsks bounds the questions that one session has open.
const maxAsks = 256

// CheckPool asks the agent of a node whether a pool would work there, and what it has.
//
// Errors are *errs.Error: NotConnected when the node has no session or loses it, HostFailed
// when the host says no, TimedOut when it says nothing, Unavailable when too many questions
// are open.
func (s *Server) CheckPool(ctx context.Context, node model.NodeKey, p schema.Pool) (observed.PoolStatus, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_CheckPool{CheckPool: assignPool(&p)}})
	if err != nil {
		return observed.PoolStatus{}, err
	}
	if f := a.GetFailure(); f != nil {
		return observed.PoolStatus{}, hostFailed(errs.StoragePool, f, "node %s cannot serve the storage pool %s", node, p.Name)
	}
	st := poolOf(a.GetPool())
	st.At, st.Current = time.Now(), true
	return st, nil
}

// Holders asks the agent of a node who uses a resource there now. None means that it is not
// in use. The errors are those of CheckPool.
func (s *Server) Holders(ctx context.Context, node model.NodeKey, name model.DefinitionName) ([]string, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_Holders{Holders: string(name)}})
	if err != nil {
		return nil, err
	}
	if f := a.GetFailure(); f != nil {
		return nil, hostFailed(errs.Resource, f, "node %s cannot tell who uses the resource %s", node, name)
	}
	return a.GetHolders(), nil
}

// RemoveUnknown asks the agent of a node to destroy volumes that carry our mark and are in no
// assignment, named as the pool's status names them. It returns those that are gone, also
// with an error about others. The errors are those of CheckPool.
func (s *Server) RemoveUnknown(ctx context.Context, node model.NodeKey, pool model.PoolName, volumes []string) ([]string, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_RemoveUnknown{
		RemoveUnknown: &agentpb.RemoveUnknown{Pool: string(pool), Volumes: volumes},
	}})
	if err != nil {
		return nil, err
	}
	if f := a.GetFailure(); f != nil {
		return a.GetRemoved(), hostFailed(errs.StoragePool, f, "node %s did not remove all of the volumes from the storage pool %s", node, pool)
	}
	return a.GetRemoved(), nil
}

func hostFailed(object errs.Object, f *agentpb.Failure, format string, args ...any) error {
	e := errs.New(errs.HostFailed, object, format, args...)
	if f.GetStep() != "" {
		return e.Because("%s: %s", f.GetStep(), f.GetMessage())
	}
	return e.Because("%s", f.GetMessage())
}

// ask sends a question in the current session of a node and waits for the answer.
func (s *Server) ask(ctx context.Context, node model.NodeKey, q *agentpb.Ask) (*agentpb.AnswerRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AskTimeout)
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
