// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// viewResources lists the replicas of all definitions, with their volumes.
func (s *Server) viewResources(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	rows := resourceRows(view, q.names("nodes"), q.names("resources"), q.names("storage_pools"))
	rows = matching(rows, q.names("props"), func(r *schema.Resource) model.Props { return r.Props })
	return list[schema.Resource]{pageOf(p, rows), e.ResourceWithVolumes}, nil
}

// resourceRows yields the replicas of these definitions, on these nodes, with a volume in a pool of one of these names, in
// the order of definitions and nodes. No names mean all. It looks at no more rows than the narrowest of them asks for.
func resourceRows(r store.Reader, nodes, definitions, pools []string) iter.Seq[schema.Resource] {
	onNodes, inPools := keys(nodes, nodeKey), keys(pools, poolKey)
	kept := func(x *schema.Resource) bool {
		return (len(onNodes) == 0 || slices.Contains(onNodes, x.Node)) &&
			(len(inPools) == 0 || slices.ContainsFunc(x.Volumes, func(v schema.Volume) bool { return slices.Contains(inPools, v.Pool) }))
	}
	switch {
	case len(definitions) > 0:
		return where(ofDefinitions(r, keys(definitions, definitionKey)), kept)
	case len(inPools) > 0:
		return sorted(fromPools(r, nodes, inPools))
	case len(onNodes) == 1:
		return schema.ResourcesByNode.Get(r, onNodes[0])
	case len(onNodes) > 0:
		return sorted(fromNodes(r, onNodes))
	default:
		return schema.Resources.All(r)
	}
}

func ofDefinitions(r store.Reader, definitions []model.DefinitionKey) iter.Seq[schema.Resource] {
	return func(yield func(schema.Resource) bool) {
		for _, d := range definitions {
			for x := range schema.ResourcesOf(r, d) {
				if !yield(x) {
					return
				}
			}
		}
	}
}

func fromNodes(r store.Reader, nodes []model.NodeKey) []schema.Resource {
	var out []schema.Resource
	for _, n := range nodes {
		out = slices.AppendSeq(out, schema.ResourcesByNode.Get(r, n))
	}
	return out
}

func fromPools(r store.Reader, nodes []string, pools []model.PoolKey) []schema.Resource {
	var out []schema.Resource
	for n := range chosen(r, schema.Nodes, nodes, nodeKey) {
		for _, p := range pools {
			out = slices.AppendSeq(out, schema.ResourcesByPool.Get(r, model.PoolID{Node: n.Name.Key(), Pool: p}))
		}
	}
	return out
}

// sorted yields replicas in the order of definitions and nodes, each once.
func sorted(rows []schema.Resource) iter.Seq[schema.Resource] {
	slices.SortFunc(rows, func(a, b schema.Resource) int {
		return cmp.Or(cmp.Compare(a.Definition, b.Definition), cmp.Compare(a.Node, b.Node))
	})
	return slices.Values(slices.CompactFunc(rows, func(a, b schema.Resource) bool { return a.ID() == b.ID() }))
}

func (s *Server) listResources(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	return list[schema.Resource]{pageOf(p, schema.ResourcesOf(view, d.Name.Key())), e.Resource}, nil
}

func (s *Server) getResource(q *request) (body, error) {
	e, view := s.encoder()
	r, err := schema.FindResource(view, q.PathValue("resource"), q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return one[schema.Resource]{r, e.Resource}, nil
}

// createResources makes replicas on several nodes at once, all or none.
func (s *Server) createResources(q *request) (wire.RcList, error) {
	var b []wire.ResourceCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	return s.makeResources(q, b)
}

// createResource makes the replica on the node that the path names.
func (s *Server) createResource(q *request) (wire.RcList, error) {
	var b wire.ResourceCreate
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	b.Resource.NodeName = q.PathValue("node")
	return s.makeResources(q, []wire.ResourceCreate{b})
}

func (s *Server) makeResources(q *request, asked []wire.ResourceCreate) (wire.RcList, error) {
	list := make([]resources.NewResource, len(asked))
	for i, a := range asked {
		var err error
		if list[i], err = newResource(a); err != nil {
			return nil, err
		}
	}
	made, err := s.Resources.Create(q.Context(), q.PathValue("resource"), list)
	if err != nil {
		return q.notices(made.Notices), err
	}
	return append(createdReplicas(made), q.notices(made.Notices)...), nil
}

func newResource(a wire.ResourceCreate) (resources.NewResource, error) {
	n := resources.NewResource{
		Node: a.Resource.NodeName, Kind: schema.Diskful, Props: a.Resource.Props, Layers: upper(a.LayerList), NodeID: (*int32)(a.DrbdNodeID),
	}
	for _, p := range a.DrbdTCPPorts {
		n.Ports = append(n.Ports, int32(p))
	}
	if a.DrbdClient != nil && *a.DrbdClient {
		n.Kind = schema.Client
	}
	for _, f := range a.Resource.Flags {
		switch strings.ToUpper(f) {
		case wire.FlagDiskless, wire.FlagDRBDDiskless:
			if n.Kind == schema.Diskful {
				n.Kind = schema.Client
			}
		case wire.FlagTieBreaker:
			n.Kind = schema.TieBreaker
		default:
			return n, errs.New(errs.Unsupported, errs.Resource, "a resource cannot be created with the flag %q", f).About(errs.Flag).
				Fix("use %s, %s or %s, or none for a replica with a disk", wire.FlagDiskless, wire.FlagDRBDDiskless, wire.FlagTieBreaker)
		}
	}
	return n, nil
}

func (s *Server) modifyResource(q *request) (wire.RcList, error) {
	var b wire.ResourceModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	name, node, change := q.PathValue("resource"), q.PathValue("node"), propsChange(b.PropsModify)
	if err := props.Check(props.Resource, change); err != nil {
		return nil, err // Before anything else of the request was done.
	}
	if err := s.setPart(q, b.DrbdTiebreaker, b.DrbdClient); err != nil {
		return nil, err
	}
	notices, err := s.Resources.ModifyResource(q.Context(), name, node, change)
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "resource %s on node %s changed", name, node), notices), nil
}

func (s *Server) deleteResource(q *request) (wire.RcList, error) {
	name, node := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.Delete(q.Context(), name, node, resources.KeepTieBreaker(q.flag("keep_tiebreaker")))
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(deleted(notices, "resource "+name+" on node "+node), notices), nil
}

func (s *Server) listVolumes(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	r, err := schema.FindResource(view, q.PathValue("resource"), q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return list[schema.Volume]{pageOf(p, slices.Values(r.Volumes)), e.Volume(&r)}, nil
}

func (s *Server) getVolume(q *request) (body, error) {
	nr, err := q.volumeNumber(errs.Volume)
	if err != nil {
		return nil, err
	}
	e, view := s.encoder()
	r, err := schema.FindResource(view, q.PathValue("resource"), q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	for _, v := range r.Volumes {
		if v.Number == model.VolumeNumber(nr) {
			return one[schema.Volume]{v, e.Volume(&r)}, nil
		}
	}
	return nil, errs.New(errs.NotFound, errs.Volume, "resource %s on node %s has no volume %d", q.PathValue("resource"), r.Node, nr)
}

func (s *Server) modifyVolume(q *request) (wire.RcList, error) {
	nr, err := q.volumeNumber(errs.Volume)
	if err != nil {
		return nil, err
	}
	var b wire.VolumeModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	name, node := q.PathValue("resource"), q.PathValue("node")
	notices, err := s.Resources.ModifyVolume(q.Context(), name, node, nr, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "volume %d of resource %s on node %s changed", nr, name, node), notices), nil
}
