// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

// findPool answers asks about pools and what they lie on, and about the agent itself. No step:
// it is another ask.
func (s *session) findPool(ctx context.Context, ask *agentpb.Ask, answer *agentpb.AnswerRequest) (step string, err error) {
	switch question := ask.GetQuestion().(type) {
	case *agentpb.Ask_CheckPool:
		space, err := s.space(ctx, question.CheckPool, "", s.cfg.Host.Check)
		answer.Pool = poolStatus(question.CheckPool.GetName(), space, err)
		return "check the pool", err
	case *agentpb.Ask_RemoveUnknown:
		answer.Removed, err = s.removeUnknown(ctx, question.RemoveUnknown)
		return "remove the volume", err
	case *agentpb.Ask_Devices:
		if s.cfg.Devices == nil {
			return "list devices", s.lacks("list its devices")
		}
		answer.Devices, err = s.cfg.Devices.List(ctx)
		return "list devices", err
	case *agentpb.Ask_CreateBackend:
		if s.cfg.Devices == nil {
			return "make the backend", s.lacks("make backends of pools")
		}
		return "make the backend", s.cfg.Devices.CreateBackend(ctx, question.CreateBackend)
	case *agentpb.Ask_LogLevel:
		if s.cfg.SetLogLevel == nil {
			return "set the log level", s.lacks("change its log level")
		}
		return "set the log level", s.cfg.SetLogLevel(question.LogLevel.GetLevel())
	}
	return "", nil
}
