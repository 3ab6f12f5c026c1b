// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
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
	layers := []model.Layer{model.Storage} // all that snapshots without a replica need
	if len(a.GetVolumes()) > 0 {
		if layers, err = r.stack(name, a.GetLayers()); err != nil {
			return Want{}, err
		}
	}
	w := Want{Resource: string(name), Destroy: a.GetDestroy(), Inactive: a.GetInactive(), Layers: layers, DRBD: a.GetDrbd()}
	for _, v := range a.GetVolumes() {
		vw, err := r.volume(name, v, a.GetDestroy(), set)
		if err != nil {
			return Want{}, err
		}
		vw.Existing = !set.confirmed || set.madeIn(name.Key(), v)
		if v.GetSource() != nil && !vw.Existing {
			// What goes needs no source; it is named for what a copy may have left there.
			if vw.Source, err = r.source(v.GetSource(), set); err != nil && !vw.Destroy && !w.Destroy {
				return Want{}, err
			}
		}
		same := func(o VolumeWant) bool { return o.Number == vw.Number }
		if slices.ContainsFunc(w.Volumes, same) {
			return Want{}, errs.New(errs.Invalid, errs.Resource, "resource %s is assigned with volume %d twice", name, vw.Number)
		}
		w.Volumes = append(w.Volumes, vw)
	}
	if w.Snapshots, err = r.snapshots(name, a.GetSnapshots(), set); err != nil {
		return Want{}, err
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
	w := VolumeWant{
		Number: v.GetNumber(), Destroy: v.GetDestroy(), Size: v.GetSize(), Filesystem: v.GetFilesystem(),
		RollBack: v.GetRollBack(), Stretch: v.GetGrowFilesystem(), Luks: v.GetLuks(), DRBD: v.GetDrbd(),
	}
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
	p, err := r.poolIn(set, v.GetPool(), "volume %d of resource %s", w.Number, name)
	if err != nil {
		return w, err
	}
	if p.Provider != model.Diskless {
		w.Pool = &p
	}
	return w, nil
}

// poolIn reads the assigned pool that something lies in.
func (r reader) poolIn(set *assigned, name, what string, args ...any) (Pool, error) {
	k := poolKey(name)
	if set.pools[k] == nil {
		return Pool{}, errs.New(errs.Invalid, errs.StoragePool, what+" lies in pool %s", append(args, name)...).
			Because("the pool is not assigned to this node").About(errs.Pool)
	}
	p, err := r.pool(set.pools[k])
	p.Identity = set.identities[k]
	return p, err
}

// source finds where the source of a volume lies. It is assigned as well.
func (r reader) source(s *agentpb.Source, set *assigned) (*Source, error) {
	of := set.resources[resourceKey(s.GetResource())]
	where, found := "", false
	if s.GetSnapshot() == "" {
		for _, v := range of.GetVolumes() {
			if v.GetNumber() == s.GetVolume() {
				where, found = v.GetPool(), v.GetPool() != ""
			}
		}
	}
	for _, snapshot := range of.GetSnapshots() {
		for _, v := range snapshot.GetVolumes() {
			if snapshotKey(snapshot.GetName()) == snapshotKey(s.GetSnapshot()) && v.GetNumber() == s.GetVolume() {
				where, found = v.GetPool(), true
			}
		}
	}
	text := fmt.Sprintf("volume %d of %s", s.GetVolume(), s.GetResource())
	if s.GetSnapshot() != "" {
		text = fmt.Sprintf("snapshot %s of %s", s.GetSnapshot(), text)
	}
	if !found {
		return nil, errs.New(errs.NotFound, errs.Snapshot, "a volume is to be made from %s", text).Because("this node does not have it")
	}
	p, err := r.poolIn(set, where, "%s", text)
	if err != nil {
		return nil, err
	}
	return &Source{Resource: s.GetResource(), Volume: s.GetVolume(), Snapshot: s.GetSnapshot(), Pool: &p}, nil
}

// snapshots reads the snapshots of a resource.
func (r reader) snapshots(of model.DefinitionName, list []*agentpb.Snapshot, set *assigned) ([]SnapshotWant, error) {
	var wants []SnapshotWant
	for _, s := range list {
		name, err := model.ParseSnapshotName(s.GetName())
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(wants, func(o SnapshotWant) bool { return snapshotKey(o.Name) == name.Key() }) {
			return nil, errs.New(errs.Invalid, errs.Snapshot, "snapshot %s of resource %s is assigned twice", name, of)
		}
		w := SnapshotWant{Name: string(name), Destroy: s.GetDestroy(), Existing: s.GetTaken()}
		for _, v := range s.GetVolumes() {
			p, err := r.poolIn(set, v.GetPool(), "snapshot %s of volume %d of resource %s", name, v.GetNumber(), of)
			if err != nil {
				return nil, err
			}
			w.Parts = append(w.Parts, SnapshotPart{Number: v.GetNumber(), Pool: p, Encrypted: v.GetEncrypted()})
		}
		wants = append(wants, w)
	}
	return wants, nil
}

// unconfirmed is what may be done of w before a controller has confirmed it: nothing is destroyed,
// rolled back, or taken. It returns whether that leaves anything out.
func (w Want) unconfirmed() (rest Want, partly bool) {
	rest = w
	rest.Volumes, rest.Snapshots = nil, nil
	for _, v := range w.Volumes {
		if v.Destroy {
			partly = true
			continue
		}
		partly = partly || v.RollBack != nil
		v.RollBack = nil
		rest.Volumes = append(rest.Volumes, v)
	}
	for _, s := range w.Snapshots {
		if s.Destroy || !s.Existing {
			partly = true
			continue
		}
		rest.Snapshots = append(rest.Snapshots, s)
	}
	return rest, partly
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
	for _, k := range poolsOf(a) {
		keys = append(keys, string(k))
	}
	slices.Sort(keys)
	return strings.Join(keys, "+")
}

// poolsOf returns the pools that a resource has volumes or snapshots in, each once.
func poolsOf(a *agentpb.Resource) []model.PoolKey {
	var keys []model.PoolKey
	add := func(name string) {
		if k := poolKey(name); k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, v := range a.GetVolumes() {
		add(v.GetPool())
	}
	for _, s := range a.GetSnapshots() {
		for _, v := range s.GetVolumes() {
			add(v.GetPool())
		}
	}
	return keys
}
