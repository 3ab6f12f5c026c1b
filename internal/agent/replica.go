// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/assignment"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Replication is what a [Machine] needs for the layer DRBD.
type Replication struct {
	DRBD   *drbd.DRBD
	Events *drbd.Watcher // nil: what changes by itself is seen by the periodic look
	Uname  string        // the host's own name

	// Notes is the folder in which it is noted that a filesystem is being made. It outlives the boot.
	Notes string

	// Open opens a block device to read and write it; nil for os.OpenFile.
	Open func(path string) (Disk, error)
}

// Disk is an open block device. An *os.File is one.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

// Replicate lets the machine serve the layer DRBD. It is called before anything else.
func (m *Machine) Replicate(r Replication) {
	if r.Open == nil {
		r.Open = func(path string) (Disk, error) { return os.OpenFile(path, os.O_RDWR, 0) }
	}
	m.replication = &r
}

// replicates tells whether DRBD lies on top.
func (w Want) replicates() bool { return len(w.Layers) > 0 && w.Layers[0] == model.DRBD }

func (m *Machine) replicationOf(w Want) (*Replication, error) {
	if m.replication == nil {
		return nil, errs.New(errs.Unsupported, errs.Resource, "resource %s has the layers %v", w.Resource, w.Layers).
			Because("this host does not have the layer %s", model.DRBD)
	}
	return m.replication, nil
}

// replica is one look at, or one piece of work on, a replica under DRBD.
type replica struct {
	*Replication
	m    *Machine
	want Want
	wish stack.Want // for what lies below DRBD
}

func (m *Machine) replica(w Want) (replica, error) {
	r, err := m.replicationOf(w)
	if err != nil {
		return replica{}, err
	}
	x := replica{Replication: r, m: m, want: w}
	x.wish, err = x.below()
	return x, err
}

// below is the wish for the volumes below DRBD. They have room for its metadata, which is made on
// new ones in place of a filesystem.
func (x replica) below() (stack.Want, error) {
	lower := x.want
	lower.Layers = lower.Layers[1:]
	lower.Volumes = nil
	for _, v := range x.want.Volumes {
		if v.Pool == nil {
			continue // it uses the others' over the network
		}
		v.Filesystem, v.Stretch = nil, false
		if x.want.DRBD != nil && v.Size > 0 {
			v.Size = assignment.Backing(&agentpb.Resource{Drbd: x.want.DRBD}, &agentpb.Volume{Size: v.Size, Drbd: v.DRBD})
		}
		lower.Volumes = append(lower.Volumes, v)
	}
	wish, err := x.m.wish(lower)
	if err != nil {
		return stack.Want{}, err
	}
	for i := range wish.Volumes {
		v := lower.Volumes[i]
		wish.Volumes[i].Prepare = func(ctx context.Context, device string) error { return x.prepare(ctx, v, device) }
	}
	return wish, nil
}

// prepare makes the metadata of DRBD on a new volume. What a volume begins with that is made from
// nothing is cleared where filesystems are told from, so that none seems to be there.
func (x replica) prepare(ctx context.Context, v VolumeWant, device string) error {
	if v.DRBD == nil || x.want.DRBD == nil {
		return fmt.Errorf("volume %d of resource %s is assigned without what DRBD has to know of it", v.Number, x.want.Resource)
	}
	if v.Source == nil {
		if err := x.clearHead(device); err != nil {
			return fmt.Errorf("clear the first bytes of %s: %w", device, err)
		}
	}
	metadata := assignment.Metadata(&agentpb.Resource{Drbd: x.want.DRBD}, &agentpb.Volume{Size: v.Size, Drbd: v.DRBD})
	volume := drbd.Volume{Number: int(v.Number), Minor: int(v.DRBD.GetMinor()), Disk: device}
	return x.DRBD.CreateMetadata(ctx, x.want.Resource, volume, metadata)
}

