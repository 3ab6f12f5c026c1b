// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// answer answers one ask. An ask that comes while too many are being answered is refused at
// once, so that asks about a host that hangs cannot pile up.
func (s *session) answer(ctx context.Context, ask *agentpb.Ask) {
	answer := &agentpb.AnswerRequest{Node: s.cfg.Node, Session: *s.id.Load(), Id: ask.GetId()}
	select {
	case s.asks <- struct{}{}:
		s.find(ctx, ask, answer)
		<-s.asks
	default:
		answer.Failure = &agentpb.Failure{
			Step:    "answer",
			Message: fmt.Sprintf("the host is answering %d questions already; ask again later", cap(s.asks)),
		}
	}
	for try := range uint32(mostUnanswered) {
		callCtx, cancel := context.WithTimeout(ctx, s.limits.Call)
		_, err := s.client.Answer(callCtx, answer)
		cancel()
		if err == nil || ctx.Err() != nil || sessionEnded(err) {
			return
		}
		s.log.Warn("answer was not taken", "ask", ask.GetId(), "error", err)
		pause(ctx, backoff(try+1, s.limits.RedialFirst, s.limits.RedialMost))
	}
}

// find looks for the answer to ask on the host.
func (s *session) find(ctx context.Context, ask *agentpb.Ask, answer *agentpb.AnswerRequest) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Inspect)
	defer cancel()
	switch question := ask.GetQuestion().(type) {
	case *agentpb.Ask_CheckPool:
		space, err := s.space(ctx, question.CheckPool, "", s.cfg.Host.Check)
		answer.Pool = poolStatus(question.CheckPool.GetName(), space, err)
		if err != nil {
			answer.Failure = failureOf("check the pool", err)
		}
	case *agentpb.Ask_Holders:
		holders, err := s.holders(ctx, question.Holders)
		if err != nil {
			answer.Failure = failureOf("look for users", err)
			return
		}
		answer.Holders = clipAll(holders)
	case *agentpb.Ask_RemoveUnknown:
		removed, err := s.removeUnknown(ctx, question.RemoveUnknown)
		answer.Removed = removed
		if err != nil {
			answer.Failure = failureOf("remove the volume", err)
		}
	default:
		answer.Failure = failureOf("answer", errs.New(errs.Unsupported, errs.Node, "the agent does not understand the question").
			Fix("update the agent on node %s", s.cfg.Node))
	}
}

// holders returns who uses a resource now.
func (s *session) holders(ctx context.Context, name string) ([]string, error) {
	s.mu.Lock()
	r := s.set.resources[resourceKey(name)]
	if r == nil {
		s.mu.Unlock()
		return nil, errs.New(errs.NotFound, errs.Resource, "resource %s is not assigned to node %s", name, s.cfg.Node)
	}
	w, err := s.read.resource(r, s.set)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	result, err := s.cfg.Host.Inspect(ctx, w)
	if err != nil {
		return nil, err
	}
	var holders []string
	for _, v := range result.Volumes {
		if v.InUse == nil {
			return nil, errs.New(errs.HostFailed, errs.Volume, "who uses volume %d of resource %s could not be learned", v.GetNumber(), name)
		}
		list := v.GetHolders()
		if v.GetInUse() && len(list) == 0 {
			list = []string{fmt.Sprintf("volume %d is in use", v.GetNumber())}
		}
		for _, h := range list {
			if !slices.Contains(holders, h) {
				holders = append(holders, h)
			}
		}
	}
	return holders, nil
}
