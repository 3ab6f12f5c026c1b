// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

const (
	// suspendLimit is how long writers are held back at most. Programs that wait for their disk longer than two minutes are taken for dead.
	suspendLimit = 30 * time.Second
	// takeTries is how often it is tried to find a moment in which not more than one volume is written.
	takeTries = 3
)

// foundSnapshot is what is there of one snapshot of a wish.
type foundSnapshot struct {
	parts []foundPart // In the order of the wish.
	job   progress    // The work on it in the background.
}

// foundPart is what is there of the part of a snapshot that is of one volume.
type foundPart struct {
	driver   pool.Driver
	id       pool.SnapshotID
	exists   bool
	snapshot pool.Snapshot // Zero when it does not exist.
}

// complete tells whether all parts are there and finished.
func (f foundSnapshot) complete() bool {
	return len(f.parts) > 0 && !slices.ContainsFunc(f.parts, func(p foundPart) bool { return !p.exists || p.snapshot.New })
}

func snapshotKey(resource, name string) string {
	return "snapshot " + pool.SnapshotID{Resource: resource, Snapshot: name}.Name()
}

// observeSnapshots looks at the snapshots of a wish. Each pool is asked once.
func (s *storage) observeSnapshots(ctx context.Context, w Want) ([]foundSnapshot, error) {
	var found []foundSnapshot
	lists := map[partList]map[pool.SnapshotID]pool.Snapshot{}
	for _, sw := range w.Snapshots {
		f := foundSnapshot{job: s.jobs.look(snapshotKey(w.Resource, sw.Name))}
		f.job.work.Snapshot = sw.Name
		for _, v := range sw.Volumes {
			part, err := s.observePart(ctx, w, sw, v, lists)
			if err != nil {
				return nil, fmt.Errorf("look at snapshot %s of volume %d of %s in pool %s: %w", sw.Name, v.Number, w.Resource, v.Pool, err)
			}
			f.parts = append(f.parts, part)
		}
		found = append(found, f)
	}
	return found, nil
}

// partList is what the snapshots of a replica are listed of once.
type partList struct {
	pool      string
	encrypted bool
}

func (s *storage) observePart(ctx context.Context, w Want, sw SnapshotWant, v SnapshotVolume, lists map[partList]map[pool.SnapshotID]pool.Snapshot) (foundPart, error) {
	p := foundPart{id: pool.SnapshotID{Resource: w.Resource, Volume: v.Number, Snapshot: sw.Name}}
	if err := p.id.Validate(); err != nil {
		return p, err
	}
	var err error
	if p.driver, err = s.driver(v.Pool, v.Provider, v.Encrypted); err != nil {
		return p, err
	}
	snapshotter, ok := p.driver.(pool.Snapshotter)
	if !ok {
		return p, nil // It has none.
	}
	of := partList{v.Pool, v.Encrypted}
	if lists[of] == nil {
		list, err := snapshotter.Snapshots(ctx, w.Resource)
		if err != nil {
			return p, err
		}
		lists[of] = make(map[pool.SnapshotID]pool.Snapshot, len(list))
		for _, found := range list {
			lists[of][found.ID] = found
		}
	}
	p.snapshot, p.exists = lists[of][p.id.Fold()]
	return p, nil
}

// planSnapshot plans for one snapshot. What cannot be done with it is told after all else was done: it fails alone.
func (s *storage) planSnapshot(w Want, sw SnapshotWant, h have, f foundSnapshot, out *plan) {
	if err := s.trySnapshot(w, sw, h, f, out); err != nil {
		out.refusing = append(out.refusing, Step{
			What: fmt.Sprintf("provide snapshot %s of %s", sw.Name, w.Resource), Snapshot: sw.Name, Apart: true,
			Do: func(context.Context) error { return err },
		})
	}
}

func (s *storage) trySnapshot(w Want, sw SnapshotWant, h have, f foundSnapshot, out *plan) error {
	if sw.Destroy {
		s.drop(f.job, "", out)
		for i, p := range f.parts {
			if p.exists {
				out.dropping = append(out.dropping, dropStep(p, sw.Volumes[i].Pool))
			}
		}
		return nil
	}
	if w.Destroy {
		s.drop(f.job, "", out)
		return nil // What there is of it stays. It cannot be taken any more.
	}
	t := s.takeTask(w, sw, f)
	switch {
	case f.job.does(t.text):
		return nil // It goes on.
	case f.complete():
		s.drop(f.job, "", out)
		return nil
	case sw.Existing:
		i := slices.IndexFunc(f.parts, func(p foundPart) bool { return !p.exists || p.snapshot.New })
		if i < 0 {
			return fmt.Errorf("snapshot %s of %s names no volume", sw.Name, w.Resource)
		}
		return &MissingError{ID: f.parts[i].id.Of(), Snapshot: sw.Name, Pool: sw.Volumes[i].Pool}
	}
	s.drop(f.job, t.text, out)
	ready, err := takeable(w, sw, h, f)
	if ready {
		step := s.background(t, f.job)
		step.Snapshot, step.Apart = sw.Name, true
		out.taking = append(out.taking, step)
	}
	return err
}

