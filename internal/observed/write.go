// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Report is what an agent says at one time. The State keeps its slices.
type Report struct {
	Resources map[model.DefinitionKey]ResourceStatus
	Pools     map[model.PoolKey]PoolStatus

	// Snapshots are those of a definition that its node has or has something to tell of: one
	// that is left out is not there.
	Snapshots map[model.DefinitionKey]map[model.SnapshotKey]SnapshotStatus

	Jobs []JobStatus
	Host *HostStatus // nil when nothing was said of it
}

// Connect begins a session of a node, and ends the one before. What was said before is not
// current any more; when the session is a resumed one it becomes so again with Ready, as the
// agent has then said everything that changed meanwhile.
func (s *State) Connect(key model.NodeKey, f Facts, resumed bool) {
	s.mu.Lock()
	n, ok := s.nodes[key]
	if !ok {
		n = &node{
			resources: make(map[model.DefinitionKey]resource),
			pools:     make(map[model.PoolKey]pool),
			snapshots: make(map[model.DefinitionKey]snapshots),
			jobs:      make(map[string]job),
			waiters:   make(map[model.DefinitionKey][]*waiter),
		}
		s.nodes[key] = n
	}
	n.mu.Lock()
	s.mu.Unlock()
	now := s.now()
	n.status = NodeStatus{Connection: Connected, Since: now, Heard: now, Facts: f}
	if !resumed {
		n.dropOldJobs()
	}
	n.session++
	if !resumed {
		n.base = n.session
	}
	n.mu.Unlock()
	s.feeds.node(key)
}

// Ready makes a connected node ONLINE. It does nothing to any other.
func (s *State) Ready(key model.NodeKey) {
	n := s.node(key)
	if n == nil {
		return
	}
	n.mu.Lock()
	was := n.status.Connection
	if was == Connected {
		n.status.Connection, n.status.Since = Online, s.now()
		n.resume()
	}
	n.mu.Unlock()
	if was == Connected {
		s.feeds.node(key)
	}
}

// resume makes what was said in the resumed sessions current. The caller holds the lock.
func (n *node) resume() {
	for k, r := range n.resources {
		if n.base <= r.session && r.session < n.session {
			r.session = n.session
			n.resources[k] = r
			n.settle(k, n.read(r))
		}
	}
	for k, p := range n.pools {
		if n.base <= p.session && p.session < n.session {
			p.session = n.session
			n.pools[k] = p
		}
	}
	for k, ss := range n.snapshots {
		if n.base <= ss.session && ss.session < n.session {
			ss.session = n.session
			n.snapshots[k] = ss
		}
	}
}

// Disconnect makes a node OFFLINE and ends every wait for its replicas. The reason is for
// people. It does nothing to a node that is OFFLINE.
func (s *State) Disconnect(key model.NodeKey, reason string) {
	n := s.node(key)
	if n == nil {
		return
	}
	n.mu.Lock()
	was := n.status.Connection
	if was != Offline {
		n.status.Connection, n.status.Since, n.status.Reason = Offline, s.now(), reason
		n.failAll(offline(key, n.status))
	}
	n.mu.Unlock()
	if was != Offline {
		s.feeds.node(key)
	}
}

// Report takes what the agent of a node says now, and wakes those who wait for it. Statuses
// that it does not name stay as they are. A report for a node without a session is dropped.
func (s *State) Report(key model.NodeKey, rep Report) {
	n := s.node(key)
	if n == nil {
		return
	}
	var changed Changes
	n.mu.Lock()
	if n.status.Connection == Offline {
		n.mu.Unlock()
		return
	}
	now := s.now()
	n.status.Heard = now
	for k, st := range rep.Resources {
		if n.take(k, st) {
			changed.Resources = append(changed.Resources, model.ResourceID{Definition: k, Node: key})
		}
	}
	for k, st := range rep.Pools {
		if n.takePool(k, st, now) {
			changed.Pools = append(changed.Pools, model.PoolID{Node: key, Pool: k})
		}
	}
	for k, list := range rep.Snapshots {
		for _, name := range n.takeSnapshots(k, list, now) {
			changed.Snapshots = append(changed.Snapshots, model.SnapshotReplicaID{Definition: k, Snapshot: name, Node: key})
		}
	}
	for _, st := range rep.Jobs {
		if n.takeJob(st) {
			changed.Jobs = append(changed.Jobs, JobID{Node: key, ID: st.ID})
		}
	}
	if rep.Host != nil && n.takeHost(*rep.Host, now) {
		changed.Hosts = append(changed.Hosts, key)
	}
	n.mu.Unlock()
	s.feeds.add(changed)
}

