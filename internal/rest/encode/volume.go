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

// Volume returns what shows volumes of a replica: a [wire.Volume] each.
func (e *Encoder) Volume(r *schema.Resource) func(*Buffer, *schema.Volume) {
	x := e.replica(r)
	return func(b *Buffer, v *schema.Volume) { e.writeVolume(b, &x, v) }
}

func (e *Encoder) writeVolume(b *Buffer, x *replica, v *schema.Volume) {
	p := e.pool(model.PoolID{Node: x.row.Node, Pool: v.Pool})
	seen := x.volume(v)
	b.Open('{')
	b.number("volume_number", int64(v.Number))
	b.optional("storage_pool_name", p.name)
	b.optional("provider_kind", string(p.provider))
	b.optional("device_path", seen.DevicePath)
	if x.diskful() {
		b.allocated(seen.Allocated)
	}
	e.props(b, v.Props, property{})
	b.flags(deleteFlag(v.Deleting || x.row.Deleting))
	if state := x.diskState(v); state != "" {
		b.under("state", '{')
		b.text("disk_state", state)
		e.writeReplication(b, x, v)
		b.Close('}')
	}
	b.under("layer_data_list", '[')
	for _, l := range x.of.layers {
		b.Open('{')
		b.text("type", string(l))
		b.key("data")
		switch l {
		case model.DRBD:
			x.writeDRBDVolume(b, v)
		case model.LUKS:
			x.writeLUKSVolume(b, v)
		case model.Storage:
			x.writeStorageVolume(b, v)
		}
		b.Close('}')
	}
	b.Close(']')
	b.optional("uuid", v.UUID)
	if reports := x.reports(); len(reports) > 0 {
		b.member("reports", reports)
	}
	b.Close('}')
}

// volume returns what the node said of a volume, a zero status when it said nothing.
func (x *replica) volume(v *schema.Volume) observed.VolumeStatus {
	for _, s := range x.seen.Volumes {
		if s.Number == v.Number {
			return s
		}
	}
	return observed.VolumeStatus{}
}

// Disk states of stacks without DRBD.
const (
	diskCreated = "Created"
	diskFailed  = wire.DiskFailed
)

// diskState is what the node says of a volume now, empty when it says nothing.
func (x *replica) diskState(v *schema.Volume) string {
	seen := x.volume(v)
	switch {
	case !x.seen.Current:
		return ""
	case seen.DiskState != "" || model.Replicates(x.of.layers):
		return seen.DiskState
	case seen.DevicePath != "":
		return diskCreated
	case x.seen.Phase == observed.Failed:
		return diskFailed
	default:
		return ""
	}
}

// usable is the size of a volume for its users: what the node measured, or what the definition promises.
func (x *replica) usable(v *schema.Volume) *int64 {
	if seen := x.volume(v); seen.Usable != nil {
		return seen.Usable
	}
	if vd := x.of.volume(v.Number); vd != nil {
		return &vd.Size
	}
	return nil
}

func (x *replica) writeDRBDVolume(b *Buffer, v *schema.Volume) {
	seen := x.volume(v)
	var minor int32
	if vd := x.of.volume(v.Number); vd != nil && vd.Minor != nil {
		minor = *vd.Minor
	}
	b.Open('{')
	drbdVolumeDefinition(b, "drbd_volume_definition", v.Number, minor)
	b.optional("device_path", seen.DevicePath)
	if x.diskful() {
		b.optional("backing_device", seen.BackingPath)
		b.text("meta_disk", "internal")
		b.allocated(seen.Allocated)
	}
	b.space("usable_size_kib", x.usable(v))
	b.optional("disk_state", x.diskState(v))
	b.Close('}')
}

func (x *replica) writeLUKSVolume(b *Buffer, v *schema.Volume) {
	seen := x.volume(v)
	b.Open('{')
	b.number("volume_number", int64(v.Number))
	b.optional("device_path", seen.DevicePath)
	b.optional("backing_device", seen.BackingPath)
	b.allocated(seen.Allocated)
	b.space("usable_size_kib", x.usable(v))
	b.optional("disk_state", x.diskState(v))
	b.truth("opened", x.seen.Current && seen.DevicePath != "")
	b.truth("corrupted_key", false)
	b.Close('}')
}

// writeStorageVolume writes the lowest layer. What the pool has promised for the volume is its size there: clients add it
// up to learn how much of a pool is reserved.
func (x *replica) writeStorageVolume(b *Buffer, v *schema.Volume) {
	seen := x.volume(v)
	b.Open('{')
	b.number("volume_number", int64(v.Number))
	if x.diskful() {
		device := seen.DevicePath
		if len(x.of.layers) > 1 {
			device = seen.BackingPath
		}
		b.optional("device_path", device)
		b.allocated(seen.Allocated)
		b.space("usable_size_kib", &v.Size)
	}
	b.optional("disk_state", x.diskState(v))
	b.Close('}')
}

// reports says why a replica is not as it shall be.
func (x *replica) reports() wire.RcList {
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
	if !x.seen.Current {
		return nil
	}
	var list wire.RcList
	if now := x.seen.DRBD; now != nil {
		for _, problem := range now.Problems {
			list = append(list, entry(wire.WarnStorageError, "resource %s on node %s: %s", name, x.node.name, problem))
		}
	}
	f := x.seen.Failure
	if f == nil {
		return list
	}
	rc := entry(failureCode(f.Reason), "resource %s on node %s: %s fails", name, x.node.name, stepOf(f)).
		WithCause(f.Message).WithDetails(attempts(f))
	switch f.Reason {
	case observed.InUse:
		rc = rc.WithCorrection("end the use of the device; the node tries again by itself")
	case observed.Locked:
		rc = rc.WithCorrection("enter the passphrase of the cluster: encryption enter-passphrase; the node goes on by itself")
	default:
	}
	return append(wire.RcList{rc}, list...)
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
	case observed.Locked:
		return wire.FailNotFoundCryptKey
	default:
		return wire.FailUnknownError
	}
}
