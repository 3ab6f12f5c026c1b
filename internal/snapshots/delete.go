// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Modify changes properties of a snapshot.
func (s *Snapshots) Modify(ctx context.Context, definition, name string, c model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.Snapshot, &c); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		sn, err := schema.FindSnapshot(tx, definition, name)
		if err != nil {
			return err
		}
		notices = schema.PropNotices(sn.Props, c, errs.Snapshot)
		sn.Props = sn.Props.Change(c)
		return schema.Snapshots.Update(tx, sn)
	})
	return notices, err
}

// Delete deletes a snapshot, on the nodes named or, without any, on all. It returns when the
// connected nodes said that nothing is left there. Notices say what goes later: on a node that
// is not connected, and what something is being made from. A snapshot that loses its last part
// goes as a whole.
func (s *Snapshots) Delete(ctx context.Context, definition, name string, nodes []string) ([]errs.Notice, error) {
	d := deletion{Snapshots: s, definition: definition, name: name, nodes: nodes}
	rev, err := schema.Update(ctx, s.Store, d.commit)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.patient(ctx)
	defer cancel()
	return d.notices, d.await(ctx, rev)
}

// deletion is one call of Delete on its way.
type deletion struct {
	*Snapshots
	definition string
	name       string
	nodes      []string
	closed     []model.SnapshotReplicaID
	notices    []errs.Notice
}

func (d *deletion) commit(tx *store.Tx) error {
	d.closed, d.notices = nil, nil
	sn, err := schema.FindSnapshot(tx, d.definition, d.name)
	if err != nil {
		return err
	}
	parts, err := d.parts(tx, sn)
	if err != nil {
		return err
	}
	for part := range schema.SnapshotReplicasOf(tx, sn.ID()) {
		if (!part.Deleting || len(parts) == 0) && !slices.ContainsFunc(parts, func(p schema.SnapshotReplica) bool { return p.Node == part.Node }) {
			return d.some(tx, sn, parts)
		}
	}
	if _, err := schema.CloseSnapshot(tx, sn); err != nil {
		return err
	}
	for _, part := range parts {
		d.closedPart(tx, sn, part.ID())
	}
	return d.tidy(tx, sn)
}

// tidy removes a definition that was only kept by the snapshot.
func (s *Snapshots) tidy(tx *store.Tx, sn schema.Snapshot) error {
	if _, ok := schema.Snapshots.Get(tx, sn.ID()); ok {
		return nil
	}
	return s.Resources.Tidy(tx, sn.Definition)
}

// parts returns the parts that are to go.
func (d *deletion) parts(tx *store.Tx, sn schema.Snapshot) ([]schema.SnapshotReplica, error) {
	all := slices.Collect(schema.SnapshotReplicasOf(tx, sn.ID()))
	if len(d.nodes) == 0 {
		return all, nil
	}
	var list []schema.SnapshotReplica
	for _, name := range d.nodes {
		n, err := schema.FindNode(tx, name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(p schema.SnapshotReplica) bool { return p.Node == n.Name.Key() })
		if i < 0 {
			d.notices = append(d.notices, errs.Notice{
				Kind: errs.WasNotThere, Object: errs.Snapshot,
				Message: fmt.Sprintf("snapshot %s of %s is not on node %s", sn.Name, d.definition, n.Name),
			})
			continue
		}
		if !slices.ContainsFunc(list, func(p schema.SnapshotReplica) bool { return p.Node == all[i].Node }) {
			list = append(list, all[i])
		}
	}
	return list, nil
}

// some marks some of the parts of a snapshot that stays. One that something is being made from
// stays as well: its deletion would be no intent of the snapshot.
func (d *deletion) some(tx *store.Tx, sn schema.Snapshot, parts []schema.SnapshotReplica) error {
	if sn.State == schema.SnapshotTaking && len(parts) > 0 {
		return errs.New(errs.Closing, errs.Snapshot, "snapshot %s of %s was not deleted on single nodes", sn.Name, d.definition).
			Because("it is being taken").Fix("wait until it is, or delete it on all nodes")
	}
	for _, part := range parts {
		if by := dependents(tx, part.ID()); by != "" {
			return errs.New(errs.InUse, errs.Snapshot, "snapshot %s of %s was not deleted on node %s", sn.Name, d.definition, schema.NameOfNode(tx, part.Node)).
				Because("%s is being made from it there", by).Fix("wait until that is complete, or delete the snapshot on all nodes")
		}
		if err := schema.ClosePart(tx, part); err != nil {
			return err
		}
		d.closedPart(tx, sn, part.ID())
	}
	return nil
}

// closedPart notes what has to be awaited of a part, and says why one stays for now.
func (d *deletion) closedPart(tx *store.Tx, sn schema.Snapshot, id model.SnapshotReplicaID) {
	part, ok := schema.SnapshotReplicas.Get(tx, id)
	switch {
	case !ok:
	case part.Deleting:
		d.closed = append(d.closed, id)
	default:
		d.notices = append(d.notices, errs.Notice{
			Kind: errs.GoesOn, Object: errs.Snapshot, Message: fmt.Sprintf(
				"snapshot %s of %s stays on node %s until %s is made from it", sn.Name, d.definition, schema.NameOfNode(tx, id.Node), dependents(tx, id)),
		})
	}
}

// dependents names what is being made from a part, or rolled back to it.
func dependents(tx *store.Tx, id model.SnapshotReplicaID) string {
	var names []string
	for x := range schema.ResourcesBySource.Get(tx, id) {
		names = append(names, "resource "+string(schema.NameOfDefinition(tx, x.Definition)))
	}
	return strings.Join(names, ", ")
}

// await waits for the nodes' word that the parts are gone, and sees to it that the rows go.
func (d *deletion) await(ctx context.Context, rev store.Revision) error {
	view := d.Store.Snapshot()
	failed := make([]error, len(d.closed))
	late := make([]*errs.Notice, len(d.closed))
	var wg sync.WaitGroup
	for i, id := range d.closed {
		node := schema.NameOfNode(view, id.Node)
		wg.Go(func() { late[i], failed[i] = d.awaitPart(ctx, id, node, rev) })
	}
	wg.Wait()
	for i, n := range late {
		if n != nil {
			d.notices = append(d.notices, *n)
		}
		if failed[i] != nil {
			return failed[i]
		}
	}
	return nil
}

func (d *deletion) awaitPart(ctx context.Context, id model.SnapshotReplicaID, node model.NodeName, rev store.Revision) (*errs.Notice, error) {
	st, err := d.Observed.WaitSnapshot(ctx, id, uint64(rev))
	still := errs.New(errs.HostFailed, errs.Snapshot, "snapshot %s of %s could not be deleted on node %s", d.name, d.definition, node).
		Fix("the node tries again by itself; repeat the delete to make it try at once")
	switch {
	case errors.Is(err, observed.ErrNodeOffline):
		return &errs.Notice{Kind: errs.NodeNotConnected, Object: errs.Snapshot, Message: fmt.Sprintf(
			"node %s is not connected: snapshot %s of %s is deleted there when it is back", node, d.name, d.definition)}, nil
	case err != nil:
		if _, there := schema.SnapshotReplicas.Get(d.Store.Snapshot(), id); !there {
			return nil, nil
		}
		still.Kind = errs.TimedOut
		return nil, still.Because("the node has not answered in time")
	case st.Phase == observed.Destroyed:
		return nil, nil
	case st.Phase == observed.Failed:
		return nil, still.Because("%v", d.faultOf(id, st))
	}
	return nil, still.Because("the node reported it as %s", st.Phase)
}
