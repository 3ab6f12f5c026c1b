// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Update runs one use case as one transaction and returns when it is durable. What the store
// refuses comes back as an *errs.Error about the objects involved, so that no use case
// checks by itself what the store checks for all.
func Update(ctx context.Context, st *store.Store, fn func(*store.Tx) error) (store.Revision, error) {
	rev, err := st.Update(ctx, fn)
	return rev, Refusal(err)
}

// noun is how an error calls the rows of a collection.
type noun struct {
	object errs.Object
	text   string
}

// nounOf names the rows of a collection.
func nounOf(collection string) noun {
	switch collection {
	case Settings.Name():
		return noun{errs.Controller, "the settings"}
	case Nodes.Name():
		return noun{errs.Node, "node"}
	case NetInterfaces.Name():
		return noun{errs.NetInterface, "network interface"}
	case Pools.Name():
		return noun{errs.StoragePool, "storage pool"}
	case Groups.Name():
		return noun{errs.ResourceGroup, "resource group"}
	case VolumeGroups.Name():
		return noun{errs.VolumeGroup, "volume group"}
	case Definitions.Name():
		return noun{errs.ResourceDefinition, "resource definition"}
	case VolumeDefinitions.Name():
		return noun{errs.VolumeDefinition, "volume definition"}
	case Resources.Name():
		return noun{errs.Resource, "resource"}
	case Snapshots.Name():
		return noun{errs.Snapshot, "snapshot"}
	case SnapshotReplicas.Name():
		return noun{errs.Snapshot, "snapshot on a node"}
	case NodeConnections.Name():
		return noun{errs.NodeConnection, "node connection"}
	case ResourceConnections.Name():
		return noun{errs.ResourceConnection, "resource connection"}
	case KeyValues.Name():
		return noun{errs.KeyValueStore, "key-value store"}
	default:
		return noun{errs.NoObject, collection}
	}
}

// Refusal turns an error of the store into one that a user can read. An *errs.Error and nil
// pass through.
func Refusal(err error) error {
	if err == nil || errs.As(err) != nil {
		return err
	}
	var (
		exists   *store.ExistsError
		absent   *store.NotFoundError
		parent   *store.ParentError
		children *store.ChildrenError
		unique   *store.UniqueError
		limit    *store.LimitError
		aside    *store.AsideError
	)
	switch {
	case errors.As(err, &exists):
		n := nounOf(exists.Collection)
		return errs.New(errs.Exists, n.object, "%s %s exists already", n.text, exists.Key).Wrap(err)
	case errors.As(err, &absent):
		n := nounOf(absent.Collection)
		return errs.New(errs.NotFound, n.object, "%s %s does not exist", n.text, absent.Key).Wrap(err)
	case errors.As(err, &parent):
		return parentRefusal(parent).Wrap(err)
	case errors.As(err, &children):
		return childrenRefusal(children).Wrap(err)
	case errors.As(err, &unique):
		return uniqueRefusal(unique).Wrap(err)
	case errors.As(err, &limit):
		return errs.New(errs.Invalid, errs.NoObject, "the request is too large for one transaction").About(errs.Body).
			Because("%v", limit).Fix("split it into smaller requests").Wrap(err)
	case errors.As(err, &aside):
		n := nounOf(aside.Aside.Collection)
		return errs.New(errs.Exists, n.object, "%s %s is in the database but cannot be read", n.text, aside.Aside.Key).
			Because("%s", aside.Aside.Reason).Fix("see holdfast db check").Wrap(err)
	default:
		return engineRefusal(err)
	}
}

func parentRefusal(p *store.ParentError) *errs.Error {
	n, child := nounOf(p.Parent), nounOf(p.Collection)
	if p.Closing {
		return errs.New(errs.Closing, n.object, "%s %s takes no new %s", n.text, p.ParentKey, child.text).
			Because("it is being deleted").Fix("wait until it is gone, then create it again")
	}
	return errs.New(errs.NotFound, n.object, "%s %s does not exist", n.text, p.ParentKey)
}

func childrenRefusal(c *store.ChildrenError) *errs.Error {
	n, child := nounOf(c.Collection), nounOf(c.Child)
	first := strings.Join(c.First, ", ")
	if c.Count > len(c.First) {
		first += ", ..."
	}
	e := errs.New(errs.HasChildren, n.object, "%s %s cannot be deleted", n.text, c.Key).
		Because("%d of its %ss still exist: %s", c.Count, child.text, first)
	return e.Fix("delete or move them first")
}

func uniqueRefusal(u *store.UniqueError) *errs.Error {
	n := nounOf(u.Collection)
	kind, attr := errs.Invalid, errs.NoAttr
	switch u.Index {
	case minorIndex:
		attr = errs.Minor
	case portIndex:
		attr = errs.Port
	case nodeIDIndex:
		attr = errs.NodeID
	case externalNameIndex:
		kind, attr = errs.Exists, errs.ExternalName
	}
	return errs.New(kind, n.object, "%s %s cannot have the %s %s", n.text, u.Key, u.Index, u.Value).About(attr).
		Because("%s has it", u.Holder).Fix("choose another, or leave the choice to the controller")
}

func engineRefusal(err error) *errs.Error {
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrReadOnly):
		return errs.New(errs.Unavailable, errs.NoObject, "nothing was changed: the database cannot be written").
			Because("%v", err).Fix("free space on the controller's disk; reads go on, and writes do by themselves afterwards").Wrap(err)
	case errors.Is(err, store.ErrFenced):
		return errs.New(errs.Unavailable, errs.NoObject, "nothing was changed: another controller has taken over").
			Because("%v", err).Fix("send the request to the leading controller").Wrap(err)
	case errors.Is(err, store.ErrAborted), errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrClosed):
		return errs.New(errs.Unavailable, errs.NoObject, "nothing was changed: the database does not take writes now").
			Because("%v", err).Fix("try again").Wrap(err)
	case errors.Is(err, store.ErrUnknown), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errs.New(errs.TimedOut, errs.NoObject, "whether the change was made is not known").
			Because("%v", err).Fix("look at the object before trying again").Wrap(err)
	default:
		return errs.New(errs.Internal, errs.NoObject, "the change was not made").Because("%v", err).Wrap(err)
	}
}
