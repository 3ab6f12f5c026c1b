// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Availability is how a definition shall be usable on a node.
type Availability struct {
	Diskful bool     // with the data on the node itself, not over the network alone
	Layers  []string // none: as the definition says
	Ports   []int32  // of a new replica; none: chosen
}

// MakeAvailable makes a definition usable on a node, and returns when its device is there. A
// replica that is there stays, also one that was being deleted. Where there is none, one
// without a disk is made when the data can come over the network, and otherwise one with a
// disk, in the pool of the node that the group's rules find best.
func (s *Resources) MakeAvailable(ctx context.Context, definition, node string, a Availability) (Created, error) {
	layers, err := model.ParseLayers(a.Layers)
	if err != nil {
		return Created{}, err
	}
	// What is to be done depends on what is there. When others change that at the same time, it
	// is looked at again.
	const tries = 3
	for try := 1; ; try++ {
		now, err := s.presence(definition, node, layers)
		if err != nil {
			return Created{}, err
		}
		made, err := s.provide(ctx, now, a, layers)
		if err == nil || try == tries {
			return made, err
		}
		if again, looked := s.presence(definition, node, layers); looked != nil || again.rev == now.rev && again.there == now.there {
			return made, err
		}
	}
}

// presence is what a definition has on a node.
type presence struct {
	definition schema.Definition
	layers     []model.Layer // that it has, or will have
	node       schema.Node
	there      bool
	replica    schema.Resource
	rev        store.Revision // of the replica
	elsewhere  bool           // another node has a disk of it
}

func (s *Resources) presence(definition, node string, layers []model.Layer) (presence, error) {
	view := s.Store.Snapshot()
	var p presence
	var err error
	if p.definition, err = schema.FindDefinition(view, definition); err != nil {
		return p, err
	}
	if p.node, err = schema.FindNode(view, node); err != nil {
		return p, err
	}
	g, _ := schema.Groups.Get(view, p.definition.Group)
	if p.layers, err = s.stack(p.definition, layers, g.Filter); err != nil {
		return p, err
	}
	id := model.ResourceID{Definition: p.definition.Name.Key(), Node: p.node.Name.Key()}
	p.replica, p.there = schema.Resources.Get(view, id)
	p.rev = schema.Resources.Revision(view, id)
	for x := range schema.ResourcesOf(view, id.Definition) {
		p.elsewhere = p.elsewhere || x.Node != id.Node && x.Kind == schema.Diskful && !x.Deleting
	}
	return p, nil
}

// provide does what a presence needs to be as it is asked for.
func (s *Resources) provide(ctx context.Context, p presence, a Availability, layers []model.Layer) (Created, error) {
	name, node := string(p.definition.Name), string(p.node.Name)
	switch {
	case p.there && p.replica.Deleting:
		return s.Create(ctx, name, []NewResource{{Node: node, Kind: p.replica.Kind, Layers: a.Layers}})
	case p.there && a.Diskful && p.replica.Kind != schema.Diskful:
		return s.provideDisk(ctx, p, a, layers)
	case p.there && p.replica.Inactive:
		return s.provideActive(ctx, p)
	case p.there:
		return s.keep(ctx, p)
	case !a.Diskful && p.elsewhere && model.Replicates(p.layers):
		return s.Create(ctx, name, []NewResource{{Node: node, Kind: schema.Client, Layers: a.Layers, Ports: a.Ports}})
	default:
		return s.provideDisk(ctx, p, a, layers)
	}
}

// provideDisk places a replica with a disk on the node. One that is there keeps its ports.
func (s *Resources) provideDisk(ctx context.Context, p presence, a Availability, layers []model.Layer) (Created, error) {
	if why := whyLeaving(p.node); why != "" {
		return Created{}, errs.New(errs.Closing, errs.Node, "node %s takes no new replica of %s", p.node.Name, p.definition.Name).
			Because("%s", why)
	}
	if err := s.connected(p.node); err != nil {
		return Created{}, err
	}
	one, never := int32(1), false
	q := PlaceRequest{Filter: model.Filter{
		Nodes: []string{string(p.node.Name)}, AdditionalPlaceCount: &one, DisklessOnRemaining: &never,
	}}
	name := string(p.definition.Name)
	if p.there || len(a.Ports) == 0 || !model.Replicates(p.layers) {
		placed, err := s.place(ctx, name, q, layers, placeOptions{})
		return Created(placed), err
	}
	pool, err := s.choice(name, q, layers)
	if err != nil {
		return Created{}, err
	}
	return s.Create(ctx, name, []NewResource{{
		Node: string(p.node.Name), Kind: schema.Diskful, Props: map[string]string{"StorPoolName": string(pool)}, Layers: a.Layers, Ports: a.Ports,
	}})
}

// choice returns the pool that a placement of one replica would put it into now.
func (s *Resources) choice(definition string, q PlaceRequest, layers []model.Layer) (model.PoolName, error) {
	p := &placing{birth: s.birth()}
	view := s.Store.Snapshot()
	if _, err := s.aim(view, definition, q, layers, p); err != nil {
		return "", err
	}
	if err := s.plan(view, p); err != nil {
		return "", err
	}
	pick := p.plan.Picks[0]
	return schema.NameOfPool(view, model.PoolID{Node: pick.Node, Pool: pick.Pool}), nil
}

// keep answers for a replica that is there. A tie-breaker becomes one that is used. The device
// of one that is still on its way is waited for.
func (s *Resources) keep(ctx context.Context, p presence) (Created, error) {
	out := Created{Definition: p.definition}
	rev := p.rev
	if p.replica.Kind == schema.TieBreaker {
		if err := s.SetPart(ctx, string(p.definition.Name), string(p.node.Name), schema.Client); err != nil {
			return out, err
		}
		rev = schema.Resources.Revision(s.Store.Snapshot(), p.replica.ID())
	}
	ctx, cancel := s.settling(ctx)
	defer cancel()
	for _, o := range s.settle(ctx, rev, []model.ResourceID{p.replica.ID()}) {
		if o.offline() {
			out.Notices = append(out.Notices, errs.Notice{
				Kind: errs.NodeNotConnected, Object: errs.Resource,
				Message: fmt.Sprintf("node %s is not connected: whether resource %s can be used there now is not known", o.node, p.definition.Name),
			})
			continue
		}
		if failed := o.notReady("made available", p.definition.Name); failed != nil {
			return out, failed.Fix("the node tries again by itself; look at the state of the resource")
		}
	}
	out.Notices = append(out.Notices, errs.Notice{
		Kind: errs.ReplicaExists, Object: errs.Resource,
		Message: fmt.Sprintf("resource %s is on node %s already, as %s", p.definition.Name, p.node.Name, kindText(p.replica.Kind)),
	})
	return out, nil
}

// SetPart makes a replica without a disk a client or a tie-breaker. One with a disk keeps it:
// that takes moving data.
func (s *Resources) SetPart(ctx context.Context, definition, node string, part schema.ResourceKind) error {
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		r, err := schema.FindResource(tx, definition, node)
		if err != nil {
			return err
		}
		if r.Kind == part {
			return nil
		}
		if r.Kind == schema.Diskful || part == schema.Diskful {
			return errs.New(errs.Unsupported, errs.Resource, "resource %s on node %s cannot become %s", definition, node, kindText(part)).
				About(errs.Flag).Because("it is %s", kindText(r.Kind)).Fix("give it a disk or take it away first")
		}
		r.Kind = part
		return schema.Resources.Update(tx, r)
	})
	return err
}
