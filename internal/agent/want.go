// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// reader turns assignments into what a host is asked for. It refuses what is not valid and
// what this host cannot serve, one item at a time.
type reader struct {
	providers            []model.Provider
	layers               []model.Layer
	unsupportedProviders map[model.Provider]string
	unsupportedLayers    map[model.Layer]string
}

func (r reader) pool(p *agentpb.Pool) (Pool, error) {
	name, err := model.ParsePoolName(p.GetName())
	if err != nil {
		return Pool{}, err
	}
	provider, err := model.ParseProvider(p.GetProvider())
	if err != nil {
		return Pool{}, err
	}
	if provider != model.Diskless && !slices.Contains(r.providers, provider) {
		return Pool{}, unsupported(errs.New(errs.Unsupported, errs.StoragePool, "this host cannot serve pool %s", name).
			About(errs.Provider), "provider "+string(provider), r.unsupportedProviders[provider])
	}
	return Pool{Name: string(name), Provider: provider, Props: model.PropsOf(p.GetProps())}, nil
}

// resource reads an assignment of set.
func (r reader) resource(a *agentpb.Resource, set *assigned) (Want, error) {
	name, err := model.ParseDefinitionName(a.GetName())
	if err != nil {
		return Want{}, err
	}
	layers, err := r.stack(name, a.GetLayers())
	if err != nil {
		return Want{}, err
	}
	w := Want{Resource: string(name), Destroy: a.GetDestroy(), Layers: layers}
	for _, v := range a.GetVolumes() {
		vw, err := r.volume(name, v, a.GetDestroy(), set)
		if err != nil {
			return Want{}, err
		}
		vw.Existing = !set.confirmed || set.madeIn(name.Key(), v)
		same := func(o VolumeWant) bool { return o.Number == vw.Number }
		if slices.ContainsFunc(w.Volumes, same) {
			return Want{}, errs.New(errs.Invalid, errs.Resource, "resource %s is assigned with volume %d twice", name, vw.Number)
		}
		w.Volumes = append(w.Volumes, vw)
	}
	return w, nil
}

func (r reader) stack(name model.DefinitionName, list []string) ([]model.Layer, error) {
	layers, err := model.ParseLayers(list)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		layers = []model.Layer{model.Storage}
	}
	for _, l := range layers {
		if !slices.Contains(r.layers, l) {
			return nil, unsupported(errs.New(errs.Unsupported, errs.Resource, "this host cannot serve resource %s", name).
				About(errs.LayerKind), "layer "+string(l), r.unsupportedLayers[l])
		}
	}
	return layers, nil
}

func (r reader) volume(name model.DefinitionName, v *agentpb.Volume, all bool, set *assigned) (VolumeWant, error) {
	w := VolumeWant{Number: v.GetNumber(), Destroy: v.GetDestroy(), Size: v.GetSize(), Filesystem: v.GetFilesystem()}
	if n := model.VolumeNumber(w.Number); n < 0 || n > model.MaxVolumeNumber {
		return w, errs.New(errs.Invalid, errs.Resource, "resource %s is assigned with volume number %d", name, n).
			About(errs.VolumeNumber).Because("numbers go from 0 to %d", model.MaxVolumeNumber)
	}
	if !all && !w.Destroy {
		if err := model.CheckVolumeSize(w.Size); err != nil {
			return w, err
		}
	}
	if v.GetPool() == "" {
		return w, nil
	}
	k := poolKey(v.GetPool())
	if set.pools[k] == nil {
		return w, errs.New(errs.Invalid, errs.StoragePool, "volume %d of resource %s lies in pool %s", w.Number, name, v.GetPool()).
			Because("the pool is not assigned to this node").About(errs.Pool)
	}
	p, err := r.pool(set.pools[k])
	if err != nil {
		return w, err
	}
	if p.Provider != model.Diskless {
		p.Identity = set.identities[k]
		w.Pool = &p
	}
	return w, nil
}

func unsupported(e *errs.Error, what, why string) error {
	if why == "" {
		return e.Because("it does not have %s", what)
	}
	return e.Because("it does not have %s: %s", what, why)
}

// laneOf names the lane that work on a resource is done in: one for each set of pools that
// resources lie in, so that a pool that hangs holds up nothing in others.
func laneOf(a *agentpb.Resource) string {
	var keys []string
	for _, v := range a.GetVolumes() {
		keys = append(keys, string(poolKey(v.GetPool())))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "+")
}

// poolsOf returns the pools that a resource has volumes in.
func poolsOf(a *agentpb.Resource) []model.PoolKey {
	var keys []model.PoolKey
	for _, v := range a.GetVolumes() {
		if k := poolKey(v.GetPool()); k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
