// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

// StartJob asks the agent of a node to begin a job, or to join the one that has its id. What
// becomes of it is in package observed. The errors are those of CheckPool, and Unsupported.
func (s *Server) StartJob(ctx context.Context, node model.NodeKey, j observed.Job) (observed.JobStatus, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_StartJob{StartJob: assignJob(j)}})
	return jobAnswer(a, err, "node %s did not start the job %s", node, j.ID)
}

// CancelJob asks the agent of a node to end a job and to leave nothing of it. One that has ended
// stays as it is. The errors are those of CheckPool, and Unsupported.
func (s *Server) CancelJob(ctx context.Context, node model.NodeKey, id string) (observed.JobStatus, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_CancelJob{CancelJob: id}})
	return jobAnswer(a, err, "node %s did not cancel the job %s", node, id)
}

// ForgetJob asks the agent of a node to keep a job that has ended no more. The errors are those
// of CheckPool.
func (s *Server) ForgetJob(ctx context.Context, node model.NodeKey, id string) error {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_ForgetJob{ForgetJob: id}})
	_, err = jobAnswer(a, err, "node %s did not forget the job %s", node, id)
	return err
}

func jobAnswer(a *agentpb.AnswerRequest, err error, format string, args ...any) (observed.JobStatus, error) {
	if err != nil {
		return observed.JobStatus{}, err
	}
	if f := a.GetFailure(); f != nil {
		return observed.JobStatus{}, hostRefused(errs.Node, f, format, args...)
	}
	st := jobOf(a.GetJob())
	st.Current = true
	return st, nil
}
