// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

// timeOf returns the zero time for one that is not set.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

func hostOf(m *agentpb.HostStatus) *observed.HostStatus {
	if m == nil {
		return nil
	}
	st := &observed.HostStatus{TakenPorts: m.GetTakenPorts(), TakenMinors: m.GetTakenMinors()}
	for _, p := range m.GetHeldPools() {
		st.Pools = append(st.Pools, heldPoolOf(p))
	}
	return st
}

func heldPoolOf(m *agentpb.HeldPool) observed.HeldPool {
	p := observed.HeldPool{
		Pool: model.PoolName(m.GetPool()), Source: m.GetSource(), Target: m.GetTarget(), State: m.GetState(), Options: m.GetOptions(),
		Identity: m.GetIdentity(), Blockers: m.GetBlockers(), LastError: m.GetLastError(), NextTry: timeOf(m.GetNextTry()),
	}
	for _, h := range m.GetHolds() {
		p.Holds = append(p.Holds, observed.Hold{
			ID: h.GetId(), Kind: h.GetKind(), Holder: h.GetHolder(), ReadOnly: h.GetReadOnly(), Subpath: h.GetSubpath(),
			Created: timeOf(h.GetCreated()), Waiting: h.GetWaiting(), Derived: h.GetDerived(), Broken: h.GetBroken(), Orphan: timeOf(h.GetOrphan()),
		})
	}
	return p
}

func assignJob(j observed.Job) *agentpb.Job {
	m := &agentpb.Job{Id: j.ID, From: assignEnd(j.From), To: assignEnd(j.To), Url: j.URL, Checksum: j.Checksum, Format: j.Format}
	switch j.Kind {
	case observed.CopyJob:
		m.Kind = agentpb.Job_COPY
	case observed.DownloadJob:
		m.Kind = agentpb.Job_DOWNLOAD
	case observed.ExportJob:
		m.Kind = agentpb.Job_EXPORT
	case observed.ImportJob:
		m.Kind = agentpb.Job_IMPORT
	}
	return m
}

func assignEnd(e observed.JobEnd) *agentpb.JobEnd {
	if e == (observed.JobEnd{}) {
		return nil
	}
	return &agentpb.JobEnd{
		Resource: string(e.Resource), Volume: int32(e.Volume), Snapshot: string(e.Snapshot), Pool: string(e.Pool), Path: e.Path,
	}
}

func jobOf(m *agentpb.JobStatus) observed.JobStatus {
	j := m.GetJob()
	st := observed.JobStatus{
		Job: observed.Job{
			ID: j.GetId(), From: endOf(j.GetFrom()), To: endOf(j.GetTo()), URL: j.GetUrl(), Checksum: j.GetChecksum(), Format: j.GetFormat(),
		},
		State: jobStateOf(m.GetState()), Done: m.GetDone(), Total: m.GetTotal(), Result: m.GetChecksum(), Failure: failureOf(m.GetFailure()),
		Created: timeOf(m.GetCreated()), Ended: timeOf(m.GetEnded()), Forgotten: m.GetForgotten(),
	}
	switch j.GetKind() {
	case agentpb.Job_COPY:
		st.Kind = observed.CopyJob
	case agentpb.Job_DOWNLOAD:
		st.Kind = observed.DownloadJob
	case agentpb.Job_EXPORT:
		st.Kind = observed.ExportJob
	case agentpb.Job_IMPORT:
		st.Kind = observed.ImportJob
	case agentpb.Job_KIND_UNSPECIFIED:
	}
	return st
}

func endOf(m *agentpb.JobEnd) observed.JobEnd {
	return observed.JobEnd{
		Resource: model.DefinitionName(m.GetResource()), Volume: model.VolumeNumber(m.GetVolume()), Snapshot: model.SnapshotName(m.GetSnapshot()),
		Pool: model.PoolName(m.GetPool()), Path: m.GetPath(),
	}
}

// jobStateOf takes a state that this controller does not know for work under way.
func jobStateOf(s agentpb.JobStatus_State) observed.JobState {
	switch s {
	case agentpb.JobStatus_WAITING:
		return observed.JobWaiting
	case agentpb.JobStatus_DONE:
		return observed.JobDone
	case agentpb.JobStatus_FAILED:
		return observed.JobFailed
	case agentpb.JobStatus_CANCELLED:
		return observed.JobCancelled
	case agentpb.JobStatus_RUNNING, agentpb.JobStatus_STATE_UNSPECIFIED:
	}
	return observed.JobRunning
}