// take keeps one status and reports whether it says anything new. Within a session the
// generations of a replica only grow, so an older one was overtaken on its way. The caller
// holds the lock.
func (n *node) take(k model.DefinitionKey, st ResourceStatus) bool {
	before, had := n.resources[k]
	if had && n.current(before.session) && (st.Generation < before.status.Generation || before.status.equal(st)) {
		return false
	}
	r := resource{status: st, session: n.session}
	n.resources[k] = r
	n.settle(k, n.read(r))
	return true
}

func (n *node) takePool(k model.PoolKey, st PoolStatus, now time.Time) bool {
	before, had := n.pools[k]
	st.At = now
	n.pools[k] = pool{status: st, session: n.session}
	return !had || !n.current(before.session) || !before.status.equal(st)
}

// Forget drops the status of a replica whose row went at revision gone. What was said of a
// later row of that name stays, since its generation is higher. A replica that was Destroyed
// is remembered for those who come late to wait for just that; for those who wait for
// anything else of the row that went, Forget is the end of the wait.
func (s *State) Forget(id model.ResourceID, gone uint64) {
	n := s.node(id.Node)
	if n == nil {
		return
	}
	n.mu.Lock()
	r, had := n.resources[id.Definition]
	n.fail(id.Definition, gone, fmt.Errorf("resource %s: %w", id, ErrForgotten))
	had = had && r.status.Generation < gone
	if had {
		delete(n.resources, id.Definition)
		if r.status.Phase == Destroyed {
			r.status.Current = true
			n.graves.add(id.Definition, r.status, r.status.Generation, s.now())
		}
	}
	n.mu.Unlock()
	if had {
		s.feeds.add(Changes{Resources: []model.ResourceID{id}})
	}
}

// Prune is Forget for every replica of a node that is spoken of or waited for and has no row
// at a revision.
func (s *State) Prune(key model.NodeKey, at uint64, hasRow func(model.DefinitionKey) bool) {
	n := s.node(key)
	if n == nil {
		return
	}
	n.mu.RLock()
	known := make(map[model.DefinitionKey]struct{}, len(n.resources))
	for k := range n.resources {
		known[k] = struct{}{}
	}
	for k := range n.waiters {
		known[k] = struct{}{}
	}
	n.mu.RUnlock()
	for k := range known {
		if !hasRow(k) {
			s.Forget(model.ResourceID{Definition: k, Node: key}, at)
		}
	}
}

// PruneSnapshots is ForgetSnapshot for every snapshot of a node that is spoken of and has no
// row.
func (s *State) PruneSnapshots(key model.NodeKey, hasRow func(model.DefinitionKey, model.SnapshotKey) bool) {
	n := s.node(key)
	if n == nil {
		return
	}
	var gone []model.SnapshotReplicaID
	n.mu.RLock()
	for k, list := range n.snapshots {
		for name := range list.all {
			if !hasRow(k, name) {
				gone = append(gone, model.SnapshotReplicaID{Definition: k, Snapshot: name, Node: key})
			}
		}
	}
	n.mu.RUnlock()
	for _, id := range gone {
		s.ForgetSnapshot(id)
	}
}

// ForgetPool drops the status of a pool whose row is gone.
func (s *State) ForgetPool(id model.PoolID) {
	n := s.node(id.Node)
	if n == nil {
		return
	}
	n.mu.Lock()
	_, had := n.pools[id.Pool]
	delete(n.pools, id.Pool)
	n.mu.Unlock()
	if had {
		s.feeds.add(Changes{Pools: []model.PoolID{id}})
	}
}

// ForgetNode drops all that is known of a node whose row is gone.
func (s *State) ForgetNode(key model.NodeKey) {
	s.Disconnect(key, "the node is no longer registered")
	s.mu.Lock()
	_, had := s.nodes[key]
	delete(s.nodes, key)
	s.mu.Unlock()
	if had {
		s.feeds.node(key)
	}
}
