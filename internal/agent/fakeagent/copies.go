// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// snapshot is one part of a simulated snapshot.
type snapshot struct {
	size    int64
	thin    bool
	content string
	key     []byte // of its volume
	created time.Time
}

func (s *snapshot) allocated() int64 {
	if s.thin {
		return 0
	}
	return s.size
}

// snapshots tells whether simulated pools of a provider make snapshots.
func snapshots(p model.Provider) bool { return p != model.LVM }

// provide makes the host as w wants it, and returns what goes on in the background. What fails
// of a snapshot fails alone. The caller holds h.mu.
func (h *Host) provide(w agent.Want) ([]*agentpb.Work, error) {
	var work []*agentpb.Work
	var failed []error
	for _, s := range w.Snapshots {
		if s.Destroy {
			h.dropSnapshot(w, s)
		}
	}
	for _, v := range w.Volumes {
		if v.Pool == nil {
			continue
		}
		id := pool.ID{Resource: w.Resource, Volume: int(v.Number)}.Fold()
		if w.Destroy || v.Destroy {
			h.pool(v.Pool.Name).remove(id)
			continue
		}
		goesOn, err := h.provideVolume(w, v, id)
		if err != nil {
			return nil, err
		}
		work = append(work, goesOn...)
	}
	for _, s := range w.Snapshots {
		if s.Destroy || w.Destroy {
			continue
		}
		goesOn, err := h.take(w, s, len(work) > 0)
		if err != nil {
			failed = append(failed, &stack.StepError{What: fmt.Sprintf("take snapshot %s of %s", s.Name, w.Resource), Snapshot: s.Name, Err: err})
		}
		work = append(work, goesOn...)
	}
	return work, errors.Join(failed...)
}

// provideVolume makes, grows, fills and rolls one volume back.
func (h *Host) provideVolume(w agent.Want, v agent.VolumeWant, id pool.ID) ([]*agentpb.Work, error) {
	p, content, key := h.pool(v.Pool.Name), "", v.Luks.GetKey()
	step := func(what string, err error) error {
		return &stack.StepError{What: what + " volume " + id.String(), Err: err}
	}
	if p.volumes[id] == nil && v.Source != nil {
		size, from, sealed, err := h.source(v)
		if err != nil {
			return nil, step("clone", err)
		}
		if goesOn, err := h.copy(w, size, &agentpb.Work{What: "clone volume " + id.String(), Volume: v.Number}); err != nil {
			return nil, step("clone", err)
		} else if goesOn != nil {
			return goesOn, nil
		}
		content, key = from, sealed
	}
	had := p.volumes[id]
	if err := p.make(v, id, content); err != nil {
		return nil, step("make", err)
	}
	have := p.volumes[id]
	if had == nil {
		have.key, have.closed = key, true
	}
	if b := v.RollBack; b != nil && have.rolledBack != b.GetToken() {
		from := p.snapshots[pool.SnapshotID{Resource: w.Resource, Volume: id.Volume, Snapshot: b.GetSnapshot()}.Fold()]
		if from == nil {
			return nil, step("roll back", &pool.NotFoundError{Pool: v.Pool.Name, ID: id, Snapshot: b.GetSnapshot()})
		}
		if goesOn, err := h.copy(w, from.size, &agentpb.Work{What: "roll back volume " + id.String(), Volume: v.Number}); err != nil {
			return nil, step("roll back", err)
		} else if goesOn != nil {
			return goesOn, nil
		}
		have.content, have.rolledBack, have.key, have.closed = from.content, b.GetToken(), from.key, true
	}
	if w.Inactive {
		have.closed = true
	} else if have.closed {
		if err := opens(v, id, have); err != nil {
			return nil, step("open", err)
		}
		have.closed = false
	}
	return nil, nil
}

// opens tells whether a volume can be opened with what is assigned for it.
func opens(v agent.VolumeWant, id pool.ID, have *volume) error {
	switch given := v.Luks.GetKey(); {
	case v.Luks == nil:
		return nil
	case len(given) == 0:
		return &luks.LockedError{ID: id, Why: v.Luks.GetLacks()}
	case !bytes.Equal(given, have.key):
		return &luks.WrongKeyError{ID: id, Device: "/fake/" + id.Name()}
	}
	return nil
}

// Reboot shuts all encrypted volumes of the host, as a boot does. Call it while no agent runs on it.
func (h *Host) Reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		for _, v := range p.volumes {
			v.closed = v.closed || v.key != nil
		}
	}
}

// source returns what a new volume is made from.
func (h *Host) source(v agent.VolumeWant) (size int64, content string, key []byte, err error) {
	s, p := v.Source, h.pool(v.Source.Pool.Name)
	id := pool.SnapshotID{Resource: s.Resource, Volume: int(s.Volume), Snapshot: s.Snapshot}.Fold()
	if s.Snapshot == "" {
		if of := p.volumes[id.Of()]; of != nil {
			size, content, key = of.size, of.content, of.key
		}
	} else if of := p.snapshots[id]; of != nil {
		size, content, key = of.size, of.content, of.key
	}
	switch {
	case size == 0:
		return 0, "", nil, &pool.NotFoundError{Pool: s.Pool.Name, ID: id.Of(), Snapshot: s.Snapshot}
	case v.Size < size && size-v.Size >= granularity:
		return 0, "", nil, &pool.SizeError{Asked: v.Size, Least: size}
	}
	return size, content, key, nil
}

