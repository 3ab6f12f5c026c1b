// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

// Suspend implements Suspender. Replicas under DRBD are held back where they are used: what
// others write is held back on their hosts.
func (m *Machine) Suspend(ctx context.Context, wants []Want, limit time.Duration) (Suspension, error) {
	held := &machineSuspension{}
	if err := m.suspend(ctx, wants, limit, held); err != nil {
		_, resumeErr := held.Resume() //nolint:contextcheck // It has a limit of its own: the context may have ended.
		return nil, errors.Join(err, resumeErr)
	}
	return held, nil
}

func (m *Machine) suspend(ctx context.Context, wants []Want, limit time.Duration, held *machineSuspension) (err error) {
	var wishes []stack.Want
	for _, w := range wants {
		if w.replicates() {
			if err := m.suspendReplica(ctx, w, limit, held); err != nil {
				return err
			}
			continue
		}
		wish, err := m.wish(w)
		if err != nil {
			return err
		}
		wishes = append(wishes, wish)
	}
	if len(wishes) > 0 {
		held.below, err = m.stack.Suspend(ctx, wishes, limit)
	}
	return err
}

// suspendReplica holds back what is issued here to a replica, if it is used here.
func (m *Machine) suspendReplica(ctx context.Context, w Want, limit time.Duration, held *machineSuspension) error {
	r, err := m.replicationOf(w)
	if err != nil {
		return err
	}
	have, err := r.DRBD.Observe(ctx, drbd.Want{Name: w.Resource, Down: true})
	if err != nil || have.State == nil || have.State.Role != kernel.Primary {
		return err
	}
	s, err := r.DRBD.Suspend(ctx, *have.State, limit)
	if err != nil {
		return err
	}
	part := suspendedReplica{held: s}
	for _, v := range have.State.Devices {
		part.volumes = append(part.volumes, pool.ID{Resource: w.Resource, Volume: v.Volume})
	}
	held.replicas = append(held.replicas, part)
	return nil
}

// machineSuspension is a time in which writers to volumes of pools and to replicas under DRBD are
// held back.
type machineSuspension struct {
	below    *stack.Suspension // nil: none
	replicas []suspendedReplica

	once    sync.Once
	written []pool.ID
	err     error
}

type suspendedReplica struct {
	held    *drbd.Suspension
	volumes []pool.ID
}

// resumeLimit bounds how long it is tried to let I/O go on; after that, the guard does so.
const resumeLimit = 20 * time.Second

// Resume implements Suspension.
func (s *machineSuspension) Resume() (written []pool.ID, err error) {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), resumeLimit)
		defer cancel()
		for _, r := range s.replicas {
			whole, err := r.held.Resume(ctx)
			if !whole {
				s.written = append(s.written, r.volumes...)
			}
			s.err = errors.Join(s.err, err)
		}
		if s.below != nil {
			written, err := s.below.Resume()
			s.written = append(s.written, written...)
			s.err = errors.Join(s.err, err)
		}
		slices.SortFunc(s.written, pool.ID.Compare)
	})
	return s.written, s.err
}
