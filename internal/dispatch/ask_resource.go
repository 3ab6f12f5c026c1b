// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

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

// Suspend asks the agent of a node to hold writers to all volumes of some resources back until
// Resume of the same id, at most for limit, and not longer than the agent lives. It returns when
// they are held back. It may be said again. After an error writers may be held back all the
// same, so Resume is due in any case. The errors are those of CheckPool.
func (s *Server) Suspend(ctx context.Context, node model.NodeKey, id string, resources []model.DefinitionName, limit time.Duration) error {
	q := &agentpb.Suspend{Id: id, Limit: durationpb.New(limit)}
	for _, name := range resources {
		q.Resources = append(q.Resources, string(name))
	}
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_Suspend{Suspend: q}})
	if err != nil {
		return err
	}
	if f := a.GetFailure(); f != nil {
		return hostRefused(errs.Resource, f, "node %s did not hold writers back", node)
	}
	return nil
}

// Resume asks the agent of a node to let writers go on that a Suspend of this id holds back. It
// returns the volumes, as resource/number, that were written meanwhile all the same, or may have
// been: when those of all nodes are none or one, then all that was taken meanwhile is of one
// moment. It may be said again, and then answers the same for some minutes. The errors are those
// of CheckPool; HostFailed also when the agent does not know the id: the suspension is over, and
// what was written during it is not known.
func (s *Server) Resume(ctx context.Context, node model.NodeKey, id string) (written []string, err error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_Resume{Resume: id}})
	if err != nil {
		return nil, err
	}
	if f := a.GetFailure(); f != nil {
		return a.GetWritten(), hostRefused(errs.Resource, f, "node %s cannot tell what was written while writers were held back", node)
	}
	return a.GetWritten(), nil
}
