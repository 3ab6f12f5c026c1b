// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// MigrateDisk moves the disk of a definition from one node to another: the target gets one, is
// filled, and only then does the source lose its replica, once nobody uses it there. It returns
// when the disk of the target is there; the job does the rest, also over restarts. When the target
// cannot make its disk, what was begun is taken back and the source stays as it is. A target
// that has a disk is a notice, and nothing is changed.
//
// Data is moved by a layer that replicates, or not at all within one shared space; anything else
// is refused.
func (s *Resources) MigrateDisk(ctx context.Context, definition, from, to string, c DiskChange) ([]errs.Notice, error) {
	layers, err := model.ParseLayers(c.Layers)
	if err != nil {
		return nil, err
	}
	m := migration{Resources: s, from: from, pool: c.Pool, layers: layers, birth: s.birth(), id: s.NewID()}
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error { return m.commit(tx, definition, to) })
	switch {
	case err != nil:
		return nil, err
	case m.notice != nil:
		return []errs.Notice{*m.notice}, nil
	}
	const verb = "given a disk"
	notices, failed := s.Await(ctx, verb, m.definition.Name, rev, []model.ResourceID{m.target})
	if failed != nil {
		return notices, m.takeBack(context.WithoutCancel(ctx), failed)
	}
	if err := s.noted(ctx, verb, m.definition.Name, rev, m.target); err != nil {
		return notices, err
	}
	waiting, cancel := s.patient(ctx)
	defer cancel()
	if s.upToDateNow(m.target) {
		if j, ok := schema.AwaitJob(waiting, s.Store, m.job.ID); ok && j.State == schema.JobDone {
			return notices, nil
		}
	}
	j, _ := schema.Jobs.Get(s.Store.Snapshot(), m.job.ID)
	what := fmt.Sprintf("the move of the disk of %s from node %s to node %s", m.definition.Name, from, to)
	return append(notices, goesOn(j, errs.Resource, what)), nil
}

func (s *Resources) upToDateNow(id model.ResourceID) bool {
	view := s.Store.Snapshot()
	x, ok := schema.Resources.Get(view, id)
	return ok && s.upToDateOn(view, x)
}

// migration is one call of MigrateDisk on its way.
type migration struct {
	*Resources
	from       string
	pool       string
	layers     []model.Layer
	birth      birth
	id         string // of the job
	definition schema.Definition
	target     model.ResourceID
	was        schema.ResourceKind // of the target; empty when there was none
	job        schema.Job
	notice     *errs.Notice
}

func (m *migration) commit(tx *store.Tx, definition, to string) error {
	m.notice, m.was = nil, ""
	source, err := schema.FindResource(tx, definition, m.from)
	if err != nil {
		return err
	}
	n, err := schema.FindNode(tx, to)
	if err != nil {
		return err
	}
	m.definition, _ = schema.Definitions.Get(tx, source.Definition)
	m.target = model.ResourceID{Definition: source.Definition, Node: n.Name.Key()}
	stays := errs.New(errs.Invalid, errs.Resource, "the disk of resource %s stays on node %s", m.definition.Name, schema.NameOfNode(tx, source.Node))
	switch {
	case source.Node == m.target.Node:
		return stays.About(errs.Name).Because("source and target are the same node").Fix("name another node")
	case source.Kind != schema.Diskful:
		return stays.Because("it has none there").Fix("name a node that has one")
	case source.Deleting || source.Becomes != "":
		stays.Kind = errs.Closing
		return stays.Because("it is being removed")
	}
	old, exists := schema.Resources.Get(tx, m.target)
	if exists {
		m.was = old.Kind
	}
	if m.was == schema.Diskful && !old.Deleting && old.Becomes == "" {
		m.notice = hasDiskAlready(m.definition.Name, n.Name)
		return nil
	}
	if err := m.give(tx, source, stays); err != nil {
		return err
	}
	m.job, err = schema.BeginJob(tx, schema.JobTarget{Kind: schema.MigrateDisk, Object: schema.OfResource(m.target)},
		schema.JobSpec{From: source.Node}, m.id, m.birth.at)
	return err
}

