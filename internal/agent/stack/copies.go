// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// volumeKey is the key of the job on a volume.
func volumeKey(poolName string, id pool.ID) string { return "volume " + poolName + " " + id.Name() }

// work returns the work that the volume still needs which may take long: the copy of its source, or a roll-back. Its text is empty when it needs none.
func (p planner) work() task {
	v, d := p.have.volume, p.have.driver
	t := task{key: volumeKey(p.want.Pool, p.id), resource: p.id.Resource, pool: p.want.Pool}
	switch {
	case p.want.Source != nil && (!p.have.finished() || p.have.job.does(p.cloneText())):
		t.text = p.cloneText()
		from, size := p.want.Source.id(), p.want.Size
		t.do = func(ctx context.Context, progress pool.Progress) error {
			fill := func() error { return cloneHeld(ctx, d, p.id, size, from, progress) }
			if p.want.elsewhere() {
				fill = func() error { return p.s.transfer(ctx, p.have.source, d, p.id, size, from, progress) }
			}
			return p.complete(ctx, fill)
		}
	case p.want.RollBack != nil && p.have.finished() && v.RolledBack != p.want.RollBack.Token:
		to := pool.SnapshotID{Resource: p.id.Resource, Volume: p.id.Volume, Snapshot: p.want.RollBack.Snapshot}
		token := p.want.RollBack.Token
		t.text = fmt.Sprintf("roll volume %s in pool %s back to snapshot %s, by %s", p.id, p.want.Pool, to.Snapshot, token)
		t.do = func(ctx context.Context, progress pool.Progress) error {
			return d.(pool.RollBacker).RollBack(ctx, to, token, progress) //nolint:forcetypeassert // It was asked for before.
		}
	}
	return t
}

// cloneText says what is done to make the volume from its source. The size is not in it: a volume that is to be larger by now grows when it is there.
func (p planner) cloneText() string {
	from := p.want.Source.id()
	if from.Snapshot == "" {
		return fmt.Sprintf("clone volume %s to volume %s in pool %s", from.Of(), p.id, p.want.Pool)
	}
	return fmt.Sprintf("clone snapshot %s to volume %s in pool %s", from, p.id, p.want.Pool)
}

// complete makes a finished volume of a NEW one that is filled.
func (p planner) complete(ctx context.Context, fill func() error) error {
	if err := fill(); err != nil {
		return err
	}
	if do := p.want.Prepare; do != nil {
		if err := prepare(ctx, p.have.driver, p.id, do); err != nil {
			return err
		}
	}
	return p.have.driver.Finish(ctx, p.id)
}

// cloneHeld makes a NEW volume. While a volume is copied, its writers are held back where that can be done.
func cloneHeld(ctx context.Context, d pool.Driver, id pool.ID, size int64, from pool.SnapshotID, progress pool.Progress) error {
	resume := func() error { return nil }
	if suspender, ok := d.(pool.Suspender); ok && from.Snapshot == "" {
		held, err := suspender.Suspend(ctx, []pool.ID{from.Of()}, suspendLimit)
		if err != nil {
			return err
		}
		resume = func() error {
			_, err := held.Resume() // The driver itself sees to it that a single volume is of one moment.
			return err
		}
	}
	err := d.(pool.Cloner).Clone(ctx, id, size, from, progress) //nolint:forcetypeassert // It was asked for before.
	if resumeErr := resume(); err == nil {
		err = resumeErr
	}
	return err
}

// background returns the step that begins a task and waits for it for a while. If such a job has failed, the step tells why, and the next one tries again.
func (s *storage) background(t task, last progress) Step {
	what := t.text
	if last.text == t.text && !last.running {
		what += ", which failed"
	}
	return Step{What: what, Do: func(ctx context.Context) error { return s.jobs.run(ctx, t, s.patience) }}
}

// drop plans to break off a job that does not do what is wanted, or to forget that it failed.
func (s *storage) drop(job progress, wanted string, out *plan) {
	if job.text == "" || job.text == wanted {
		return
	}
	verb := "break off: "
	if !job.running {
		verb = "forget the failure: "
	}
	out.cancelling = append(out.cancelling, Step{
		What: verb + job.text,
		Do:   func(ctx context.Context) error { return s.jobs.cancel(ctx, job.key) },
	})
}

// rollBack plans to roll the volume back, unless someone is in the way, who is returned.
func (p planner) rollBack(work task) (used error) {
	_, able := p.have.driver.(pool.RollBacker)
	switch {
	case !able:
		return &UnsupportedError{Pool: p.want.Pool, What: "roll volumes back"}
	case p.have.unknown != nil:
		return fmt.Errorf("look who uses volume %s: %w", p.id, p.have.unknown)
	case len(p.have.holders) > 0:
		return &pool.InUseError{ID: p.id, Holders: p.have.holders}
	}
	p.out.rolling = append(p.out.rolling, p.s.background(work, p.have.job))
	return nil
}
