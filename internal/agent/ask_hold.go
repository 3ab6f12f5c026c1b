// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

// findHold answers asks about pools that lie on mounts. No step: it is another ask.
func (s *session) findHold(ctx context.Context, ask *agentpb.Ask, answer *agentpb.AnswerRequest) (step string, err error) {
	var do func(Holds) error
	switch question := ask.GetQuestion().(type) {
	case *agentpb.Ask_InspectPool:
		step = "look at the mount"
		do = func(h Holds) error {
			answer.HeldPool, err = h.Inspect(ctx, question.InspectPool)
			return err
		}
	case *agentpb.Ask_AcquireHold:
		step = "acquire the hold"
		do = func(h Holds) error {
			answer.HeldPool, err = h.Acquire(ctx, question.AcquireHold)
			return err
		}
	case *agentpb.Ask_ReleaseHold:
		step = "release the hold"
		do = func(h Holds) error {
			answer.HeldPool, answer.Teardown, err = h.Release(ctx, question.ReleaseHold)
			return err
		}
	default:
		return "", nil
	}
	if s.cfg.Holds == nil {
		return step, s.lacks("hold pools on mounts")
	}
	return step, do(s.cfg.Holds)
}
