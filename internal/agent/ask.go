// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// answer answers one ask. An ask that comes while too many are being answered waits for its turn,
// and is refused when that does not come in the time of a call: so many may ask at once, and asks
// about a host that hangs do not pile up.
func (s *session) answer(ctx context.Context, ask *agentpb.Ask) {
	answer := &agentpb.AnswerRequest{Node: s.cfg.Node, Session: *s.id.Load(), Id: ask.GetId()}
	turn := time.NewTimer(s.limits.Call)
	defer turn.Stop()
	select {
	case s.asks <- struct{}{}:
		s.find(ctx, ask, answer)
		<-s.asks
	case <-ctx.Done():
		return
	case <-turn.C:
		answer.Failure = &agentpb.Failure{
			Step:    "answer",
			Message: fmt.Sprintf("the host has been answering %d questions for %v; ask again later", cap(s.asks), s.limits.Call),
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
	limit := s.limits.Inspect
	switch ask.GetQuestion().(type) {
	case *agentpb.Ask_CreateBackend, *agentpb.Ask_AcquireHold, *agentpb.Ask_ReleaseHold:
		limit = s.limits.Work
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, kind := range []func(context.Context, *agentpb.Ask, *agentpb.AnswerRequest) (step string, err error){
		s.findPool, s.findResource, s.findJob, s.findHold,
	} {
		step, err := kind(ctx, ask, answer)
		if step == "" {
			continue // it is of another kind
		}
		if err != nil {
			answer.Failure = failureOf(step, err)
		}
		return
	}
	answer.Failure = failureOf("answer", errs.New(errs.Unsupported, errs.Node, "the agent does not understand the question").
		Fix("update the agent on node %s", s.cfg.Node))
}
