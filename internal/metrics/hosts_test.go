// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

func TestPoolsOnMountsAndJobsOfHosts(t *testing.T) {
	c := troubled(t)
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	for key, st := range c.Observed.Nodes() {
		if st.Connection != observed.Online {
			continue
		}
		c.Observed.Report(key, observed.Report{
			Host: &observed.HostStatus{Pools: []observed.HeldPool{
				{Pool: "Vault", State: "busy", Blockers: []string{"sleep (pid 7)"}},
				{Pool: "archive", State: "ready", Holds: []observed.Hold{{ID: "a"}, {ID: "b"}}},
			}},
			Jobs: []observed.JobStatus{
				{Job: observed.Job{ID: "1"}, State: observed.JobRunning},
				{Job: observed.Job{ID: "2"}, State: observed.JobDone},
				{Job: observed.Job{ID: "3"}, State: observed.JobDone},
			},
		})
		text := scrape(t, e, "")
		parse(t, text)
		node := string(schema.NameOfNode(c.Store.Snapshot(), key))
		for id, want := range map[string]string{
			`holdfast_held_pool_state{node="` + node + `",storage_pool="Vault",state="busy"}`: "1",
			`holdfast_held_pool_blockers{node="` + node + `",storage_pool="Vault"}`:           "1",
			`holdfast_held_pool_holds{node="` + node + `",storage_pool="archive"}`:            "2",
			`holdfast_host_jobs{node="` + node + `",state="running"}`:                         "1",
			`holdfast_host_jobs{node="` + node + `",state="done"}`:                            "2",
		} {
			if got, _ := value(text, id); got != want {
				t.Errorf("%s is %q, not %s", id, got, want)
			}
		}
		c.Observed.Disconnect(key, "it went away")
		if _, there := value(scrape(t, e, ""), `holdfast_held_pool_state{node="`+node+`",storage_pool="Vault",state="busy"}`); there {
			t.Error("a pool of a node that is away has a state")
		}
		return
	}
	t.Fatal("no node is online")
}
