// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Scale says what a large cluster is measured as: one controller, and agents on simulated
// hosts in this process, which speak the real protocol.
type Scale struct {
	Program     string // of this program: the controller is started from it
	Dir         string // a folder for the database; what is made in it is removed
	Out         io.Writer
	Agents      int
	Definitions int // each with two replicas that are placed
	Clients     int
	Parallel    int // spawns at once, on four nodes
}

// Run measures the cluster and prints as it goes.
func (c Scale) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "holdfast-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch; the next run has another one
	b := &bench{Config: Config{Program: c.Program, Out: c.Out, Clients: c.Clients}, dir: dir, runner: &command.Exec{}}
	if err := b.parallel(ctx, c.Parallel); err != nil {
		return fmt.Errorf("spawns at once: %w", err)
	}
	return b.scale(ctx, c)
}

// place is the group of all that is measured: two replicas with DRBD.
const place = `{"name":"bench","select_filter":{"place_count":2,"layer_stack":["DRBD","STORAGE"]}}`

func (b *bench) scale(ctx context.Context, c Scale) error {
	s, data, err := b.cluster(ctx, "scale")
	if err != nil {
		return err
	}
	defer func() { s.end() }()
	b.say("\n%d agents, %d definitions with 2 replicas\n", c.Agents, c.Definitions)
	f, err := b.recruit(ctx, s, c.Agents)
	defer func() { f.stop() }()
	if err != nil {
		return err
	}
	if err := s.create(ctx, "/v1/resource-groups", place); err != nil {
		return err
	}
	if err := b.fill(ctx, s, c.Definitions, `{"resource_definition_name":"vol-%06d","volume_sizes":[1048576]}`); err != nil {
		return err
	}
	if err := b.footprint(s, "after the spawns"); err != nil {
		return err
	}
	for _, m := range views(c) {
		got, err := s.run(ctx, m.load)
		if err != nil {
			return err
		}
		b.say("  %-34s%s%s\n", m.name, got, size(got.bytes))
	}
	if err := b.scraped(ctx, s); err != nil {
		return err
	}
	if err := b.footprint(s, "after the lists"); err != nil {
		return err
	}
	if s, err = b.disturb(ctx, s, f, c); err != nil {
		return err
	}
	f.stop()
	s.end()
	return b.check(ctx, data)
}

// cluster starts a controller for a fleet. It returns the folder of its database too.
func (b *bench) cluster(ctx context.Context, name string) (*server, string, error) {
	dir, err := b.folder(name)
	if err != nil {
		return nil, "", err
	}
	s, err := b.start(ctx, "controller", "--log-level", "error", "--plaintext", "--listen", "ADDR", "--agent-listen", "AGENTS", "--data", dir)
	return s, dir, err
}

// footprint prints the memory of the controller.
func (b *bench) footprint(s *server, when string) error {
	p, err := look(s.pid)
	if err == nil {
		b.say("  %-34s%s, at most %s\n", "resident memory "+when, model.FormatSize(p.memory), model.FormatSize(p.peak))
	}
	return err
}

// views are the lists that clients ask for, whole, filtered and paged.
func views(c Scale) []reading {
	get := func(name string, count int, path string) reading {
		return reading{name, load{clients: 1, count: count, want: http.StatusOK, request: func(i int) (string, string, string) {
			return http.MethodGet, fmt.Sprintf(path, i*7919%c.Definitions), ""
		}}}
	}
	const few, many = 10, 200
	fits := load{clients: 1, count: many, want: http.StatusOK, request: func(int) (string, string, string) {
		return http.MethodPost, "/v1/resource-groups/bench/query-size-info", "{}"
	}}
	return []reading{
		get("all definitions with volumes", few, "/v1/resource-definitions?with_volume_definitions=true&unused=%d"),
		get("all resources with volumes", few, "/v1/view/resources?unused=%d"),
		get("all pools", few, "/v1/view/storage-pools?unused=%d"),
		get("all nodes", few, "/v1/nodes?unused=%d"),
		get("metrics", few, "/metrics?unused=%d"),
		get("resources of one definition", many, "/v1/view/resources?resources=vol-%06d"),
		get("resources of one node", many, "/v1/view/resources?nodes=node-000&unused=%d"),
		get("a page of 100 resources", many, "/v1/view/resources?limit=100&offset=%d"),
		get("the last page of resources", many, fmt.Sprintf("/v1/view/resources?limit=100&offset=%d&unused=%%d", 2*c.Definitions-100)),
		get("a page of 100 definitions", many, "/v1/resource-definitions?limit=100&offset=%d"),
		get("pools of one node", many, "/v1/view/storage-pools?nodes=node-000&unused=%d"),
		{"what fits now", fits},
	}
}

// scraped measures how the API answers while several monitoring systems scrape without a pause.
func (b *bench) scraped(ctx context.Context, s *server) error {
	const scrapers, scrapes, asks = 3, 30, 200
	get := func(path string) func(int) (string, string, string) {
		return func(int) (string, string, string) { return http.MethodGet, path, "" }
	}
	var scrape figures
	ended := make(chan error, 1)
	go func() {
		var err error
		scrape, err = s.run(ctx, load{clients: scrapers, count: scrapes, want: http.StatusOK, request: get("/metrics")})
		ended <- err
	}()
	health, err := s.run(ctx, load{clients: 1, count: asks, want: http.StatusOK, request: get("/health")})
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	b.say("  %-34sp50 %s, p99 %s; health meanwhile p50 %s, p99 %s\n", fmt.Sprintf("metrics for %d scrapers at once", scrapers),
		short(scrape.at(0.5)), short(scrape.at(0.99)), short(health.at(0.5)), short(health.at(0.99)))
	return nil
}

// check opens the database of a controller that has ended and looks for what must not be.
func (b *bench) check(ctx context.Context, data string) (err error) {
	st, err := store.Open(ctx, boltkv.New(filepath.Join(data, "holdfast.db")), schema.Collections())
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	problems := schema.Check(st.Snapshot())
	b.say("  %-34s%d (numbers that come twice, orphans, sums that differ from a recount)\n", "problems in the database", len(problems))
	for _, p := range problems {
		b.say("    %s\n", p)
	}
	return nil
}
