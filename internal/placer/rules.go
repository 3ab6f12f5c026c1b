// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// disklessType is the one kind of diskless replica that Holdfast places.
const disklessType = "DRBD_DISKLESS"

// rules is a filter made ready to be asked about nodes and pools.
type rules struct {
	diskless  bool
	layers    []model.Layer
	providers []model.Provider
	nodes     map[model.NodeKey]bool // nil: all
	pools     map[model.PoolKey]bool // nil: all
	apart     map[model.DefinitionKey]bool
	apartFrom *regexp.Regexp
	needed    []pair   // Values that nodes must have.
	banned    []pair   // Values that nodes must not have.
	common    []string // Properties that nodes must have with one value, not yet decided which.
	limits    []limit
}

// pair is a property with a value.
type pair struct{ key, value string }

func (p pair) String() string { return p.key + "=" + p.value }

// limit says how many replicas may lie on nodes with the same value of a property. Nodes without the property are not limited.
type limit struct {
	key  string
	most int
	fill bool           // A value that is used is to be filled before the next one is begun.
	used map[string]int // By existing replicas.
}

// compile reads the filter. The properties are those of the nodes whose replicas count.
func compile(req *Request, existing []model.Props) (*rules, error) {
	f := &req.Filter
	r := &rules{
		nodes: keySet(f.Nodes, func(s string) model.NodeKey { return model.NodeName(s).Key() }),
		apart: keySet(f.NotPlaceWith, func(s string) model.DefinitionKey { return model.DefinitionName(s).Key() }),
	}
	pools := f.Pools
	if f.DisklessType != nil && *f.DisklessType != "" {
		if !strings.EqualFold(*f.DisklessType, disklessType) {
			return nil, errs.New(errs.Unsupported, errs.Resource, "replicas of the diskless type %q cannot be placed", *f.DisklessType).
				Fix("use %s", disklessType)
		}
		r.diskless, pools = true, f.DisklessPools
	}
	r.pools = keySet(pools, func(s string) model.PoolKey { return model.PoolName(s).Key() })
	for _, read := range []func(*Request) error{r.readLayers, r.readProviders, r.readRegex, r.readDifferent} {
		if err := read(req); err != nil {
			return nil, err
		}
	}
	if err := r.readSame(f.ReplicasOnSame, existing); err != nil {
		return nil, err
	}
	for i := range r.limits {
		for _, props := range existing {
			if value, ok := props.Get(r.limits[i].key); ok {
				r.limits[i].used[value]++
			}
		}
	}
	return r, nil
}

// keySet is nil for an empty list: an empty list in a filter excludes nothing.
func keySet[K comparable](names []string, key func(string) K) map[K]bool {
	if len(names) == 0 {
		return nil
	}
	set := make(map[K]bool, len(names))
	for _, name := range names {
		set[key(name)] = true
	}
	return set
}

func (r *rules) readLayers(req *Request) error {
	r.layers = req.Layers
	if len(r.layers) == 0 {
		layers, err := model.ParseLayers(req.Filter.Layers)
		if err != nil {
			return err
		}
		r.layers = layers
	}
	if r.diskless {
		r.layers = []model.Layer{model.DRBD}
	}
	return nil
}

func (r *rules) readProviders(req *Request) error {
	if r.diskless {
		return nil
	}
	for _, name := range req.Filter.Providers {
		provider, err := model.ParseProvider(name)
		if err != nil {
			return err
		}
		r.providers = append(r.providers, provider)
	}
	return nil
}

// readRegex reads what a definition's name must not match anywhere, in any case.
func (r *rules) readRegex(req *Request) error {
	text := req.Filter.NotPlaceWithRegex
	if text == nil || *text == "" {
		return nil
	}
	re, err := regexp.Compile("(?i:" + *text + ")")
	if err != nil {
		return errs.New(errs.Invalid, errs.Resource, "the expression %q of resources not to place with is not valid", *text).
			About(errs.Body).Because("%s", err).Fix("use RE2 syntax, which has no look-around").Wrap(err)
	}
	r.apartFrom = re
	return nil
}

func (r *rules) readDifferent(req *Request) error {
	limits := map[string]limit{}
	for _, rule := range req.Filter.ReplicasOnDifferent {
		key, value, valued := strings.Cut(rule, "=")
		switch {
		case key == "":
			return badRule("different", rule)
		case valued:
			r.banned = append(r.banned, pair{key, value})
		default:
			limits[key] = limit{key: key, most: 1, used: map[string]int{}}
		}
	}
	for key, most := range req.Filter.XReplicasOnDifferent {
		if key == "" || most < 1 {
			return errs.New(errs.Invalid, errs.Resource, "at most %d replicas on nodes of the same %q is not a possible rule", most, key).
				About(errs.Body).Fix("name a property and allow at least 1")
		}
		if _, stricter := limits[key]; !stricter {
			limits[key] = limit{key: key, most: int(most), fill: most > 1, used: map[string]int{}}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		r.limits = append(r.limits, limits[key])
	}
	return nil
}

// readSame needs the nodes of existing replicas: their value decides a property that has no value in the rule.
func (r *rules) readSame(same []string, existing []model.Props) error {
	for _, rule := range same {
		key, value, valued := strings.Cut(rule, "=")
		if key == "" {
			return badRule("same", rule)
		}
		if valued {
			r.needed = append(r.needed, pair{key, value})
			continue
		}
		values := map[string]bool{}
		for _, props := range existing {
			if value, ok := props.Get(key); ok {
				values[value] = true
			}
		}
		switch sorted := slices.Sorted(maps.Keys(values)); len(sorted) {
		case 0:
			r.common = append(r.common, key)
		case 1:
			r.needed = append(r.needed, pair{key, sorted[0]})
		default:
			return errs.New(errs.NotEnough, errs.Resource, "replicas on nodes of the same %s are not possible", key).
				Because("existing replicas lie on nodes with %s", strings.Join(sorted, ", ")).
				Fix("say which value with %s=VALUE, or change the property of the nodes", key)
		}
	}
	return nil
}

func badRule(which, rule string) error {
	return errs.New(errs.Invalid, errs.Resource, "the rule %q for replicas on %s nodes names no property", rule, which).
		About(errs.Body).Fix("write it as %s", fmt.Sprintf("%q or %q", "Aux/key", "Aux/key=value"))
}
