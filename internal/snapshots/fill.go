// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

const (
	// tryFor bounds one try at a clone, so that others get their turn.
	tryFor = 10 * time.Second
	// lookAgain is how often is looked at what no host has a word for.
	lookAgain = time.Second
	// failedFor is how long a clone that failed stays for others to see why.
	failedFor = time.Minute
	// mostFailures is after how many tries in a row that brought nothing a host's refusal is final.
	mostFailures = 5
)

// Work makes one try at filling a clone. It may end anywhere, and be made again.
func (s *Snapshots) Work(ctx context.Context, j schema.Job, progress resources.Progress) schema.JobTry {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	f := filling{Snapshots: s, job: j, clone: model.DefinitionKey(j.Object), progress: progress}
	if j.Spec.Source != nil {
		f.source = model.SnapshotID{Definition: j.Spec.Source.Definition, Snapshot: j.Spec.Source.Snapshot}
	}
	return f.try(ctx)
}

// filling is one try at filling a clone.
type filling struct {
	*Snapshots
	job      schema.Job
	clone    model.DefinitionKey
	source   model.SnapshotID
	progress resources.Progress
	moved    bool
}

// state is what a step of the work has left.
type state int

const (
	again   state = iota // there is more to do at once
	waiting              // for hosts
	over
)

func (f *filling) try(ctx context.Context) schema.JobTry {
	out := schema.JobTry{State: schema.JobRunning, Total: 100, Done: f.job.Done}
	changes, stop := f.subscribe(ctx)
	defer stop()
	for {
		st, err := f.step(ctx)
		out.Done = f.percent(f.Store.Snapshot())
		f.progress(out.Total, out.Done)
		out.Progress = f.moved
		switch {
		case err != nil:
			out.Problems = []string{err.Error()}
			return out
		case st == over:
			out.State, out.Done = schema.JobDone, out.Total
			return out
		case st == again && ctx.Err() == nil:
			f.moved = true
			continue
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-changes:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return out
		}
		timer.Stop()
	}
}

// subscribe returns a channel that tells when something changed that hosts say.
func (s *Snapshots) subscribe(ctx context.Context) (<-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range s.Observed.Subscribe(ctx) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed, func() {
		cancel()
		<-ended
	}
}

func (f *filling) percent(r store.Reader) int {
	d, ok := schema.Definitions.Get(r, f.clone)
	if !ok || d.UUID != f.job.Spec.UUID {
		return 100
	}
	done, total := f.Snapshots.progress(r, d)
	if total == 0 {
		return 0
	}
	return int(100 * (float64(done) / float64(total)))
}

// step does the next thing that there is to do.
func (f *filling) step(ctx context.Context) (state, error) {
	view := f.Store.Snapshot()
	d, ok := schema.Definitions.Get(view, f.clone)
	switch {
	case !ok || d.UUID != f.job.Spec.UUID || d.Deleting || d.Clone == nil, d.Clone.State == schema.CloneDone:
		return over, f.letGo(ctx)
	case d.Clone.State == schema.CloneFailed:
		return f.clear(ctx, d)
	}
	sn, ok := schema.Snapshots.Get(view, f.source)
	switch {
	case !ok || sn.Deleting:
		return again, f.fail(ctx, "the snapshot that it is made from was removed")
	case sn.State == schema.SnapshotTaking:
		return f.take(ctx, sn)
	case sn.State == schema.SnapshotCutOff:
		return f.takeAnew(ctx, d)
	case sn.State == schema.SnapshotFailed:
		return again, f.fail(ctx, sn.Problem)
	}
	replicas := slices.Collect(schema.ResourcesOf(view, f.clone))
	if len(replicas) == 0 {
		return f.add(ctx, sn)
	}
	return f.copies(ctx, d, replicas)
}

// take takes the snapshot that was planned, or waits for the node that takes it.
func (f *filling) take(ctx context.Context, sn schema.Snapshot) (state, error) {
	view := f.Store.Snapshot()
	planned := false
	for part := range schema.SnapshotReplicasOf(view, sn.ID()) {
		planned = planned || part.State == schema.SnapshotPlanned
	}
	if planned && !f.isLive(sn.Request) {
		defer f.begin(sn.Request)()
		f.takeTogether(ctx, sn.Request)
	} else if err := f.conclude(ctx, sn.Request); err != nil {
		return waiting, err
	}
	if now, _ := schema.Snapshots.Get(f.Store.Snapshot(), sn.ID()); now.State != schema.SnapshotTaking {
		return again, nil
	}
	return waiting, nil
}

// takeAnew plans the snapshot once more when the one before was cut off and has gone.
func (f *filling) takeAnew(ctx context.Context, d schema.Definition) (state, error) {
	sn, _ := schema.Snapshots.Get(f.Store.Snapshot(), f.source)
	r, err := f.newRequest([]New{{Definition: string(d.Clone.Source), Name: string(sn.Name)}})
	if err != nil {
		return waiting, err
	}
	r.hidden = true
	_, err = schema.Update(ctx, f.Store, r.commit)
	switch {
	case err == nil:
		return again, nil
	case errs.Is(err, errs.Exists), errs.Is(err, errs.NotConnected):
		return waiting, nil
	case errs.Is(err, errs.NotFound), errs.Is(err, errs.Closing):
		return again, f.fail(ctx, err.Error())
	}
	return waiting, err
}

