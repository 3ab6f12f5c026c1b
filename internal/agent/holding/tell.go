// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Inspect returns what is mounted for a pool, and who holds it. It never waits for the pool's server.
func (h *Holding) Inspect(ctx context.Context, name string) (*agentpb.HeldPool, error) {
	p, err := h.find(name)
	if err != nil {
		return nil, err
	}
	return h.tell(ctx, p)
}

func (h *Holding) tell(ctx context.Context, p *held.Pool) (*agentpb.HeldPool, error) {
	spec := p.Spec()
	st, err := h.set.Inspect(ctx, spec.Pool.ID)
	if hold.IsKind(err, hold.Unknown) {
		st, err = hold.Status{
			Source: spec.Pool.Spec.Source, Place: h.kernel.Target(spec.Pool.Spec.Source), State: hold.Absent, Wanted: spec.Pool.Spec.Options,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	return message(spec.Pool.ID, st), nil
}

// message is the status of a source as one of its pools sees it.
func message(pool string, st hold.Status) *agentpb.HeldPool {
	m := &agentpb.HeldPool{
		Pool: pool, Source: st.Source.Device(), Target: st.Place, State: string(st.State), Identity: st.Identity, LastError: st.LastError,
		NextTry: stamp(st.NextTry),
	}
	if st.Mounted {
		m.Options = st.Mount.Options + "," + st.Mount.Super
	}
	for _, u := range st.Blockers {
		m.Blockers = append(m.Blockers, u.String())
	}
	for _, x := range st.Holds {
		if x.Pool != pool && !x.Derived {
			continue
		}
		m.Holds = append(m.Holds, &agentpb.Hold{
			Id: string(x.ID), Kind: string(x.Holder.Kind), Holder: x.Holder.Name, ReadOnly: x.Mode == hold.ReadOnly, Subpath: x.Subpath,
			Created: stamp(x.Created), Waiting: x.Waiting, Derived: x.Derived, Broken: x.Broken, Orphan: stamp(x.Orphan),
		})
	}
	return m
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// List returns all pools on mounts of this host, by name.
func (h *Holding) List(ctx context.Context) ([]*agentpb.HeldPool, error) {
	all, err := h.set.InspectAll(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	var list []*agentpb.HeldPool
	for _, p := range h.known() {
		m, err := h.tell(ctx, p)
		if err != nil {
			return nil, err
		}
		known[p.Spec().Pool.ID] = true
		list = append(list, m)
	}
	for _, st := range all { // Those that an earlier process knew, until this one is told of them.
		pools := slices.Clone(st.Pools)
		for _, h := range st.Holds {
			pools = append(pools, h.Pool)
		}
		for _, pool := range pools {
			if pool != "" && !known[pool] && !held.IsTrial(pool) {
				known[pool] = true
				list = append(list, message(pool, st))
			}
		}
	}
	slices.SortFunc(list, func(a, b *agentpb.HeldPool) int { return cmp.Compare(a.GetPool(), b.GetPool()) })
	return list, nil
}

// Acquire gives an operator a hold. It may be called again.
func (h *Holding) Acquire(ctx context.Context, r *agentpb.HoldRequest) (*agentpb.HeldPool, error) {
	name := cmp.Or(strings.TrimSpace(r.GetHolder()), "operator")
	mode := hold.ReadWrite
	if r.GetReadOnly() {
		mode = hold.ReadOnly
	}
	_, err := h.Hold(ctx, r.GetPool(), hold.Request{ID: hold.ID(r.GetId()), Holder: hold.Holder{Kind: hold.Operator, Name: name}, Mode: mode})
	if err != nil {
		return nil, err
	}
	return h.Inspect(ctx, r.GetPool())
}

// Hold acquires a hold on a pool in whatever name. The subpath is the pool's folder.
func (h *Holding) Hold(ctx context.Context, pool string, r hold.Request) (hold.Hold, error) {
	p, err := h.find(pool)
	if err != nil {
		return hold.Hold{}, err
	}
	spec := p.Spec()
	r.Subpath = spec.Folder
	x, err := h.set.Acquire(ctx, spec.Pool, r)
	return x, classed(err)
}

// Release releases a hold, and tells in words what became of the mount.
func (h *Holding) Release(ctx context.Context, r *agentpb.HoldRequest) (*agentpb.HeldPool, string, error) {
	if r.GetPool() != "" {
		if _, err := h.find(r.GetPool()); err != nil {
			return nil, "", err
		}
	}
	t, err := h.set.Release(ctx, hold.ID(r.GetId()))
	if err != nil {
		return nil, "", classed(err)
	}
	m, err := h.Inspect(ctx, r.GetPool())
	return m, t.String(), err
}

// classed gives refusals of holds the kind that they have as answers.
func classed(err error) error {
	refused, ok := errors.AsType[*hold.Error](err)
	if !ok {
		return err
	}
	kind := errs.HostFailed
	switch refused.Kind {
	case hold.Invalid, hold.Reused:
		kind = errs.Invalid
	case hold.Unknown:
		kind = errs.NotFound
	default:
	}
	return errs.New(kind, errs.StoragePool, "storage pool %s cannot be held", refused.Pool).Because("%s", err.Error()).Wrap(err)
}

// Watch calls changed with all pools on mounts, at first and then when something of them has changed, until ctx ends.
func (h *Holding) Watch(ctx context.Context, changed func([]*agentpb.HeldPool)) {
	const (
		gather = 200 * time.Millisecond // Events come in bursts.
		look   = 15 * time.Second       // Not everything is an event.
	)
	events, end := h.subscribe()
	defer end()
	var last []*agentpb.HeldPool
	for first := true; ; first = false {
		all, err := h.List(ctx)
		if err == nil && (first || !slices.EqualFunc(all, last, func(a, b *agentpb.HeldPool) bool { return proto.Equal(a, b) })) {
			last = all
			changed(all)
		}
		if !pause(ctx, gather, nil) || !pause(ctx, look, events) {
			return
		}
	}
}

// pause waits for a time, or until something comes. It is false when ctx has ended.
func pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-ctx.Done():
		return false
	}
	return true
}
