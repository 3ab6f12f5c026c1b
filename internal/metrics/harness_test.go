// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/metrics"
	nouns "github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// exporter returns the exporter of a cluster, on a clock that stands still unless the test
// moves it.
func exporter(c *cluster.Cluster, now *time.Time) *metrics.Exporter {
	return metrics.New(metrics.Config{
		Store: c.Store, Observed: c.Observed, Sessions: c.Dispatch.Sessions,
		ErrorReports: func() (kept, made int) { return 2, 7 },
		Build:        rest.Build{Version: "1.34.0", Commit: "0123abc", Time: "2026-01-01T00:00:00Z"},
		Now:          func() time.Time { return *now },
	})
}

// scrape returns the text of one scrape.
func scrape(tb testing.TB, h http.Handler, query string) string {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics"+query, nil))
	if w.Code != http.StatusOK {
		tb.Fatalf("the scrape was answered with %d", w.Code)
	}
	return w.Body.String()
}

// parse reads a scrape as Prometheus does. It fails the test when a family comes twice, or a
// series.
func parse(tb testing.TB, scrape string) map[string]*dto.MetricFamily {
	tb.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(scrape))
	if err != nil {
		tb.Fatal(err)
	}
	series := make(map[string]bool)
	for line := range strings.Lines(scrape) {
		if id := line[:strings.LastIndexByte(line, ' ')]; !strings.HasPrefix(line, "#") {
			if series[id] {
				tb.Errorf("the series %s comes twice", id)
			}
			series[id] = true
		}
	}
	return families
}

// value is the value of the series that a scrape shows as id.
func value(scrape, id string) (string, bool) {
	for line := range strings.Lines(scrape) {
		if rest, ok := strings.CutPrefix(line, id+" "); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// must fails the test unless a scrape has a series with a value. An empty one means that
// the series is absent.
func must(t *testing.T, scrape, id, want string) {
	t.Helper()
	if got, _ := value(scrape, id); got != want {
		t.Errorf("%s is %q, want %q", id, got, want)
	}
}

// call makes a call of the API that succeeds.
func call(t *testing.T, c *cluster.Cluster, method, path, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, a.StatusCode, err, text)
	}
}

func id(definition, node string) nouns.ResourceID {
	return nouns.ResourceID{Definition: nouns.DefinitionName(definition).Key(), Node: nouns.NodeName(node).Key()}
}

// pool is what is known of the pool of a node.
func pool(c *cluster.Cluster, node string) observed.PoolStatus {
	p, _ := c.Observed.Pool(nouns.PoolID{Node: nouns.NodeName(node).Key(), Pool: nouns.PoolName(cluster.Pool).Key()})
	return p
}

// troubled starts a cluster that has something of everything: n1 is well, n2 is away with a
// deletion pending on it, the pool of n3 has failed, and a replica there fails.
func troubled(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Nodes: 3, Provider: nouns.LVM, PoolSize: 8 << 30, Agent: func(a *fakeagent.Agent) {
		// What happens to a host by itself is noticed by looking.
		a.Limits.Repair, a.Limits.Measure, a.Limits.RetryFirst = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	}})
	for _, body := range []string{
		`{"name":"Gold","select_filter":{"place_count":2,"node_name_list":["n1","n2"],"layer_stack":["DRBD","STORAGE"]}}`,
		`{"name":"local","select_filter":{"place_count":1,"node_name_list":["n3"],"layer_stack":["STORAGE"]}}`,
	} {
		call(t, c, "POST", "/v1/resource-groups", body)
	}
	call(t, c, "POST", "/v1/resource-groups/Gold/spawn", `{"resource_definition_name":"vm-1","volume_sizes":[1048576]}`)
	call(t, c, "POST", "/v1/resource-groups/Gold/spawn", `{"resource_definition_name":"vm-2","volume_sizes":[2097152,4]}`)
	call(t, c, "POST", "/v1/resource-groups/Gold/spawn", `{"resource_definition_name":"Spare","volume_sizes":[4194304],"definitions_only":true}`)
	call(t, c, "POST", "/v1/resource-groups/local/spawn", `{"resource_definition_name":"scratch","volume_sizes":[65536]}`)
	call(t, c, "POST", "/v1/resource-definitions/vm-1/resources/n3", `{"resource":{"flags":["DISKLESS"]}}`)

	c.Agents["n1"].Use("vm-1", "qemu-system-x86_64")
	c.Agents["n3"].FailPool(cluster.Pool, "the volume group is gone")
	c.Until(func() bool {
		used, _ := c.Observed.Resource(id("vm-1", "n1"))
		in, known := used.InUse()
		failed, _ := c.Observed.Resource(id("scratch", "n3"))
		return in && known && failed.Failure != nil && len(pool(c, "n3").Faults) > 0
	})
	c.StopAgent("n2")
	call(t, c, "DELETE", "/v1/resource-definitions/vm-2", "")
	c.Until(func() bool {
		free := pool(c, "n1").Free
		return free != nil && *free == 7<<30
	})
	return c
}
