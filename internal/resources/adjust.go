// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Adjust places what is missing for each definition of a group, as the group says and a filter
// over it. It never removes a replica, and a repeated call changes nothing. It answers when
// all is placed, with an error that names the definitions for which it was not possible; or,
// when that takes very long, with a notice, while the job goes on.
func (s *Resources) Adjust(ctx context.Context, group string, filter model.Filter) (schema.Job, []errs.Notice, error) {
	if err := catalog.CheckFilter(errs.ResourceGroup, filter); err != nil {
		return schema.Job{}, nil, err
	}
	j, err := s.beginAdjusting(ctx, group, filter)
	if err != nil {
		return j, nil, err
	}
	ctx, cancel := s.patient(ctx)
	defer cancel()
	return s.adjusted(ctx, j)
}

// beginAdjusting begins the job.
func (s *Resources) beginAdjusting(ctx context.Context, group string, filter model.Filter) (schema.Job, error) {
	id, now := s.NewID(), s.Now()
	var j schema.Job
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		g, err := schema.FindGroup(tx, group)
		if err != nil {
			return err
		}
		target := schema.JobTarget{Kind: schema.AdjustGroup, Object: string(g.Name.Key())}
		j, err = schema.BeginJob(tx, target, schema.JobSpec{Filter: &filter}, id, now)
		return err
	})
	return j, err
}

// AdjustAll is Adjust for every group that has definitions. The jobs are in the order of the
// groups, and the error is the first of theirs.
func (s *Resources) AdjustAll(ctx context.Context, filter model.Filter) ([]schema.Job, []errs.Notice, error) {
	if err := catalog.CheckFilter(errs.ResourceGroup, filter); err != nil {
		return nil, nil, err
	}
	var jobs []schema.Job
	view := s.Store.Snapshot()
	for g := range schema.Groups.All(view) {
		if !schema.DefinitionsByGroup.Has(view, g.Name.Key()) {
			continue
		}
		j, err := s.beginAdjusting(ctx, string(g.Name), filter)
		switch {
		case errs.Is(err, errs.NotFound): // it was deleted meanwhile
		case err != nil:
			return jobs, nil, err
		default:
			jobs = append(jobs, j)
		}
	}
	ctx, cancel := s.patient(ctx)
	defer cancel()
	var notices []errs.Notice
	var first error
	for i, j := range jobs {
		now, more, err := s.adjusted(ctx, j)
		jobs[i], notices = now, append(notices, more...)
		if first == nil {
			first = err
		}
	}
	return jobs, notices, first
}

// adjusted waits for a job that adjusts a group, and is the answer about it.
func (s *Resources) adjusted(ctx context.Context, j schema.Job) (schema.Job, []errs.Notice, error) {
	if now, ok := schema.AwaitJob(ctx, s.Store, j.ID); ok {
		j = now
	}
	name := schema.NameOfGroup(s.Store.Snapshot(), model.GroupKey(j.Object))
	switch j.State {
	case schema.JobRunning:
		return j, []errs.Notice{goesOn(j, errs.ResourceGroup, "the adjustment of resource group "+string(name))}, nil
	case schema.JobFailed:
		return j, nil, errs.New(errs.NotEnough, errs.ResourceGroup, "resource group %s could not be adjusted: %d of %s stay as they are",
			name, j.Failed, counted(j.Total, "definition")).Because("%s", j.LastError()).
			Fix("add nodes, pools or space, or ask for less, then adjust again").Detail(strings.Join(j.Problems, "\n"))
	case schema.JobCancelled:
		return j, nil, errs.New(errs.Closing, errs.ResourceGroup, "the adjustment of resource group %s was given up", name).
			Because("the group was deleted in the meantime")
	case schema.JobDone:
	}
	return j, nil, nil
}

// adjust makes the one pass over a group that was asked for.
func (s *Resources) adjust(ctx context.Context, j schema.Job, progress Progress) schema.JobTry {
	filter := model.Filter{}
	if j.Spec.Filter != nil {
		filter = *j.Spec.Filter
	}
	t := s.fulfilAll(ctx, model.GroupKey(j.Object), filter, func(schema.Definition) bool { return true }, progress)
	out := t.try()
	switch {
	case ctx.Err() != nil:
		out.State = schema.JobRunning
	case len(t.problems) > 0:
		out.State = schema.JobFailed
	}
	return out
}

// complete brings definitions that are deployed to what their groups say by now.
func (s *Resources) complete(ctx context.Context, j schema.Job, progress Progress) schema.JobTry {
	view := s.Store.Snapshot()
	deployed := func(d schema.Definition) bool {
		for range schema.ResourcesOf(view, d.Name.Key()) {
			return true
		}
		return false
	}
	if j.Kind == schema.CompleteGroup {
		return s.fulfilAll(ctx, model.GroupKey(j.Object), model.Filter{}, deployed, progress).try()
	}
	var one []schema.Definition
	if d, ok := schema.Definitions.Get(view, model.DefinitionKey(j.Object)); ok && deployed(d) {
		one = append(one, d)
	}
	return each(ctx, one, progress, func(ctx context.Context, d schema.Definition) finding {
		return s.fulfil(ctx, d, model.Filter{})
	}).try()
}

// fulfilAll fulfils each definition of a group that fits.
func (s *Resources) fulfilAll(
	ctx context.Context, group model.GroupKey, filter model.Filter, fits func(schema.Definition) bool, progress Progress,
) *tally {
	var list []schema.Definition
	for d := range schema.DefinitionsByGroup.Get(s.Store.Snapshot(), group) {
		if !d.Deleting && fits(d) {
			list = append(list, d)
		}
	}
	return each(ctx, list, progress, func(ctx context.Context, d schema.Definition) finding { return s.fulfil(ctx, d, filter) })
}

// fulfil places what a definition lacks. That there is nothing to place is no problem, nor that
// the definition goes.
func (s *Resources) fulfil(ctx context.Context, d schema.Definition, filter model.Filter) finding {
	view := s.Store.Snapshot()
	g, _ := schema.Groups.Get(view, d.Group)
	merged := filter.Over(g.Filter)
	if merged.PlaceCount == nil || *merged.PlaceCount == 0 {
		return finding{}
	}
	filter.AdditionalPlaceCount = new(int32(0)) // a repeated try must add nothing
	placed, err := s.place(ctx, string(d.Name), PlaceRequest{Filter: filter}, nil, placeOptions{job: true})
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Closing) {
		if now, ok := schema.Definitions.Get(s.Store.Snapshot(), d.Name.Key()); !ok || now.Deleting {
			return finding{}
		}
	}
	if err != nil {
		return finding{err: named(err, d.Name)}
	}
	return finding{moved: len(placed.Placed) > 0}
}

// named is an error of a job about one definition, which says which.
func named(err error, d model.DefinitionName) error {
	e := errs.As(err)
	if e == nil || strings.Contains(e.Message, string(d)) {
		return err
	}
	c := *e
	c.Message = "resource " + string(d) + ": " + e.Message
	return &c
}
