// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package converge

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// evictions evicts nodes that stay away, until ctx ends.
func (l *Loops) evictions(ctx context.Context) {
	began := time.Now()
	tick := time.NewTicker(l.cfg.EvictionCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, n := range due(l.presences(l.cfg.Store.Snapshot(), began), most(l.cfg.Store.Snapshot()), time.Now()) {
			l.cfg.Log.Warn("a node is evicted: it was away for too long", "node", n)
			if _, _, err := l.cfg.Worker.EvictNode(ctx, string(n)); err != nil && ctx.Err() == nil {
				l.cfg.Log.Warn("a node could not be evicted", "node", n, "err", err)
			}
		}
	}
}

// presence is whether a node is there, and what is to be done when it is not.
type presence struct {
	name    model.NodeName
	away    bool
	since   time.Time     // of away
	after   time.Duration // how long it may be away
	allowed bool          // to evict it
	leaving bool          // already
	empty   bool          // without replicas: there is nothing to gain
}

// presences looks at all nodes that run an agent. None counts as away since before began.
func (l *Loops) presences(r store.Reader, began time.Time) []presence {
	var list []presence
	cluster := props.Level{Scope: props.Controller, Props: schema.SettingsOf(r)}
	for n := range schema.Nodes.All(r) {
		if !n.Type.RunsAgent() {
			continue
		}
		seen := l.cfg.Observed.Node(n.Name.Key())
		levels := []props.Level{cluster, {Scope: props.Node, Props: n.Props}}
		minutes, _ := props.Int("DrbdOptions/AutoEvictAfterTime", levels...)
		p := presence{
			name: n.Name, away: seen.Connection == observed.Offline, since: seen.Since, after: time.Duration(minutes) * time.Minute,
			allowed: props.Bool("DrbdOptions/AutoEvictAllowEviction", levels...),
			leaving: n.Leaving(), empty: !schema.ResourcesByNode.Has(r, n.Name.Key()),
		}
		if p.since.Before(began) {
			p.since = began
		}
		list = append(list, p)
	}
	return list
}

// most is the highest percentage of nodes that may be away for one to be evicted.
func most(r store.Reader) int {
	n, _ := props.Int("DrbdOptions/AutoEvictMaxDisconnectedNodes", props.Level{Scope: props.Controller, Props: schema.SettingsOf(r)})
	return int(n)
}

// due lists the nodes that are to be evicted now. While more than most percent of all nodes are
// away, none is: it is the controller that is cut off then.
func due(nodes []presence, most int, now time.Time) []model.NodeName {
	away := 0
	for _, n := range nodes {
		if n.away {
			away++
		}
	}
	if away*100 > most*len(nodes) {
		return nil
	}
	var list []model.NodeName
	for _, n := range nodes {
		if n.away && n.allowed && !n.leaving && !n.empty && now.Sub(n.since) >= n.after {
			list = append(list, n.name)
		}
	}
	slices.Sort(list)
	return list
}
