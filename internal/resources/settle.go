// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// outcome is what was learned of a replica after a commit.
type outcome struct {
	id     model.ResourceID
	node   model.NodeName
	status observed.ResourceStatus
	err    error // it did not settle: offline, forgotten, or out of time
}

// settle waits until each replica has settled at rev or later.
func (s *Resources) settle(ctx context.Context, rev store.Revision, ids []model.ResourceID) []outcome {
	out := make([]outcome, len(ids))
	view := s.Store.Snapshot()
	var wg sync.WaitGroup
	for i, id := range ids {
		node := schema.NameOfNode(view, id.Node)
		wg.Go(func() {
			st, err := s.Observed.Wait(ctx, id, uint64(rev))
			out[i] = outcome{id: id, node: node, status: st, err: err}
		})
	}
	wg.Wait()
	return out
}

func (o outcome) offline() bool { return errors.Is(o.err, observed.ErrNodeOffline) }

// notReady returns an error for the replicas that are not as they shall be, nil when all are.
// The first of them gives the kind.
func notReady(verb string, name model.DefinitionName, outcomes []outcome) *errs.Error {
	var first *errs.Error
	var details []string
	for _, o := range outcomes {
		e := o.notReady(verb, name)
		if e == nil {
			continue
		}
		if first == nil {
			first = e
		}
		details = append(details, fmt.Sprintf("node %s: %s", o.node, e.Cause))
	}
	if len(details) > 1 {
		first = first.Detail(strings.Join(details, "\n"))
	}
	return first
}

// done sorts outcomes of a change to replicas that existed. A node that is not connected does
// its part when it is back, which is a notice; unless none of them is connected, since then
// nothing was done at all.
func done(verb string, name model.DefinitionName, object errs.Object, outcomes []outcome) ([]errs.Notice, *errs.Error) {
	if !slices.ContainsFunc(outcomes, func(o outcome) bool { return !o.offline() }) {
		return nil, notReady(verb, name, outcomes)
	}
	var notices []errs.Notice
	for _, o := range outcomes {
		if o.offline() {
			notices = append(notices, errs.Notice{
				Kind: errs.NodeNotConnected, Object: object,
				Message: fmt.Sprintf("node %s is not connected: resource %s is %s there when it is back", o.node, name, verb),
			})
		}
	}
	return notices, notReady(verb, name, slices.DeleteFunc(slices.Clone(outcomes), outcome.offline))
}

func (o outcome) notReady(verb string, name model.DefinitionName) *errs.Error {
	if o.err != nil {
		return o.unsettled(verb, name)
	}
	switch o.status.Phase {
	case observed.Failed:
		return o.failed(verb, name)
	case observed.Destroyed:
		return errs.New(errs.Closing, errs.Resource, "resource %s could not be %s on node %s", name, verb, o.node).
			Because("it was deleted in the meantime")
	case observed.Ready, observed.Working:
	}
	return nil
}

// unsettled is the error of a replica of which nothing was learned.
func (o outcome) unsettled(verb string, name model.DefinitionName) *errs.Error {
	message := fmt.Sprintf("resource %s could not be %s on node %s", name, verb, o.node)
	switch {
	case o.offline():
		return errs.New(errs.NotConnected, errs.Node, "%s", message).Because("%v", o.err).
			Fix("start the agent of node %s, or leave the node out", o.node).Wrap(o.err)
	case errors.Is(o.err, observed.ErrForgotten):
		return errs.New(errs.Closing, errs.Resource, "%s", message).Because("it was deleted in the meantime").Wrap(o.err)
	case errors.Is(o.err, context.DeadlineExceeded):
		return errs.New(errs.TimedOut, errs.Resource, "%s", message).Because("the node has not answered in time").
			Fix("look at the state of the resource; the node goes on with it").Wrap(o.err)
	default:
		return errs.New(errs.Internal, errs.Resource, "%s", message).Because("%v", o.err).Wrap(o.err)
	}
}

// failed is the error of a replica on which a step fails.
func (o outcome) failed(verb string, name model.DefinitionName) *errs.Error {
	f := o.status.Failure
	if f == nil {
		f = &observed.Failure{Message: "the node gave no reason"}
	}
	kind := errs.HostFailed
	switch f.Reason {
	case observed.InUse:
		kind = errs.InUse
	case observed.NoSpace:
		kind = errs.NoSpace
	case observed.Unsupported:
		kind = errs.Unsupported
	case observed.PoolFaulty, observed.Invalid, observed.Locked, observed.Other:
	}
	e := errs.New(kind, errs.Resource, "resource %s could not be %s on node %s", name, verb, o.node)
	if f.Reason == observed.Locked {
		e = e.About(errs.MasterKey)
	}
	if f.Step == "" {
		return e.Because("%s", f.Message)
	}
	return e.Because("%s: %s", f.Step, f.Message)
}
