// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Changes names what changed; who is interested reads it. Each list is sorted and names
// nothing twice. A changed node stands for all that it has as well, since they
// become current, or cease to be.
type Changes struct {
	Nodes     []model.NodeKey
	Resources []model.ResourceID
	Pools     []model.PoolID
	Snapshots []model.SnapshotReplicaID
	Jobs      []JobID
	Hosts     []model.NodeKey // whose HostStatus changed
}

func (c Changes) empty() bool {
	return len(c.Nodes)+len(c.Resources)+len(c.Pools)+len(c.Snapshots)+len(c.Jobs)+len(c.Hosts) == 0
}

// Subscribe yields the changes from the call on, until ctx ends. Changes that come while the
// reader is busy are merged into the next yield, so a slow reader costs at most the names of
// all objects, and never holds up a writer. The sequence is for one range statement.
func (s *State) Subscribe(ctx context.Context) iter.Seq[Changes] {
	f := &feed{signal: make(chan struct{}, 1)}
	f.reset()
	s.feeds.join(f)
	leave := func() { s.feeds.leave(f) }
	stop := context.AfterFunc(ctx, leave)
	return func(yield func(Changes) bool) {
		defer leave()
		defer stop()
		for {
			select {
			case <-f.signal:
			case <-ctx.Done():
				return
			}
			if c := f.take(); !c.empty() && !yield(c) {
				return
			}
		}
	}
}

// feeds is all subscriptions. The zero value has none.
type feeds struct {
	mu  sync.RWMutex
	all map[*feed]struct{}
}

func (fs *feeds) join(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.all == nil {
		fs.all = make(map[*feed]struct{})
	}
	fs.all[f] = struct{}{}
}

func (fs *feeds) leave(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, f)
}

func (fs *feeds) node(key model.NodeKey) { fs.add(Changes{Nodes: []model.NodeKey{key}}) }

func (fs *feeds) add(c Changes) {
	if c.empty() {
		return
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	for f := range fs.all {
		f.add(c)
	}
}

// feed is the changes that one subscriber has not taken yet.
type feed struct {
	mu        sync.Mutex
	nodes     map[model.NodeKey]struct{}
	resources map[model.ResourceID]struct{}
	pools     map[model.PoolID]struct{}
	snapshots map[model.SnapshotReplicaID]struct{}
	jobs      map[JobID]struct{}
	hosts     map[model.NodeKey]struct{}
	signal    chan struct{} // holds one: something was added since the last take
}

func (f *feed) add(c Changes) {
	f.mu.Lock()
	for _, k := range c.Nodes {
		f.nodes[k] = struct{}{}
	}
	for _, k := range c.Resources {
		f.resources[k] = struct{}{}
	}
	for _, k := range c.Pools {
		f.pools[k] = struct{}{}
	}
	for _, k := range c.Snapshots {
		f.snapshots[k] = struct{}{}
	}
	for _, k := range c.Jobs {
		f.jobs[k] = struct{}{}
	}
	for _, k := range c.Hosts {
		f.hosts[k] = struct{}{}
	}
	f.mu.Unlock()
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

// reset empties the sets. The caller holds the lock, or is alone.
func (f *feed) reset() {
	f.nodes = make(map[model.NodeKey]struct{})
	f.resources = make(map[model.ResourceID]struct{})
	f.pools = make(map[model.PoolID]struct{})
	f.snapshots = make(map[model.SnapshotReplicaID]struct{})
	f.jobs = make(map[JobID]struct{})
	f.hosts = make(map[model.NodeKey]struct{})
}

func (f *feed) take() Changes {
	f.mu.Lock()
	nodes, resources, pools, snapshots, jobs, hosts := f.nodes, f.resources, f.pools, f.snapshots, f.jobs, f.hosts
	f.reset()
	f.mu.Unlock()
	return Changes{
		Nodes: slices.Sorted(maps.Keys(nodes)),
		Resources: slices.SortedFunc(maps.Keys(resources), func(a, b model.ResourceID) int {
			return cmp.Or(cmp.Compare(a.Definition, b.Definition), cmp.Compare(a.Node, b.Node))
		}),
		Pools: slices.SortedFunc(maps.Keys(pools), func(a, b model.PoolID) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pool, b.Pool))
		}),
		Snapshots: slices.SortedFunc(maps.Keys(snapshots), func(a, b model.SnapshotReplicaID) int {
			return cmp.Or(cmp.Compare(a.Definition, b.Definition), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Node, b.Node))
		}),
		Jobs: slices.SortedFunc(maps.Keys(jobs), func(a, b JobID) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
		}),
		Hosts: slices.Sorted(maps.Keys(hosts)),
	}
}
