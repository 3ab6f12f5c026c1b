// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Volumes shows the volumes of a replica, by number.
func (e *Encoder) Volumes(r schema.Resource) []wire.Volume { return e.volumes(e.replica(r)) }

func (e *Encoder) volumes(x replica) []wire.Volume {
	if len(x.row.Volumes) == 0 {
		return nil
	}
	out := make([]wire.Volume, len(x.row.Volumes))
	for i, v := range x.row.Volumes {
		out[i] = e.volume(x, v)
	}
	return out
}

func (e *Encoder) volume(x replica, v schema.Volume) wire.Volume {
	p := e.pool(model.PoolID{Node: x.row.Node, Pool: v.Pool})
	seen, _ := x.volumeSeen(v.Number)
	out := wire.Volume{
		VolumeNumber:    int32(v.Number),
		StoragePoolName: p.name,
		ProviderKind:    p.provider,
		DevicePath:      seen.DevicePath,
		Props:           e.properties(v.Props),
		Flags:           deleteFlag(v.Deleting || x.row.Deleting),
		State:           x.volumeState(v),
		LayerDataList:   make([]wire.VolumeLayer, len(x.of.layers)),
		UUID:            v.UUID,
		Reports:         x.reports(),
	}
	if x.diskful() {
		out.AllocatedSize = roundedUp(seen.Allocated)
	}
	for i, l := range x.of.layers {
		switch l {
		case model.DRBD:
			out.LayerDataList[i] = wire.NewVolumeLayer(drbdVolume(x, v))
		case model.LUKS:
			out.LayerDataList[i] = wire.NewVolumeLayer(luksVolume(x, v))
		case model.Storage:
			out.LayerDataList[i] = wire.NewVolumeLayer(storageVolume(x, v))
		}
	}
	return out
}

func (x replica) diskful() bool { return x.row.Kind == schema.Diskful }

// Disk states of stacks without DRBD. Clients show the first whatever else is said.
const (
	diskCreated = "Created"
	diskFailed  = wire.DiskFailed
)

// diskState is what the node says of a volume now, empty when it says nothing.
func (x replica) diskState(v schema.Volume) string {
	seen, ok := x.volumeSeen(v.Number)
	switch {
	case !x.seen.Current:
		return ""
	case seen.DiskState != "":
		return seen.DiskState
	case model.Replicates(x.of.layers):
		return ""
	case ok && seen.DevicePath != "":
		return diskCreated
	case x.seen.Phase == observed.Failed:
		return diskFailed
	default:
		return ""
	}
}

func (x replica) volumeState(v schema.Volume) *wire.VolumeState {
	state := x.diskState(v)
	if state == "" {
		return nil
	}
	return &wire.VolumeState{DiskState: state}
}

// size is the usable size of a volume: what the node measured, or what the definition promises.
func (x replica) size(v schema.Volume) *wire.SizeKiB {
	if seen, ok := x.volumeSeen(v.Number); ok && seen.Usable != nil {
		return roundedDown(seen.Usable)
	}
	if size := x.of.volume(v.Number).Size; size > 0 {
		return roundedDown(&size)
	}
	return nil
}

func drbdVolume(x replica, v schema.Volume) wire.DRBDVolume {
	seen, _ := x.volumeSeen(v.Number)
	out := wire.DRBDVolume{
		VolumeDefinition: wire.DRBDVolumeDefinition{VolumeNumber: int32(v.Number)},
		DevicePath:       seen.DevicePath,
		UsableSize:       x.size(v),
		DiskState:        x.diskState(v),
	}
	if minor := x.of.volume(v.Number).Minor; minor != nil {
		out.VolumeDefinition.MinorNumber = *minor
	}
	if x.diskful() {
		out.BackingDevice, out.MetaDisk = seen.BackingPath, "internal"
		out.AllocatedSize = roundedUp(seen.Allocated)
	}
	return out
}

func luksVolume(x replica, v schema.Volume) wire.LUKSVolume {
	seen, _ := x.volumeSeen(v.Number)
	return wire.LUKSVolume{
		VolumeNumber:  int32(v.Number),
		DevicePath:    seen.DevicePath,
		BackingDevice: seen.BackingPath,
		AllocatedSize: roundedUp(seen.Allocated),
		UsableSize:    x.size(v),
		DiskState:     x.diskState(v),
		Opened:        x.seen.Current && seen.DevicePath != "",
	}
}

// storageVolume shows the lowest layer. What the pool has promised for the volume is its size there: clients add it up to
// learn how much of a pool is reserved.
func storageVolume(x replica, v schema.Volume) wire.StorageVolume {
	seen, _ := x.volumeSeen(v.Number)
	out := wire.StorageVolume{VolumeNumber: int32(v.Number), DiskState: x.diskState(v)}
	if !x.diskful() {
		return out
	}
	out.DevicePath = seen.BackingPath
	if out.DevicePath == "" && len(x.of.layers) == 1 {
		out.DevicePath = seen.DevicePath
	}
	out.AllocatedSize = roundedUp(seen.Allocated)
	out.UsableSize = roundedDown(&v.Size)
	return out
}

// reports says why a replica is not as it shall be.
func (x replica) reports() wire.RcList {
	name := string(x.of.row.Name)
	entry := func(code wire.RetCode, format string, args ...any) wire.Rc {
		return wire.NewRc(code|wire.ObjRsc, fmt.Sprintf(format, args...)).
			WithRef(wire.RefRscDfn, name).WithRef(wire.RefNode, x.node.name)
	}
	if x.node.offline {
		rc := entry(wire.WarnNotConnected, "node %s is offline: the state of resource %s there is not known", x.node.name, name)
		if x.row.Deleting {
			rc = rc.WithDetails("It is deleted when the node is connected again.")
		}
		return wire.RcList{rc}
	}
	f := x.seen.Failure
	if f == nil || !x.seen.Current {
		return nil
	}
	rc := entry(failureCode(f.Reason), "resource %s on node %s: %s fails", name, x.node.name, stepOf(f)).
		WithCause(f.Message).WithDetails(attempts(f))
	if f.Reason == observed.InUse {
		rc = rc.WithCorrection("end the use of the device; the node tries again by itself")
	}
	return wire.RcList{rc}
}

func stepOf(f *observed.Failure) string {
	if f.Step == "" {
		return "a step"
	}
	return f.Step
}

func attempts(f *observed.Failure) string {
	text := fmt.Sprintf("Attempts: %d.", f.Attempts)
	if !f.NextTry.IsZero() {
		text += " Next try: " + f.NextTry.Format(time.RFC3339) + "."
	}
	return text
}

func failureCode(r observed.Reason) wire.RetCode {
	switch r {
	case observed.InUse:
		return wire.FailInUse
	case observed.NoSpace:
		return wire.FailNotEnoughFreeSpace
	case observed.PoolFaulty:
		return wire.FailStorPoolConfigurationError
	case observed.Unsupported:
		return wire.FailStltDoesNotSupportProvider
	case observed.Invalid:
		return wire.FailInvldRequest
	default:
		return wire.FailUnknownError
	}
}