// copy is the place at which copies wait and fail as tests order it. It returns what goes on when
// the copy is not done yet.
func (h *Host) copy(w agent.Want, total int64, work *agentpb.Work) ([]*agentpb.Work, error) {
	if err := h.failure(w.Resource, func(t *trick) *failing { return &t.copying }); err != nil {
		return nil, err
	}
	for _, name := range []string{w.Resource, ""} {
		if c := h.trick(name).copies; c != nil && !c.over() {
			c.hold.arrive()
			work.Done, work.Total = min(c.done, total), total
			return []*agentpb.Work{work}, nil
		}
	}
	return nil, nil
}

// take takes a snapshot that is not there, unless volumes of the resource are still being made.
func (h *Host) take(w agent.Want, s agent.SnapshotWant, later bool) ([]*agentpb.Work, error) {
	var total int64
	if h.complete(w, s) {
		return nil, nil
	}
	if s.Existing && len(s.Parts) > 0 {
		return nil, &stack.MissingError{Pool: s.Parts[0].Pool.Name, ID: pool.ID{Resource: w.Resource, Volume: int(s.Parts[0].Number)}, Snapshot: s.Name}
	}
	for _, part := range s.Parts {
		v := h.pool(part.Pool.Name).volumes[pool.ID{Resource: w.Resource, Volume: int(part.Number)}.Fold()]
		switch {
		case !snapshots(part.Pool.Provider):
			return nil, &stack.UnsupportedError{Pool: part.Pool.Name, What: "take snapshots"}
		case v == nil && later:
			return nil, nil
		case v == nil:
			return nil, &pool.NotFoundError{Pool: part.Pool.Name, ID: pool.ID{Resource: w.Resource, Volume: int(part.Number)}}
		}
		total += v.size
	}
	goesOn, err := h.copy(w, total, &agentpb.Work{What: fmt.Sprintf("take snapshot %s of %s", s.Name, w.Resource), Snapshot: s.Name})
	if goesOn != nil || err != nil {
		return goesOn, err
	}
	h.dropSnapshot(w, s)
	for _, part := range s.Parts {
		p := h.pool(part.Pool.Name)
		id := pool.SnapshotID{Resource: w.Resource, Volume: int(part.Number), Snapshot: s.Name}.Fold()
		v := p.volumes[id.Of()]
		taken := &snapshot{size: v.size, thin: part.Pool.Provider.Thin(), content: v.content, key: v.key, created: time.Now()}
		if err := p.room(part.Pool.Name, taken.allocated()); err != nil {
			h.dropSnapshot(w, s)
			return nil, err
		}
		p.snapshots[id] = taken
		p.used += taken.allocated()
	}
	return nil, nil
}

// parts returns where the parts of a snapshot are, or would be.
func (h *Host) parts(w agent.Want, s agent.SnapshotWant) map[pool.SnapshotID]*simPool {
	all := make(map[pool.SnapshotID]*simPool, len(s.Parts))
	for _, part := range s.Parts {
		all[pool.SnapshotID{Resource: w.Resource, Volume: int(part.Number), Snapshot: s.Name}.Fold()] = h.pool(part.Pool.Name)
	}
	return all
}

func (h *Host) complete(w agent.Want, s agent.SnapshotWant) bool {
	for id, p := range h.parts(w, s) {
		if p.snapshots[id] == nil {
			return false
		}
	}
	return len(s.Parts) > 0
}

func (h *Host) dropSnapshot(w agent.Want, s agent.SnapshotWant) {
	for id, p := range h.parts(w, s) {
		p.removeSnapshot(id)
	}
}

func (p *simPool) removeSnapshot(id pool.SnapshotID) {
	if s := p.snapshots[id]; s != nil {
		p.used -= s.allocated()
		delete(p.snapshots, id)
	}
}

// seenSnapshot is what there is of a snapshot. The caller holds h.mu.
func (h *Host) seenSnapshot(w agent.Want, s agent.SnapshotWant) *agentpb.SnapshotStatus {
	st := &agentpb.SnapshotStatus{Name: s.Name, State: agentpb.SnapshotStatus_TAKING}
	switch {
	case h.complete(w, s):
		st.State = agentpb.SnapshotStatus_COMPLETE
		for id, p := range h.parts(w, s) {
			part := p.snapshots[id]
			st.Volumes = append(st.Volumes, &agentpb.SnapshotVolumeStatus{Number: int32(id.Volume), Size: part.size, Allocated: new(part.allocated())})
			if created := timestamppb.New(part.created); st.GetCreated() == nil || created.AsTime().After(st.GetCreated().AsTime()) {
				st.Created = created
			}
		}
		slices.SortFunc(st.GetVolumes(), func(a, b *agentpb.SnapshotVolumeStatus) int { return int(a.GetNumber() - b.GetNumber()) })
	case s.Destroy:
		st.State = agentpb.SnapshotStatus_DESTROYED
	}
	return st
}

// RemoveSnapshot implements agent.Host.
func (h *Host) RemoveSnapshot(ctx context.Context, p agent.Pool, id pool.SnapshotID) error {
	sim, leave, err := h.reach(ctx, p.Name)
	if err != nil {
		return err
	}
	defer leave()
	sim.removeSnapshot(id.Fold())
	return nil
}

// Snapshots returns all snapshots of the host as "resource/number@snapshot", folded, in order.
func (h *Host) Snapshots() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, p := range h.pools {
		for id := range p.snapshots {
			list = append(list, id.String())
		}
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
