// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The properties of disks that come by themselves, with LINSTOR's names. The last marks a
// replica that got its disk so, until it was looked whether another one is too many.
const (
	autoDiskful        = "DrbdOptions/auto-diskful"
	autoDiskfulCleanup = "DrbdOptions/auto-diskful-allow-cleanup"
	gotDisk            = "Internal/Drbd/AutoDiskful"
)

const (
	// autoDiskfulEvery is how often it is looked whether a replica is due to get a disk.
	autoDiskfulEvery = 10 * time.Second
	// What could not be done is tried again after a delay that doubles from the first to the most.
	autoDiskfulFirst = 30 * time.Second
	autoDiskfulMost  = 16 * time.Minute
)

// AutoDiskful gives a disk to replicas of DRBD that have none and are in use for longer than
// DrbdOptions/auto-diskful says, and afterwards takes one away that is too many by that. It is
// one of the leader's loops; what it has seen in use is kept in memory, so the time in use
// begins anew with each leader. Its methods are for one caller at a time.
type AutoDiskful struct {
	resources *Resources
	log       *slog.Logger
	watched   map[model.ResourceID]watch
}

// watch is what is remembered of a replica from one look to the next.
type watch struct {
	uuid  string
	since time.Time // when it was first seen in use
	tries int       // in a row that failed
	next  time.Time // not tried again before
}

// NewAutoDiskful returns an AutoDiskful that has seen nothing. Nothing is logged when log is nil.
func NewAutoDiskful(s *Resources, log *slog.Logger) *AutoDiskful {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &AutoDiskful{resources: s, log: log}
}

