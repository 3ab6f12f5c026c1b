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
	filter     model.Filter
	layers     []model.Layer
	sizes      []int64 // bytes of the volumes
	plan       placer.Plan
	base       []placer.Existing // what the plan was made for
	birth      birth
	levels     []props.Level // of the definition and its group
}

// plan finds places on a state. Nothing is reserved by it.
func (s *Resources) plan(r store.Reader, p *placing) error {
	f := s.field(r, p.levels)
	p.base = existing(r, p.definition)
	plan, err := placer.Place(placer.Request{
		Filter: p.filter, Layers: p.layers, Sizes: p.sizes, Existing: p.base, Others: others(r),
		MixProviders: mixes(r, p.levels), Weights: weights(r),
	}, f.nodes, f.pools)
	if err != nil {
		return err
	}
	p.plan = plan
	return checkReplication(p.definition, p.layers, plan.Have+len(plan.Picks))
}

// confirm checks, on the state that the transaction builds on, what the plan rests on, and
// plans again when it does not hold any more.
func (s *Resources) confirm(tx *store.Tx, p *placing) error {
	if !slices.Equal(p.base, existing(tx, p.definition)) {
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
	for _, pick := range p.plan.Picks {
		if n, ok := schema.Nodes.Get(tx, pick.Node); !ok || n.Deleting {
			return s.plan(tx, p)
		}
	}
	return nil
}

// mixes tells whether replicas may lie in block pools of different kinds.
func mixes(r store.Reader, levels []props.Level) bool {
	return props.Bool("AllowMixingStoragePoolDriver", append(cluster(r), levels...)...)
}

// checkReplication refuses several replicas that nothing would keep equal.
func checkReplication(name model.DefinitionKey, layers []model.Layer, replicas int) error {
	if replicas <= 1 || model.Replicates(layers) {
		return nil
	}
	return errs.New(errs.Invalid, errs.ResourceDefinition, "%d replicas of %s are not possible", replicas, name).About(errs.LayerStack).
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

// put adds the picks of a confirmed plan, and returns the ids of what it added or changed.
func (s *Resources) put(tx *store.Tx, d schema.Definition, p *placing) ([]model.ResourceID, []Placement, error) {
	var ids []model.ResourceID
	var placed []Placement
	note := func(r replica) {
		ids = append(ids, model.ResourceID{Definition: p.definition, Node: r.node})
		placed = append(placed, placementOf(tx, r))
	}
	for _, pick := range p.plan.Picks {
		r := replica{node: pick.Node, pool: pick.Pool, kind: schema.Diskful, birth: p.birth}
		put := s.add
		if pick.Convert {
			put = s.convert
		}
		if err := put(tx, d, r); err != nil {
			return nil, nil, err
		}
		note(r)
	}
	if !model.Replicates(p.layers) {
		return ids, placed, nil
	}
	for _, n := range p.plan.DisklessOn {
		r := replica{node: n, pool: schema.DisklessPool.Key(), kind: schema.Client, birth: p.birth}
		if err := s.convert(tx, d, r); err != nil {
			return nil, nil, err
		}
		note(r)
	}
	return ids, placed, nil
}

func placementOf(r store.Reader, x replica) Placement {
	n, _ := schema.Nodes.Get(r, x.node)
	p, _ := schema.Pools.Get(r, model.PoolID{Node: x.node, Pool: x.pool})
	return Placement{Node: n.Name, Pool: p.Name, Kind: x.kind}
}
