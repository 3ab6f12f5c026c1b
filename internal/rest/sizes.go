// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// querySize answers with reports when the group could spawn nothing: the status is 200 in any case.
func (s *Server) querySize(q *request) (body, error) {
	var b wire.QuerySizeInfoRequest
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	group := q.PathValue("resource_group")
	info, err := s.Resources.QuerySize(group, filterOf(b.SelectFilter))
	return value{q.sizeInfo(group, info, err)}, nil
}

// queryAllSizes answers the same for every group. Nothing is older than the request, so the age that the request permits
// makes no difference.
func (s *Server) queryAllSizes(q *request) (body, error) {
	var b wire.QueryAllSizeInfoRequest
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	out := wire.QueryAllSizeInfoResponse{Result: make(map[string]wire.QuerySizeInfoResponse)}
	for _, g := range s.Resources.QueryAllSizes(filterOf(b.SelectFilter)) {
		out.Result[string(g.Group)] = q.sizeInfo(string(g.Group), g.Info, g.Err)
	}
	return value{out}, nil
}

func (q *request) sizeInfo(group string, info resources.SizeInfo, err error) wire.QuerySizeInfoResponse {
	if err != nil {
		return wire.QuerySizeInfoResponse{Reports: q.reports(err, group)}
	}
	return wire.QuerySizeInfoResponse{SpaceInfo: spaceInfo(info)}
}

// reports is the entries of an error about a group that is part of an answer.
func (q *request) reports(err error, group string) wire.RcList {
	entry := entryOf(errs.As(schema.Refusal(err))).WithRef(wire.RefRscGrp, group)
	return wire.RcList{entry}.Finish(q.route.mask, q.server.Now())
}

func spaceInfo(info resources.SizeInfo) *wire.SpaceInfo {
	available, capacity, ratio := wire.RoundDown(info.Available), wire.RoundDown(info.Capacity), float64(placer.DefaultRatio)
	out := &wire.SpaceInfo{
		MaxVlmSize: wire.RoundDown(info.MaxVolume), AvailableSize: &available, Capacity: &capacity,
		DefaultMaxOversubscriptionRatio: &ratio,
	}
	for _, n := range info.Next {
		least := min(n.FreeRatio, n.TotalRatio)
		out.NextSpawnResult = append(out.NextSpawnResult, wire.SpawnResult{
			NodeName: string(n.Node), StorPoolName: string(n.Pool), OversubscriptionRatio: &least,
			FreeCapacityOversubscription: &n.FreeRatio, TotalCapacityOversubscription: &n.TotalRatio,
		})
	}
	return out
}

// maxVolumeSizes tells for each name of a pool how large a volume can be that a filter places there.
func (s *Server) maxVolumeSizes(q *request) (body, error) {
	var b wire.AutoSelectFilter
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	return candidates(s.Resources.MaxVolumeSizesFor(filterOf(&b)))
}

// maxVolumeSizesOf is the older way to ask for a group.
func (s *Server) maxVolumeSizesOf(q *request) (body, error) {
	return candidates(s.Resources.MaxVolumeSizes(q.PathValue("resource_group"), filterOf(nil)))
}

// candidates shows sizes, the largest first.
func candidates(list []resources.PoolSize, err error) (body, error) {
	if err != nil {
		return nil, err
	}
	ratio := float64(placer.DefaultRatio)
	out := wire.MaxVolumeSizes{DefaultMaxOversubscriptionRatio: &ratio}
	for _, p := range slices.SortedStableFunc(slices.Values(list), func(a, b resources.PoolSize) int { return cmp.Compare(b.MaxVolume, a.MaxVolume) }) {
		c := wire.Candidate{StoragePool: string(p.Pool), MaxVolumeSize: wire.RoundDown(p.MaxVolume), AllThin: p.AllThin}
		for _, n := range p.Nodes {
			c.NodeNames = append(c.NodeNames, string(n))
		}
		out.Candidates = append(out.Candidates, c)
	}
	return value{out}, nil
}
