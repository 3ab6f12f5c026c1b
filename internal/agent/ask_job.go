// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

// findJob answers asks about jobs. No step: it is another ask.
func (s *session) findJob(ctx context.Context, ask *agentpb.Ask, answer *agentpb.AnswerRequest) (step string, err error) {
	var do func(Jobs) error
	switch question := ask.GetQuestion().(type) {
	case *agentpb.Ask_StartJob:
		step = "start the job"
		do = func(j Jobs) error {
			answer.Job, err = j.Start(ctx, question.StartJob)
			return err
		}
	case *agentpb.Ask_CancelJob:
		step = "cancel the job"
		do = func(j Jobs) error {
			answer.Job, err = j.Cancel(ctx, question.CancelJob)
			return err
		}
	case *agentpb.Ask_ForgetJob:
		step = "forget the job"
		do = func(j Jobs) error { return j.Forget(ctx, question.ForgetJob) }
	default:
		return "", nil
	}
	if s.cfg.Jobs == nil {
		return step, s.lacks("do jobs")
	}
	return step, do(s.cfg.Jobs)
}
