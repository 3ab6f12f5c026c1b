// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

func drbdOf(m *agentpb.DrbdStatus) *observed.DRBDStatus {
	if m == nil {
		return nil
	}
	st := &observed.DRBDStatus{
		Role: m.GetRole(), MayPromote: m.MayPromote, PromotionScore: m.PromotionScore, Quorum: m.Quorum, Suspended: m.GetSuspended(),
		Problems: m.GetProblems(),
	}
	for _, c := range m.GetConnections() {
		st.Connections = append(st.Connections, observed.DRBDConnection{
			Node: model.NodeName(c.GetNode()), State: c.GetState(), Role: c.GetRole(),
			DiskStates: byVolume(c.GetDiskStates()), Replication: byVolume(c.GetReplication()),
		})
	}
	return st
}

func byVolume(m map[int32]string) map[model.VolumeNumber]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[model.VolumeNumber]string, len(m))
	for n, text := range m {
		out[model.VolumeNumber(n)] = text
	}
	return out
}
