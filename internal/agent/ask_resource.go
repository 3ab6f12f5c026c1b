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

// findResource answers asks about resources. No step: it is another ask.
func (s *session) findResource(ctx context.Context, ask *agentpb.Ask, answer *agentpb.AnswerRequest) (step string, err error) {
	switch question := ask.GetQuestion().(type) {
	case *agentpb.Ask_Holders:
		holders, err := s.holders(ctx, question.Holders)
		if err == nil {
			answer.Holders = clipAll(holders)
		}
		return "look for users", err
	case *agentpb.Ask_Suspend:
		return "hold writers back", s.suspend(ctx, question.Suspend)
	case *agentpb.Ask_Resume:
		answer.Written, err = s.suspensions.resume(ctx, question.Resume)
		return "let writers go on", err
	}
	return "", nil
}

// holders returns who uses a resource now.
func (s *session) holders(ctx context.Context, name string) ([]string, error) {
	w, err := s.wanted(name)
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

// wanted reads the assignment of a resource.
func (a *agent) wanted(name string) (Want, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.set.resources[resourceKey(name)]
	if r == nil {
		return Want{}, errs.New(errs.NotFound, errs.Resource, "resource %s is not assigned to node %s", name, a.cfg.Node)
	}
	return a.read.resource(r, a.set)
}

// suspend holds writers to some resources back, as one suspension.
func (s *session) suspend(ctx context.Context, q *agentpb.Suspend) error {
	host, ok := s.cfg.Host.(Suspender)
	if !ok {
		return s.lacks("hold writers back")
	}
	var wants []Want
	for _, name := range q.GetResources() {
		w, err := s.wanted(name)
		if err != nil {
			return err
		}
		wants = append(wants, w)
	}
	return s.suspensions.begin(ctx, q.GetId(), q.GetLimit().AsDuration(), func(ctx context.Context) (Suspension, error) {
		return host.Suspend(ctx, wants, q.GetLimit().AsDuration())
	})
}
