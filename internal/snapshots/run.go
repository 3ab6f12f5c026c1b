// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// Run takes note of what nodes say of snapshots, and of what is made from them or rolled back to
// them, for the calls that nobody waits for any more; first of all it concludes what a controller
// before this one has left. It runs on the leader, until ctx ends.
func (s *Snapshots) Run(ctx context.Context) {
	const retry = 10 * time.Second // for what the database did not take
	changes := make(chan observed.Changes)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for c := range s.Observed.Subscribe(ctx) {
			select {
			case changes <- c:
			case <-ctx.Done():
			}
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	var auto sync.WaitGroup
	auto.Go(func() { s.autoSnapshots(ctx) })
	defer auto.Wait()
	defer cancel()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		var failed error
		select {
		case c := <-changes:
			failed = s.take(ctx, c)
		case <-look.C:
			failed = s.all(ctx)
		case <-ctx.Done():
			return
		}
		if failed != nil && ctx.Err() == nil {
			s.log().Warn("what nodes said of snapshots could not be recorded, it is tried again", "err", failed)
			look.Reset(retry)
		}
	}
}

// take takes note of some changes.
func (s *Snapshots) take(ctx context.Context, c observed.Changes) error {
	view := s.Store.Snapshot()
	ids, parts := c.Resources, c.Snapshots
	for _, node := range c.Nodes {
		for x := range schema.ResourcesByNode.Get(view, node) {
			ids = append(ids, x.ID())
		}
		for part := range schema.SnapshotReplicasByNode.Get(view, node) {
			parts = append(parts, part.ID())
		}
	}
	return errors.Join(s.Resources.Finish(ctx, ids...), s.concluded(ctx, parts...))
}

// all looks at everything.
func (s *Snapshots) all(ctx context.Context) error {
	view := s.Store.Snapshot()
	var ids []model.ResourceID
	for x := range schema.Resources.All(view) {
		ids = append(ids, x.ID())
	}
	failed := []error{s.Resources.Finish(ctx, ids...)}
	for sn := range schema.Snapshots.All(view) {
		if sn.State == schema.SnapshotTaking {
			failed = append(failed, s.conclude(ctx, sn.Request))
		}
	}
	return errors.Join(failed...)
}
