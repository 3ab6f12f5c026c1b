// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

// stretch grows filesystems that are mounted from volumes on this host and that are to grow with
// them, once for each size and mount.
func (x replica) stretch(ctx context.Context, state *kernel.Resource) error {
	if state == nil || !slices.ContainsFunc(x.want.Volumes, func(v VolumeWant) bool { return v.Stretch }) {
		return nil
	}
	users, err := x.DRBD.Holders(ctx, state)
	if err != nil {
		return err
	}
	var all error
	for _, v := range x.want.Volumes {
		d, ok := state.Device(int(v.Number))
		id := pool.ID{Resource: x.want.Resource, Volume: int(v.Number)}.Fold()
		mounted := slices.ContainsFunc(users[int(v.Number)], func(h pool.Holder) bool { return h.Kind == pool.Mounted })
		if !ok || !mounted {
			x.m.stretch(id, 0)
			continue
		}
		if !v.Stretch || d.Size < v.Size || x.m.stretchedTo(id) == d.Size {
			continue
		}
		if err := stack.GrowMounted(ctx, pool.Device{Path: d.Path(), Size: d.Size}, users[d.Volume]); err != nil {
			all = errors.Join(all, &stack.StepError{What: fmt.Sprintf("grow the filesystem on volume %s", id), Err: err})
			continue
		}
		x.m.stretch(id, d.Size)
	}
	return all
}

// stretch notes to which size the filesystem was grown that is mounted from a volume; zero: none
// is mounted.
func (m *Machine) stretch(id pool.ID, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size == 0 {
		delete(m.stretched, id)
		return
	}
	m.stretched[id] = size
}

func (m *Machine) stretchedTo(id pool.ID) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stretched[id]
}
