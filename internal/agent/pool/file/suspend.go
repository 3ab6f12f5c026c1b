// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// mayStandStill refuses to copy much while a filesystem is frozen for it.
func (p *Pool) mayStandStill(m imprint, from source) error {
	if m.device == "" || from.taken <= p.c.StillMost || !p.still.Frozen(m.device) {
		return nil
	}
	return &pool.InUseError{
		ID: from.id, Holders: []pool.Holder{{Kind: pool.Mounted, Name: devicePath(m.device)}},
		Detail: fmt.Sprintf("all that write to it would have to wait while %d bytes are copied, which is more than the %d that are allowed: unmount it, or use a pool on XFS or Btrfs",
			from.taken, p.c.StillMost),
	}
}

// suspension implements pool.Suspension.
type suspension struct {
	pool    *Pool
	held    []string // Devices.
	watched []watched

	once    sync.Once
	written []pool.ID
	err     error
}

// watched is a volume and what it was like when writers were stopped.
type watched struct {
	source
	before imprint
}

// Suspend implements pool.Suspender. Filesystems that are mounted from the volumes are frozen. Whoever writes to a device by other ways cannot be stopped.
func (p *Pool) Suspend(ctx context.Context, ids []pool.ID, limit time.Duration) (pool.Suspension, error) {
	f, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer f.close()
	s := &suspension{pool: p}
	if err := p.suspend(ctx, f, s, ids, limit); err != nil {
		_, resumeErr := s.Resume() //nolint:contextcheck // What was stopped must go on, whatever ctx says.
		return nil, errors.Join(err, resumeErr)
	}
	return s, nil
}

func (p *Pool) suspend(ctx context.Context, f *folder, s *suspension, ids []pool.ID, limit time.Duration) error {
	var open []string
	for _, id := range ids {
		if err := id.Validate(); err != nil {
			return err
		}
		from, err := p.openSource(f, pool.SnapshotID{Resource: id.Resource, Volume: id.Volume})
		if err != nil {
			return err
		}
		s.watched = append(s.watched, watched{source: from})
		device, err := p.loops.find(f.uuid, from.entry, listLoops)
		if err != nil {
			return err
		}
		if device != "" {
			open = append(open, device)
		}
	}
	if p.c.Freezer != nil && len(open) > 0 {
		if err := p.freeze(ctx, s, open, limit); err != nil {
			return err
		}
	}
	for i := range s.watched {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := &s.watched[i]
		if err := p.flushVolume(f, w.source); err != nil {
			return err
		}
		var err error
		if w.before, err = p.imprint(f, w.file, w.entry); err != nil {
			return err
		}
	}
	return nil
}

// freeze freezes what is mounted from some devices.
func (p *Pool) freeze(ctx context.Context, s *suspension, devices []string, limit time.Duration) error {
	table, err := p.users.Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for mounted filesystems: %w", err)
	}
	slices.Sort(devices)
	var all sync.WaitGroup
	defer all.Wait()
	for _, device := range slices.Compact(devices) {
		mounts, number, err := mountsOf(table, device)
		if err != nil {
			return err
		}
		if len(mounts) == 0 {
			continue
		}
		s.held = append(s.held, device)
		all.Go(func() {
			p.still.Hold(device, func() (*freeze.Frozen, error) { return p.c.Freezer.Freeze(ctx, number, mounts, limit) })
		})
	}
	return nil
}

// mountsOf returns where a device is mounted, and its number.
func mountsOf(table *inuse.Table, device string) ([]freeze.Mount, uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(devDir, device), &st); err != nil {
		return nil, 0, fmt.Errorf("look at %s: %w", device, err)
	}
	holders, err := table.Device(st.Rdev)
	return freeze.Mounts(holders), st.Rdev, err
}

// Resume implements pool.Suspension.
func (s *suspension) Resume() ([]pool.ID, error) {
	s.once.Do(func() {
		s.err = s.look()
		for _, device := range s.held {
			s.err = errors.Join(s.err, s.pool.still.Release(device))
		}
		for _, w := range s.watched {
			_ = w.file.Close()
		}
	})
	return s.written, s.err
}

// look notes who was written, before anyone may write again.
func (s *suspension) look() error {
	// Not bound to the context of Suspend: what was stopped must go on.
	ctx := context.Background()
	f, err := s.pool.enter(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	for _, w := range s.watched {
		now, err := s.pool.settled(ctx, f, w.source)
		if err != nil {
			return err
		}
		if now.changedSince(w.before) {
			s.written = append(s.written, w.id)
		}
	}
	slices.SortFunc(s.written, pool.ID.Compare)
	s.written = slices.Compact(s.written)
	return nil
}