// Run looks again and again, until ctx ends.
func (a *AutoDiskful) Run(ctx context.Context) {
	a.watched = nil
	tick := time.NewTicker(autoDiskfulEvery)
	defer tick.Stop()
	for {
		a.Look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Look does once what is due now, and does not wait for the hosts: a disk that was given is
// filled afterwards, and a later look finds it so. What cannot be done is logged once for each
// replica, and tried again with growing delays.
func (a *AutoDiskful) Look(ctx context.Context) {
	view := a.resources.Store.Snapshot()
	watched := map[model.ResourceID]watch{}
	for d := range schema.Definitions.All(view) {
		if d.Deleting || !slices.Contains(d.Layers, model.DRBD) {
			continue
		}
		for x := range schema.ResourcesOf(view, d.Name.Key()) {
			if ctx.Err() != nil {
				return
			}
			if !counts(view, x) || x.Inactive {
				continue
			}
			if w, ok := a.look(ctx, view, d, x); ok {
				watched[x.ID()] = w
			}
		}
	}
	a.watched = watched
}

// look does what is due for one replica. It tells whether, and as what, the replica is to be
// remembered.
func (a *AutoDiskful) look(ctx context.Context, view store.Reader, d schema.Definition, x schema.Resource) (watch, bool) {
	now := a.resources.Now()
	w, was := a.watched[x.ID()]
	if was && w.uuid != x.UUID {
		w, was = watch{}, false
	}
	_, marked := x.Props.Get(gotDisk)
	if x.Kind == schema.Diskful {
		if !marked {
			return watch{}, false
		}
		w.uuid = x.UUID
		return a.attempt(w, now, d, x, "a replica that is too many could not be removed", func() (bool, error) {
			return a.resources.cleanUp(ctx, x)
		})
	}
	if marked { // its disk was taken away again, so nothing is too many
		if err := a.resources.unmark(ctx, x); err != nil && ctx.Err() == nil {
			a.log.Warn("what was noted at a replica could not be removed", "definition", d.Name, "node", x.Node, "err", err)
		}
	}
	inUse, known := a.resources.usedOn(x.ID())
	switch {
	case !known:
		return w, was
	case !inUse:
		return watch{}, false
	case !was:
		w = watch{uuid: x.UUID, since: now}
	}
	minutes, set := props.Int(autoDiskful, replicaLevels(view, d, x)...)
	if !set || int64(now.Sub(w.since)/time.Minute) < minutes {
		return w, true
	}
	return a.attempt(w, now, d, x, "a replica that is in use for long could not be given a disk", func() (bool, error) {
		err := a.resources.autoDisk(ctx, d, x)
		if err == nil {
			a.log.Info("a replica that is in use for long gets a disk", "definition", d.Name, "node", x.Node)
		}
		return err == nil, err
	})
}

// attempt does something unless it failed too short a time ago. It logs the first failure of
// those in a row. What was done is not remembered.
func (a *AutoDiskful) attempt(w watch, now time.Time, d schema.Definition, x schema.Resource, failure string, do func() (bool, error)) (watch, bool) {
	if now.Before(w.next) {
		return w, true
	}
	done, err := do()
	if err == nil {
		w.tries, w.next = 0, time.Time{}
		return w, !done
	}
	if w.tries == 0 {
		a.log.Warn(failure+", it is tried again", "definition", d.Name, "node", x.Node, "err", err)
	}
	delay := autoDiskfulFirst
	for range w.tries {
		delay = min(2*delay, autoDiskfulMost)
	}
	w.tries, w.next = min(w.tries+1, 10), now.Add(delay)
	return w, true
}

// usedOn tells whether a replica is in use, and whether that is known now.
func (s *Resources) usedOn(id model.ResourceID) (inUse, known bool) {
	st, _ := s.Observed.Resource(id)
	return st.InUse()
}

// replicaLevels is all that a replica inherits properties from.
func replicaLevels(r store.Reader, d schema.Definition, x schema.Resource) []props.Level {
	n, _ := schema.Nodes.Get(r, x.Node)
	return append(inherited(r, d), props.Level{Scope: props.Node, Props: n.Props}, props.Level{Scope: props.Resource, Props: x.Props})
}

// autoDisk gives a replica a disk in the pool of its node that the placer prefers, and marks it,
// in one transaction.
func (s *Resources) autoDisk(ctx context.Context, d schema.Definition, x schema.Resource) error {
	node := string(schema.NameOfNode(s.Store.Snapshot(), x.Node))
	pool, err := s.choice(string(d.Name), PlaceRequest{Filter: model.Filter{
		Nodes: []string{node}, AdditionalPlaceCount: new(int32(1)), DisklessOnRemaining: new(false), DisklessType: new(""),
	}}, nil)
	if err != nil {
		return err
	}
	b := s.birth()
	_, err = schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		d, there := schema.Definitions.Get(tx, x.Definition)
		r, ok := schema.Resources.Get(tx, x.ID())
		if !there || !ok || r.UUID != x.UUID || r.Kind == schema.Diskful || r.Inactive || d.Deleting || !counts(tx, r) {
			return nil // something else was done about it meanwhile
		}
		if err := s.giveDisk(tx, d, r.Node, string(pool), nil, b); err != nil {
			return err
		}
		r, _ = schema.Resources.Get(tx, x.ID())
		r.Props = r.Props.With(gotDisk, "True")
		return schema.Resources.Update(tx, r)
	})
	return err
}

// unmark forgets that a replica got its disk by itself.
func (s *Resources) unmark(ctx context.Context, x schema.Resource) error {
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		r, ok := schema.Resources.Get(tx, x.ID())
		if !ok || r.UUID != x.UUID || r.Deleting {
			return nil
		}
		return unmarked(tx, r)
	})
	return err
}

func unmarked(tx *store.Tx, r schema.Resource) error {
	r.Props = r.Props.Without(gotDisk)
	return schema.Resources.Update(tx, r)
}

