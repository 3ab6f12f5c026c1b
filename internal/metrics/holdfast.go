// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/schema"
)

// replicaFigures writes how many replicas have a step that fails now.
func (s *scrape) replicaFigures() {
	s.family("holdfast_failing_replicas", gauge, "Replicas with a step that fails now, by the class of its failure.")
	for i, reason := range reasons() {
		s.count(s.found.failing[i], "reason", reason)
	}
}

func (s *scrape) poolFigures() {
	if !s.want.pools {
		return
	}
	s.family("holdfast_storage_pool_promised_bytes", gauge, "Space that volumes were promised in each storage pool.")
	s.sizes(&s.found.promised)
	s.family("holdfast_storage_pool_allocated_bytes", gauge, "Space that volumes take in each storage pool.")
	s.sizes(&s.found.allocated)
	s.family("holdfast_storage_pool_unknown_volumes", gauge, "Volumes with our mark in each storage pool that are in no assignment.")
	s.sizes(&s.found.foreign)
}

func (s *scrape) groupFigures() {
	s.family("holdfast_resource_group_definitions", gauge, "Resource definitions of each resource group.")
	for g := range schema.Groups.All(s.view) {
		s.count(int64(schema.DefinitionsByGroup.Len(s.view, g.Name.Key())), "resource_group", string(g.Name))
	}
}

// jobFigures writes the work that outlives calls.
func (s *scrape) jobFigures() {
	kinds := []schema.JobKind{
		schema.AdjustGroup, schema.CompleteGroup, schema.CompleteDefinition, schema.EvacuateNode, schema.LoseNode,
	}
	running, failing := make(map[schema.JobKind]int64), make(map[schema.JobKind]int64)
	for j := range schema.Jobs.All(s.view) {
		if j.State != schema.JobRunning {
			continue
		}
		running[j.Kind]++
		if j.Failed > 0 {
			failing[j.Kind]++
		}
	}
	s.family("holdfast_jobs_running", gauge, "Jobs that are worked on or wait for their next try.")
	for _, k := range kinds {
		s.count(running[k], "kind", string(k))
	}
	s.family("holdfast_jobs_failing", gauge, "Running jobs that had a problem in their newest try.")
	for _, k := range kinds {
		s.count(failing[k], "kind", string(k))
	}
}

func (s *scrape) storeFigures() {
	st := s.Store.Stats()
	s.family("holdfast_store_writable", gauge, "1 while the database takes updates, 0 while it does not.")
	s.count(truth(s.Store.Err() == nil))
	s.family("holdfast_store_updates_total", counter, "Updates by their outcome.")
	s.count(st.Updates, "outcome", "durable")
	s.count(st.Refused, "outcome", "refused")
	s.count(st.Failed, "outcome", "failed")
	s.family("holdfast_store_update_wait_seconds_total", counter, "Time that updates took together, from their call until they were durable.")
	s.measure(st.Waiting.Seconds())
	s.family("holdfast_store_commits_total", counter, "Commits of the engine. The durable updates for each are the size of a group.")
	s.count(st.Commits)
	s.family("holdfast_store_commit_rows_total", counter, "Rows written by commits.")
	s.count(st.Rows)
	s.family("holdfast_store_commit_seconds_total", counter, "Time that commits took in the engine.")
	s.measure(st.Appending.Seconds())
	s.family("holdfast_store_updates_queued", gauge, "Updates that wait for their commit now.")
	s.count(int64(st.Queued))
	s.family("holdfast_store_watchers", gauge, "Readers of the sequence of commits.")
	s.count(int64(st.Watchers))
	s.family("holdfast_store_revision", gauge, "Number of the newest durable update.")
	s.count(int64(s.view.Revision()))
	s.family("holdfast_store_rows", gauge, "Rows of each collection.")
	for _, name := range slices.Sorted(maps.Keys(st.Held)) {
		s.count(int64(st.Held[name]), "collection", name)
	}
	s.family("holdfast_store_rows_set_aside", gauge, "Stored rows that cannot be used.")
	s.count(int64(st.Aside))
	if s.ErrorReports != nil {
		_, made := s.ErrorReports()
		s.family("holdfast_error_reports_total", counter, "Reports of faults of the software since the start.")
		s.count(int64(made))
	}
}

func (s *scrape) agentFigures() {
	if s.Sessions == nil {
		return
	}
	st := s.Sessions()
	s.family("holdfast_agent_sessions", gauge, "Sessions with agents.")
	s.count(int64(st.Sessions))
	s.family("holdfast_agent_sessions_begun_total", counter, "Sessions by what they began with: everything, or what was missed.")
	s.count(st.Full, "with", "full")
	s.count(st.Resumed, "with", "resumed")
	s.family("holdfast_agent_sessions_cut_total", counter, "Sessions that this controller ended, by the reason.")
	s.count(st.Superseded, "reason", "superseded")
	s.count(st.Silent, "reason", "silent")
	for _, c := range []struct {
		name, help string
		n          int64
	}{
		{"messages_total", "Messages to agents.", st.Messages},
		{"assignments_total", "Assignments of resources in messages to agents.", st.Assigned},
		{"reports_total", "Reports of agents that were answered, heartbeats included.", st.Reports},
		{"reports_refused_total", "Reports of agents that are to be repeated, as what they confirmed could not be stored.", st.Refused},
		{"statuses_total", "Statuses of resources in reports.", st.Statuses},
		{"statuses_strange_total", "Statuses of resources that are not registered.", st.Strangers},
		{"destroyed_total", "Replicas and volumes that agents have confirmed to be gone.", st.Destroyed},
		{"resyncs_total", "Times that all assignments were compared, as commits were missed.", st.Resyncs},
		{"asks_refused_total", "Questions to agents that got no answer.", st.AsksRefused},
	} {
		s.family("holdfast_agent_"+c.name, counter, c.help)
		s.count(c.n)
	}
}

func (s *scrape) certificateFigures() {
	if s.Expiries == nil {
		return
	}
	s.family("holdfast_certificate_expiry_timestamp_seconds", gauge,
		"When each certificate stops being good; that of a node since its agent has called.")
	for _, x := range s.Expiries() {
		node := ""
		if x.Node != "" {
			node = s.node(x.Node)
		}
		s.count(x.At.Unix(), "of", x.Of, "node", node)
	}
}
