// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// DeleteDefinition deletes a definition with its volumes and replicas, and returns when the
// hosts that are connected said that nothing is left there. It is refused while a snapshot
// exists or a device is in use. What lies on hosts that are not connected is deleted when
// they are back; until then the definition stays visible as being deleted, and a notice says so.
func (s *Resources) DeleteDefinition(ctx context.Context, name string) ([]errs.Notice, error) {
	view := s.Store.Snapshot()
	d, err := schema.FindDefinition(view, name)
	if err != nil {
		return nil, err
	}
	if err := s.Unused(ctx, d.Name, slices.Collect(schema.ResourcesOf(view, d.Name.Key()))); err != nil {
		return nil, err
	}
	var ids []model.ResourceID
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		now, err := schema.FindDefinition(tx, name)
		if err != nil {
			return err
		}
		ids, err = s.closeDefinition(tx, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.awaitGone(ctx, d.Name, rev, ids)
}

// closeDefinition marks a definition and all its replicas for deletion; one without
// replicas goes at once. It is refused while a snapshot exists that
// stays. It returns the replicas that have to go.
func (s *Resources) closeDefinition(tx *store.Tx, d schema.Definition) ([]model.ResourceID, error) {
	going, err := withoutSnapshots(tx, d)
	if err != nil {
		return nil, err
	}
	replicas := slices.Collect(schema.ResourcesOf(tx, d.Name.Key()))
	if len(replicas) == 0 && !going {
		return nil, s.dropDefinition(tx, d.Name.Key())
	}
	ids := make([]model.ResourceID, len(replicas))
	for i, r := range replicas {
		ids[i] = r.ID()
		r.Deleting, r.DeletingFrom = true, s.askedFrom(r.DeletingFrom)
		// Written even when it was marked before: a repeated delete makes the node try at once.
		if err := schema.Resources.Update(tx, r); err != nil {
			return nil, err
		}
	}
	d.Deleting, d.DeletingFrom = true, s.askedFrom(d.DeletingFrom)
	return ids, schema.Definitions.Update(tx, d)
}

// withoutSnapshots refuses a definition that has snapshots which stay, and tells whether it has
// some that go.
func withoutSnapshots(tx *store.Tx, d schema.Definition) (going bool, err error) {
	var names []string
	cloning := false
	for sn := range schema.SnapshotsOf(tx, d.Name.Key()) {
		switch {
		case sn.Deleting:
			going = true
		case sn.Hidden:
			cloning = true
		default:
			names = append(names, string(sn.Name))
		}
	}
	e := errs.New(errs.HasChildren, errs.ResourceDefinition, "resource definition %s cannot be deleted", d.Name)
	switch {
	case len(names) > 0:
		return going, e.Because("it has %s: %s", counted(len(names), "snapshot"), strings.Join(names, ", ")).Fix("delete its snapshots first")
	case cloning:
		return going, e.Because("a clone is being made from it").Fix("wait until the clone is complete, or delete that first")
	}
	return going, nil
}

// dropDefinition removes the rows of a definition without replicas.
func (s *Resources) dropDefinition(tx *store.Tx, key model.DefinitionKey) error {
	for _, v := range slices.Collect(schema.VolumesOf(tx, key)) {
		if err := schema.VolumeDefinitions.Delete(tx, model.VolumeDefinitionID{Definition: key, Number: v.Number}); err != nil {
			return err
		}
	}
	return schema.Definitions.Delete(tx, key)
}

// Delete deletes the replica of a definition on a node, and returns when the node said that
// nothing is left there, or at once with a notice when it is not connected. It is refused
// while the device is in use, and while others use the data over the network and this is the
// last replica that has it.
//
// A replica without a disk that is needed as the tie-breaker stays as that, and a tie-breaker
// stays if it is to be kept; deleting one tells that no other is wanted. What the remaining
// replicas need for quorum is settled in the same transaction.
func (s *Resources) Delete(ctx context.Context, definition, node string, keep ...KeepTieBreaker) ([]errs.Notice, error) {
	view := s.Store.Snapshot()
	r, err := schema.FindResource(view, definition, node)
	if err != nil {
		return nil, err
	}
	d, _ := schema.Definitions.Get(view, r.Definition)
	if err := s.Unused(ctx, d.Name, []schema.Resource{r}); err != nil {
		return nil, err
	}
	b := s.birth()
	var waits []model.ResourceID
	var notices []errs.Notice
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		waits, notices = nil, nil
		r, err := schema.FindResource(tx, definition, node)
		if err != nil {
			return err
		}
		if err := lastWithData(tx, d.Name, r); err != nil {
			return err
		}
		if s.takesOver(tx, r, len(keep) > 0 && bool(keep[0])) {
			notice, err := takeOver(tx, r)
			notices = append(notices, notice)
			return err
		}
		stays, err := s.markDeleting(tx, r)
		if err != nil {
			return err
		}
		if stays {
			waits = append(waits, r.ID())
		}
		if r.Kind == schema.TieBreaker {
			if err := withoutTieBreaker(tx, r.Definition); err != nil {
				return err
			}
		}
		_, notices, err = s.settleVotes(tx, r.Definition, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	more, err := s.awaitGone(ctx, d.Name, rev, waits)
	return append(notices, more...), err
}

// KeepTieBreaker says that a replica that is the tie-breaker stays, if one is needed.
type KeepTieBreaker bool

// markDeleting marks a replica for deletion, also one that is marked: its node then tries at
// once. It tells whether the row stays until the host has confirmed. It does not where
// another node has the same data in the same space: there is nothing to destroy.
func (s *Resources) markDeleting(tx *store.Tx, r schema.Resource) (stays bool, err error) {
	if sharesData(tx, r) {
		return false, s.dropReplica(tx, r)
	}
	if err := dropConnections(tx, r.ID()); err != nil {
		return false, err
	}
	r.Deleting, r.DeletingFrom = true, s.askedFrom(r.DeletingFrom)
	return true, schema.Resources.Update(tx, r)
}

// sharesData tells whether another replica that stays has its data in the same shared space,
// and so is the same data.
func sharesData(r store.Reader, x schema.Resource) bool {
	space := spaceOf(r, x)
	if space == "" {
		return false
	}
	for o := range schema.ResourcesOf(r, x.Definition) {
		if o.Node != x.Node && !o.Deleting && spaceOf(r, o) == space {
			return true
		}
	}
	return false
}

// lastWithData refuses to take the data from under replicas that use it over the network.
func lastWithData(tx *store.Tx, name model.DefinitionName, r schema.Resource) error {
	if r.Kind != schema.Diskful {
		return nil
	}
	diskful, diskless := 0, 0
	for o := range schema.ResourcesOf(tx, r.Definition) {
		switch {
		case o.Node == r.Node || o.Deleting:
		case o.Kind == schema.Diskful:
			diskful++
		case o.Kind == schema.Client:
			diskless++
		}
	}
	if diskful > 0 || diskless == 0 {
		return nil
	}
	return errs.New(errs.InUse, errs.Resource, "resource %s on node %s cannot be deleted", name, schema.NameOfNode(tx, r.Node)).
		Because("it is the last replica with data, and %s without a disk may use it", counted(diskless, "replica")).
		Fix("delete those first, or delete the resource definition")
}

// dropConnections removes what was set for the connections of a replica that goes.
func dropConnections(tx *store.Tx, id model.ResourceID) error {
	for _, c := range slices.Collect(schema.ResourceConnections.From(tx, model.ResourceConnectionID{Definition: id.Definition})) {
		if c.Definition != id.Definition {
			break
		}
		if c.Pair.A != id.Node && c.Pair.B != id.Node {
			continue
		}
		key := model.ResourceConnectionID{Definition: c.Definition, Pair: c.Pair}
		if err := schema.ResourceConnections.Delete(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// Unused asks the connected nodes whether anyone uses the devices, and refuses with the
// users' names. It is asked before an intent is committed. Nodes that are not connected cannot be asked; their agents look themselves
// before they touch anything.
func (s *Resources) Unused(ctx context.Context, name model.DefinitionName, replicas []schema.Resource) error {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	refusals := make([]error, len(replicas))
	var wg sync.WaitGroup
	for i, r := range replicas {
		if s.Observed.Node(r.Node).Connection == observed.Offline {
			continue
		}
		wg.Go(func() { refusals[i] = s.unusedOn(ctx, name, r) })
	}
	wg.Wait()
	for _, err := range refusals {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Resources) unusedOn(ctx context.Context, name model.DefinitionName, r schema.Resource) error {
	node := schema.NameOfNode(s.Store.Snapshot(), r.Node)
	holders, err := s.Hosts.Holders(ctx, r.Node, name)
	switch {
	case errs.Is(err, errs.NotConnected), errs.Is(err, errs.HostFailed) && s.unheard(r.ID()):
		return nil
	case err != nil:
		return errs.New(errs.HostFailed, errs.Resource, "resource %s was not touched", name).
			Because("whether it is in use on node %s could not be learned: %v", node, err).Fix("try again").Wrap(err)
	case len(holders) > 0:
		return inUse(name, node, strings.Join(holders, "; "))
	}
	return nil
}

// unheard tells whether a node that is online has never spoken of a replica: it is so new that
// the agent may not have heard of it yet, and so it has no users.
func (s *Resources) unheard(id model.ResourceID) bool {
	_, told := s.Observed.Resource(id)
	return !told && s.Observed.Node(id.Node).Connection == observed.Online
}

func inUse(name model.DefinitionName, node model.NodeName, holders string) error {
	return errs.New(errs.InUse, errs.Resource, "resource %s was not touched: it is in use on node %s", name, node).
		Because("%s", holders).Fix("unmount or close it there, then try again")
}

// awaitGone waits until the nodes said that nothing is left of replicas marked for deletion.
func (s *Resources) awaitGone(ctx context.Context, name model.DefinitionName, rev store.Revision, ids []model.ResourceID) ([]errs.Notice, error) {
	ctx, cancel := s.settling(ctx)
	defer cancel()
	var notices []errs.Notice
	for _, o := range s.settle(ctx, rev, ids) {
		switch {
		case isGone(o):
		case o.offline():
			notices = append(notices, errs.Notice{
				Kind: errs.NodeNotConnected, Object: errs.Resource,
				Message: fmt.Sprintf("node %s is not connected: resource %s is deleted there when it is back", o.node, name),
			})
		default:
			return notices, stillThere(name, o)
		}
	}
	return notices, nil
}

// isGone tells whether nothing is left of a replica. One whose row went without a word of
// this call's own is gone as well: another call saw to it.
func isGone(o outcome) bool {
	return o.err == nil && o.status.Phase == observed.Destroyed || errors.Is(o.err, observed.ErrForgotten)
}

// stillThere is the error of a deletion that goes on without its caller.
func stillThere(name model.DefinitionName, o outcome) error {
	e := o.notReady("deleted", name)
	if e == nil {
		e = errs.New(errs.HostFailed, errs.Resource, "resource %s could not be deleted on node %s", name, o.node).
			Because("the node reported it as %s", o.status.Phase)
	}
	return e.Fix("the node tries again by itself; repeat the delete to make it try at once")
}
