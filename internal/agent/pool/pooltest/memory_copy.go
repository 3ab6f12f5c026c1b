// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

type memorySnapshot struct {
	size      int64
	allocated int64
	content   string
	created   time.Time
	isNew     bool
	half      bool // A copy that was broken off.
}

// ErrSuspended is what Put returns while writers are held back.
var ErrSuspended = errors.New("writers are held back")

// Put writes the whole content of a volume, which must exist.
func (m *Memory) Put(id pool.ID, content string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.volumes[id.Fold()]
	if v.suspended > 0 {
		return ErrSuspended
	}
	v.content = content
	v.writes++
	return nil
}

// Content returns the content of a volume, which must exist.
func (m *Memory) Content(id pool.ID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.volumes[id.Fold()].content
}

// youngest returns the last snapshot of a volume, or nil.
func (m *Memory) youngest(id pool.ID) *memorySnapshot {
	var last *memorySnapshot
	for sid, s := range m.snapshots {
		if sid.Of() == id.Fold() && (last == nil || s.created.After(last.created)) {
			last = s
		}
	}
	return last
}

// TakeSnapshot implements pool.Snapshotter.
func (m *Memory) TakeSnapshot(ctx context.Context, id pool.SnapshotID, progress pool.Progress) error {
	if err := id.Validate(); err != nil {
		return err
	}
	var made *memorySnapshot
	from := pool.SnapshotID{Resource: id.Resource, Volume: id.Volume}
	return m.copy(ctx, TakeSnapshot, id.Of(), id.String(), progress, copying{
		from: from,
		begin: func(size int64, content string) error {
			if s, ok := m.snapshots[id.Fold()]; ok && !s.isNew {
				return &pool.ExistsError{Pool: m.c.Name, ID: id.Of(), Snapshot: id.Snapshot, Size: s.size}
			}
			made = &memorySnapshot{size: size, content: content, created: time.Now(), isNew: true, half: true}
			m.snapshots[id.Fold()] = made
			return nil
		},
		undo: func() { delete(m.snapshots, id.Fold()) },
		end:  func() error { made.half = false; return nil },
	})
}

// copying is the work of a call that copies. All functions are called with the lock held.
type copying struct {
	from  pool.SnapshotID
	begin func(size int64, content string) error // Makes a half.
	undo  func()                                 // Removes the half.
	end   func() error                           // Makes it a whole.
}

