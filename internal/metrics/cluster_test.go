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

	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/metrics"
	nouns "github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

var update = flag.Bool("update", false, "write the golden scrape anew")

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
	check := func(e *metrics.Exporter, definitions, resources, age string) {
		t.Helper()
		text := scrape(t, e, "")
		must(t, text, `holdfast_pending_deletes{kind="resource_definition"}`, definitions)
		must(t, text, `holdfast_pending_deletes{kind="resource"}`, resources)
		must(t, text, "holdfast_pending_delete_oldest_age_seconds", age)
	}
	check(e, "0", "0", "")
	c.StopAgent("n1")
	call(t, c, "DELETE", "/v1/resource-definitions/vol", "")
	asked := func() time.Time {
		r, _ := schema.Resources.Get(c.Store.Snapshot(), nouns.ResourceID{Definition: "vol", Node: "n1"})
		return r.DeletingFrom
	}
	since := asked()
	now = since.Add(90 * time.Second)
	check(e, "1", "1", "90")
	call(t, c, "DELETE", "/v1/resource-definitions/vol", "")
	if again := asked(); since.IsZero() || !again.Equal(since) {
		t.Errorf("asked for at %v, and again at %v", since, again)
	}
	check(exporter(c, &now), "1", "1", "90") // also to one that has never looked before
	c.StartAgent("n1")
	c.Until(func() bool {
		return strings.Contains(scrape(t, e, ""), `holdfast_pending_deletes{kind="resource_definition"} 0`)
	})
	check(e, "0", "0", "")
}

func TestTheControllerCountsItsErrorReports(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	must(t, string(text), "linstor_error_reports_count", "0")
	must(t, string(text), "holdfast_error_reports_total", "0")
}

// A deletion whose row does not say since when is as old as it has been seen.
func TestAPendingDeleteWithoutATimeIsAsOldAsItWasSeen(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	now := time.Unix(1_800_000_000, 0)
	e := exporter(c, &now)
	_, err := schema.Update(t.Context(), c.Store, func(tx *store.Tx) error {
		n, _ := schema.Nodes.Get(tx, "n1")
		n.Deleting = true
		return schema.Nodes.Update(tx, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, scrape(t, e, ""), "holdfast_pending_delete_oldest_age_seconds", "0")
	now = now.Add(time.Minute)
	must(t, scrape(t, e, ""), "holdfast_pending_delete_oldest_age_seconds", "60")
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

func TestCertificatesTellWhenTheyExpire(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	at := time.Unix(1_900_000_000, 0)
	text := scrape(t, metrics.New(metrics.Config{Store: c.Store, Observed: c.Observed, Expiries: func() []authority.Expiry {
		return []authority.Expiry{{Of: "authority", At: at}, {Of: "node", Node: nouns.NodeName("N1").Key(), At: at.Add(time.Hour)}}
	}}), "")
	must(t, text, `holdfast_certificate_expiry_timestamp_seconds{of="authority"}`, "1900000000")
	must(t, text, `holdfast_certificate_expiry_timestamp_seconds{of="node",node="n1"}`, "1900003600")
}

// What a controller serves has everything that it can tell.
func TestControllersServeTheirMetrics(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1})
	call(t, c, "GET", "/v1/nodes/n1", "")
	get := func() string {
		a, err := http.Get(c.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close() //nolint:errcheck // read to its end
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	get()
	text := get() // The first one was counted when it was answered.
	families := parse(t, text)
	for _, name := range []string{"linstor_node_state", "holdfast_agent_sessions", "holdfast_http_request_duration_seconds"} {
		if families[name] == nil {
			t.Errorf("the family %s is missing", name)
		}
	}
	must(t, text, `holdfast_http_requests_total{method="GET",route="/v1/nodes/{node}",status="200"}`, "1")
	must(t, text, `holdfast_http_requests_total{method="GET",route="/metrics",status="200"}`, "1")
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
