// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// disturb measures how a controller comes back from what happens to clusters, and how its API
// answers meanwhile. It returns the controller that runs afterwards.
func (b *bench) disturb(ctx context.Context, s *server, f *fleet, c Scale) (*server, error) {
	b.say("  until all nodes are online again, and all replicas known; the API meanwhile, with %d clients\n", probes)
	for _, d := range []struct {
		what   string
		happen func()
		agents int // that have a new session afterwards
	}{
		{"the network breaks all sessions", f.drop, c.Agents},
		{"one agent is started again", func() { f.restart(ctx, 1) }, 1},
		{"all agents are started again", func() { f.restart(ctx, c.Agents) }, c.Agents},
	} {
		if err := b.during(ctx, d.what, s, c, d.happen, f.returned(s, d.agents)); err != nil {
			return s, err
		}
	}
	began := time.Now()
	again, err := b.again(ctx, s)
	if err != nil {
		return s, fmt.Errorf("start the controller again: %w", err)
	}
	b.say("    %-32s%8s   until it is ready\n", "the controller is killed", short(time.Since(began)))
	online := func(ctx context.Context) (bool, error) { return again.online(ctx, c.Agents) }
	if err := b.during(ctx, "  and its agents return", again, c, func() {}, online); err != nil {
		return again, err
	}
	return again, b.footprint(again, "after it")
}

// probes are the clients that use the API while something happens.
const probes = 4

// during makes something happen and uses the API until it is over.
func (b *bench) during(
	ctx context.Context, what string, s *server, c Scale, happen func(), over func(context.Context) (bool, error),
) error {
	before, err := look(s.pid)
	if err != nil {
		return err
	}
	probing, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	latencies := make([][]time.Duration, probes)
	var failed atomic.Int64
	for i := range probes {
		all.Go(func() { latencies[i] = s.probe(probing, i, c.Definitions, &failed) })
	}
	began := time.Now()
	happen()
	err = s.until(ctx, over)
	took := time.Since(began)
	if err == nil {
		err = s.until(ctx, func(ctx context.Context) (bool, error) { return s.known(ctx, 2*c.Definitions) })
	}
	known := time.Since(began)
	stop()
	all.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	after, err := look(s.pid)
	if err != nil {
		return err
	}
	got := figures{took: took, latencies: slices.Concat(latencies...)}
	slices.Sort(got.latencies)
	b.say("    %-32s%8s, %8s   API p50 %s, p99 %s, most %s, %d calls, %d failed   server CPU %s\n", what, short(took), short(known),
		short(got.at(0.5)), short(got.at(0.99)), short(got.at(1)), len(got.latencies), failed.Load(), short(after.cpu-before.cpu))
	return nil
}

// probe uses the API as a client does that has much to do, at a steady pace, and returns what
// each answer took.
func (s *server) probe(ctx context.Context, start, definitions int, failed *atomic.Int64) []time.Duration {
	const pace = 20 * time.Millisecond
	tick := time.NewTicker(pace)
	defer tick.Stop()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	var took []time.Duration
	for i := start; ; i++ {
		select {
		case <-ctx.Done():
			return took
		case <-tick.C:
		}
		method, path, body := mixed(i, definitions)
		began := time.Now()
		_, code, err := call(context.WithoutCancel(ctx), client, method, s.url+path, body)
		took = append(took, time.Since(began))
		if err != nil || code >= http.StatusBadRequest {
			failed.Add(1)
		}
	}
}

// mixed is one of the calls that clients make most.
func mixed(i, definitions int) (method, path, body string) {
	d := i * 7919 % definitions
	switch i % 5 {
	case 0:
		return http.MethodGet, fmt.Sprintf("/v1/resource-definitions/vol-%06d", d), ""
	case 1:
		return http.MethodGet, fmt.Sprintf("/v1/view/resources?resources=vol-%06d", d), ""
	case 2:
		return http.MethodGet, fmt.Sprintf("/v1/view/resources?limit=100&offset=%d", d), ""
	case 3:
		return http.MethodGet, "/v1/view/storage-pools", ""
	default:
		return http.MethodPut, fmt.Sprintf("/v1/resource-definitions/vol-%06d", d), fmt.Sprintf(`{"override_props":{"Aux/bench":"%d"}}`, i)
	}
}