// copy runs a call that copies. In the middle, the lock is not held.
func (m *Memory) copy(ctx context.Context, op Op, id pool.ID, shown string, progress pool.Progress, c copying) error {
	var size int64
	var source *memoryVolume
	var writes int
	err := m.call(ctx, op, id, shown, func() error {
		var content string
		var err error
		if size, content, source, err = m.source(c.from); err != nil {
			return err
		}
		if source != nil {
			writes = source.writes
		}
		return c.begin(size, content)
	})
	if err != nil {
		return err
	}
	progress.Tell(size/2, size)
	waitErr := m.wait(ctx, Copy, id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault(Copy, id, false); err != nil {
		return err
	}
	if waitErr == nil && m.c.Copies && source != nil && source.writes != writes {
		waitErr = &pool.ChangedError{ID: c.from.Of()}
	}
	if waitErr == nil {
		waitErr = c.end()
	}
	if waitErr != nil {
		c.undo()
		return waitErr
	}
	progress.Tell(size, size)
	return nil
}

// source returns what is to be copied, and the volume if it is one.
func (m *Memory) source(from pool.SnapshotID) (int64, string, *memoryVolume, error) {
	if from.Snapshot == "" {
		v, ok := m.volumes[from.Of().Fold()]
		if !ok || v.isNew || v.lost {
			return 0, "", nil, &pool.NotFoundError{Pool: m.c.Name, ID: from.Of()}
		}
		return v.size, v.content, v, nil
	}
	s, ok := m.snapshots[from.Fold()]
	if !ok || s.isNew {
		return 0, "", nil, &pool.NotFoundError{Pool: m.c.Name, ID: from.Of(), Snapshot: from.Snapshot}
	}
	return s.size, s.content, nil, nil
}

// FinishSnapshot implements pool.Snapshotter.
func (m *Memory) FinishSnapshot(ctx context.Context, id pool.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return m.call(ctx, FinishSnapshot, id.Of(), id.String(), func() error {
		s, ok := m.snapshots[id.Fold()]
		switch {
		case !ok:
			return &pool.NotFoundError{Pool: m.c.Name, ID: id.Of(), Snapshot: id.Snapshot}
		case s.half:
			return fmt.Errorf("snapshot %s is a copy that was broken off: take it again", id)
		}
		s.isNew = false
		return nil
	})
}

// Snapshots implements pool.Snapshotter.
func (m *Memory) Snapshots(ctx context.Context, resource string) ([]pool.Snapshot, error) {
	var found []pool.Snapshot
	err := m.do(ctx, Snapshots, pool.ID{}, func() error {
		for id, s := range m.snapshots {
			if resource == "" || id.Resource == (pool.ID{Resource: resource}).Fold().Resource {
				found = append(found, pool.Snapshot{ID: id, Size: s.size, Allocated: s.allocated, Created: s.created, New: s.isNew})
			}
		}
		slices.SortFunc(found, func(a, b pool.Snapshot) int { return a.ID.Compare(b.ID) })
		return nil
	})
	return found, err
}

// RemoveSnapshot implements pool.Snapshotter.
func (m *Memory) RemoveSnapshot(ctx context.Context, id pool.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return m.call(ctx, RemoveSnapshot, id.Of(), id.String(), func() error {
		delete(m.snapshots, id.Fold())
		return nil
	})
}

// Clone implements pool.Cloner.
func (m *Memory) Clone(ctx context.Context, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
	if err := errors.Join(id.Validate(), validSource(from)); err != nil {
		return err
	}
	var made *memoryVolume
	return m.copy(ctx, Clone, id, id.String()+" from "+sourceName(from), progress, copying{
		from: from,
		begin: func(least int64, content string) error {
			rounded, err := pool.RoundUp(size, m.c.Granularity)
			if err == nil && rounded < least {
				err = &pool.SizeError{Asked: size, Least: least}
			}
			if err != nil {
				return err
			}
			if v, ok := m.volumes[id.Fold()]; ok {
				switch {
				case v.lost:
					return &pool.LostError{Pool: m.c.Name, ID: id, Device: v.device.Path}
				case !v.isNew:
					return &pool.ExistsError{Pool: m.c.Name, ID: id, Size: v.size}
				case len(v.holders) > 0:
					return &pool.InUseError{ID: id, Holders: v.used()}
				}
				delete(m.volumes, id.Fold())
			}
			made = &memoryVolume{isNew: true, half: true, content: content}
			if err := m.resize(made, rounded); err != nil {
				return err
			}
			m.volumes[id.Fold()] = made
			return nil
		},
		undo: func() { delete(m.volumes, id.Fold()) },
		end:  func() error { made.half = false; return nil },
	})
}

func validSource(from pool.SnapshotID) error {
	if from.Snapshot == "" {
		return from.Of().Validate()
	}
	return from.Validate()
}

func sourceName(from pool.SnapshotID) string {
	if from.Snapshot == "" {
		return from.Of().String()
	}
	return from.String()
}

// RollBack implements pool.RollBacker.
func (m *Memory) RollBack(ctx context.Context, to pool.SnapshotID, token string, progress pool.Progress) error {
	if err := errors.Join(to.Validate(), pool.ValidateToken(token)); err != nil {
		return err
	}
	var v *memoryVolume
	var content string
	done := errors.New("done before")
	err := m.copy(ctx, RollBack, to.Of(), to.String(), progress, copying{
		from: to,
		begin: func(_ int64, old string) error {
			var ok bool
			content = old
			if v, ok = m.volumes[to.Of().Fold()]; !ok || v.isNew || v.lost {
				return &pool.NotFoundError{Pool: m.c.Name, ID: to.Of()}
			}
			if v.rolledBack == token {
				return done
			}
			return v.free(to.Of())
		},
		undo: func() {},
		end: func() error {
			if err := v.free(to.Of()); err != nil {
				return err
			}
			v.content, v.rolledBack, v.device = content, token, pool.Device{}
			v.writes++
			return nil
		},
	})
	if errors.Is(err, done) {
		return nil
	}
	return err
}

// free refuses what must not be done to a volume in use.
func (v *memoryVolume) free(id pool.ID) error {
	if len(v.holders) > 0 {
		return &pool.InUseError{ID: id, Holders: v.used()}
	}
	return nil
}

// Suspend implements pool.Suspender.
func (m *Memory) Suspend(ctx context.Context, ids []pool.ID, limit time.Duration) (pool.Suspension, error) {
	s := &memorySuspension{m: m, ctx: context.WithoutCancel(ctx)}
	for _, id := range ids {
		err := m.with(ctx, Suspend, id, func(v *memoryVolume) error {
			v.suspended++
			s.held = append(s.held, suspended{id: id.Fold(), volume: v, writes: v.writes})
			return nil
		})
		if err != nil {
			_, resumeErr := s.Resume()
			return nil, errors.Join(err, resumeErr)
		}
	}
	s.timer = time.AfterFunc(limit, s.release)
	return s, nil
}

type suspended struct {
	id     pool.ID
	volume *memoryVolume
	writes int
}

type memorySuspension struct {
	m     *Memory
	ctx   context.Context //nolint:containedctx // Of the call that began it, for the call that ends it.
	held  []suspended
	timer *time.Timer

	released sync.Once
	resumed  sync.Once
	written  []pool.ID
	err      error
}

// release lets writers go on.
func (s *memorySuspension) release() {
	s.released.Do(func() {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		for _, h := range s.held {
			h.volume.suspended--
		}
	})
}

// Resume implements pool.Suspension.
func (s *memorySuspension) Resume() ([]pool.ID, error) {
	s.resumed.Do(func() {
		if s.timer != nil {
			s.timer.Stop()
		}
		for _, h := range s.held {
			err := s.m.do(s.ctx, Resume, h.id, func() error {
				if h.volume.writes != h.writes {
					s.written = append(s.written, h.id)
				}
				return nil
			})
			s.err = errors.Join(s.err, err)
		}
		s.release()
		slices.SortFunc(s.written, pool.ID.Compare)
	})
	return s.written, s.err
}