// cleanUp removes one other replica of a definition that has more than its group wants, once
// the marked one has all data. It tells whether there is nothing left to do for the mark.
func (s *Resources) cleanUp(ctx context.Context, marked schema.Resource) (done bool, err error) {
	if err := s.Finish(ctx, marked.ID()); err != nil {
		return false, err
	}
	view := s.Store.Snapshot()
	x, ok := schema.Resources.Get(view, marked.ID())
	if !ok || x.Adding || !s.upToDateOn(view, x) {
		return false, nil
	}
	d, _ := schema.Definitions.Get(view, x.Definition)
	if !props.Bool(autoDiskfulCleanup, replicaLevels(view, d, x)...) || excess(view, d) <= 0 {
		return true, s.unmark(ctx, x)
	}
	for _, c := range s.dispensable(view, x) {
		if err := s.Unused(ctx, d.Name, []schema.Resource{c}); err != nil {
			return false, err
		}
		if done, err = s.removeFor(ctx, c, x); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// excess is how many more disks that count a definition has than its group wants; 0 when the
// group does not say.
func excess(r store.Reader, d schema.Definition) int {
	g, _ := schema.Groups.Get(r, d.Group)
	if g.Filter.PlaceCount == nil || *g.Filter.PlaceCount <= 0 {
		return 0
	}
	return votesOf(r, d.Name.Key()).diskful - int(*g.Filter.PlaceCount)
}

// dispensable lists the replicas that may go for one that has got a disk: connected ones that
// nobody is known to use, first those on the nodes that have most to do.
func (s *Resources) dispensable(r store.Reader, x schema.Resource) []schema.Resource {
	list := slices.DeleteFunc(remaining(r, x), func(c schema.Resource) bool {
		inUse, known := s.usedOn(c.ID())
		return inUse || !known || c.Adding || s.Observed.Node(c.Node).Connection != observed.Online
	})
	slices.SortStableFunc(list, func(a, b schema.Resource) int {
		return cmp.Or(cmp.Compare(schema.ReplicasByNode.Of(r, b.Node), schema.ReplicasByNode.Of(r, a.Node)), cmp.Compare(a.Node, b.Node))
	})
	return list
}

// removeFor removes a replica in favour of x, and takes the mark of x away. It does neither
// unless the definition has too many, and as many others as the group wants, with x among them,
// are known to have all data. It looks at all that in the transaction.
func (s *Resources) removeFor(ctx context.Context, c, x schema.Resource) (removed bool, err error) {
	b := s.birth()
	_, err = schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		removed = false
		d, _ := schema.Definitions.Get(tx, x.Definition)
		now, there := schema.Resources.Get(tx, x.ID())
		r, ok := schema.Resources.Get(tx, c.ID())
		if !there || !ok || d.Deleting || now.UUID != x.UUID || r.UUID != c.UUID || r.Kind != schema.Diskful || !counts(tx, r) || excess(tx, d) <= 0 {
			return nil
		}
		g, _ := schema.Groups.Get(tx, d.Group)
		sound := s.sound(tx, r)
		if inUse, known := s.usedOn(r.ID()); inUse || !known || len(sound) < int(*g.Filter.PlaceCount) || !slices.Contains(sound, x.Node) {
			return nil
		}
		removed = true
		if err := unmarked(tx, now); err != nil {
			return err
		}
		return s.dispense(tx, d, r, b)
	})
	return removed && err == nil, err
}

// dispense takes the disk of a replica away: the replica stays as the tie-breaker where one is
// needed without its disk, and is deleted otherwise.
func (s *Resources) dispense(tx *store.Tx, d schema.Definition, r schema.Resource, b birth) error {
	v := votesOf(tx, r.Definition)
	v.diskful--
	if v.lackTieBreaker(inherited(tx, d)) && !sharesData(tx, r) {
		return s.loseDisk(tx, r, schema.TieBreaker)
	}
	if _, err := s.markDeleting(tx, r); err != nil {
		return err
	}
	_, _, err := s.settleVotes(tx, r.Definition, b)
	return err
}
