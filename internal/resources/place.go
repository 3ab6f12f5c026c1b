// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Placement is where one replica was put.
type Placement struct {
	Node model.NodeName
	Pool model.PoolName
	Kind schema.ResourceKind
}

// placing is one placement of a definition on its way into the database.
type placing struct {
	definition model.DefinitionKey
	name       model.DefinitionName // for people
	filter     model.Filter
	layers     []model.Layer
	sizes      []int64       // bytes that the volumes take in a pool
	levels     []props.Level // of the definition and its group
	avoid      map[model.NodeKey]string
	birth      birth
	from       [2]store.Revision // of the definition and the group that it was made of

	plan  placer.Plan
	basis basis // of the plan
}

// basis is what a plan rests on, as far as it can be compared without planning again: when
// it is the same on another state, the plan is right there too, if its picks still fit.
type basis struct {
	settings store.Revision
	rules    []store.Revision // of the nodes that replicas lie on or were put on, of their pools and of what those inherit from
	existing []placer.Existing
	promised []int64 // in the picked pools
}

// basisOf looks at what the plan of p rests on.
func (p *placing) basisOf(r store.Reader) basis {
	b := basis{settings: schema.Settings.Revision(r, schema.SettingsKey), existing: existing(r, p.definition)}
	for _, e := range b.existing {
		b.rules = append(b.rules, schema.Nodes.Revision(r, e.Node))
	}
	for _, n := range p.plan.DisklessOn {
		b.rules = append(b.rules, schema.Nodes.Revision(r, n))
	}
	for _, pick := range p.plan.Picks {
		id := model.PoolID{Node: pick.Node, Pool: pick.Pool}
		b.rules = append(b.rules, schema.Nodes.Revision(r, pick.Node), schema.Pools.Revision(r, id), schema.PoolDefinitions.Revision(r, pick.Pool))
		b.promised = append(b.promised, schema.Promised.Of(r, id))
	}
	return b
}

// sameRules tells whether two bases differ in promised space at most.
func (b basis) sameRules(o basis) bool {
	return b.settings == o.settings && slices.Equal(b.rules, o.rules) && slices.Equal(b.existing, o.existing)
}

// plan finds places on a state. Nothing is reserved by it.
func (s *Resources) plan(r store.Reader, p *placing) error {
	f := s.field(r, p.levels)
	for i, n := range f.nodes {
		if why, avoided := p.avoid[n.Name.Key()]; avoided && n.Leaving == "" {
			f.nodes[i].Leaving = why
		}
	}
	plan, err := placer.Place(placer.Request{
		Filter: p.filter, Layers: p.layers, Sizes: p.sizes, Existing: existing(r, p.definition), Others: others(r),
		MixProviders: mixes(r, p.levels), Weights: weights(r),
	}, f.nodes, f.pools)
	if err != nil {
		return err
	}
	p.plan = plan
	p.basis = p.basisOf(r)
	if len(plan.Picks) == 0 {
		return nil
	}
	return checkReplication(p.name, p.layers, plan.Have+len(plan.Picks))
}

// smallField is the most pools among which it is worth while to plan again in a transaction
// only to spread replicas better. It takes some hundred microseconds there.
const smallField = 64

// confirm checks, on the state that the transaction builds on, what the plan rests on, and
// plans again when it does not hold any more. Where planning is cheap, it does so also when
// the picked pools have promised more since, so that calls at the same time spread.
func (s *Resources) confirm(tx *store.Tx, p *placing) error {
	now := p.basisOf(tx)
	apart := len(p.filter.NotPlaceWith) > 0 || p.filter.NotPlaceWithRegex != nil // what is on the nodes counts
	if apart || !now.sameRules(p.basis) {
		return s.plan(tx, p)
	}
	if slices.Equal(now.promised, p.basis.promised) {
		return nil
	}
	if schema.Pools.Len(tx) <= smallField {
		return s.plan(tx, p)
	}
	levels := append(cluster(tx), p.levels...)
	for _, pick := range p.plan.Picks {
		row, ok := schema.Pools.Get(tx, model.PoolID{Node: pick.Node, Pool: pick.Pool})
		if !ok {
			return s.plan(tx, p)
		}
		if fits, _ := placer.Fits(s.pool(tx, row, levels), p.sizes); !fits {
			return s.plan(tx, p)
		}
	}
	return nil
}

// mixes tells whether replicas may lie in block pools of different kinds.
func mixes(r store.Reader, levels []props.Level) bool {
	return props.Bool("AllowMixingStoragePoolDriver", append(cluster(r), levels...)...)
}

