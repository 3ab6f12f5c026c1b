// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// LoseNode gives a node up that will not come back, with all that the database has of it: its
// replicas, also those whose deletion it could never confirm, its snapshots, connections,
// interfaces and pools. The data on it is gone as far as this cluster is concerned, and its
// name can be used again. It is refused while the node is connected. When the node comes back
// all the same, nothing on it is touched, and its volumes are listed as orphans once it is
// registered again.
//
// It answers when the node is gone, or, when that takes very long, with a notice while it
// goes on. A repeated call joins the one before.
func (s *Resources) LoseNode(ctx context.Context, name string) ([]errs.Notice, error) {
	id, now := s.NewID(), s.Now()
	var n schema.Node
	var j schema.Job
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		var err error
		if n, err = schema.FindNode(tx, name); err != nil {
			return err
		}
		if !n.Deleting && s.Observed.Node(n.Name.Key()).Connection != observed.Offline {
			return errs.New(errs.InUse, errs.Node, "node %s cannot be given up as lost", n.Name).
				Because("it is connected").Fix("move its replicas away and delete it, or stop its agent first")
		}
		j, err = schema.BeginLosing(tx, n, id, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.patient(ctx)
	defer cancel()
	if now, ok := schema.AwaitJob(ctx, s.Store, j.ID); ok && now.State == schema.JobRunning {
		return []errs.Notice{goesOn(now, errs.Node, "the removal of node "+string(n.Name))}, nil
	}
	return nil, nil
}

// losing is one try at forgetting a lost node. Everything is done in small transactions; the
// node's row, which takes nothing new, goes with the last of them.
type losing struct {
	*Resources
	node model.NodeKey
}

func (s *Resources) lose(ctx context.Context, j schema.Job, progress Progress) schema.JobTry {
	l := losing{s, model.NodeKey(j.Object)}
	view := s.Store.Snapshot()
	if n, ok := schema.Nodes.Get(view, l.node); !ok || !n.Deleting {
		return schema.JobTry{State: schema.JobDone}
	}
	replicas := slices.Collect(schema.ResourcesByNode.Get(view, l.node))
	t := each(ctx, replicas, shrinking(j, progress), func(ctx context.Context, r schema.Resource) finding {
		return l.forget(ctx, func(tx *store.Tx) error { return s.dropIfThere(tx, r.ID()) })
	})
	if len(t.problems) == 0 {
		snapshots := slices.Collect(schema.SnapshotReplicasByNode.Get(s.Store.Snapshot(), l.node))
		t = each(ctx, snapshots, func(int, int) {}, func(ctx context.Context, r schema.SnapshotReplica) finding {
			return l.forget(ctx, func(tx *store.Tx) error { return s.DropSnapshot(tx, r.ID()) })
		})
	}
	for more := true; more && len(t.problems) == 0; {
		t.add(l.forget(ctx, func(tx *store.Tx) (err error) {
			more, err = l.rest(tx)
			return err
		}))
	}
	out := t.try()
	out.Total = max(j.Total, len(replicas))
	out.Done = out.Total - schema.ResourcesByNode.Len(s.Store.Snapshot(), l.node)
	if len(t.problems) > 0 {
		out.State = schema.JobRunning // it cannot fail for ever: nobody stands in its way
	}
	return out
}

func (l losing) forget(ctx context.Context, fn func(*store.Tx) error) finding {
	_, err := schema.Update(ctx, l.Store, fn)
	return finding{moved: err == nil, err: err}
}

// dropIfThere removes the row of a replica without its host's word.
func (s *Resources) dropIfThere(tx *store.Tx, id model.ResourceID) error {
	r, ok := schema.Resources.Get(tx, id)
	if !ok {
		return nil
	}
	return s.dropReplica(tx, r)
}

// DropSnapshot removes what a node had of a snapshot, and the snapshot when that was the last of
// it, unless it stays to say that it failed. With the last of all goes a definition that is
// being deleted. It is idempotent.
func (s *Resources) DropSnapshot(tx *store.Tx, id model.SnapshotReplicaID) error {
	if _, ok := schema.SnapshotReplicas.Get(tx, id); !ok {
		return nil
	}
	if err := schema.SnapshotReplicas.Delete(tx, id); err != nil {
		return err
	}
	whole := model.SnapshotID{Definition: id.Definition, Snapshot: id.Snapshot}
	for range schema.SnapshotReplicasOf(tx, whole) {
		return nil
	}
	if sn, _ := schema.Snapshots.Get(tx, whole); !sn.Deleting && sn.State != schema.SnapshotTaken {
		return nil
	}
	if err := schema.Snapshots.Delete(tx, whole); err != nil {
		return err
	}
	return s.Tidy(tx, id.Definition)
}

// rest removes what a node without replicas has, some rows at a time, and at last the node. It
// tells whether there is more.
func (l losing) rest(tx *store.Tx) (more bool, err error) {
	const most = 60 // rows in one transaction
	var deletes []func() error
	for c := range schema.NodeConnectionsByNode.Get(tx, l.node) {
		deletes = append(deletes, func() error { return schema.NodeConnections.Delete(tx, c.Pair) })
	}
	for p := range schema.PoolsOf(tx, l.node) {
		deletes = append(deletes, func() error { return schema.Pools.Delete(tx, model.PoolID{Node: l.node, Pool: p.Name.Key()}) })
	}
	for _, active := range []bool{false, true} { // the active interface goes last
		for i := range schema.InterfacesOf(tx, l.node) {
			if id := (model.InterfaceID{Node: l.node, Interface: i.Name.Key()}); i.Active == active {
				deletes = append(deletes, func() error { return schema.NetInterfaces.Delete(tx, id) })
			}
		}
	}
	more = len(deletes) > most
	for _, remove := range deletes[:min(len(deletes), most)] {
		if err := remove(); err != nil {
			return more, err
		}
	}
	if more {
		return true, nil
	}
	return false, schema.Nodes.Delete(tx, l.node)
}