// above is the wish for DRBD, as far as the volumes below it are there: one that is not there yet
// is left out, unless there is nothing to leave it out of. It returns how many are left out.
func (x replica) above(devices map[int32]string) (w drbd.Want, missing int, err error) {
	r := &agentpb.Resource{Name: x.want.Resource, Destroy: x.want.Destroy, Inactive: x.want.Inactive, Drbd: x.want.DRBD}
	diskless := x.want.DRBD.GetDiskless()
	for _, v := range x.want.Volumes {
		name := ""
		if v.Pool != nil && !diskless {
			name = v.Pool.Name
		}
		if name != "" && !v.Destroy && devices[v.Number] == "" {
			missing++
			continue
		}
		r.Volumes = append(r.Volumes, &agentpb.Volume{Number: v.Number, Pool: name, Size: v.Size, Destroy: v.Destroy, Drbd: v.DRBD})
	}
	w, err = assignment.Want(r, x.Uname, func(n int32) string { return devices[n] })
	return w, missing, err
}

// devices are the devices of the volumes below DRBD, by their numbers.
func devices(r stack.Result) map[int32]string {
	all := map[int32]string{}
	for _, v := range r.Volumes {
		all[int32(v.Number)] = v.DevicePath
	}
	return all
}

// applyReplica makes a replica under DRBD. It comes from below and goes from above.
func (m *Machine) applyReplica(ctx context.Context, w Want) (Result, error) {
	x, err := m.replica(w)
	if err != nil {
		return Result{}, err
	}
	m.noteNumbers(w)
	if w.Destroy || w.Inactive {
		if _, err := stack.Converge(ctx, x.DRBD, drbd.Want{Name: w.Resource, Down: true}); err != nil {
			return Result{}, err
		}
		lower, err := m.stack.Apply(ctx, x.wish)
		if err != nil {
			return Result{}, err
		}
		if w.Destroy {
			m.forgetNumbers(w)
			return resultOf(x.wish, lower), x.forgetNotes()
		}
		return x.result(ctx, lower, nil)
	}
	waiting, err := x.release(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(waiting) > 0 {
		result, err := m.inspectReplica(ctx, w)
		result.Pending, result.Waits = true, true
		return result, err
	}
	done, err := x.rollBack(ctx)
	if err != nil {
		return Result{}, err
	}
	if !done {
		result, err := m.inspectReplica(ctx, w)
		result.Pending = true
		return result, err
	}
	lower, err := m.stack.Apply(ctx, x.wish)
	if err != nil {
		return Result{}, err
	}
	return x.provide(ctx, lower)
}

// release takes out of DRBD what is to go from below it. A disk that is given up stays below as
// long as it waits for something: then nobody else is known to have the data.
func (x replica) release(ctx context.Context) (waiting []string, err error) {
	if !slices.ContainsFunc(x.want.Volumes, func(v VolumeWant) bool { return v.Destroy && v.Pool != nil }) {
		return nil, nil // without a disk nothing lies below
	}
	lower, err := x.m.stack.Inspect(ctx, x.wish)
	if err != nil {
		return nil, err
	}
	wish, _, err := x.above(devices(lower))
	if err != nil {
		return nil, err
	}
	have, err := stack.Converge(ctx, x.DRBD, wish)
	if err != nil || !x.want.DRBD.GetDiskless() || len(lower.Volumes) == 0 {
		return nil, err
	}
	return drbd.Waiting(wish, have), nil
}

// provide brings DRBD up on the volumes below it.
func (x replica) provide(ctx context.Context, lower stack.Result) (Result, error) {
	wish, missing, err := x.above(devices(lower))
	if err != nil {
		return Result{}, err
	}
	if len(wish.Volumes) == 0 {
		// They are being made, or nobody has confirmed what becomes of them: DRBD stays as it is.
		result, err := x.m.inspectReplica(ctx, x.want)
		result.Pending = result.Pending || missing > 0
		return result, err
	}
	have, err := stack.Converge(ctx, x.DRBD, wish)
	if err != nil {
		return Result{}, err
	}
	waiting := drbd.Waiting(wish, have)
	unmade, err := x.format(ctx, have.State, len(waiting) > 0)
	if err != nil {
		return Result{}, err
	}
	if err := x.stretch(ctx, have.State); err != nil {
		return Result{}, err
	}
	result, err := x.result(ctx, lower, have.State)
	if err != nil {
		return Result{}, err
	}
	// Nobody is told of a volume that is to have a filesystem and has none yet.
	result.Volumes = slices.DeleteFunc(result.Volumes, func(v *agentpb.VolumeStatus) bool { return unmade[v.GetNumber()] })
	pending := result.Pending || missing > 0
	result.Waits = !pending && len(waiting) > 0
	result.Pending = pending || len(waiting) > 0 || len(unmade) > 0
	result.Fills = slices.ContainsFunc(result.Volumes, func(v *agentpb.VolumeStatus) bool { return v.ResyncDone != nil })
	if result.DRBD != nil {
		result.DRBD.Problems = append(result.DRBD.GetProblems(), waiting...)
	}
	return result, nil
}

// inspectReplica looks at a replica under DRBD.
func (m *Machine) inspectReplica(ctx context.Context, w Want) (Result, error) {
	x, err := m.replica(w)
	if err != nil {
		return Result{}, err
	}
	lower, err := m.stack.Inspect(ctx, x.wish)
	if err != nil {
		return Result{}, err
	}
	have, err := x.DRBD.Observe(ctx, drbd.Want{Name: w.Resource, Down: true})
	if err != nil {
		return Result{}, err
	}
	return x.result(ctx, lower, have.State)
}

// result is what was seen of a replica, below and in DRBD. State is nil when it does not run.
func (x replica) result(ctx context.Context, lower stack.Result, state *kernel.Resource) (Result, error) {
	result := resultOf(x.wish, lower)
	seen := result.Volumes
	result.Volumes = nil
	var users map[int][]pool.Holder
	unknown := false
	if state != nil {
		var err error
		users, err = x.DRBD.Holders(ctx, state)
		unknown = err != nil
	}
	for _, v := range x.want.Volumes {
		s := x.volume(v, seen, state)
		if s == nil {
			continue
		}
		switch {
		case state != nil && unknown:
			s.InUse, s.Holders = nil, nil
		case state != nil:
			inUse(s, state, users[int(v.Number)])
		case v.Pool == nil: // else it is known from below
			s.InUse = new(false)
		}
		result.Volumes = append(result.Volumes, s)
	}
	if state == nil {
		return result, nil
	}
	var events *kernel.Resource
	if x.Events != nil {
		if e, ok := x.Events.Resource(x.want.Resource); ok {
			events = &e
		}
	}
	result.DRBD = assignment.Status(*state, events)
	return result, nil
}

// inUse completes the status of a volume that runs with who uses it on this host: whoever has its
// device, or DRBD itself as a Primary. What has the device below is DRBD.
func inUse(s *agentpb.VolumeStatus, state *kernel.Resource, users []pool.Holder) {
	s.InUse, s.Holders = new(len(users) > 0 || state.Role == kernel.Primary), nil
	for _, h := range users {
		s.Holders = append(s.Holders, h.String())
	}
	if s.GetInUse() && len(users) == 0 {
		s.Holders = []string{"the resource is " + kernel.Primary}
	}
}

// volume is the status of a volume; nil when it is not there.
func (x replica) volume(v VolumeWant, seen []*agentpb.VolumeStatus, state *kernel.Resource) *agentpb.VolumeStatus {
	running := kernel.Resource{}
	if state != nil {
		running = *state
	}
	_, there := running.Device(int(v.Number))
	i := slices.IndexFunc(seen, func(s *agentpb.VolumeStatus) bool { return s.GetNumber() == v.Number })
	var s *agentpb.VolumeStatus
	switch {
	case i >= 0:
		s = seen[i]
		if s.GetDevicePath() != "" {
			s.BackingPath = s.GetDevicePath()
		}
	case v.Pool != nil, v.Destroy && !there:
		return nil
	default:
		s = &agentpb.VolumeStatus{Number: v.Number}
	}
	assignment.Volume(s, running)
	return s
}
