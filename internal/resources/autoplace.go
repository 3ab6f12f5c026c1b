// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"time"

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
	p := &placing{birth: s.birth()}
	view := s.Store.Snapshot()
	if _, err := s.aim(view, definition, q, layers, p); err != nil {
		return Placed{}, err
	}
	if err := s.plan(view, p); err != nil {
		return Placed{}, err
	}
	var out Placed
	var ids []model.ResourceID
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		d, err := s.aim(tx, definition, q, layers, p)
		if err != nil {
			return err
		}
		if err := s.confirm(tx, p); err != nil {
			return err
		}
		out, ids = Placed{}, nil
		if len(p.plan.Picks)+len(p.plan.DisklessOn) > 0 {
			if err := settleLayers(tx, &d, p.layers); err != nil {
				return err
			}
			ids, out.Placed, err = s.put(tx, d, p)
		}
		out.Definition = d
		return err
	})
	if err != nil {
		return Placed{}, err
	}
	if len(p.plan.Picks) == 0 {
		out.Notices = append(out.Notices, alreadyDeployed(out.Definition.Name, p))
	}
	ctx, cancel := s.settling(ctx)
	defer cancel()
	if failed := notReady("created", out.Definition.Name, s.settle(ctx, rev, ids)); failed != nil {
		return Placed{}, s.takeBack(ctx, failed, out.Definition, ids)
	}
	return out, nil
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
	p.definition = d.Name.Key()
	p.filter = q.Filter.Over(g.Filter)
	p.sizes = nil
	p.levels = levelsOf(d, g)
	for vd := range schema.VolumesOf(r, p.definition) {
		if !vd.Deleting {
			p.sizes = append(p.sizes, vd.Size)
		}
	}
	if _, err := wanted(p.filter); err != nil {
		return d, err
	}
	p.layers, err = s.stack(d, layers, p.filter)
	return d, err
}

// levelsOf is what a placement inherits properties from, beside the cluster, nodes and pools.
func levelsOf(d schema.Definition, g schema.Group) []props.Level {
	return []props.Level{{Scope: props.Definition, Props: d.Props}, {Scope: props.Group, Props: g.Props}}
}

func alreadyDeployed(name model.DefinitionName, p *placing) errs.Notice {
	return errs.Notice{
		Kind: errs.AlreadyDeployed, Object: errs.Resource,
		Message: fmt.Sprintf("resource %s has %d replicas already; %d were asked for", name, p.plan.Have, p.plan.Want),
	}
}

// takeBack marks what a call added for deletion again, waits for the hosts that are there,
// and returns why the call failed. With no ids the whole definition goes.
func (s *Resources) takeBack(ctx context.Context, why *errs.Error, d schema.Definition, ids []model.ResourceID) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var gone []model.ResourceID
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		gone = nil
		now, ok := schema.Definitions.Get(tx, d.Name.Key())
		if !ok || now.UUID != d.UUID {
			return nil
		}
		var err error
		if ids == nil {
			gone, err = closeDefinition(tx, now)
			return err
		}
		for _, id := range ids {
			if r, ok := schema.Resources.Get(tx, id); ok && !r.Deleting {
				r.Deleting = true
				gone = append(gone, id)
				if err := schema.Resources.Update(tx, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return why.Detail(fmt.Sprintf("%s\nwhat was begun could not be taken back: %v", why.Details, err))
	}
	for _, o := range s.settle(ctx, rev, gone) {
		if o.err != nil || !isGone(o) {
			return why.Detail(fmt.Sprintf("%s\nwhat was begun on node %s is taken back when that node can do it", why.Details, o.id.Node))
		}
	}
	return why
}
