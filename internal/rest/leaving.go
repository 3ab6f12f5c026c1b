// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// loseNode forgets a node that does not come back, with all that lies on it.
func (s *Server) loseNode(q *request) (wire.RcList, error) {
	notices, err := s.Resources.LoseNode(q.Context(), q.PathValue("node"))
	if err != nil {
		return q.notices(notices), err
	}
	if len(notices) > 0 {
		return q.with(done(wire.Deleted, "", "node %s is given up as lost", q.PathValue("node")), notices), nil
	}
	return wire.RcList{done(wire.Deleted, "", "node %s is given up as lost, and forgotten", q.PathValue("node"))}, nil
}

func (s *Server) evacuateNode(q *request) (wire.RcList, error) {
	var b wire.NodeEvacuate
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	job, notices, err := s.Resources.EvacuateNode(q.Context(), q.PathValue("node"), resources.Evacuation{Targets: b.Target, Avoid: b.DoNotTarget})
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(leaving(job, fmt.Sprintf("node %s is being evacuated", q.PathValue("node"))), notices), nil
}

func (s *Server) evictNode(q *request) (wire.RcList, error) {
	job, notices, err := s.Resources.EvictNode(q.Context(), q.PathValue("node"))
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(leaving(job, fmt.Sprintf("node %s is evicted", q.PathValue("node"))), notices), nil
}

// leaving is the entry of a job that has begun.
func leaving(j schema.Job, what string) wire.Rc {
	rc := done(wire.Modified, "", "%s", what)
	if j.ID == "" {
		return rc
	}
	return rc.WithDetails("Job: " + j.ID)
}

// restoreNode takes back an evacuation or an eviction. That there is none is a warning and nothing else.
func (s *Server) restoreNode(q *request) (wire.RcList, error) {
	var b wire.NodeRestore
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	name := q.PathValue("node")
	notices, err := s.Resources.RestoreNode(q.Context(), name, resources.Restoration{
		DeleteResources: b.DeleteResources != nil && *b.DeleteResources,
	})
	if err != nil {
		return q.notices(notices), err
	}
	if slices.ContainsFunc(notices, func(n errs.Notice) bool { return n.Kind == errs.NotEvacuating }) {
		return q.notices(notices), nil
	}
	return q.with(done(wire.Modified, "", "node %s is restored", name), notices), nil
}

// reconnectNode has nothing to do: agents dial in, and go on trying for ever.
func (s *Server) reconnectNode(q *request) (wire.RcList, error) {
	n, err := schema.FindNode(s.Store.Snapshot(), q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return wire.RcList{wire.NewRc(wire.InfoNoop, "the agent of node "+string(n.Name)+" connects by itself").
		WithDetails("The node is " + string(s.Observed.Node(n.Name.Key()).Connection) + " now.")}, nil
}