func dropStep(p foundPart, poolName string) Step {
	return Step{
		What:     fmt.Sprintf("remove snapshot %s of volume %s in pool %s", p.id.Snapshot, p.id.Of(), poolName),
		Snapshot: p.id.Snapshot, Apart: true,
		Do: func(ctx context.Context) error {
			return p.driver.(pool.Snapshotter).RemoveSnapshot(ctx, p.id) //nolint:forcetypeassert // It has a snapshot, so it is one.
		},
	}
}

// takeable tells whether all volumes of a snapshot are as they are wanted, so that it can be taken now. An error says that it never can.
func takeable(w Want, sw SnapshotWant, h have, f foundSnapshot) (bool, error) {
	if len(sw.Volumes) == 0 {
		return false, fmt.Errorf("snapshot %s of %s names no volume", sw.Name, w.Resource)
	}
	ready := true
	for i, part := range sw.Volumes {
		if _, ok := f.parts[i].driver.(pool.Snapshotter); !ok {
			return false, &UnsupportedError{Pool: part.Pool, What: "take snapshots"}
		}
		at := slices.IndexFunc(w.Volumes, func(v VolumeWant) bool {
			return v.Number == part.Number && !v.Destroy && strings.EqualFold(v.Pool, part.Pool)
		})
		if at < 0 {
			return false, fmt.Errorf("snapshot %s of %s: %w", sw.Name, w.Resource, &pool.NotFoundError{Pool: part.Pool, ID: f.parts[i].id.Of()})
		}
		v, there := w.Volumes[at], h.volumes[at]
		if !there.finished() || there.job.running || v.RollBack != nil && v.RollBack.Token != there.volume.RolledBack {
			ready = false
		}
	}
	return ready, nil
}

// takeTask is the work that takes a snapshot.
func (s *storage) takeTask(w Want, sw SnapshotWant, f foundSnapshot) task {
	numbers := make([]string, len(sw.Volumes))
	for i, v := range sw.Volumes {
		numbers[i] = strconv.Itoa(v.Number)
	}
	return task{
		key:      snapshotKey(w.Resource, sw.Name),
		text:     fmt.Sprintf("take snapshot %s of %s, volumes %s", sw.Name, w.Resource, strings.Join(numbers, ", ")),
		resource: w.Resource,
		do:       func(ctx context.Context, progress pool.Progress) error { return take(ctx, f.parts, progress) },
	}
}

// take takes all parts of a snapshot at one moment, and finishes them. Parts that are left of an earlier try are of another moment, so they go. On an error, none
// is left.
func take(ctx context.Context, parts []foundPart, progress pool.Progress) error {
	err := dropParts(ctx, parts)
	for try := 1; err == nil; try++ {
		err = takeParts(ctx, parts, progress)
		if _, mixed := errors.AsType[*MomentError](err); !mixed || try == takeTries {
			break
		}
		err = dropParts(ctx, parts)
	}
	for _, p := range parts {
		if err == nil {
			err = p.driver.(pool.Snapshotter).FinishSnapshot(ctx, p.id) //nolint:forcetypeassert // It was asked for before.
		}
	}
	if err != nil {
		return errors.Join(err, dropParts(context.WithoutCancel(ctx), parts))
	}
	return nil
}

func dropParts(ctx context.Context, parts []foundPart) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.driver.(pool.Snapshotter).RemoveSnapshot(ctx, p.id)) //nolint:forcetypeassert // It was asked for before.
	}
	return errors.Join(errs...)
}

// takeParts takes all parts while writers are held back, unless their pool does not need that.
func takeParts(ctx context.Context, parts []foundPart, progress pool.Progress) error {
	if taker, ids, ok := atOnce(parts); ok {
		return taker.TakeSnapshots(ctx, ids)
	}
	ids := make(map[pool.Driver][]pool.ID)
	var drivers []pool.Driver
	for _, p := range parts {
		if ids[p.driver] == nil {
			drivers = append(drivers, p.driver)
		}
		ids[p.driver] = append(ids[p.driver], p.id.Of())
	}
	held, err := hold(ctx, drivers, ids, suspendLimit)
	if err != nil {
		return err
	}
	var before, total int64
	for i, p := range parts {
		err = p.driver.(pool.Snapshotter).TakeSnapshot(ctx, p.id, func(c pool.Copied) { //nolint:forcetypeassert // It was asked for before.
			total = c.Total
			rest := int64(len(parts)-i-1) * c.Total // The others are guessed to be alike.
			progress.Tell(before+c.Done, before+c.Total+rest)
		})
		if err != nil {
			break
		}
		before += total
	}
	written, resumeErr := held.Resume()
	switch {
	case err != nil:
		return err
	case resumeErr != nil:
		return resumeErr
	case len(written) > 1:
		return &MomentError{Resource: parts[0].id.Resource, Snapshot: parts[0].id.Snapshot, Written: written}
	}
	return nil
}

// atOnce tells whether the parts of a snapshot lie in one pool that takes them at one moment by itself.
func atOnce(parts []foundPart) (taker pool.MomentTaker, ids []pool.SnapshotID, ok bool) {
	if len(parts) < 2 {
		return nil, nil, false
	}
	for _, p := range parts {
		if p.driver != parts[0].driver {
			return nil, nil, false
		}
		ids = append(ids, p.id)
	}
	taker, ok = parts[0].driver.(pool.MomentTaker)
	return taker, ids, ok
}