// give gives the target its disk. Without a layer that replicates there is nothing to fill it,
// so it has to be the data of the source itself, in a space that both share.
func (m *migration) give(tx *store.Tx, source schema.Resource, stays *errs.Error) error {
	space := spaceOf(tx, source)
	if err := m.giveDisk(tx, m.definition, m.target.Node, m.pool, m.layers, m.birth); err != nil {
		if model.Replicates(m.definition.Layers) || !errs.Is(err, errs.Invalid) {
			return err
		}
	}
	row, _ := schema.Resources.Get(tx, m.target)
	if model.Replicates(m.definition.Layers) || space != "" && spaceOf(tx, row) == space {
		return nil
	}
	stays.Kind = errs.Unsupported
	return stays.Because("no layer of the stack %s replicates, and the nodes do not share the space that it lies in, so nothing can move its data",
		layerText(m.definition.Layers)).
		Fix("take a snapshot or a clone, and copy the data to a new resource on the other node")
}

// takeBack ends the job, and what the target got goes again.
func (m *migration) takeBack(ctx context.Context, why *errs.Error) error {
	now := m.Now()
	_, err := schema.Update(ctx, m.Store, func(tx *store.Tx) error {
		if err := schema.CancelJob(tx, schema.JobTarget{Kind: schema.MigrateDisk, Object: schema.OfResource(m.target)}, now); err != nil {
			return err
		}
		x, ok := schema.Resources.Get(tx, m.target)
		if !ok || x.Deleting || x.Kind != schema.Diskful {
			return nil
		}
		if m.was == "" {
			_, err := m.markDeleting(tx, x)
			return err
		}
		return m.loseDisk(tx, x, m.was)
	})
	if err != nil {
		return withDetail(why, "what was begun could not be taken back: %v", err)
	}
	return why
}

// migrate makes one try at taking the disk of the source away.
func (s *Resources) migrate(ctx context.Context, j schema.Job, progress Progress) schema.JobTry {
	target := schema.ResourceOf(j.Object)
	out := schema.JobTry{Total: 2, Done: 1, State: schema.JobRunning}
	progress(out.Total, out.Done)
	if err := s.Finish(ctx, target); err != nil {
		out.Problems = []string{err.Error()}
		return out
	}
	view := s.Store.Snapshot()
	d, _ := schema.Definitions.Get(view, target.Definition)
	source, there := schema.Resources.Get(view, model.ResourceID{Definition: target.Definition, Node: j.Spec.From})
	x, ok := schema.Resources.Get(view, target)
	switch {
	case !ok || x.Deleting || x.Kind != schema.Diskful || x.Becomes != "" || d.Deleting:
		out.State, out.Problems = schema.JobFailed, []string{"the disk of the target was removed; that of the source stays"}
		return out
	case !there || source.Kind != schema.Diskful:
		out.State, out.Done = schema.JobDone, 2
		return out
	case source.Deleting:
		out.Progress = true
		return out // until its node has confirmed
	case !s.upToDateOn(view, x):
		st, _ := s.Observed.Resource(target)
		out.Progress = st.Current
		out.Problems = []string{fmt.Sprintf("node %s does not have all data yet", schema.NameOfNode(view, target.Node))}
		return out
	}
	if err := s.takeSource(ctx, d, source, target); err != nil {
		out.Problems = []string{err.Error()}
		return out
	}
	out.Progress = true
	return out
}

// takeSource marks the replica of the source for deletion, once nobody uses it and as long as
// the target has all data.
func (s *Resources) takeSource(ctx context.Context, d schema.Definition, source schema.Resource, target model.ResourceID) error {
	if err := s.Unused(ctx, d.Name, []schema.Resource{source}); err != nil {
		return err
	}
	b := s.birth()
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		now, ok := schema.Resources.Get(tx, source.ID())
		x, is := schema.Resources.Get(tx, target)
		if !ok || now.Deleting || now.UUID != source.UUID || !is || !s.upToDateOn(tx, x) {
			return nil
		}
		if _, err := s.markDeleting(tx, now); err != nil {
			return err
		}
		_, _, err := s.settleVotes(tx, now.Definition, b)
		return err
	})
	return err
}

// hasAllData tells whether a replica that is Ready has all data: of one that replicates its
// disks have to be up to date.
func hasAllData(d schema.Definition, st observed.ResourceStatus) bool {
	if !model.Replicates(d.Layers) {
		return true
	}
	for _, v := range st.Volumes {
		if !strings.EqualFold(v.DiskState, upToDate) {
			return false
		}
	}
	return true
}
