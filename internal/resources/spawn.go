// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewSpawn asks for a definition with volumes and replicas, made as a group says.
type NewSpawn struct {
	Name            string // may be empty when ExternalName is given
	ExternalName    string
	Sizes           []int64 // bytes, one for each volume
	Filter          model.Filter
	Partial         bool // any number of sizes is fine, whatever volume groups there are
	DefinitionsOnly bool
	PeerSlots       int32
	Props           map[string]string // of the definition
}

// Spawned is what a spawn made.
type Spawned struct {
	Definition schema.Definition
	Volumes    []schema.VolumeDefinition
	Placed     []Placement
	Notices    []errs.Notice
}

// Spawn makes a definition, its volumes and its replicas together, or nothing. It returns
// when the devices exist. When a host cannot make its part, everything is taken back and
// the error has the host's reason.
func (s *Resources) Spawn(ctx context.Context, group string, n NewSpawn) (Spawned, error) {
	sp, err := s.newSpawning(group, n)
	if err != nil {
		return Spawned{}, err
	}
	if err := sp.prepare(s.Store.Snapshot()); err != nil {
		return Spawned{}, err
	}
	var put []touched
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		put, err = sp.commit(tx)
		return err
	})
	if err != nil {
		return Spawned{}, err
	}
	ctx, cancel := s.settling(ctx)
	defer cancel()
	if failed := notReady("created", sp.made.Definition.Name, s.settle(ctx, rev, idsOf(put))); failed != nil {
		return Spawned{}, s.takeBackDefinition(context.WithoutCancel(ctx), failed, sp.made.Definition)
	}
	return sp.made, nil
}

// spawning is one spawn on its way.
type spawning struct {
	*Resources
	NewSpawn
	group string
	fresh schema.Definition // as the request says it
	seen  store.Revision    // of the group that place was made for
	place *placing          // nil: definitions only
	made  Spawned
	birth birth
}

func (s *Resources) newSpawning(group string, n NewSpawn) (*spawning, error) {
	d, err := s.Catalog.Parse(catalog.NewDefinition{
		Name: n.Name, ExternalName: n.ExternalName, Group: group, Props: n.Props, PeerSlots: n.PeerSlots,
	})
	if err != nil {
		return nil, err
	}
	for _, size := range n.Sizes {
		if err := model.CheckVolumeSize(size); err != nil {
			return nil, err
		}
	}
	if err := catalog.CheckFilter(errs.ResourceGroup, n.Filter); err != nil {
		return nil, err
	}
	return &spawning{Resources: s, NewSpawn: n, group: group, fresh: d, birth: s.birth()}, nil
}

// prepare plans on a view. What it finds is checked again by commit.
func (sp *spawning) prepare(r store.Reader) error {
	if _, err := sp.aim(r); err != nil || sp.place == nil {
		return err
	}
	return sp.plan(r, sp.place)
}

// aim decides what is to be placed, as a state says it.
func (sp *spawning) aim(r store.Reader) (schema.Group, error) {
	g, err := schema.FindGroup(r, sp.group)
	if err != nil {
		return g, err
	}
	sp.fresh.Group, sp.seen, sp.place = g.Name.Key(), schema.Groups.Revision(r, g.Name.Key()), nil
	if d, taken := schema.Definitions.Get(r, sp.fresh.Name.Key()); taken && sp.Name != "" {
		return g, errs.New(errs.Exists, errs.ResourceDefinition, "resource definition %s exists already", d.Name)
	}
	filter := sp.Filter.Over(g.Filter)
	if sp.DefinitionsOnly || filter.PlaceCount == nil || *filter.PlaceCount == 0 {
		return g, nil
	}
	filter.AdditionalPlaceCount = nil // there is nothing to add to
	layers, err := sp.stack(sp.fresh, nil, filter)
	if err != nil {
		return g, err
	}
	sp.place = &placing{
		definition: sp.fresh.Name.Key(), name: sp.fresh.Name, filter: filter, layers: layers, sizes: gross(layers, sp.Sizes), birth: sp.birth,
		levels: levelsOf(sp.fresh, g),
	}
	return g, nil
}

