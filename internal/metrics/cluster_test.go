// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/metrics"
	nouns "github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

var update = flag.Bool("update", false, "write the golden scrape anew")

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

// volatile are the samples whose values differ from run to run.
var volatile = regexp.MustCompile(`(?m)^(holdfast_(agent|store_(commit|update|revision|watchers))[^ ]*|[^ #]*seconds(_total)?) .*$`)

// emptyCollections are the samples of collections that the cluster has no rows of.
var emptyCollections = regexp.MustCompile(`(?m)^holdfast_store_rows\{.*\} 0\n`)

func TestScrapeOfASmallCluster(t *testing.T) {
	const golden = "testdata/scrape.txt"
	c := troubled(t)
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	e.Measure(rest.Measurement{Method: "GET", Route: "/v1/nodes", Status: 200, Bytes: 512, Took: 3 * time.Millisecond})
	text := scrape(t, e, "")
	parse(t, text)
	got := emptyCollections.ReplaceAllString(volatile.ReplaceAllString(text, "$1 *"), "")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the scrape (-want +got):\n%s", d)
	}
}

// A volume is in the state that the API shows it in.
func TestStatesAgreeWithTheAPI(t *testing.T) {
	c := troubled(t)
	now := time.Unix(1_800_000_000, 0)
	text := scrape(t, exporter(c, &now), "")
	a, err := http.Get(c.URL + "/v1/view/resources")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close() //nolint:errcheck // read to its end
	var list []struct {
		Name  string `json:"name"`
		Node  string `json:"node_name"`
		State struct {
			InUse *bool `json:"in_use"`
		} `json:"state"`
		Volumes []struct {
			Number    int    `json:"volume_number"`
			Pool      string `json:"storage_pool_name"`
			Device    string `json:"device_path"`
			Allocated *int64 `json:"allocated_size_kib"`
			State     struct {
				Disk string `json:"disk_state"`
			} `json:"state"`
		} `json:"volumes"`
	}
	if err := json.NewDecoder(a.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	numbers := map[string]string{"UpToDate": "1", "Created": "2", "Diskless": "4", "Failed": "6", "": "-1"}
	volumes := 0
	for _, r := range list {
		use := "-1"
		if r.State.InUse != nil {
			use = map[bool]string{false: "0", true: "1"}[*r.State.InUse]
		}
		must(t, text, fmt.Sprintf("linstor_resource_state{name=%q,node=%q}", r.Name, r.Node), use)
		for _, v := range r.Volumes {
			volumes++
			labels := fmt.Sprintf("{resource=%q,node=%q,volume=\"%d\"", r.Name, r.Node, v.Number)
			if v.Device != "" {
				labels += fmt.Sprintf(",device_path=%q", v.Device)
			}
			labels += fmt.Sprintf(",storage_pool=%q}", v.Pool)
			must(t, text, "linstor_volume_state"+labels, numbers[v.State.Disk])
			allocated := ""
			if v.Allocated != nil {
				allocated = fmt.Sprint(*v.Allocated * 1024)
			}
			must(t, text, "linstor_volume_allocated_size_bytes"+labels, allocated)
		}
	}
	if volumes < 4 {
		t.Errorf("only %d volumes were compared", volumes)
	}
}

func TestWhatIsNotKnownIsAbsent(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1, Provider: nouns.LVM, PoolSize: 8 << 30})
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	call(t, c, "POST", "/v1/resource-groups", `{"name":"grp","select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`)
	call(t, c, "POST", "/v1/resource-groups/grp/spawn", `{"resource_definition_name":"vol","volume_sizes":[1048576]}`)
	c.Until(func() bool {
		free := pool(c, "n1").Free
		return free != nil && *free == 7<<30
	})
	const (
		labels = `{storage_pool="data",node="n1",driver="LVM",backing_pool="/srv/data"}`
		own    = `{node="n1",storage_pool="data"}`
		volume = `{resource="vol",node="n1",volume="0",device_path="/dev/fake/vol/0",storage_pool="data"}`
	)
	check := func(free, total, faults, allocated, foreign, volumeAllocated, volumeState string) {
		t.Helper()
		text := scrape(t, e, "")
		parse(t, text)
		must(t, text, "linstor_storage_pool_capacity_free_bytes"+labels, free)
		must(t, text, "linstor_storage_pool_capacity_total_bytes"+labels, total)
		must(t, text, "linstor_storage_pool_error_count"+labels, faults)
		must(t, text, "holdfast_storage_pool_allocated_bytes"+own, allocated)
		must(t, text, "holdfast_storage_pool_unknown_volumes"+own, foreign)
		must(t, text, "holdfast_storage_pool_promised_bytes"+own, "1073741824")
		must(t, text, "linstor_volume_allocated_size_bytes"+volume, volumeAllocated)
		must(t, text, "linstor_volume_state"+volume, volumeState)
	}
	check("7516192768", "8589934592", "0", "1073741824", "0", "1073741824", "2")
	c.StopAgent("n1")
	check("", "", "", "", "", "", "-1")
}

