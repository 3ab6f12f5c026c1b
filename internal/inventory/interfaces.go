// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// CreateInterface adds a network interface to a node. The first one of a node is its active
// one; a later one becomes it when it asks to.
func (v *Inventory) CreateInterface(ctx context.Context, node string, n NewInterface) error {
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		row, err := schema.FindNode(tx, node)
		if err != nil {
			return err
		}
		iface, err := v.parseInterface(row.Name.Key(), n)
		if err != nil {
			return err
		}
		iface.Active = false
		if err := schema.NetInterfaces.Insert(tx, iface); err != nil {
			return err
		}
		return activate(tx, iface, n.Active)
	})
	return err
}

// InterfaceChange is an edit of a network interface. Nil fields stay.
type InterfaceChange struct {
	Address    *string
	Port       *int32
	Encryption *string
	Active     *bool
}

// ModifyInterface changes a network interface. It becomes the active one when asked; the
// active one stays so until another is made active.
func (v *Inventory) ModifyInterface(ctx context.Context, node, name string, c InterfaceChange) error {
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		row, err := schema.FindNode(tx, node)
		if err != nil {
			return err
		}
		old, err := schema.FindInterface(tx, row.Name.Key(), name)
		if err != nil {
			return err
		}
		want := NewInterface{
			Name: string(old.Name), Address: old.Address, Port: old.Port, Encryption: old.Encryption,
		}
		set(&want.Address, c.Address)
		set(&want.Port, c.Port)
		set(&want.Encryption, c.Encryption)
		iface, err := v.parseInterface(row.Name.Key(), want)
		if err != nil {
			return err
		}
		iface.UUID, iface.Active = old.UUID, old.Active
		if err := schema.NetInterfaces.Update(tx, iface); err != nil {
			return err
		}
		return activate(tx, iface, c.Active != nil && *c.Active)
	})
	return err
}

// DeleteInterface removes a network interface of a node; never the active one while there
// are others, and never the last.
func (v *Inventory) DeleteInterface(ctx context.Context, node, name string) error {
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		row, err := schema.FindNode(tx, node)
		if err != nil {
			return err
		}
		iface, err := schema.FindInterface(tx, row.Name.Key(), name)
		if err != nil {
			return err
		}
		if iface.Active {
			return errs.New(errs.Protected, errs.NetInterface, "interface %s of node %s cannot be deleted", iface.Name, row.Name).
				Because("it is the active interface").Fix("make another interface active first")
		}
		return schema.NetInterfaces.Delete(tx, model.InterfaceID{Node: iface.Node, Interface: iface.Name.Key()})
	})
	return err
}

// activate keeps exactly one interface of a node active: iface when it is wanted, or when
// no other is.
func activate(tx *store.Tx, iface schema.NetInterface, wanted bool) error {
	if iface.Active {
		return nil
	}
	for other := range schema.InterfacesOf(tx, iface.Node) {
		if !other.Active {
			continue
		}
		if !wanted {
			return nil
		}
		other.Active = false
		if err := schema.NetInterfaces.Update(tx, other); err != nil {
			return err
		}
		break
	}
	iface.Active = true
	return schema.NetInterfaces.Update(tx, iface)
}

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}
