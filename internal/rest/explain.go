// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// explain tells what the next spawn from a group would do, of a volume of each size_kib that the request has.
func (s *Server) explain(q *request) (body, error) {
	var sizes []wire.SizeKiB
	for _, text := range q.names("size_kib") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errs.New(errs.Invalid, errs.ResourceGroup, "the parameter size_kib=%q is not possible", text).About(errs.Query).
				Fix("use a whole number of KiB")
		}
		sizes = append(sizes, wire.SizeKiB(n))
	}
	return s.explained(q, sizes, model.Filter{})
}

// explainRequest is explain with a filter over that of the group.
func (s *Server) explainRequest(q *request) (body, error) {
	var b wire.ExplainRequest
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	return s.explained(q, b.VolumeSizes, filterOf(b.SelectFilter))
}

func (s *Server) explained(q *request, sizes []wire.SizeKiB, f model.Filter) (body, error) {
	volumes := make([]int64, len(sizes))
	for i := range sizes {
		n, err := sizeOf(&sizes[i])
		if err != nil {
			return nil, err
		}
		volumes[i] = n
	}
	x, err := s.Resources.Explain(q.PathValue("resource_group"), volumes, f)
	if err != nil {
		return nil, err
	}
	out := wire.Explanation{ResourceGroup: string(x.Group), PlaceCount: int32(x.Replicas)}
	for _, l := range x.Layers {
		out.LayerStack = append(out.LayerStack, wire.LayerType(l))
	}
	for _, p := range x.Picks {
		out.Picks = append(out.Picks, wire.ExplainedPick{NodeName: string(p.Node), StoragePoolName: string(p.Pool)})
	}
	for i := range x.Pools {
		out.Pools = append(out.Pools, explainedPool(&x.Pools[i]))
	}
	if x.Problem != nil {
		out.Reports = q.reports(x.Problem, string(x.Group))
	}
	return value{out}, nil
}

func explainedPool(v *resources.PoolVerdict) wire.ExplainedPool {
	p := wire.ExplainedPool{
		NodeName: string(v.Node), StoragePoolName: string(v.Pool), ProviderKind: wire.ProviderKind(v.Provider),
		Accepted: v.Accepted, Picked: v.Picked, Reason: v.Reason,
	}
	if v.Accepted {
		p.Score = &v.Score
	}
	if v.Space.Known {
		free, total, room := wire.RoundDown(v.Space.Free), wire.RoundDown(v.Space.Total), wire.RoundDown(v.Room)
		p.FreeCapacity, p.TotalCapacity, p.Room = &free, &total, &room
	}
	return p
}

// listPendingDeletes lists the replicas that are to go, with why they have not gone yet.
func (s *Server) listPendingDeletes(q *request) (body, error) {
	p, err := q.page()
	if err != nil {
		return nil, err
	}
	return values(pageOf(p, slices.Values(s.Resources.PendingDeletes())), func(d *resources.PendingDelete) wire.PendingDelete {
		out := wire.PendingDelete{ResourceName: string(d.Definition), NodeName: string(d.Node), Connected: d.Connected}
		if !d.Since.IsZero() {
			out.SinceTimestamp = new(d.Since.UnixMilli())
		}
		if f := d.Failure; f != nil {
			out.LastError, out.Attempts, out.NextTryTimestamp = f.Message, int32(f.Attempts), stamp(f.NextTry)
			if f.Step != "" {
				out.LastError = f.Step + ": " + f.Message
			}
		}
		return out
	}), nil
}
