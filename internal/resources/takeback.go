// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// takeBack marks what a failed call has added for deletion, waits for the hosts that are
// there, and returns why the call failed. ctx is not that of the waiting which may have
// failed for want of time. A replica that was there before in another part
// stays in its new one, and its node goes on trying.
func (s *Resources) takeBack(ctx context.Context, why *errs.Error, d schema.Definition, put []touched) error {
	return s.undo(ctx, why, d, func(tx *store.Tx, _ schema.Definition) ([]model.ResourceID, error) {
		var gone []model.ResourceID
		for _, t := range put {
			r, ok := schema.Resources.Get(tx, t.id)
			if t.was || !ok || r.Deleting {
				continue
			}
			stays, err := s.markDeleting(tx, r)
			if err != nil {
				return nil, err
			}
			if stays {
				gone = append(gone, t.id)
			}
		}
		return gone, nil
	})
}

// takeBackDefinition is takeBack for a definition that the failed call has added, with all
// that it has.
func (s *Resources) takeBackDefinition(ctx context.Context, why *errs.Error, d schema.Definition) error {
	return s.undo(ctx, why, d, s.closeDefinition)
}

// undo runs what takes something of a definition back, unless that is another one by now, and
// waits for the hosts until ctx ends or some time has passed.
func (s *Resources) undo(
	ctx context.Context, why *errs.Error, d schema.Definition, mark func(*store.Tx, schema.Definition) ([]model.ResourceID, error),
) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var gone []model.ResourceID
	rev, err := schema.Update(context.WithoutCancel(ctx), s.Store, func(tx *store.Tx) (err error) {
		gone = nil
		if now, ok := schema.Definitions.Get(tx, d.Name.Key()); ok && now.UUID == d.UUID {
			gone, err = mark(tx, now)
		}
		return err
	})
	if err != nil {
		return withDetail(why, "what was begun could not be taken back: %v", err)
	}
	for _, o := range s.settle(ctx, rev, gone) {
		if !isGone(o) {
			why = withDetail(why, "what was begun on node %s is taken back when that node can do it", o.node)
		}
	}
	return why
}

// withDetail adds a line to the details of an error.
func withDetail(e *errs.Error, format string, args ...any) *errs.Error {
	line := fmt.Sprintf(format, args...)
	if e.Details != "" {
		line = e.Details + "\n" + line
	}
	return e.Detail(line)
}

// counted is a number of things.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
