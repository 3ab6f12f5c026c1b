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

// HoldRequest is what an operator says of a hold on a pool that lies on a mount.
type HoldRequest struct {
	Pool     model.PoolName
	ID       string // chosen by whoever acquires it
	Holder   string // for people
	ReadOnly bool
}

func (h HoldRequest) message() *agentpb.HoldRequest {
	return &agentpb.HoldRequest{Pool: string(h.Pool), Id: h.ID, Holder: h.Holder, ReadOnly: h.ReadOnly}
}

// InspectPool asks the agent of a node what is mounted for a pool that lies on a mount, and who
// holds it. The errors are those of CheckPool, and Unsupported.
func (s *Server) InspectPool(ctx context.Context, node model.NodeKey, pool model.PoolName) (observed.HeldPool, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_InspectPool{InspectPool: string(pool)}})
	if err != nil {
		return observed.HeldPool{}, err
	}
	if f := a.GetFailure(); f != nil {
		return observed.HeldPool{}, hostRefused(errs.StoragePool, f, "node %s cannot tell who holds the storage pool %s", node, pool)
	}
	return heldPoolOf(a.GetHeldPool()), nil
}

// AcquireHold asks the agent of a node for a hold of an operator on a pool that lies on a mount.
// It may be said again. The errors are those of CheckPool, and Unsupported.
func (s *Server) AcquireHold(ctx context.Context, node model.NodeKey, h HoldRequest) (observed.HeldPool, error) {
	a, err := s.askLong(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_AcquireHold{AcquireHold: h.message()}})
	if err != nil {
		return observed.HeldPool{}, err
	}
	if f := a.GetFailure(); f != nil {
		return heldPoolOf(a.GetHeldPool()), hostRefused(errs.StoragePool, f, "node %s does not hold the storage pool %s", node, h.Pool)
	}
	return heldPoolOf(a.GetHeldPool()), nil
}

// ReleaseHold asks the agent of a node to release a hold. It returns what became of the mount,
// in words. The errors are those of CheckPool, and Unsupported.
func (s *Server) ReleaseHold(ctx context.Context, node model.NodeKey, h HoldRequest) (held observed.HeldPool, teardown string, err error) {
	a, err := s.askLong(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_ReleaseHold{ReleaseHold: h.message()}})
	if err != nil {
		return observed.HeldPool{}, "", err
	}
	held, teardown = heldPoolOf(a.GetHeldPool()), a.GetTeardown()
	if f := a.GetFailure(); f != nil {
		return held, teardown, hostRefused(errs.StoragePool, f, "node %s did not release the hold %s on the storage pool %s", node, h.ID, h.Pool)
	}
	return held, teardown, nil
}