// checkReplication refuses several replicas that nothing would keep equal. The name is empty
// for one that does not exist yet.
func checkReplication(name model.DefinitionName, layers []model.Layer, replicas int) error {
	if replicas <= 1 || model.Replicates(layers) {
		return nil
	}
	what := "a resource"
	if name != "" {
		what = string(name)
	}
	return errs.New(errs.Invalid, errs.ResourceDefinition, "%d replicas of %s are not possible", replicas, what).About(errs.LayerStack).
		Because("no layer of the stack %s replicates, so they would not hold the same data", layerText(layers)).
		Fix("ask for one replica (place count 1), or for a stack with %s on nodes that can run it", model.DRBD)
}

func layerText(layers []model.Layer) string {
	parts := make([]string, len(layers))
	for i, l := range layers {
		parts[i] = string(l)
	}
	return strings.Join(parts, ",")
}

// stack decides the layers of a definition: those it has, else what the request says, else
// what the filter says, else DRBD over storage where an online node can run DRBD, else
// storage alone.
func (s *Resources) stack(d schema.Definition, request []model.Layer, filter model.Filter) ([]model.Layer, error) {
	if len(d.Layers) > 0 {
		if len(request) > 0 && !slices.Equal(request, d.Layers) {
			return nil, errs.New(errs.Invalid, errs.ResourceDefinition, "resource definition %s cannot have the layers %s", d.Name, layerText(request)).
				About(errs.LayerStack).Because("it has the layers %s", layerText(d.Layers))
		}
		return d.Layers, nil
	}
	if len(request) > 0 {
		return request, nil
	}
	if layers, err := model.ParseLayers(filter.Layers); err != nil || len(layers) > 0 {
		return layers, err
	}
	for _, n := range s.Observed.Nodes() {
		if n.Connection == observed.Online && slices.Contains(n.Layers, model.DRBD) {
			return []model.Layer{model.DRBD, model.Storage}, nil
		}
	}
	return []model.Layer{model.Storage}, nil
}

// settleLayers writes the decided stack to the definition, once.
func settleLayers(tx *store.Tx, d *schema.Definition, layers []model.Layer) error {
	if slices.Equal(d.Layers, layers) {
		return nil
	}
	d.Layers = layers
	return schema.Definitions.Update(tx, *d)
}

// touched is a replica that a call has added, or that was there and was given another part.
type touched struct {
	id  model.ResourceID
	was bool // it was there; what it was cannot be had back
}

// touches are replicas that a call has added.
func touches(ids []model.ResourceID) []touched {
	list := make([]touched, len(ids))
	for i, id := range ids {
		list[i] = touched{id: id}
	}
	return list
}

func idsOf(list []touched) []model.ResourceID {
	ids := make([]model.ResourceID, len(list))
	for i, t := range list {
		ids[i] = t.id
	}
	return ids
}

// put adds the picks of a confirmed plan, and returns what it added or changed.
func (s *Resources) put(tx *store.Tx, d schema.Definition, p *placing) ([]touched, []Placement, error) {
	var list []touched
	var placed []Placement
	put := func(r replica) error {
		id := model.ResourceID{Definition: d.Name.Key(), Node: r.node}
		_, was := schema.Resources.Get(tx, id)
		list = append(list, touched{id, was})
		placed = append(placed, placementOf(tx, r))
		if was {
			return s.convert(tx, d, r)
		}
		return s.add(tx, d, r)
	}
	for _, pick := range p.plan.Picks {
		r := replica{node: pick.Node, pool: pick.Pool, kind: schema.Diskful, birth: p.birth}
		if pool, ok := schema.Pools.Get(tx, model.PoolID{Node: pick.Node, Pool: pick.Pool}); ok && pool.Provider == model.Diskless {
			r.kind = schema.Client
		}
		if err := put(r); err != nil {
			return nil, nil, err
		}
	}
	if !model.Replicates(p.layers) {
		return list, placed, nil
	}
	for _, n := range p.plan.DisklessOn {
		r := replica{node: n, pool: schema.DisklessPool.Key(), kind: schema.Client, birth: p.birth}
		if err := put(r); err != nil {
			return nil, nil, err
		}
	}
	return list, placed, nil
}

func placementOf(r store.Reader, x replica) Placement {
	return Placement{
		Node: schema.NameOfNode(r, x.node), Pool: schema.NameOfPool(r, model.PoolID{Node: x.node, Pool: x.pool}), Kind: x.kind,
	}
}