// gross is what volumes of given sizes take in a pool, under a stack.
func gross(layers []model.Layer, sizes []int64) []int64 {
	list := make([]int64, len(sizes))
	for i, size := range sizes {
		list[i] = model.Gross(layers, size)
	}
	return list
}

// commit writes the definition, its volumes and its replicas. The group is looked at again:
// when it is another than planned for, all is decided anew.
func (sp *spawning) commit(tx *store.Tx) ([]touched, error) {
	sp.made = Spawned{}
	g, err := schema.FindGroup(tx, sp.group)
	if err != nil {
		return nil, err
	}
	if schema.Groups.Revision(tx, g.Name.Key()) != sp.seen {
		if g, err = sp.aim(tx); err != nil {
			return nil, err
		}
	}
	d := sp.fresh
	if sp.place != nil {
		d.Layers = sp.place.layers
	} else if d.Layers, err = model.ParseLayers(sp.Filter.Over(g.Filter).Layers); err != nil {
		return nil, err
	}
	if d.PeerSlots == 0 {
		d.PeerSlots = g.PeerSlots
	}
	if d, err = catalog.AddDefinition(tx, d); err != nil {
		return nil, err
	}
	sp.made.Definition = d
	if err := sp.volumes(tx, g); err != nil {
		return nil, err
	}
	if sp.place == nil {
		sp.made.Notices = append(sp.made.Notices, errs.Notice{
			Kind: errs.NothingSpawned, Object: errs.ResourceGroup,
			Message: "no resource was spawned: only the definitions were asked for, or the group has no place count",
		})
		return nil, nil
	}
	sp.place.definition, sp.place.name = d.Name.Key(), d.Name
	if err := sp.confirm(tx, sp.place); err != nil {
		return nil, err
	}
	put, placed, err := sp.put(tx, d, sp.place)
	if err != nil {
		return nil, err
	}
	sp.made.Placed = placed
	added, notices, err := sp.settleVotes(tx, d.Name.Key(), sp.birth)
	sp.made.Notices = append(sp.made.Notices, notices...)
	return append(put, touches(added)...), err
}

// volumes adds a volume definition for each size, with what the group's volume group of that
// place says.
func (sp *spawning) volumes(tx *store.Tx, g schema.Group) error {
	groups := slices.Collect(schema.VolumeGroupsOf(tx, g.Name.Key()))
	switch {
	case len(groups) == 0 && !sp.Partial && len(sp.Sizes) > 0:
		sp.made.Notices = append(sp.made.Notices, errs.Notice{
			Kind: errs.PartialAssumed, Object: errs.ResourceGroup,
			Message: "resource group " + string(g.Name) + " has no volume groups, so any number of volumes is accepted",
		})
	case len(groups) != len(sp.Sizes) && !sp.Partial:
		return errs.New(errs.Invalid, errs.ResourceGroup, "resource group %s cannot be spawned with %s", g.Name, counted(len(sp.Sizes), "volume size")).
			About(errs.VolumeSizes).Because("it has %s", counted(len(groups), "volume group")).
			Fix("give one size for each volume group, or ask for a partial spawn")
	}
	for i, size := range sp.Sizes {
		n := catalog.NewVolume{Size: size, UUID: sp.birth.definition(i)}
		if i < len(groups) {
			nr := int32(groups[i].Number)
			n.Number, n.Props, n.Flags = &nr, groups[i].Props, groups[i].Flags
		}
		v, err := catalog.AddVolume(tx, &sp.made.Definition, n)
		if err != nil {
			return err
		}
		sp.made.Volumes = append(sp.made.Volumes, v)
	}
	return nil
}
