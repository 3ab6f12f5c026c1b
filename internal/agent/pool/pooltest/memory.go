// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Memory is a pool in memory. It implements pool.Driver and all optional abilities; wrap it in a struct that embeds a pool.Driver to hide them. Its
// devices are paths that do not exist, and the content of a volume is a text.
type Memory struct {
	c MemoryConfig

	mu        sync.Mutex
	volumes   map[pool.ID]*memoryVolume
	snapshots map[pool.SnapshotID]*memorySnapshot
	calls     []string
	faults    []*Fault
	gates     []*Gate
	opened    int
}

// MemoryConfig says what a Memory is like.
type MemoryConfig struct {
	Name        string // Of the pool. Empty: "memory".
	Total       int64  // Bytes. Zero: 1 TiB.
	Granularity int64  // Bytes. Zero: 4096.
	Thin        bool   // Volumes take no room until Write says so.
	Copies      bool   // Snapshots and clones are not made in one instant: what is written meanwhile makes them fail.
}

type memoryVolume struct {
	size       int64
	allocated  int64
	isNew      bool
	lost       bool
	half       bool // A copy that was broken off.
	content    string
	writes     int // How often it was written.
	suspended  int // Suspensions that hold writers back.
	rolledBack string
	device     pool.Device
	holders    []*pool.Holder
}

// NewMemory returns an empty pool.
func NewMemory(c MemoryConfig) *Memory {
	if c.Name == "" {
		c.Name = "memory"
	}
	if c.Total == 0 {
		c.Total = 1 << 40
	}
	if c.Granularity == 0 {
		c.Granularity = 4096
	}
	return &Memory{c: c, volumes: map[pool.ID]*memoryVolume{}, snapshots: map[pool.SnapshotID]*memorySnapshot{}}
}

// Use marks a volume as used by h until the returned function is called. The volume must exist.
func (m *Memory) Use(id pool.ID, h pool.Holder) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.volumes[id.Fold()]
	holder := &h
	v.holders = append(v.holders, holder)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		v.holders = slices.DeleteFunc(v.holders, func(other *pool.Holder) bool { return other == holder })
	}
}

// Resize makes a volume larger and leaves its device as it is: what is there when the agent ends in the midst of Grow. The volume must exist.
func (m *Memory) Resize(id pool.ID, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volumes[id.Fold()].size = size
}

// Lose removes a volume from under its device, as others may do. The volume must be open.
func (m *Memory) Lose(id pool.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volumes[id.Fold()].lost = true
}

// Write makes a volume take room in a thin pool, as writing to it does. What was there before stays in its youngest snapshot. Nobody holds this writer
// back. The volume must exist.
func (m *Memory) Write(id pool.ID, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.volumes[id.Fold()]
	if s := m.youngest(id); s != nil {
		s.allocated = min(s.size, s.allocated+bytes)
	}
	v.allocated = min(v.size, v.allocated+bytes)
	v.writes++
}

// Space implements pool.Driver.
func (m *Memory) Space(ctx context.Context) (pool.Space, error) {
	var s pool.Space
	err := m.do(ctx, Space, pool.ID{}, func() error {
		s = pool.Space{Total: m.c.Total, Free: m.free()}
		return nil
	})
	return s, err
}

func (m *Memory) free() int64 {
	free := m.c.Total
	for _, v := range m.volumes {
		free -= v.allocated
	}
	for _, s := range m.snapshots {
		free -= s.allocated
	}
	return max(0, free)
}

// Check implements pool.Checker.
func (m *Memory) Check(ctx context.Context) error {
	return m.do(ctx, Check, pool.ID{}, func() error { return nil })
}

// List implements pool.Driver.
func (m *Memory) List(ctx context.Context) ([]pool.Volume, error) {
	var volumes []pool.Volume
	err := m.do(ctx, List, pool.ID{}, func() error {
		for id, v := range m.volumes {
			volumes = append(volumes, m.volume(id, v))
		}
		slices.SortFunc(volumes, func(a, b pool.Volume) int { return a.ID.Compare(b.ID) })
		return nil
	})
	return volumes, err
}

func (m *Memory) volume(id pool.ID, v *memoryVolume) pool.Volume {
	return pool.Volume{ID: id, Size: v.size, Granularity: m.c.Granularity, Allocated: v.allocated, New: v.isNew, Lost: v.lost, RolledBack: v.rolledBack, Device: v.device}
}

// Find implements pool.Finder.
func (m *Memory) Find(ctx context.Context, id pool.ID) (found pool.Volume, ok bool, err error) {
	err = m.do(ctx, Find, id, func() error {
		v, there := m.volumes[id.Fold()]
		if ok = there; ok {
			found = m.volume(id.Fold(), v)
		}
		return nil
	})
	return found, ok && err == nil, err
}

