// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Seed is a replica to add whose volumes begin as those of a snapshot on its node.
type Seed struct {
	Node     model.NodeKey
	Snapshot model.SnapshotID
	Pool     model.PoolKey // empty: that of the snapshot, where blocks can be shared
}

// Seeding adds replicas from snapshots. One is made for one call, outside its transaction.
type Seeding struct {
	resources *Resources
	birth     birth
}

// Seeding returns what adds the replicas of one call.
func (s *Resources) Seeding() Seeding { return Seeding{s, s.birth()} }

// Volume returns the id of the i-th volume definition of the call.
func (x Seeding) Volume(i int) string { return x.birth.definition(i) }

// Add adds replicas to a definition, in the transaction of its caller, by the one door for all
// of them. It returns what is to be awaited, and where they were put. The room that they take
// is looked at: a node that is not connected takes them when it is back.
func (x Seeding) Add(tx *store.Tx, d schema.Definition, seeds []Seed) ([]model.ResourceID, []Placement, error) {
	var ids []model.ResourceID
	var placed []Placement
	for _, seed := range seeds {
		id, put, err := x.add(tx, d, seed)
		if err != nil {
			return nil, nil, err
		}
		ids, placed = append(ids, id), append(placed, put)
	}
	return ids, placed, checkReplication(d.Name, d.Layers, copies(tx, d.Name.Key()))
}

func (x Seeding) add(tx *store.Tx, d schema.Definition, seed Seed) (model.ResourceID, Placement, error) {
	s, id := x.resources, model.ResourceID{Definition: d.Name.Key(), Node: seed.Node}
	source := model.SnapshotReplicaID{Definition: seed.Snapshot.Definition, Snapshot: seed.Snapshot.Snapshot, Node: seed.Node}
	part, ok := schema.SnapshotReplicas.Get(tx, source)
	if !ok || len(part.Volumes) == 0 {
		return id, Placement{}, errs.New(errs.NotFound, errs.Snapshot, "the snapshot to make %s of is not on node %s", d.Name, schema.NameOfNode(tx, seed.Node))
	}
	pool, ok := schema.Pools.Get(tx, model.PoolID{Node: seed.Node, Pool: cmp.Or(seed.Pool, part.Volumes[0].Pool)})
	if !ok || pool.Provider == model.Diskless {
		return id, Placement{}, errs.New(errs.NotFound, errs.StoragePool, "storage pool %s does not exist on node %s", seed.Pool, schema.NameOfNode(tx, seed.Node))
	}
	if err := s.fitsNow(tx, pool, sizesOf(tx, id.Definition, d.Layers)); err != nil {
		return id, Placement{}, err
	}
	r := replica{node: seed.Node, pool: pool.Name.Key(), kind: schema.Diskful, birth: x.birth, source: &source}
	return id, placementOf(tx, r), s.add(tx, d, r)
}

// Await waits until the nodes have done their part of what was committed at rev, and returns an
// error for the replicas that are not as they shall be. A node that still copies when the
// patience ends, or is not connected while another is, is a notice.
func (s *Resources) Await(
	ctx context.Context, verb string, name model.DefinitionName, rev store.Revision, ids []model.ResourceID,
) ([]errs.Notice, *errs.Error) {
	ctx, cancel := s.settling(ctx)
	defer cancel()
	outcomes := s.settle(ctx, rev, ids)
	var notices []errs.Notice
	outcomes = slices.DeleteFunc(outcomes, func(o outcome) bool {
		if !errors.Is(o.err, context.DeadlineExceeded) || !o.status.Current || len(o.status.Work) == 0 {
			return false
		}
		notices = append(notices, errs.Notice{Kind: errs.GoesOn, Object: errs.Resource, Message: fmt.Sprintf(
			"resource %s is not %s on node %s yet: %s", name, verb, o.node, workText(o.status.Work[0]))})
		return true
	})
	if len(outcomes) == 0 {
		return notices, nil
	}
	more, failed := done(verb, name, errs.Resource, outcomes)
	return append(notices, more...), failed
}

// workText says how far the work of a host is.
func workText(w observed.Work) string {
	if w.Total > 0 {
		return fmt.Sprintf("%s goes on, %s of %s", w.What, model.FormatSize(w.Done), model.FormatSize(w.Total))
	}
	return w.What + " goes on"
}

// Failed returns an error when one of the nodes says now that it cannot do what was committed;
// it does not wait.
func (s *Resources) Failed(verb string, name model.DefinitionName, ids []model.ResourceID) *errs.Error {
	view := s.Store.Snapshot()
	var failing []outcome
	for _, id := range ids {
		st, _ := s.Observed.Resource(id)
		if st.Current && st.Phase == observed.Failed && st.Generation >= uint64(schema.Resources.Revision(view, id)) {
			failing = append(failing, outcome{id: id, node: schema.NameOfNode(view, id.Node), status: st})
		}
	}
	return notReady(verb, name, failing)
}

// TakeBack marks replicas that a failed call has added for deletion, waits for the hosts that
// are there, and returns why the call failed.
func (s *Resources) TakeBack(ctx context.Context, why *errs.Error, d schema.Definition, ids []model.ResourceID) error {
	return s.takeBack(context.WithoutCancel(ctx), why, d, touches(ids))
}

// CloseDefinition marks a definition and its replicas for deletion, in the transaction of its
// caller, as DeleteDefinition does.
func (s *Resources) CloseDefinition(tx *store.Tx, d schema.Definition) error {
	_, err := s.closeDefinition(tx, d)
	return err
}

// DropReplicas marks all replicas of a definition for deletion, which stays.
func (s *Resources) DropReplicas(tx *store.Tx, d model.DefinitionKey) error {
	for _, r := range slices.Collect(schema.ResourcesOf(tx, d)) {
		if r.Deleting {
			continue
		}
		if _, err := s.markDeleting(tx, r); err != nil {
			return err
		}
	}
	return nil
}
