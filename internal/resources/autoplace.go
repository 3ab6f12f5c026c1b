// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// PlaceRequest asks for replicas of a definition, where the placer finds them best.
type PlaceRequest struct {
	Filter model.Filter // over that of the group
	Layers []string
}

// Placed is what a placement did.
type Placed struct {
	Definition schema.Definition
	Placed     []Placement
	Notices    []errs.Notice
}

// Autoplace adds as many replicas as are missing to what the request and the group ask for,
// all or none, and returns when their devices exist. That there are enough already is a
// notice, not an error.
func (s *Resources) Autoplace(ctx context.Context, definition string, q PlaceRequest) (Placed, error) {
	layers, err := model.ParseLayers(q.Layers)
	if err != nil {
		return Placed{}, err
	}
	if err := catalog.CheckFilter(errs.ResourceDefinition, q.Filter); err != nil {
		return Placed{}, err
	}
	return s.place(ctx, definition, q, layers, placeOptions{})
}

// placeOptions is what a placement may do beyond what a client can ask for.
type placeOptions struct {
	avoid  map[model.NodeKey]string                // nodes to leave out, and why
	before func(tx *store.Tx) error                // refuses, in the transaction, what is not wanted any more
	after  func(tx *store.Tx, put []touched) error // writes more in the same transaction
	job    bool                                    // it ends with its context, and leaves what it has begun to the next try
}

// place is Autoplace once its request is checked.
func (s *Resources) place(ctx context.Context, definition string, q PlaceRequest, layers []model.Layer, o placeOptions) (Placed, error) {
	p := &placing{birth: s.birth(), avoid: o.avoid}
	view := s.Store.Snapshot()
	if _, err := s.aim(view, definition, q, layers, p); err != nil {
		return Placed{}, err
	}
	if err := s.plan(view, p); err != nil {
		return Placed{}, err
	}
	var out Placed
	var put []touched
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		d, err := s.aim(tx, definition, q, layers, p)
		if err != nil {
			return err
		}
		if o.before != nil {
			if err := o.before(tx); err != nil {
				return err
			}
		}
		if err := s.confirm(tx, p); err != nil {
			return err
		}
		out, put = Placed{Definition: d}, nil
		if len(p.plan.Picks)+len(p.plan.DisklessOn) == 0 {
			return nil
		}
		out, put, err = s.carryOut(tx, d, p, o)
		return err
	})
	if err != nil {
		return Placed{}, err
	}
	if len(put) == 0 {
		out.Notices = append(out.Notices, alreadyDeployed(out.Definition.Name, p))
	}
	waiting := context.WithoutCancel(ctx)
	if o.job {
		waiting = ctx
	}
	settling, cancel := s.patient(waiting)
	defer cancel()
	failed := notReady("created", out.Definition.Name, s.settle(settling, rev, idsOf(put)))
	switch {
	case waiting.Err() != nil:
		return Placed{}, waiting.Err()
	case failed != nil:
		return Placed{}, s.takeBack(waiting, failed, out.Definition, put)
	}
	return out, nil
}

// carryOut writes what a confirmed plan says, and what it makes necessary.
func (s *Resources) carryOut(tx *store.Tx, d schema.Definition, p *placing, o placeOptions) (Placed, []touched, error) {
	if err := settleLayers(tx, &d, p.layers); err != nil {
		return Placed{}, nil, err
	}
	out := Placed{Definition: d}
	put, placed, err := s.put(tx, d, p)
	if err == nil && o.after != nil {
		err = o.after(tx, put)
	}
	if err != nil {
		return Placed{}, nil, err
	}
	added, notices, err := s.settleVotes(tx, p.definition, p.birth)
	out.Placed, out.Notices = placed, notices
	return out, append(put, touches(added)...), err
}

// aim fills in what is to be placed, as the state says it.
func (s *Resources) aim(r store.Reader, definition string, q PlaceRequest, layers []model.Layer, p *placing) (schema.Definition, error) {
	d, err := schema.FindDefinition(r, definition)
	if err != nil {
		return d, err
	}
	if d.Deleting {
		return d, errs.New(errs.Closing, errs.ResourceDefinition, "resource definition %s takes no new replicas", d.Name).
			Because("it is being deleted")
	}
	g, _ := schema.Groups.Get(r, d.Group)
	was := *p
	p.definition, p.name = d.Name.Key(), d.Name
	p.filter = q.Filter.Over(g.Filter)
	if p.layers, err = s.stack(d, layers, p.filter); err != nil {
		return d, err
	}
	p.sizes = sizesOf(r, p.definition, p.layers)
	p.levels = levelsOf(d, g)
	p.from = [2]store.Revision{schema.Definitions.Revision(r, p.definition), schema.Groups.Revision(r, d.Group)}
	if p.from != was.from || !slices.Equal(p.sizes, was.sizes) {
		p.basis = basis{} // what was planned is of the past
	}
	_, err = wanted(p.filter)
	return d, err
}

// sizesOf lists what the volumes of a definition that are not going take in a pool, under a
// stack.
func sizesOf(r store.Reader, d model.DefinitionKey, layers []model.Layer) []int64 {
	var sizes []int64
	for vd := range schema.VolumesOf(r, d) {
		if !vd.Deleting {
			sizes = append(sizes, model.Gross(layers, vd.Size))
		}
	}
	return sizes
}

// levelsOf is what a placement inherits properties from, beside the cluster, nodes and pools.
func levelsOf(d schema.Definition, g schema.Group) []props.Level {
	return []props.Level{{Scope: props.Definition, Props: d.Props}, {Scope: props.Group, Props: g.Props}}
}

func alreadyDeployed(name model.DefinitionName, p *placing) errs.Notice {
	return errs.Notice{
		Kind: errs.AlreadyDeployed, Object: errs.Resource,
		Message: fmt.Sprintf("resource %s has %s already; %d asked for", name, counted(p.plan.Have, "replica"), p.plan.Want),
	}
}
