// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// errNoVolume says that a test writes to what is not there.
var errNoVolume = errors.New("no such volume")

// Put writes the whole content of a volume, as a program on the host does that nobody can hold
// back: while writers are held back, the volume counts as written.
func (h *Host) Put(resource string, number int, content string) error {
	id := pool.ID{Resource: resource, Volume: number}.Fold()
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.paused {
		if _, held := s.resources[model.DefinitionName(resource).Key()]; held {
			s.written[id] = struct{}{}
		}
	}
	for _, p := range h.pools {
		if v := p.volumes[id]; v != nil {
			v.content = content
			return nil
		}
	}
	return errNoVolume
}

// Content returns the content of a volume, "" when there is none.
func (h *Host) Content(resource string, number int) string {
	id := pool.ID{Resource: resource, Volume: number}.Fold()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		if v := p.volumes[id]; v != nil {
			return v.content
		}
	}
	return ""
}

// Suspended returns the folded names of the resources whose writers are held back now, in order.
func (h *Host) Suspended() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]struct{}{}
	for s := range h.paused {
		for k := range s.resources {
			all[string(k)] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// suspension is a time in which writers are held back.
type suspension struct {
	host      *Host
	resources map[model.DefinitionKey]struct{}
	written   map[pool.ID]struct{}
	once      sync.Once
}

// Suspend implements agent.Suspender.
func (h *Host) Suspend(ctx context.Context, wants []agent.Want, _ time.Duration) (agent.Suspension, error) {
	s := &suspension{host: h, resources: map[model.DefinitionKey]struct{}{}, written: map[pool.ID]struct{}{}}
	for _, w := range wants {
		if err := h.enter(ctx, w); err != nil {
			return nil, err
		}
		s.resources[model.DefinitionName(w.Resource).Key()] = struct{}{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range wants {
		if err := h.failure(w.Resource, func(t *trick) *failing { return &t.pausing }); err != nil {
			return nil, err
		}
	}
	if h.paused == nil {
		h.paused = map[*suspension]struct{}{}
	}
	h.paused[s] = struct{}{}
	return s, nil
}

// Resume implements agent.Suspension.
func (s *suspension) Resume() ([]pool.ID, error) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.once.Do(func() { delete(s.host.paused, s) })
	return slices.SortedFunc(maps.Keys(s.written), pool.ID.Compare), nil
}