// add gives the clone a replica on each node that has the snapshot.
func (f *filling) add(ctx context.Context, sn schema.Snapshot) (state, error) {
	seeding := f.Resources.Seeding()
	_, err := schema.Update(ctx, f.Store, func(tx *store.Tx) error {
		d, ok := schema.Definitions.Get(tx, f.clone)
		if !ok || d.UUID != f.job.Spec.UUID || d.Deleting {
			return nil
		}
		for range schema.ResourcesOf(tx, f.clone) {
			return nil
		}
		var seeds []resources.Seed
		for part := range schema.SnapshotReplicasOf(tx, sn.ID()) {
			if !part.Deleting {
				seeds = append(seeds, resources.Seed{Node: part.Node, Snapshot: sn.ID()})
			}
		}
		if len(seeds) == 0 {
			return errs.New(errs.NotFound, errs.Snapshot, "no node has the snapshot that %s is made from any more", d.Name)
		}
		_, _, err := seeding.Add(tx, d, seeds)
		return err
	})
	switch e := errs.As(err); {
	case err == nil:
		return again, nil
	case e != nil && slices.Contains([]errs.Kind{
		errs.NoSpace, errs.NotFound, errs.Closing, errs.Invalid, errs.Unsupported, errs.Exhausted, errs.HostFailed,
	}, e.Kind):
		return again, f.fail(ctx, err.Error())
	}
	return waiting, err
}

// copies waits until all volumes are there.
func (f *filling) copies(ctx context.Context, d schema.Definition, replicas []schema.Resource) (state, error) {
	var ids []model.ResourceID
	for _, x := range replicas {
		if x.Kind == schema.Diskful {
			ids = append(ids, x.ID())
		}
	}
	if err := f.Resources.Finish(ctx, ids...); err != nil {
		return waiting, err
	}
	view := f.Store.Snapshot()
	left := 0
	for _, id := range ids {
		x, ok := schema.Resources.Get(view, id)
		if !ok || x.Deleting {
			return again, f.fail(ctx, "a replica of it was deleted before it was complete")
		}
		if slices.ContainsFunc(x.Volumes, func(v schema.Volume) bool { return v.Source != nil }) {
			left++
			st, _ := f.Observed.Resource(id)
			f.moved = f.moved || st.Current && st.Phase == observed.Working
		}
	}
	if left == 0 {
		return again, f.complete(ctx)
	}
	if failed := f.Resources.Failed("cloned", d.Name, ids); failed != nil {
		if failed.Kind == errs.NoSpace || failed.Kind == errs.Unsupported || f.job.Attempts >= mostFailures {
			return again, f.fail(ctx, failed.Error())
		}
		return waiting, nil
	}
	return waiting, nil
}

// end writes how the clone ended, unless it has, or is another one by now.
func (f *filling) end(ctx context.Context, st schema.CloneState, problem string, more func(*store.Tx, schema.Definition) error) error {
	now := f.Now()
	_, err := schema.Update(ctx, f.Store, func(tx *store.Tx) error {
		d, ok := schema.Definitions.Get(tx, f.clone)
		if !ok || d.UUID != f.job.Spec.UUID || d.Clone == nil || d.Clone.State != schema.Cloning {
			return nil
		}
		c := *d.Clone
		c.State, c.Problem, c.Ended = st, problem, now
		d.Clone = &c
		if err := schema.Definitions.Update(tx, d); err != nil {
			return err
		}
		if err := more(tx, d); err != nil {
			return err
		}
		return f.closeSource(tx)
	})
	return err
}

func (f *filling) complete(ctx context.Context) error {
	return f.end(ctx, schema.CloneDone, "", func(*store.Tx, schema.Definition) error { return nil })
}

// fail ends the clone: its replicas go, and it stays for a while to say why.
func (f *filling) fail(ctx context.Context, problem string) error {
	return f.end(ctx, schema.CloneFailed, problem, func(tx *store.Tx, d schema.Definition) error {
		return f.Resources.DropReplicas(tx, d.Name.Key())
	})
}

// closeSource lets the snapshot go that the clone was made from.
func (f *filling) closeSource(tx *store.Tx) error {
	sn, ok := schema.Snapshots.Get(tx, f.source)
	if !ok || !sn.Hidden || sn.Deleting {
		return nil
	}
	stays, err := schema.CloseSnapshot(tx, sn)
	if err != nil || stays {
		return err
	}
	return f.Resources.Tidy(tx, sn.Definition)
}

func (f *filling) letGo(ctx context.Context) error {
	_, err := schema.Update(ctx, f.Store, f.closeSource)
	return err
}

// clear removes a clone that failed, once it was there for a while for others to see.
func (f *filling) clear(ctx context.Context, d schema.Definition) (state, error) {
	if err := f.letGo(ctx); err != nil {
		return waiting, err
	}
	if f.Now().Sub(d.Clone.Ended) < failedFor {
		return waiting, nil
	}
	_, err := schema.Update(ctx, f.Store, func(tx *store.Tx) error {
		now, ok := schema.Definitions.Get(tx, f.clone)
		if !ok || now.UUID != f.job.Spec.UUID || now.Deleting {
			return nil
		}
		return f.Resources.CloseDefinition(tx, now)
	})
	if errs.Is(err, errs.HasChildren) {
		return over, nil // Somebody uses it all the same; it is theirs.
	}
	return over, err
}
