// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// makeAvailable makes a resource usable on a node. Clients read the volume's device right after the answer.
func (s *Server) makeAvailable(q *request) (wire.RcList, error) {
	var b wire.ResourceMakeAvailable
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	asked := resources.Availability{Diskful: b.Diskful != nil && *b.Diskful, Layers: upper(b.LayerList)}
	for _, p := range b.DrbdTCPPorts {
		asked.Ports = append(asked.Ports, int32(p))
	}
	made, err := s.Resources.MakeAvailable(q.Context(), q.PathValue("resource"), q.PathValue("node"), asked)
	if err != nil {
		return q.notices(made.Notices), err
	}
	return append(createdReplicas(made), q.notices(made.Notices)...), nil
}

// createdReplicas has an entry for each replica that was made.
func createdReplicas(made resources.Created) wire.RcList {
	var l wire.RcList
	for _, p := range made.Placed {
		l = append(l, wire.NewRc(wire.Created, fmt.Sprintf("resource %s created on node %s", made.Definition.Name, p.Node)).
			WithDetails(kindText(p)).WithRef(wire.RefNode, string(p.Node)))
	}
	return l
}

// kindText says what part a new replica has, and where its data lies.
func kindText(p resources.Placement) string {
	if p.Kind == schema.Diskful {
		return "Storage pool: " + string(p.Pool)
	}
	return "Without storage (" + string(p.Kind) + ")"
}

// setPart makes a replica without a disk a client or a tie-breaker, when a request says which.
func (s *Server) setPart(q *request, tieBreaker, client *bool) error {
	name, node := q.PathValue("resource"), q.PathValue("node")
	yes := func(flag *bool) bool { return flag != nil && *flag }
	switch {
	case yes(tieBreaker) && yes(client):
		return errs.New(errs.Invalid, errs.Resource, "resource %s on node %s cannot be a client and a tie-breaker", name, node).
			About(errs.Flag).Fix("set one of drbd_client and drbd_tiebreaker")
	case yes(tieBreaker):
		return s.Resources.SetPart(q.Context(), name, node, schema.TieBreaker)
	case yes(client):
		return s.Resources.SetPart(q.Context(), name, node, schema.Client)
	case tieBreaker != nil:
		r, err := schema.FindResource(s.Store.Snapshot(), name, node)
		if err != nil || r.Kind != schema.TieBreaker {
			return err
		}
		return s.Resources.SetPart(q.Context(), name, node, schema.Client)
	}
	return nil
}
