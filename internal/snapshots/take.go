// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// takeTogether takes a request while writers are held back on every node that uses its
// resources, and concludes it.
func (s *Snapshots) takeTogether(ctx context.Context, id string) {
	limit := cmp.Or(s.Held, defaultHeld)
	problem, state := s.takeHeld(ctx, id, limit)
	err := s.end(context.WithoutCancel(ctx), id, problem, state)
	if err != nil {
		s.log().Error("the outcome of snapshots could not be written; it is concluded later", "request", id, "err", err)
	}
}

// takeHeld returns why a request failed, and how; nothing when all parts are complete and of
// one moment.
func (s *Snapshots) takeHeld(ctx context.Context, id string, limit time.Duration) (problem string, state schema.SnapshotState) {
	h := holding{Snapshots: s, id: id, limit: limit, nodes: s.users(id)}
	began := time.Now()
	if err := h.suspend(ctx); err != nil {
		_, _ = h.resume(ctx) // Agents let writers go on by themselves as well.
		return fmt.Sprintf("writers could not be held back: %v", err), stateOf(err)
	}
	// The parts have to be there while writers are surely held back still.
	held, cancel := context.WithDeadline(ctx, began.Add(limit*3/4))
	parts, err := s.assign(held, id)
	var missing error
	if err == nil {
		missing = s.awaitParts(held, parts)
	}
	cancel()
	written, late := h.resume(ctx)
	switch {
	case err != nil:
		return err.Error(), schema.SnapshotFailed
	case missing != nil:
		return missing.Error(), stateOf(missing)
	case late != nil:
		return fmt.Sprintf("whether writers were held back is not known: %v", late), stateOf(late)
	case len(written) > 1:
		return fmt.Sprintf("the snapshots would not be of one moment: the volumes %s were written while they were taken, by users who cannot be held back",
			strings.Join(written, ", ")), schema.SnapshotFailed
	}
	return "", schema.SnapshotTaken
}

// stateOf tells a node that could not from one that went away.
func stateOf(err error) schema.SnapshotState {
	if errors.Is(err, observed.ErrNodeOffline) || errors.Is(err, context.DeadlineExceeded) || errs.Is(err, errs.NotConnected) {
		return schema.SnapshotCutOff
	}
	return schema.SnapshotFailed
}

// users returns, for each connected node, the resources of a request that it has replicas of:
// also those without a disk, since they write as well.
func (s *Snapshots) users(id string) map[model.NodeKey][]model.DefinitionName {
	view := s.Store.Snapshot()
	users := map[model.NodeKey][]model.DefinitionName{}
	for sn := range schema.SnapshotsByRequest.Get(view, id) {
		for x := range schema.ResourcesOf(view, sn.Definition) {
			if !x.Deleting && !x.Inactive && s.Observed.Node(x.Node).Connection != observed.Offline {
				users[x.Node] = append(users[x.Node], schema.NameOfDefinition(view, sn.Definition))
			}
		}
	}
	return users
}

// holding is writers that are held back on some nodes.
type holding struct {
	*Snapshots
	id    string
	limit time.Duration
	nodes map[model.NodeKey][]model.DefinitionName
}

// each asks all nodes at once, and returns the first error in the order of nodes.
func (h holding) each(do func(model.NodeKey) error) error {
	keys := slices.Sorted(maps.Keys(h.nodes))
	failed := make([]error, len(keys))
	var wg sync.WaitGroup
	for i, node := range keys {
		wg.Go(func() { failed[i] = do(node) })
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func (h holding) suspend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.limit/2)
	defer cancel()
	return h.each(func(node model.NodeKey) error { return h.Hosts.Suspend(ctx, node, h.id, h.nodes[node], h.limit) })
}

// resume lets all writers go on, on every node, whatever the others say. It returns what was
// written meanwhile, each volume once: replicas of one volume are written together.
func (h holding) resume(ctx context.Context) (written []string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.limit)
	defer cancel()
	var mu sync.Mutex
	err = h.each(func(node model.NodeKey) error {
		list, err := h.Hosts.Resume(ctx, node, h.id)
		mu.Lock()
		defer mu.Unlock()
		written = append(written, list...)
		return err
	})
	for i, v := range written {
		written[i] = strings.ToLower(v)
	}
	slices.Sort(written)
	return slices.Compact(written), err
}

// awaited is a part that was assigned at a revision.
type awaited struct {
	id  model.SnapshotReplicaID
	rev store.Revision
}

