// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// wish turns w into what the stack is asked for, with the drivers of its pools at hand.
func (m *Machine) wish(w Want) (stack.Want, error) {
	if slices.ContainsFunc(w.Layers, func(l model.Layer) bool { return l != model.LUKS && l != model.Storage }) {
		return stack.Want{}, errs.New(errs.Unsupported, errs.Resource, "resource %s has the layers %v", w.Resource, w.Layers).
			Because("this host makes volumes of the layers %s and %s alone", model.LUKS, model.Storage)
	}
	m.keys.note(w)
	wish := stack.Want{Resource: w.Resource, Destroy: w.Destroy, Inactive: w.Inactive}
	for _, v := range w.Volumes {
		if v.Pool == nil {
			if w.Destroy || v.Destroy {
				continue
			}
			return stack.Want{}, errs.New(errs.Unsupported, errs.Resource, "volume %d of resource %s has no storage pool", v.Number, w.Resource).
				Because("a replica without storage needs the layer %s", model.DRBD)
		}
		vw, err := m.volumeWish(v)
		if err != nil {
			return stack.Want{}, err
		}
		wish.Volumes = append(wish.Volumes, vw)
	}
	for _, s := range w.Snapshots {
		sw := stack.SnapshotWant{Name: s.Name, Destroy: s.Destroy, Existing: s.Existing}
		for _, p := range s.Parts {
			if _, err := m.driver(p.Pool); err != nil {
				return stack.Want{}, err
			}
			sw.Volumes = append(sw.Volumes, stack.SnapshotVolume{
				Number: int(p.Number), Pool: p.Pool.Name, Provider: string(p.Pool.Provider), Encrypted: p.Encrypted,
			})
		}
		wish.Snapshots = append(wish.Snapshots, sw)
	}
	return wish, nil
}

// volumeWish turns v, which lies in a pool, into what the stack is asked for.
func (m *Machine) volumeWish(v VolumeWant) (stack.VolumeWant, error) {
	if _, err := m.driver(*v.Pool); err != nil {
		return stack.VolumeWant{}, err
	}
	vw := stack.VolumeWant{
		Number: int(v.Number), Destroy: v.Destroy, Existing: v.Existing, Stretch: v.Stretch, Encrypted: v.Luks != nil,
		Pool: v.Pool.Name, Provider: string(v.Pool.Provider), Size: v.Size,
	}
	if v.Filesystem != nil {
		vw.Filesystem = &stack.Filesystem{Type: v.Filesystem.GetType(), MkfsParams: v.Filesystem.GetMkfsParams()}
	}
	if s := v.Source; s != nil {
		if _, err := m.driver(*s.Pool); err != nil {
			return stack.VolumeWant{}, err
		}
		vw.Source = &stack.Source{
			Resource: s.Resource, Volume: int(s.Volume), Snapshot: s.Snapshot, Pool: s.Pool.Name, Provider: string(s.Pool.Provider),
		}
	}
	if v.RollBack != nil {
		vw.RollBack = &stack.RollBack{Snapshot: v.RollBack.GetSnapshot(), Token: v.RollBack.GetToken()}
	}
	return vw, nil
}

// resultOf is what the stack saw, in the words of the protocol.
func resultOf(w stack.Want, r stack.Result) Result {
	result := Result{Pending: r.State == stack.Pending}
	for _, v := range r.Volumes {
		s := &agentpb.VolumeStatus{
			Number: int32(v.Number), DevicePath: v.DevicePath, BackingPath: v.Backing, Usable: new(v.Usable), Allocated: new(v.Allocated),
			Holders: v.Holders, RolledBack: v.RolledBack,
		}
		if v.UseUnknown == "" {
			s.InUse = new(v.InUse)
		}
		result.Volumes = append(result.Volumes, s)
	}
	for _, x := range r.Work {
		result.Work = append(result.Work, &agentpb.Work{
			What: x.What, Volume: int32(x.Volume), Snapshot: x.Snapshot, Done: x.Done, Total: x.Total, Waiting: x.Waiting,
		})
	}
	for _, s := range w.Snapshots {
		result.Snapshots = append(result.Snapshots, snapshotOf(s, r))
	}
	return result
}

// snapshotOf is what the stack saw of one snapshot.
func snapshotOf(w stack.SnapshotWant, r stack.Result) *agentpb.SnapshotStatus {
	s := &agentpb.SnapshotStatus{Name: w.Name, State: agentpb.SnapshotStatus_TAKING}
	i := slices.IndexFunc(r.Snapshots, func(h stack.SnapshotHave) bool { return strings.EqualFold(h.Name, w.Name) })
	switch {
	case i >= 0:
		s.State, s.Created = agentpb.SnapshotStatus_COMPLETE, timestamppb.New(r.Snapshots[i].Created)
		for _, v := range r.Snapshots[i].Volumes {
			s.Volumes = append(s.Volumes, &agentpb.SnapshotVolumeStatus{Number: int32(v.Number), Size: v.Size, Allocated: new(v.Allocated)})
		}
	case w.Destroy && slices.Contains(r.Absent, w.Name):
		s.State = agentpb.SnapshotStatus_DESTROYED
	}
	return s
}
