// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// hostFigures writes what hosts say of their pools on mounts and of their jobs. Of a node that is away there is nothing.
func (s *scrape) hostFigures() {
	var nodes []model.NodeKey
	for n := range schema.Nodes.All(s.view) {
		nodes = append(nodes, n.Name.Key())
	}
	slices.Sort(nodes)
	s.heldPools(nodes)
	jobs := make(map[model.NodeKey]map[observed.JobState]int64, len(nodes))
	for _, n := range nodes {
		for j := range s.Observed.Jobs(n) {
			if !j.Current {
				continue
			}
			if jobs[n] == nil {
				jobs[n] = make(map[observed.JobState]int64)
			}
			jobs[n][j.State]++
		}
	}
	s.family("holdfast_host_jobs", gauge, "Jobs of each node, by their state. Of those that have ended, the newest are kept.")
	for _, n := range nodes {
		for _, state := range []observed.JobState{
			observed.JobWaiting, observed.JobRunning, observed.JobDone, observed.JobFailed, observed.JobCancelled,
		} {
			if count := jobs[n][state]; count > 0 {
				s.count(count, "node", s.node(n), "state", string(state))
			}
		}
	}
}

func (s *scrape) heldPools(nodes []model.NodeKey) {
	type held struct {
		node string
		pool *observed.HeldPool
	}
	var all []held
	for _, n := range nodes {
		st, ok := s.Observed.Host(n)
		if !ok || !st.Current {
			continue
		}
		for i := range st.Pools {
			all = append(all, held{s.node(n), &st.Pools[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.pool.Pool, b.pool.Pool))
	})
	s.family("holdfast_held_pool_state", gauge, "1 for the state of each pool that lies on a mount.")
	for _, h := range all {
		s.count(1, "node", h.node, "storage_pool", string(h.pool.Pool), "state", h.pool.State)
	}
	s.family("holdfast_held_pool_holds", gauge, "Who holds each pool that lies on a mount.")
	for _, h := range all {
		s.count(int64(len(h.pool.Holds)), "node", h.node, "storage_pool", string(h.pool.Pool))
	}
	s.family("holdfast_held_pool_blockers", gauge, "Who keeps each pool from being unmounted without a hold.")
	for _, h := range all {
		s.count(int64(len(h.pool.Blockers)), "node", h.node, "storage_pool", string(h.pool.Pool))
	}
}
