// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

// factsOf leaves out the providers and layers that this controller does not know.
func factsOf(m *agentpb.Hello) observed.Facts {
	f := observed.Facts{
		Uname: m.GetUname(), Version: m.GetVersion(),
		UnsupportedProviders: m.GetUnsupportedProviders(), UnsupportedLayers: m.GetUnsupportedLayers(),
	}
	for _, name := range m.GetProviders() {
		if p, err := model.ParseProvider(name); err == nil {
			f.Providers = append(f.Providers, p)
		}
	}
	for _, name := range m.GetLayers() {
		if l, err := model.ParseLayer(name); err == nil {
			f.Layers = append(f.Layers, l)
		}
	}
	return f
}

func resourceOf(m *agentpb.ResourceStatus) observed.ResourceStatus {
	st := observed.ResourceStatus{
		Generation: m.GetGeneration(),
		Phase:      phaseOf(m.GetState()),
		Failure:    failureOf(m.GetFailure()),
		DRBD:       drbdOf(m.GetDrbd()),
	}
	if n := len(m.GetVolumes()); n > 0 {
		st.Volumes = make([]observed.VolumeStatus, n)
	}
	for _, w := range m.GetWork() {
		st.Work = append(st.Work, observed.Work{
			What: w.GetWhat(), Volume: model.VolumeNumber(w.GetVolume()), Snapshot: model.SnapshotName(w.GetSnapshot()),
			Done: w.GetDone(), Total: w.GetTotal(), Waiting: w.GetWaiting(),
		})
	}
	for i, v := range m.GetVolumes() {
		st.Volumes[i] = observed.VolumeStatus{
			Number:      model.VolumeNumber(v.GetNumber()),
			DevicePath:  v.GetDevicePath(),
			BackingPath: v.GetBackingPath(),
			Usable:      v.Usable,
			Allocated:   v.Allocated,
			InUse:       v.InUse,
			Holders:     v.GetHolders(),
			DiskState:   v.GetDiskState(),
			RolledBack:  v.GetRolledBack(),
			ResyncDone:  v.ResyncDone,
		}
	}
	return st
}

// snapshotsOf returns what is said of the snapshots of a resource.
func snapshotsOf(m *agentpb.ResourceStatus) map[model.SnapshotKey]observed.SnapshotStatus {
	all := make(map[model.SnapshotKey]observed.SnapshotStatus, len(m.GetSnapshots()))
	for _, s := range m.GetSnapshots() {
		st := observed.SnapshotStatus{
			Generation: m.GetGeneration(), Phase: snapshotPhaseOf(s.GetState()), Created: timeOf(s.GetCreated()), Failure: failureOf(s.GetFailure()),
		}
		for _, v := range s.GetVolumes() {
			st.Volumes = append(st.Volumes, observed.SnapshotVolumeStatus{
				Number: model.VolumeNumber(v.GetNumber()), Size: v.GetSize(), Allocated: v.Allocated,
			})
		}
		all[model.SnapshotName(s.GetName()).Key()] = st
	}
	return all
}

func snapshotPhaseOf(s agentpb.SnapshotStatus_State) observed.Phase {
	switch s {
	case agentpb.SnapshotStatus_COMPLETE:
		return observed.Ready
	case agentpb.SnapshotStatus_FAILED:
		return observed.Failed
	case agentpb.SnapshotStatus_DESTROYED:
		return observed.Destroyed
	case agentpb.SnapshotStatus_TAKING, agentpb.SnapshotStatus_STATE_UNSPECIFIED:
	}
	return observed.Working
}

// phaseOf takes a state that this controller does not know for work under way: no one waits
// for less than an outcome.
func phaseOf(s agentpb.ResourceStatus_State) observed.Phase {
	switch s {
	case agentpb.ResourceStatus_READY:
		return observed.Ready
	case agentpb.ResourceStatus_FAILED:
		return observed.Failed
	case agentpb.ResourceStatus_DESTROYED:
		return observed.Destroyed
	case agentpb.ResourceStatus_WORKING, agentpb.ResourceStatus_STATE_UNSPECIFIED:
	}
	return observed.Working
}

func failureOf(m *agentpb.Failure) *observed.Failure {
	if m == nil {
		return nil
	}
	f := &observed.Failure{
		Step: m.GetStep(), Message: m.GetMessage(), Reason: reasonOf(m.GetReason()), Attempts: m.GetAttempts(),
	}
	f.NextTry = timeOf(m.GetNextTry())
	return f
}

func reasonOf(r agentpb.Failure_Reason) observed.Reason {
	switch r {
	case agentpb.Failure_IN_USE:
		return observed.InUse
	case agentpb.Failure_NO_SPACE:
		return observed.NoSpace
	case agentpb.Failure_POOL_FAULTY:
		return observed.PoolFaulty
	case agentpb.Failure_UNSUPPORTED:
		return observed.Unsupported
	case agentpb.Failure_INVALID:
		return observed.Invalid
	case agentpb.Failure_LOCKED:
		return observed.Locked
	case agentpb.Failure_REASON_UNSPECIFIED:
	}
	return observed.Other
}

func poolOf(m *agentpb.PoolStatus) observed.PoolStatus {
	return observed.PoolStatus{
		Total: m.Total, Free: m.Free, Allocated: m.Allocated, Pledged: m.AssignedAllocated,
		Granularity: m.GetGranularity(), SupportsSnapshots: m.GetSupportsSnapshots(),
		Faults: m.GetFaults(), Unknown: m.GetUnknownVolumes(),
	}
}
