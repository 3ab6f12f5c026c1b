// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package luks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// Suspender is a Copier that implements pool.Suspender too, over a pool that does.
type Suspender struct {
	*Copier
	below  pool.Suspender
	stills freeze.Stills // By the mappings.
}

// Suspend implements pool.Suspender. Filesystems that are mounted from the volumes are frozen; the
// pool below watches what is written.
func (d *Suspender) Suspend(ctx context.Context, ids []pool.ID, limit time.Duration) (pool.Suspension, error) {
	s := &suspension{of: d}
	err := d.freeze(ctx, s, ids, limit)
	if err == nil {
		s.below, err = d.below.Suspend(ctx, ids, limit)
	}
	if err != nil {
		_, resumeErr := s.Resume()
		return nil, errors.Join(err, resumeErr)
	}
	return s, nil
}

// freeze freezes what is mounted from some volumes. One that cannot be frozen is written to, which
// the pool below sees.
func (d *Suspender) freeze(ctx context.Context, s *suspension, ids []pool.ID, limit time.Duration) error {
	if d.c.Freezer == nil {
		return nil
	}
	table, err := d.c.Users.Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for mounted filesystems: %w", err)
	}
	for _, id := range ids {
		if err := id.Validate(); err != nil {
			return err
		}
		rdev, ok, err := inuse.Number(mappingPath(id))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		holders, err := table.Device(rdev)
		if err != nil {
			return err
		}
		mounts := freeze.Mounts(holders)
		if len(mounts) == 0 {
			continue
		}
		key := mapping(id)
		d.stills.Hold(key, func() (*freeze.Frozen, error) { return d.c.Freezer.Freeze(ctx, rdev, mounts, limit) })
		s.held = append(s.held, key)
	}
	return nil
}

// suspension implements pool.Suspension.
type suspension struct {
	of    *Suspender
	held  []string // Keys of stills.
	below pool.Suspension

	once    sync.Once
	written []pool.ID
	err     error
}

// Resume implements pool.Suspension.
func (s *suspension) Resume() ([]pool.ID, error) {
	s.once.Do(func() {
		if s.below != nil { // It looks who has written before anyone may write again.
			s.written, s.err = s.below.Resume()
		}
		for _, key := range s.held {
			s.err = errors.Join(s.err, s.of.stills.Release(key))
		}
	})
	return s.written, s.err
}