func TestPendingDeletesGrowOldAndGo(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	call(t, c, "POST", "/v1/resource-groups", `{"name":"grp","select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`)
	call(t, c, "POST", "/v1/resource-groups/grp/spawn", `{"resource_definition_name":"vol","volume_sizes":[1024]}`)
	check := func(definitions, resources, age string) {
		t.Helper()
		text := scrape(t, e, "")
		must(t, text, `holdfast_pending_deletes{kind="resource_definition"}`, definitions)
		must(t, text, `holdfast_pending_deletes{kind="resource"}`, resources)
		must(t, text, "holdfast_pending_delete_oldest_age_seconds", age)
	}
	check("0", "0", "")
	c.StopAgent("n1")
	call(t, c, "DELETE", "/v1/resource-definitions/vol", "")
	check("1", "1", "0")
	now = now.Add(90 * time.Second)
	check("1", "1", "90")
	c.StartAgent("n1")
	c.Until(func() bool {
		return strings.Contains(scrape(t, e, ""), `holdfast_pending_deletes{kind="resource_definition"} 0`)
	})
	check("0", "0", "")
}

// A scrape waits neither for a commit that hangs nor for an agent that is silent.
func TestScrapeWaitsForNothing(t *testing.T) {
	engine := kvtest.NewMemory()
	c := cluster.Start(t, cluster.Options{Engine: engine, Nodes: 1})
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	c.Agents["n1"].Silence()
	defer c.Agents["n1"].Speak()
	gate := engine.Hold(kvtest.BeforeAppend)
	answered := make(chan error, 1)
	go func() {
		_, err := c.Store.Update(context.WithoutCancel(t.Context()), func(tx *store.Tx) error {
			row, _ := schema.Settings.Get(tx, schema.SettingsKey)
			row.Props = row.Props.With("Aux/site", "north")
			return schema.Settings.Update(tx, row)
		})
		answered <- err
	}()
	<-gate.Reached
	text := scrape(t, e, "")
	must(t, text, "holdfast_store_updates_queued", "1")
	must(t, text, `linstor_node_state{node="n1",nodetype="SATELLITE",address="127.0.0.1",encryption="PLAIN",port="3366"}`, "2")
	gate.Open(nil)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestPartsCanBeLeftOut(t *testing.T) {
	c := troubled(t)
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	for query, families := range map[string][]string{
		"?resource=false": {
			"linstor_resource_state", "linstor_volume_state", "linstor_volume_allocated_size_bytes",
			"linstor_resource_definition_resource_count",
		},
		"?storage_pools=false": {
			"linstor_storage_pool_capacity_free_bytes", "linstor_storage_pool_capacity_total_bytes",
			"linstor_storage_pool_error_count", "holdfast_storage_pool_promised_bytes",
		},
		"?error_reports=0":     {"linstor_error_reports_count"},
		"?resource=perhaps":    nil,
		"?error_reports=false": {"linstor_error_reports_count"},
	} {
		all, some := parse(t, scrape(t, e, "")), parse(t, scrape(t, e, query))
		for _, name := range families {
			if all[name] == nil || some[name] != nil {
				t.Errorf("%s: the family %s is in the whole scrape: %v, in this one: %v", query, name, all[name] != nil, some[name] != nil)
			}
		}
		if query == "?resource=perhaps" && len(all) != len(some) {
			t.Errorf("%s: %d families, want all %d", query, len(some), len(all))
		}
		for name := range all {
			if name == "linstor_node_state" && some[name] == nil {
				t.Errorf("%s: the nodes are missing", query)
			}
		}
	}
}

func TestScrapeIsCompressedForThoseWhoTakeIt(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "br": false,
	} {
		for range 2 { // The second scrape uses the compressor of the first.
			q := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			q.Header.Set("Accept-Encoding", accept)
			w := httptest.NewRecorder()
			e.ServeHTTP(w, q)
			text := w.Body.Bytes()
			if (w.Header().Get("Content-Encoding") == "gzip") != want {
				t.Errorf("with %q the encoding is %q", accept, w.Header().Get("Content-Encoding"))
			}
			if want {
				z, err := gzip.NewReader(bytes.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				if text, err = io.ReadAll(z); err != nil {
					t.Fatal(err)
				}
			}
			parse(t, string(text))
			if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
				t.Errorf("the content type is %q", got)
			}
		}
	}
}

func TestScrapesAreCounted(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	for i := range 3 {
		must(t, scrape(t, e, ""), "linstor_scrape_requests_count", fmt.Sprint(i+1))
	}
}

func TestFamiliesWithoutSamplesAreThere(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	now := time.Unix(1_800_000_000, 0)
	text := scrape(t, exporter(c, &now), "")
	for _, name := range []string{"linstor_node_state", "linstor_resource_state", "linstor_volume_state", "linstor_storage_pool_error_count"} {
		if !strings.Contains(text, "# TYPE "+name+" gauge\n") {
			t.Errorf("the family %s is missing in an empty cluster", name)
		}
	}
}

func TestTargetsAreTheNodesWithAgents(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	call(t, c, "POST", "/v1/nodes", `{"name":"six","type":"Combined","net_interfaces":[{"name":"default","address":"fd00::6"}]}`)
	call(t, c, "POST", "/v1/nodes", `{"name":"tape","type":"Auxiliary","net_interfaces":[{"name":"default","address":"10.0.0.7"}]}`)
	now := time.Unix(1_800_000_000, 0)
	w := httptest.NewRecorder()
	exporter(c, &now).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics/scrape-target", nil))
	if got, want := strings.TrimSpace(w.Body.String()), `[{"targets":["127.0.0.1:9942","[fd00::6]:9942"]}]`; got != want {
		t.Errorf("the targets are %s, want %s", got, want)
	}
	text := scrape(t, exporter(c, &now), "")
	must(t, text, `linstor_node_state{node="tape",nodetype="AUXILIARY",address="10.0.0.7",encryption="PLAIN",port="3366"}`, "6")
}
