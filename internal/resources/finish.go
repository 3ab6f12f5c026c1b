// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Finish takes note of what nodes have said of replicas: a volume that is there needs its source
// no more, and has begun, a roll-back that is done is no wish any more, and a disk that was to be
// added is there. It is idempotent, looks at what is known now, and waits for nothing but durability.
func (s *Resources) Finish(ctx context.Context, ids ...model.ResourceID) error {
	type step struct{ was, now schema.Resource }
	view := s.Store.Snapshot()
	if err := s.begun(ctx, view, ids); err != nil {
		return err
	}
	var steps []step
	for _, id := range ids {
		r, ok := schema.Resources.Get(view, id)
		if !ok || !unfinished(r) {
			continue
		}
		st, ready := s.ready(view, id)
		// Written without a change, the row would make its node speak again, and so on.
		if now, changed := finished(r, st); ready && changed {
			steps = append(steps, step{r, now})
		}
	}
	return schema.UpdateEach(ctx, s.Store, steps, func(tx *store.Tx, x step) error {
		if id := x.was.ID(); schema.Resources.Revision(tx, id) != schema.Resources.Revision(view, id) {
			return nil
		}
		if err := schema.Resources.Update(tx, x.now); err != nil {
			return err
		}
		return schema.ReleaseSources(tx, x.was)
	})
}

// ready returns what is known of a replica, and whether its node said now that the row is carried
// out as it is.
func (s *Resources) ready(r store.Reader, id model.ResourceID) (observed.ResourceStatus, bool) {
	st, _ := s.Observed.Resource(id)
	return st, st.Current && st.Phase == observed.Ready && st.Generation >= uint64(schema.Resources.Revision(r, id))
}

// unfinished tells whether a replica waits for a word of its node.
func unfinished(r schema.Resource) bool {
	return !r.Deleting && (r.Adding || slices.ContainsFunc(r.Volumes, func(v schema.Volume) bool { return v.Source != nil || v.RollBack != nil }))
}

// finished returns a replica without what its node has done, and whether that is anything.
func finished(r schema.Resource, st observed.ResourceStatus) (now schema.Resource, changed bool) {
	changed, r.Adding = r.Adding, false
	r.Volumes = slices.Clone(r.Volumes)
	for i := range r.Volumes {
		v := &r.Volumes[i]
		if v.Source != nil {
			v.Source, changed = nil, true
		}
		if v.RollBack != nil && slices.ContainsFunc(st.Volumes, func(seen observed.VolumeStatus) bool {
			return seen.Number == v.Number && seen.RolledBack == v.RollBack.Token
		}) {
			v.RollBack, changed = nil, true
		}
	}
	return r, changed
}
