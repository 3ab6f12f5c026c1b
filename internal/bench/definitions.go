// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-storage/holdfast/internal/model"
)

const spawnBody = `{"resource_definition_name":"vol-%06d","volume_sizes":[1048576],"definitions_only":true}`

// bare measures the ceiling: what a handler that only decodes the body and makes it durable
// by the same group commit can do on this machine.
func (b *bench) bare(ctx context.Context) error {
	dir, err := b.folder("bare")
	if err != nil {
		return err
	}
	s, err := b.start(ctx, "bench", "bare", "--listen", "ADDR", "--data", dir)
	if err != nil {
		return err
	}
	defer s.end()
	const count = 10_000
	f, err := s.run(ctx, load{clients: b.Clients, count: count, want: http.StatusCreated, request: func(i int) (string, string, string) {
		return http.MethodPost, "/", fmt.Sprintf(spawnBody, i)
	}})
	if err != nil {
		return fmt.Errorf("the bare handler: %w", err)
	}
	b.ceiling = f.rate()
	b.say("bare handler, same body, same group commit, %d clients\n  %s\n", b.Clients, f)
	return nil
}

// definitions fills a controller with n definitions and measures calls on it.
func (b *bench) definitions(ctx context.Context, n int) error {
	dir, err := b.folder(fmt.Sprintf("definitions-%d", n))
	if err != nil {
		return err
	}
	s, err := b.start(ctx, "controller", "--log-level", "warn", "--listen", "ADDR", "--agent-listen", "AGENTS", "--data", dir)
	if err != nil {
		return err
	}
	defer s.end()
	b.say("\n%d definitions\n", n)
	if err := s.create(ctx, "/v1/resource-groups", `{"name":"bench"}`); err != nil {
		return err
	}
	if err := b.fill(ctx, s, n, spawnBody); err != nil {
		return err
	}
	for _, m := range b.reads(n) {
		f, err := s.run(ctx, m.load)
		if err != nil {
			return err
		}
		b.say("  %-34s%s%s\n", m.name, f, size(f.bytes))
	}
	if err := b.footprint(s, ""); err != nil {
		return err
	}
	f, err := s.run(ctx, load{clients: b.Clients, count: min(n, 2000), want: http.StatusOK, request: func(i int) (string, string, string) {
		return http.MethodDelete, fmt.Sprintf("/v1/resource-definitions/vol-%06d", i), ""
	}})
	if err == nil {
		b.say("  %-34s%s\n", fmt.Sprintf("delete, %d clients", b.Clients), f)
	}
	return err
}

// fill spawns in ten parts, so that a slope shows. The body has a place for a number.
func (b *bench) fill(ctx context.Context, s *server, n int, body string) error {
	const parts = 10
	var first, last, sum figures
	for part := range parts {
		from, to := n*part/parts, n*(part+1)/parts
		f, err := s.run(ctx, load{clients: b.Clients, count: to - from, want: http.StatusCreated, request: func(i int) (string, string, string) {
			return http.MethodPost, "/v1/resource-groups/bench/spawn", fmt.Sprintf(body, from+i)
		}})
		if err != nil {
			return err
		}
		if part == 0 {
			first = f
		}
		last = f
		sum.took += f.took
		sum.latencies = append(sum.latencies, f.latencies...)
	}
	rate := float64(n) / sum.took.Seconds()
	b.say("  %-34s%8.0f/s", fmt.Sprintf("spawn, %d clients", b.Clients), rate)
	if b.ceiling > 0 {
		b.say("   %.2f of the bare handler", rate/b.ceiling)
	}
	b.say("\n  %-34s%s\n  %-34s%s\n", "  its first tenth", first, "  its last tenth", last)
	return nil
}

type reading struct {
	name string
	load load
}

func (b *bench) reads(n int) []reading {
	get := func(path func(i int) string) func(int) (string, string, string) {
		return func(i int) (string, string, string) { return http.MethodGet, path(i), "" }
	}
	present := get(func(i int) string { return fmt.Sprintf("/v1/resource-definitions/vol-%06d", i*7919%n) })
	absent := get(func(i int) string { return fmt.Sprintf("/v1/resource-definitions/nothing-%d", i) })
	all := get(func(int) string { return "/v1/resource-definitions?with_volume_definitions=true" })
	one := get(func(i int) string {
		return fmt.Sprintf("/v1/resource-definitions?resource_definitions=vol-%06d", i*7919%n)
	})
	page := get(func(i int) string { return fmt.Sprintf("/v1/resource-definitions?limit=100&offset=%d", i*100%n) })
	return []reading{
		{"get present, 1 client", load{clients: 1, count: 2000, request: present, want: http.StatusOK}},
		{"get absent, 1 client", load{clients: 1, count: 2000, request: absent, want: http.StatusNotFound}},
		{fmt.Sprintf("get present, %d clients", b.Clients), load{clients: b.Clients, count: 10_000, request: present, want: http.StatusOK}},
		{"list one by name, 1 client", load{clients: 1, count: 1000, request: one, want: http.StatusOK}},
		{"list a page of 100, 1 client", load{clients: 1, count: 500, request: page, want: http.StatusOK}},
		{"list all with volumes, 1 client", load{clients: 1, count: 30, request: all, want: http.StatusOK}},
	}
}

func size(bytes int64) string {
	const worthSaying = 10_000
	if bytes < worthSaying {
		return ""
	}
	return "   " + model.FormatSize(bytes)
}
