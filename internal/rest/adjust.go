// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// adjustGroup places what the definitions of a group lack.
func (s *Server) adjustGroup(q *request) (wire.RcList, error) {
	var b wire.ResourceGroupAdjust
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	job, notices, err := s.Resources.Adjust(q.Context(), q.PathValue("resource_group"), filterOf(b.SelectFilter))
	if err != nil {
		return q.notices(notices), err
	}
	if job.State == schema.JobRunning {
		return q.notices(notices), nil
	}
	return q.with(s.adjusted(job), notices), nil
}

// adjustAll does so for every group that has definitions. Those that could be adjusted are told also when one could not.
func (s *Server) adjustAll(q *request) (wire.RcList, error) {
	var b wire.ResourceGroupAdjust
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	jobs, notices, err := s.Resources.AdjustAll(q.Context(), filterOf(b.SelectFilter))
	var l wire.RcList
	for _, job := range jobs {
		if job.State == schema.JobDone {
			l = append(l, s.adjusted(job))
		}
	}
	l = append(l, q.notices(notices)...)
	if len(l) == 0 && err == nil {
		l = wire.RcList{wire.NewRc(wire.InfoNoop, "no resource group has resource definitions")}
	}
	return l, err
}

func (s *Server) adjusted(j schema.Job) wire.Rc {
	name := string(schema.NameOfGroup(s.Store.Snapshot(), model.GroupKey(j.Object)))
	return done(wire.Modified, "", "resource group %s is adjusted: %s looked at", name, counted(j.Total, "resource definition")).
		WithRef(wire.RefRscGrp, name)
}
