// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Hosts holds writers back.
type Hosts interface {
	// Suspend holds writers to all volumes of some resources on a node back, until Resume with the
	// same id, and at most for limit. It returns when they are held back.
	Suspend(ctx context.Context, node model.NodeKey, id string, resources []model.DefinitionName, limit time.Duration) error
	// Resume lets writers go on, and returns the volumes, as resource/number, that were written
	// meanwhile or may have been.
	Resume(ctx context.Context, node model.NodeKey, id string) (written []string, err error)
}

// Snapshots is the use cases of snapshots and clones.
type Snapshots struct {
	Store     *store.Store
	Observed  *observed.State
	Hosts     Hosts
	Resources *resources.Resources
	NewID     func() string // makes a UUID
	Now       func() time.Time
	Log       *slog.Logger  // nil: nothing is logged
	Patience  time.Duration // how long a call waits for hosts; 0: two minutes
	Held      time.Duration // how long writers may be held back; 0: 30 s

	mu       sync.Mutex
	live     map[string]struct{}            // requests that a call of this process is taking
	problems map[model.DefinitionKey]string // why automatic snapshots could not be taken at the last look
}

const (
	defaultPatience = 2 * time.Minute
	defaultHeld     = 30 * time.Second
)

// patient returns the context in which a call waits for hosts. It outlives the caller.
func (s *Snapshots) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.Patience, defaultPatience))
}

func (s *Snapshots) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// begin notes that a call of this process takes a request; the returned function ends that.
func (s *Snapshots) begin(request string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[string]struct{}{}
	}
	s.live[request] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live, request)
	}
}

func (s *Snapshots) isLive(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.live[request]
	return ok
}