// assign tells the nodes to take their parts.
func (s *Snapshots) assign(ctx context.Context, id string) ([]awaited, error) {
	var parts []awaited
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		parts = nil
		for _, sn := range slices.Collect(schema.SnapshotsByRequest.Get(tx, id)) {
			if sn.Deleting || sn.State != schema.SnapshotTaking {
				return errors.New("it was deleted meanwhile")
			}
			for _, part := range slices.Collect(schema.SnapshotReplicasOf(tx, sn.ID())) {
				part.State = schema.SnapshotTaking
				if err := schema.SnapshotReplicas.Update(tx, part); err != nil {
					return err
				}
				parts = append(parts, awaited{id: part.ID()})
			}
		}
		return nil
	})
	for i := range parts {
		parts[i].rev = rev
	}
	return parts, err
}

// awaitParts waits until all parts are complete, and returns why one is not.
func (s *Snapshots) awaitParts(ctx context.Context, parts []awaited) error {
	failed := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { failed[i] = s.awaitPart(ctx, p) })
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshots) awaitPart(ctx context.Context, p awaited) error {
	st, err := s.Observed.WaitSnapshot(ctx, p.id, uint64(p.rev))
	if err != nil {
		return fmt.Errorf("node %s: %w", schema.NameOfNode(s.Store.Snapshot(), p.id.Node), err)
	}
	return s.faultOf(p.id, st)
}

// faultOf is what a node says of a part that it settled; nil for a complete one.
func (s *Snapshots) faultOf(id model.SnapshotReplicaID, st observed.SnapshotStatus) error {
	node := schema.NameOfNode(s.Store.Snapshot(), id.Node)
	switch st.Phase {
	case observed.Ready:
		return nil
	case observed.Destroyed:
		return fmt.Errorf("node %s: it was removed meanwhile", node)
	case observed.Failed, observed.Working:
	}
	switch f := st.Failure; {
	case f == nil:
		return fmt.Errorf("node %s gave no reason", node)
	case f.Step == "":
		return fmt.Errorf("node %s: %s", node, f.Message)
	default:
		return fmt.Errorf("node %s: %s: %s", node, f.Step, f.Message)
	}
}

// awaitRequest waits until a request that one node takes has been concluded, or ctx has ended.
func (s *Snapshots) awaitRequest(ctx context.Context, id string) {
	for sn := range schema.SnapshotsByRequest.Get(s.Store.Snapshot(), id) {
		view := s.Store.Snapshot()
		var parts []awaited
		for part := range schema.SnapshotReplicasOf(view, sn.ID()) {
			parts = append(parts, awaited{part.ID(), schema.SnapshotReplicas.Revision(view, part.ID())})
		}
		err := s.awaitParts(ctx, parts)
		if ctx.Err() != nil {
			return // The hosts go on, and Run concludes it.
		}
		problem, state := "", schema.SnapshotTaken
		if err != nil {
			problem, state = err.Error(), stateOf(err)
		}
		if err := s.end(context.WithoutCancel(ctx), id, problem, state); err != nil {
			s.log().Error("the outcome of a snapshot could not be written; it is concluded later", "request", id, "err", err)
		}
	}
}

// end writes what came of a request, to all of its snapshots, unless that was written before.
// A request of which something is missing by now was not taken.
func (s *Snapshots) end(ctx context.Context, id, problem string, state schema.SnapshotState) error {
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		list := slices.Collect(schema.SnapshotsByRequest.Get(tx, id))
		if state == schema.SnapshotTaken && slices.ContainsFunc(list, func(sn schema.Snapshot) bool { return !whole(tx, sn) }) {
			problem, state = "a part of it was deleted meanwhile", schema.SnapshotFailed
		}
		for _, sn := range list {
			if sn.State != schema.SnapshotTaking {
				continue
			}
			if err := s.endOne(tx, sn, problem, state); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// whole tells whether a snapshot that was taken is one that stays, with all parts that it had.
func whole(tx *store.Tx, sn schema.Snapshot) bool {
	parts := 0
	for part := range schema.SnapshotReplicasOf(tx, sn.ID()) {
		if part.Deleting {
			return false
		}
		parts++
	}
	return !sn.Deleting && parts > 0
}

func (s *Snapshots) endOne(tx *store.Tx, sn schema.Snapshot, problem string, state schema.SnapshotState) error {
	sn.State, sn.Problem = state, problem
	if err := schema.Snapshots.Update(tx, sn); err != nil {
		return err
	}
	for _, part := range slices.Collect(schema.SnapshotReplicasOf(tx, sn.ID())) {
		if state != schema.SnapshotTaken {
			if err := schema.ClosePart(tx, part); err != nil {
				return err
			}
			continue
		}
		st, _ := s.Observed.Snapshot(part.ID())
		part.State, part.Taken = state, st.Created
		if err := schema.SnapshotReplicas.Update(tx, part); err != nil {
			return err
		}
	}
	return nil
}
