// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/metrics"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// empty returns the exporter of a controller that knows nothing and nobody.
func empty(tb testing.TB, registry *prometheus.Registry) *metrics.Exporter {
	tb.Helper()
	st, err := store.Open(context.Background(), kvtest.NewMemory(), schema.Collections())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = st.Close() })
	return metrics.New(metrics.Config{Store: st, Observed: observed.New(time.Now), Registry: registry})
}

func TestRequestsAreCountedByRouteAndStatus(t *testing.T) {
	e := empty(t, nil)
	const route = "/v1/nodes/{node}"
	for _, m := range []rest.Measurement{
		{Method: "GET", Route: route, Status: 200, Bytes: 300, Took: 2 * time.Millisecond},
		{Method: "GET", Route: route, Status: 200, Bytes: 200, Took: 40 * time.Millisecond},
		{Method: "GET", Route: route, Status: 404, Bytes: 100, Took: time.Millisecond},
		{Method: "DELETE", Route: route, Status: 0},
	} {
		e.Measure(m)
	}
	text := scrape(t, e, "")
	parse(t, text)
	must(t, text, `holdfast_http_requests_total{method="GET",route="/v1/nodes/{node}",status="200"}`, "2")
	must(t, text, `holdfast_http_requests_total{method="GET",route="/v1/nodes/{node}",status="404"}`, "1")
	must(t, text, `holdfast_http_requests_total{method="DELETE",route="/v1/nodes/{node}",status="none"}`, "1")
	must(t, text, `holdfast_http_request_duration_seconds_bucket{method="GET",route="/v1/nodes/{node}",le="0.0025"}`, "2")
	must(t, text, `holdfast_http_request_duration_seconds_count{method="GET",route="/v1/nodes/{node}"}`, "3")
	must(t, text, `holdfast_http_response_bytes_total{method="GET",route="/v1/nodes/{node}"}`, "600")
}

// Clients can ask for what they want; the number of series stays what it is.
func TestRequestsBesideTheAPIAreBounded(t *testing.T) {
	e := empty(t, nil)
	for i := range 1000 {
		e.Measure(rest.Measurement{Method: fmt.Sprintf("BREW%d", i), Status: 404})
		e.Measure(rest.Measurement{Method: "GET", Status: 1000 + i})
	}
	families := parse(t, scrape(t, e, ""))
	if n := len(families["holdfast_http_requests_total"].GetMetric()); n != 2 {
		t.Errorf("%d series of requests, want 2", n)
	}
}

func TestWhatOthersMeasureFollows(t *testing.T) {
	registry := prometheus.NewRegistry()
	added := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_example", Help: "An example."})
	added.Set(42)
	registry.MustRegister(added)
	text := scrape(t, empty(t, registry), "")
	parse(t, text)
	must(t, text, "holdfast_example", "42")
}

// What is not given is not told, and least of all as zero.
func TestWithoutASourceThereIsNoFamily(t *testing.T) {
	families := parse(t, scrape(t, empty(t, nil), ""))
	for _, name := range []string{"linstor_error_reports_count", "holdfast_error_reports_total", "holdfast_agent_sessions", "holdfast_certificate_expiry_timestamp_seconds"} {
		if families[name] != nil {
			t.Errorf("the family %s is there", name)
		}
	}
}

func TestScrapesAtOnce(t *testing.T) {
	e := empty(t, nil)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			e.Measure(rest.Measurement{Method: "GET", Route: "/v1/nodes", Status: 200 + i})
			parse(t, scrape(t, e, ""))
		})
	}
	all.Wait()
	must(t, scrape(t, e, ""), "linstor_scrape_requests_count", "17")
}
