// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
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
	var failed []error
	for sn := range schema.Snapshots.All(view) {
		if sn.State == schema.SnapshotTaking {
			failed = append(failed, s.conclude(ctx, sn.Request))
		}
		failed = append(failed, s.goOn(ctx, sn))
	}
	parts := slices.Collect(func(yield func(model.SnapshotReplicaID) bool) {
		for part := range schema.SnapshotReplicas.All(view) {
			if !yield(part.ID()) {
				return
			}
		}
	})
	return errors.Join(append(failed, s.Resources.Finish(ctx, ids...), s.concluded(ctx, parts...))...)
}

// goOn goes on with a deletion that something stood against which is gone by now.
func (s *Snapshots) goOn(ctx context.Context, sn schema.Snapshot) error {
	view := s.Store.Snapshot()
	if !sn.Deleting {
		return nil
	}
	for part := range schema.SnapshotReplicasOf(view, sn.ID()) {
		if part.Deleting || schema.ResourcesBySource.Len(view, part.ID()) > 0 {
			continue
		}
		_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
			now, ok := schema.SnapshotReplicas.Get(tx, part.ID())
			if !ok || now.Deleting {
				return nil
			}
			return schema.ClosePart(tx, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
