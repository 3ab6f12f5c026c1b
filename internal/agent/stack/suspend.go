// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Suspension is a time in which writers to some volumes are held back. Its methods may be called by any goroutine.
type Suspension struct {
	held    []pool.Suspension
	unknown []pool.ID // Open volumes in pools that cannot tell what was written.

	once    sync.Once
	written []pool.ID
	err     error
}

// Suspend holds writers to all volumes of some replicas back until Resume, at most for limit, and not longer than this process lives. Snapshots that are taken of
// them meanwhile, by Apply, are of one moment if Resume says so. Volumes that are to go, and those that are not there or NEW, are left out.
func (s *Stack) Suspend(ctx context.Context, wants []Want, limit time.Duration) (*Suspension, error) {
	ids := map[pool.Driver][]pool.ID{}
	var drivers []pool.Driver
	for _, w := range wants {
		h, err := s.storage.Observe(ctx, Want{Resource: w.Resource, Volumes: w.Volumes})
		if err != nil {
			return nil, err
		}
		for i, f := range h.volumes {
			if w.Destroy || w.Volumes[i].Destroy || !f.finished() {
				continue
			}
			if ids[f.driver] == nil {
				drivers = append(drivers, f.driver)
			}
			ids[f.driver] = append(ids[f.driver], w.id(w.Volumes[i]))
		}
	}
	return hold(ctx, drivers, ids, limit)
}

// hold suspends volumes of some pools. Those of pools that cannot suspend count as written when they are open.
func hold(ctx context.Context, drivers []pool.Driver, ids map[pool.Driver][]pool.ID, limit time.Duration) (*Suspension, error) {
	s := &Suspension{}
	for _, d := range drivers {
		if err := s.add(ctx, d, ids[d], limit); err != nil {
			_, resumeErr := s.Resume()
			return nil, errors.Join(fmt.Errorf("hold writers back: %w", err), resumeErr)
		}
	}
	return s, nil
}

func (s *Suspension) add(ctx context.Context, d pool.Driver, ids []pool.ID, limit time.Duration) error {
	if suspender, ok := d.(pool.Suspender); ok {
		held, err := suspender.Suspend(ctx, ids, limit)
		if err == nil {
			s.held = append(s.held, held)
		}
		return err
	}
	for _, id := range ids {
		v, ok, err := pool.Find(ctx, d, id)
		if err != nil {
			return err
		}
		if ok && v.Device.Path != "" {
			s.unknown = append(s.unknown, v.ID)
		}
	}
	return nil
}

// Resume lets writers go on, at the latest when it returns. It returns the volumes that were written meanwhile all the same, or may have been: when they are none or
// one, then all that was taken meanwhile is of one moment. A further call returns the same again.
func (s *Suspension) Resume() (written []pool.ID, err error) {
	s.once.Do(func() {
		s.written = s.unknown
		for _, h := range s.held {
			written, err := h.Resume()
			s.written = append(s.written, written...)
			s.err = errors.Join(s.err, err)
		}
		slices.SortFunc(s.written, pool.ID.Compare)
	})
	return s.written, s.err
}
