// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// SnapshotStatus is the state of a snapshot on one node. Its phase is Working while it is
// taken, and Ready when it is complete.
type SnapshotStatus struct {
	Generation uint64 // of the assignment that this is the state of
	Phase      Phase
	Created    time.Time              // when its last part was taken
	Volumes    []SnapshotVolumeStatus // of a complete one
	Failure    *Failure
	Current    bool // false: the node is away, or has not said it again since it came back
}

// SnapshotVolumeStatus is the part of a snapshot that is of one volume.
type SnapshotVolumeStatus struct {
	Number    model.VolumeNumber
	Size      int64  // bytes
	Allocated *int64 // bytes that it takes alone; nil is unknown
}

func (s SnapshotStatus) equal(o SnapshotStatus) bool {
	return s.Generation == o.Generation && s.Phase == o.Phase && s.Created.Equal(o.Created) && equalFailure(s.Failure, o.Failure) &&
		slices.EqualFunc(s.Volumes, o.Volumes, func(a, b SnapshotVolumeStatus) bool {
			return a.Number == b.Number && a.Size == b.Size && same(a.Allocated, b.Allocated)
		})
}

// masked is s as it reads when it is not current.
func (s SnapshotStatus) masked() SnapshotStatus {
	s.Current = false
	s.Volumes = slices.Clone(s.Volumes)
	for i := range s.Volumes {
		s.Volumes[i].Allocated = nil
	}
	return s
}

// snapshots is what was said of the snapshots of a definition, and in which session.
type snapshots struct {
	all     map[model.SnapshotKey]SnapshotStatus
	session uint64
}

// snapshotKey names a snapshot of a node.
type snapshotKey struct {
	definition model.DefinitionKey
	snapshot   model.SnapshotKey
}

// Snapshot returns the status of a snapshot on a node, and whether the node ever told one. One
// that was Destroyed is remembered for a while, for those who come late to wait for just that.
func (s *State) Snapshot(id model.SnapshotReplicaID) (SnapshotStatus, bool) {
	n := s.node(id.Node)
	if n == nil {
		return SnapshotStatus{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.readSnapshot(id)
}

// readSnapshot returns a status as readers see it. The caller holds the lock.
func (n *node) readSnapshot(id model.SnapshotReplicaID) (SnapshotStatus, bool) {
	list := n.snapshots[id.Definition]
	st, ok := list.all[id.Snapshot]
	if !ok {
		return n.buried.find(snapshotKey{id.Definition, id.Snapshot})
	}
	if !n.current(list.session) {
		return st.masked(), true
	}
	st.Current = true
	return st, true
}

// WaitSnapshot returns the status of a snapshot on a node as soon as it has settled (Ready,
// Failed or Destroyed) at generation or later, and is current. It waits through CONNECTED.
//
// Errors: [ErrNodeOffline] when the node is or goes OFFLINE, and that of ctx. With an error the
// status is the last one known.
func (s *State) WaitSnapshot(ctx context.Context, id model.SnapshotReplicaID, generation uint64) (SnapshotStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := s.Subscribe(ctx)
	look := func() (SnapshotStatus, bool, error) {
		st, _ := s.Snapshot(id)
		if st.Current && st.Phase.Settled() && st.Generation >= generation {
			return st, true, nil
		}
		if n := s.Node(id.Node); n.Connection == Offline {
			return st, true, offline(id.Node, n)
		}
		return st, false, nil
	}
	st, done, err := look()
	if done {
		return st, err
	}
	for c := range changes {
		if !slices.Contains(c.Nodes, id.Node) && !slices.Contains(c.Snapshots, id) {
			continue
		}
		if st, done, err = look(); done {
			return st, err
		}
	}
	return st, fmt.Errorf("wait for snapshot %s of %s on node %s: %w", id.Snapshot, id.Definition, id.Node, ctx.Err())
}

// takeSnapshots keeps what was said of the snapshots of a definition, and returns those that it
// says anything new of. An older generation was overtaken on its way. The caller holds the lock.
func (n *node) takeSnapshots(k model.DefinitionKey, said map[model.SnapshotKey]SnapshotStatus, now time.Time) []model.SnapshotKey {
	before := n.snapshots[k]
	current := n.current(before.session)
	next := snapshots{all: make(map[model.SnapshotKey]SnapshotStatus, len(said)), session: n.session}
	var news []model.SnapshotKey
	for name, st := range said {
		was, had := before.all[name]
		if had && current && st.Generation < was.Generation {
			st = was
		}
		next.all[name] = st
		if !had || !current || !was.equal(st) {
			news = append(news, name)
		}
	}
	for name, st := range before.all {
		if _, still := next.all[name]; !still {
			n.bury(k, name, st, now)
			news = append(news, name)
		}
	}
	n.keepSnapshots(k, next)
	return news
}

func (n *node) keepSnapshots(k model.DefinitionKey, list snapshots) {
	if len(list.all) == 0 {
		delete(n.snapshots, k)
		return
	}
	n.snapshots[k] = list
}

// bury remembers a snapshot of which nothing is said any more, if it was Destroyed. The caller
// holds the lock.
func (n *node) bury(k model.DefinitionKey, name model.SnapshotKey, st SnapshotStatus, now time.Time) {
	if st.Phase == Destroyed {
		st.Current = true
		n.buried.add(snapshotKey{k, name}, st, st.Generation, now)
	}
}

// ForgetSnapshot drops the status of a snapshot whose row went. One that was Destroyed is
// remembered for a while.
func (s *State) ForgetSnapshot(id model.SnapshotReplicaID) {
	n := s.node(id.Node)
	if n == nil {
		return
	}
	n.mu.Lock()
	list := n.snapshots[id.Definition]
	st, had := list.all[id.Snapshot]
	if had {
		delete(list.all, id.Snapshot)
		n.bury(id.Definition, id.Snapshot, st, s.now())
		n.keepSnapshots(id.Definition, list)
	}
	n.mu.Unlock()
	if had {
		s.feeds.add(Changes{Snapshots: []model.SnapshotReplicaID{id}})
	}
}