// Holders implements pool.HolderLister.
func (m *Memory) Holders(ctx context.Context, id pool.ID) (holders []pool.Holder, err error) {
	err = m.do(ctx, Holders, id, func() error {
		if v, ok := m.volumes[id.Fold()]; ok {
			holders = v.used()
		}
		return nil
	})
	return holders, err
}

func (v *memoryVolume) used() []pool.Holder {
	var holders []pool.Holder
	for _, h := range v.holders {
		holders = append(holders, *h)
	}
	return holders
}

// Create implements pool.Driver.
func (m *Memory) Create(ctx context.Context, id pool.ID, size int64) error {
	return m.do(ctx, Create, id, func() error {
		size, err := pool.RoundUp(size, m.c.Granularity)
		if err != nil {
			return err
		}
		v, ok := m.volumes[id.Fold()]
		switch {
		case ok && v.lost:
			return &pool.LostError{Pool: m.c.Name, ID: id, Device: v.device.Path}
		case ok && !v.isNew:
			return &pool.ExistsError{Pool: m.c.Name, ID: id, Size: v.size}
		case ok && v.size == size && !v.half && v.content == "":
			return nil
		case ok && len(v.holders) > 0:
			return &pool.InUseError{ID: id, Holders: v.used()}
		case ok:
			delete(m.volumes, id.Fold())
		}
		v = &memoryVolume{isNew: true}
		if err := m.resize(v, size); err != nil {
			return err
		}
		m.volumes[id.Fold()] = v
		return nil
	})
}

func (m *Memory) resize(v *memoryVolume, size int64) error {
	if !m.c.Thin {
		if more := size - v.size; more > m.free() {
			return &pool.NoSpaceError{Pool: m.c.Name, Asked: more, Free: m.free(), Total: m.c.Total}
		}
		v.allocated = size
	}
	v.size = size
	return nil
}

// Finish implements pool.Driver.
func (m *Memory) Finish(ctx context.Context, id pool.ID) error {
	return m.with(ctx, Finish, id, func(v *memoryVolume) error {
		if v.half {
			return fmt.Errorf("volume %s is a copy that was broken off: make it again", id)
		}
		v.isNew = false
		return nil
	})
}

// Open implements pool.Driver.
func (m *Memory) Open(ctx context.Context, id pool.ID) (d pool.Device, err error) {
	err = m.with(ctx, Open, id, func(v *memoryVolume) error {
		if v.device.Path == "" {
			m.opened++
			v.device.Path = fmt.Sprintf("/dev/%s/%d-%s", m.c.Name, m.opened, id.Name())
		}
		v.device.Size = v.size
		d = v.device
		return nil
	})
	if err != nil {
		return pool.Device{}, err
	}
	return d, nil
}

// Grow implements pool.Driver.
func (m *Memory) Grow(ctx context.Context, id pool.ID, size int64) error {
	return m.with(ctx, Grow, id, func(v *memoryVolume) error {
		size, err := pool.RoundUp(size, m.c.Granularity)
		if err != nil || size <= v.size {
			return err
		}
		if err := m.resize(v, size); err != nil || v.device.Path == "" {
			return err
		}
		v.device.Size = v.size
		return nil
	})
}

// Close implements pool.Driver.
func (m *Memory) Close(ctx context.Context, id pool.ID) error {
	return m.do(ctx, Close, id, func() error {
		v, ok := m.volumes[id.Fold()]
		if !ok || v.device.Path == "" {
			return nil
		}
		if len(v.holders) > 0 {
			return &pool.InUseError{ID: id, Holders: v.used()}
		}
		v.device = pool.Device{}
		if v.lost {
			delete(m.volumes, id.Fold())
		}
		return nil
	})
}

// Remove implements pool.Driver.
func (m *Memory) Remove(ctx context.Context, id pool.ID) error {
	return m.do(ctx, Remove, id, func() error {
		v, ok := m.volumes[id.Fold()]
		if ok && len(v.holders) > 0 {
			return &pool.InUseError{ID: id, Holders: v.used()}
		}
		delete(m.volumes, id.Fold())
		return nil
	})
}

// with is do for a volume that must exist.
func (m *Memory) with(ctx context.Context, op Op, id pool.ID, fn func(*memoryVolume) error) error {
	return m.do(ctx, op, id, func() error {
		v, ok := m.volumes[id.Fold()]
		if !ok || v.lost {
			return &pool.NotFoundError{Pool: m.c.Name, ID: id}
		}
		return fn(v)
	})
}
