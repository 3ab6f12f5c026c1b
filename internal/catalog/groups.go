// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewGroup is a resource group to create.
type NewGroup struct {
	Name        string
	Description string
	Props       map[string]string
	Filter      model.Filter
	PeerSlots   int32
}

// CreateGroup creates a resource group.
func (c *Catalog) CreateGroup(ctx context.Context, n NewGroup) (schema.Group, error) {
	name, err := model.ParseGroupName(n.Name)
	if err != nil {
		return schema.Group{}, err
	}
	g := schema.Group{
		Name: name, UUID: c.NewID(), Description: n.Description,
		Filter: n.Filter, PeerSlots: n.PeerSlots,
	}
	if g.Props, err = props.New(props.Group, n.Props); err != nil {
		return g, err
	}
	if err := checkGroup(g); err != nil {
		return g, err
	}
	_, err = schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		return schema.Groups.Insert(tx, g)
	})
	return g, err
}

// GroupChange is an edit of a resource group. What is nil stays; a present empty list of the
// filter clears it.
type GroupChange struct {
	Description *string
	Props       model.PropsChange
	Filter      *model.Filter
	PeerSlots   *int32
}

// ModifyGroup changes a resource group. Properties take effect on all definitions of the group
// by inheritance, at once. Of the filter one thing does: a raised place count begins a job
// that brings the definitions which are deployed to it. Everything else of the filter holds
// for what is placed from then on; Adjust makes up for the rest. Replicas that exist stay where
// they are, also when the place count is lowered.
func (c *Catalog) ModifyGroup(ctx context.Context, name string, ch GroupChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Group, &ch.Props); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	id, now := c.NewID(), c.Now()
	_, err := schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		g, err := schema.FindGroup(tx, name)
		if err != nil {
			return err
		}
		before := g.Filter.PlaceCount
		if ch.Description != nil {
			g.Description = *ch.Description
		}
		if ch.PeerSlots != nil {
			g.PeerSlots = *ch.PeerSlots
		}
		if ch.Filter != nil {
			g.Filter = ch.Filter.Over(g.Filter)
		}
		if err := checkGroup(g); err != nil {
			return err
		}
		notices = schema.PropNotices(g.Props, ch.Props, errs.ResourceGroup)
		g.Props = g.Props.Change(ch.Props)
		if err := schema.Groups.Update(tx, g); err != nil {
			return err
		}
		if !raised(before, g.Filter.PlaceCount) || !deployed(tx, g.Name.Key()) {
			return nil
		}
		notices = append(notices, errs.Notice{
			Kind: errs.GoesOn, Object: errs.ResourceGroup,
			Message: fmt.Sprintf("what the definitions of resource group %s lack to %d replicas is being placed", g.Name, *g.Filter.PlaceCount),
		})
		_, err = schema.BeginJob(tx, schema.JobTarget{Kind: schema.CompleteGroup, Object: string(g.Name.Key())}, schema.JobSpec{}, id, now)
		return err
	})
	return notices, err
}

// raised tells whether a place count asks for more than the one before.
func raised(before, after *int32) bool {
	return after != nil && *after > 0 && (before == nil || *after > *before)
}

// deployed tells whether a definition of the group has a replica.
func deployed(r store.Reader, group model.GroupKey) bool {
	for d := range schema.DefinitionsByGroup.Get(r, group) {
		for range schema.ResourcesOf(r, d.Name.Key()) {
			return true
		}
	}
	return false
}

// DeleteGroup deletes a resource group with its volume groups. It is refused while a
// definition names the group.
func (c *Catalog) DeleteGroup(ctx context.Context, name string) error {
	now := c.Now()
	_, err := schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		g, err := schema.FindGroup(tx, name)
		if err != nil {
			return err
		}
		key := g.Name.Key()
		if key == schema.DefaultGroup.Key() {
			return errs.New(errs.Protected, errs.ResourceGroup, "resource group %s cannot be deleted", g.Name).
				Because("definitions without a group belong to it")
		}
		for _, v := range slices.Collect(schema.VolumeGroupsOf(tx, key)) {
			if err := schema.VolumeGroups.Delete(tx, model.VolumeGroupID{Group: key, Number: v.Number}); err != nil {
				return err
			}
		}
		for _, kind := range []schema.JobKind{schema.AdjustGroup, schema.CompleteGroup} {
			if err := schema.CancelJob(tx, schema.JobTarget{Kind: kind, Object: string(key)}, now); err != nil {
				return err
			}
		}
		return schema.Groups.Delete(tx, key)
	})
	return err
}

// checkGroup refuses what no placement could ever use.
func checkGroup(g schema.Group) error {
	if err := CheckFilter(errs.ResourceGroup, g.Filter); err != nil {
		return err
	}
	return CheckPeerSlots(errs.ResourceGroup, g.PeerSlots)
}

// CheckFilter refuses values of a filter that no placement could use. Names of nodes and
// pools may be unknown: they can be created later.
func CheckFilter(object errs.Object, f model.Filter) error {
	if n := f.PlaceCount; n != nil && *n < 0 {
		return errs.New(errs.Invalid, object, "the place count %d is not possible", *n).About(errs.PlaceCount).
			Because("it is negative").Fix("give the number of replicas, 1 or more")
	}
	if n := f.AdditionalPlaceCount; n != nil && *n < 0 {
		return errs.New(errs.Invalid, object, "the additional place count %d is not possible", *n).About(errs.PlaceCount).
			Because("it is negative").Fix("delete replicas to have fewer")
	}
	if _, err := model.ParseLayers(f.Layers); err != nil {
		return err
	}
	for _, p := range f.Providers {
		if _, err := model.ParseProvider(p); err != nil {
			return err
		}
	}
	if f.NotPlaceWithRegex != nil {
		if _, err := regexp.Compile(*f.NotPlaceWithRegex); err != nil {
			return errs.New(errs.Invalid, object, "the expression %q of not-place-with-regex is not valid", *f.NotPlaceWithRegex).
				About(errs.Body).Because("%v", err)
		}
	}
	return nil
}

// maxPeerSlots is the highest number of peers that DRBD 9 reserves metadata for (DRBD
// manual: 31).
const maxPeerSlots int32 = 31

// CheckPeerSlots refuses a number of peer slots that DRBD cannot have. 0 means not said.
func CheckPeerSlots(object errs.Object, n int32) error {
	if n >= 0 && n <= maxPeerSlots {
		return nil
	}
	return errs.New(errs.Invalid, object, "%d peer slots are not possible", n).About(errs.PeerSlots).
		Fix("give 1 to %d", maxPeerSlots)
}
