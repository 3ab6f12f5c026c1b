// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewDefinition is a resource definition to create.
type NewDefinition struct {
	Name         string // may be empty when ExternalName is given: a name is made from it
	ExternalName string
	Group        string // empty: the default group
	Props        map[string]string
	Layers       []string
	PeerSlots    int32
	Port         int32
	Secret       string
	Transport    string
}

// CreateDefinition creates a resource definition in a group.
func (c *Catalog) CreateDefinition(ctx context.Context, n NewDefinition) (schema.Definition, error) {
	d, err := c.Parse(n)
	if err != nil {
		return d, err
	}
	_, err = schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		if n.Group != "" {
			if _, err := schema.FindGroup(tx, n.Group); err != nil {
				return err
			}
		}
		d, err = AddDefinition(tx, d)
		return err
	})
	return d, err
}

// Parse checks everything of a definition that can be checked without looking at others. Its
// Name stays empty when it is to be made from the external name.
func (c *Catalog) Parse(n NewDefinition) (schema.Definition, error) {
	d := schema.Definition{
		ExternalName: n.ExternalName, UUID: c.NewID(), Created: c.Now(),
		PeerSlots: n.PeerSlots, Port: n.Port, Secret: n.Secret, Transport: n.Transport,
		Group: schema.DefaultGroup.Key(),
	}
	var err error
	if n.Name != "" || n.ExternalName == "" {
		if d.Name, err = model.ParseDefinitionName(n.Name); err != nil {
			return d, err
		}
	}
	if n.Group != "" {
		d.Group = model.GroupName(n.Group).Key()
	}
	if d.Layers, err = model.ParseLayers(n.Layers); err != nil {
		return d, err
	}
	if d.Props, err = props.New(props.Definition, n.Props); err != nil {
		return d, err
	}
	if err := CheckPeerSlots(errs.ResourceDefinition, n.PeerSlots); err != nil {
		return d, err
	}
	if err := checkPort(n.Port); err != nil {
		return d, err
	}
	if d.Secret == "" {
		d.Secret = rand.Text()
	}
	return d, nil
}

// checkPort refuses a TCP port that does not exist. 0 means not said.
func checkPort(port int32) error {
	if port >= 0 && port <= 65535 {
		return nil
	}
	return errs.New(errs.Invalid, errs.ResourceDefinition, "the TCP port %d is not possible", port).About(errs.Port).
		Fix("use a port from 1 to 65535")
}

// AddDefinition inserts a definition in a transaction: the one door for all of them. The
// store refuses it when its group does not exist.
func AddDefinition(tx *store.Tx, d schema.Definition) (schema.Definition, error) {
	if d.Name == "" {
		d.Name = nameFor(tx, d.ExternalName)
	}
	return d, schema.Definitions.Insert(tx, d)
}

// nameFor makes a free definition name from an external one, as LINSTOR does: what a name
// cannot hold becomes '_'.
func nameFor(tx *store.Tx, external string) model.DefinitionName {
	const room = 40 // leaves place for a number
	base := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return r
		}
		return '_'
	}, external)
	if _, err := model.ParseDefinitionName(base); err != nil {
		base = "R_" + base
	}
	if len(base) > room {
		base = base[:room]
	}
	for n := 0; ; n++ {
		name := model.DefinitionName(base)
		if n > 0 {
			name = model.DefinitionName(base + "_" + strconv.Itoa(n))
		}
		if _, taken := schema.Definitions.Get(tx, name.Key()); !taken {
			return name
		}
	}
}

// DefinitionChange is an edit of a resource definition. Nil fields stay.
type DefinitionChange struct {
	Props     model.PropsChange
	Group     *string // moves the definition
	Layers    []string
	Port      *int32
	PeerSlots *int32
}

// ModifyDefinition changes a resource definition. Moving it to another group moves no
// replica; the group's properties apply from then on, and when that group wants more replicas
// than there are, a job begins that places them. The layers can be changed only while there
// are no replicas.
func (c *Catalog) ModifyDefinition(ctx context.Context, name string, ch DefinitionChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Definition, &ch.Props); err != nil {
		return nil, err
	}
	layers, err := model.ParseLayers(ch.Layers)
	if err != nil {
		return nil, err
	}
	var notices []errs.Notice
	id, now := c.NewID(), c.Now()
	_, err = schema.Update(ctx, c.Store, func(tx *store.Tx) error {
		d, err := schema.FindDefinition(tx, name)
		if err != nil {
			return err
		}
		from := d.Group
		if err := change(tx, &d, ch, layers); err != nil {
			return err
		}
		notices = schema.PropNotices(d.Props, ch.Props, errs.ResourceDefinition)
		d.Props = d.Props.Change(ch.Props)
		if err := schema.Definitions.Update(tx, d); err != nil || from == d.Group || !lacksReplicas(tx, d) {
			return err
		}
		notices = append(notices, errs.Notice{
			Kind: errs.GoesOn, Object: errs.ResourceDefinition,
			Message: fmt.Sprintf("what resource definition %s lacks in resource group %s is being placed", d.Name, schema.NameOfGroup(tx, d.Group)),
		})
		_, err = schema.BeginJob(tx, schema.JobTarget{Kind: schema.CompleteDefinition, Object: string(d.Name.Key())}, schema.JobSpec{}, id, now)
		return err
	})
	return notices, err
}

// lacksReplicas tells whether a definition is deployed, but not as often as its group wants.
func lacksReplicas(r store.Reader, d schema.Definition) bool {
	g, _ := schema.Groups.Get(r, d.Group)
	var have int32
	for x := range schema.ResourcesOf(r, d.Name.Key()) {
		if x.Kind == schema.Diskful && !x.Deleting {
			have++
		}
	}
	return have > 0 && !d.Deleting && g.Filter.PlaceCount != nil && have < *g.Filter.PlaceCount
}

func change(tx *store.Tx, d *schema.Definition, ch DefinitionChange, layers []model.Layer) error {
	if ch.Group != nil {
		g, err := schema.FindGroup(tx, cmp.Or(*ch.Group, string(schema.DefaultGroup)))
		if err != nil {
			return err
		}
		d.Group = g.Name.Key()
	}
	if ch.PeerSlots != nil {
		d.PeerSlots = *ch.PeerSlots
		if err := CheckPeerSlots(errs.ResourceDefinition, d.PeerSlots); err != nil {
			return err
		}
	}
	if ch.Port != nil {
		d.Port = *ch.Port
		if err := checkPort(d.Port); err != nil {
			return err
		}
	}
	if layers == nil || slices.Equal(layers, d.Layers) {
		return nil
	}
	for r := range schema.ResourcesOf(tx, d.Name.Key()) {
		return errs.New(errs.Invalid, errs.ResourceDefinition, "the layers of %s cannot be changed", d.Name).About(errs.LayerStack).
			Because("it has a replica on node %s", schema.NameOfNode(tx, r.Node)).Fix("delete its replicas first")
	}
	d.Layers = layers
	return nil
}
