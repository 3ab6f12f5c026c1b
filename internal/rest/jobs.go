// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// listJobs lists the work that goes on and the newest that has ended, the oldest first: all, or that in these states.
func (s *Server) listJobs(q *request) (body, error) {
	p, err := q.page()
	if err != nil {
		return nil, err
	}
	view := s.Store.Snapshot()
	states := q.names("states")
	rows := slices.SortedFunc(schema.Jobs.All(view), func(a, b schema.Job) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	if len(states) > 0 {
		rows = slices.DeleteFunc(rows, func(j schema.Job) bool {
			return !slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, string(j.State)) })
		})
	}
	return values(pageOf(p, slices.Values(rows)), func(j *schema.Job) wire.Job { return job(view, j) }), nil
}

func (s *Server) getJob(q *request) (body, error) {
	view := s.Store.Snapshot()
	j, ok := schema.Jobs.Get(view, q.PathValue("job"))
	if !ok {
		return nil, errs.New(errs.NotFound, errs.NoObject, "job %s does not exist", q.PathValue("job")).
			Because("only the newest of those that have ended are kept")
	}
	return value{job(view, &j)}, nil
}

func job(r store.Reader, j *schema.Job) wire.Job {
	return wire.Job{
		ID: j.ID, Kind: string(j.Kind), Object: objectOf(r, j), State: string(j.State),
		Total: int32(j.Total), Done: int32(j.Done), Failed: int32(j.Failed), Problems: j.Problems, Attempts: int32(j.Attempts),
		NextTryTimestamp: stamp(j.NextTry), CreateTimestamp: j.Created.UnixMilli(), UpdateTimestamp: j.Updated.UnixMilli(),
		EndTimestamp: stamp(j.Ended),
	}
}

// objectOf names what a job works on.
func objectOf(r store.Reader, j *schema.Job) string {
	switch j.Kind {
	case schema.AdjustGroup, schema.CompleteGroup:
		return string(schema.NameOfGroup(r, model.GroupKey(j.Object)))
	case schema.CompleteDefinition:
		return string(schema.NameOfDefinition(r, model.DefinitionKey(j.Object)))
	case schema.CloneDefinition:
		return string(schema.NameOfDefinition(r, model.DefinitionKey(j.Object)))
	case schema.MigrateDisk:
		id := schema.ResourceOf(j.Object)
		return string(schema.NameOfDefinition(r, id.Definition)) + " to " + string(schema.NameOfNode(r, id.Node))
	case schema.EvacuateNode, schema.LoseNode:
		return string(schema.NameOfNode(r, model.NodeKey(j.Object)))
	}
	return j.Object
}

// stamp is a time in milliseconds since the epoch, nil for none.
func stamp(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
