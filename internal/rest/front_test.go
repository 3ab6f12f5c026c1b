// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestSlashesAreServedAsWhatTheyMean(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "//v1//nodes/", `{"name":"n1","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`)
	for _, path := range []string{"/v1/nodes", "/v1/nodes/", "//v1/nodes", "/v1//nodes//", "/v1/nodes/?limit=0&offset=0", "/v1/./nodes"} {
		if nodes := read[[]wire.Node](c, path); len(nodes) != 1 {
			t.Errorf("%s: %d nodes", path, len(nodes))
		}
	}
	c.must(200, "GET", "/v1/nodes/n1/", "")
}

func TestUnknownPathsAndMethods(t *testing.T) {
	c := newCluster(t)
	for _, x := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/nope", 404, ""},
		{"GET", "/v1", 404, ""},
		{"GET", "/v1/nodes/a/b/c/d", 404, ""},
		{"GET", "/v1/nodes/../../etc/passwd", 404, ""},
		{"DELETE", "/v1/nope/", 404, ""},
		{"PATCH", "/v1/nodes", 405, "GET, POST"},
		{"DELETE", "/v1/nodes", 405, "GET, POST"},
		{"POST", "/v1/nodes/n1/", 405, "GET, PUT, DELETE"},
		{"POST", "/health", 405, "GET"},
		{"DELETE", "/v1/controller/properties", 405, "GET, POST"},
		{"GET", "/v1/controller/properties/Aux/a", 405, "DELETE"},
		{"PUT", "/v1/controller/properties/info", 405, "GET, DELETE"},
		{"GET", "/v1/query-max-volume-size", 405, "OPTIONS"},
	} {
		a := c.do(x.method, x.path, "")
		e := a.code(x.status, wire.UnknownAPICall)
		if e.RetCode != wire.UnknownAPICall || a.header.Get("Allow") != x.allow {
			t.Errorf("%s %s: %d, allow %q; want %q", x.method, x.path, e.RetCode, a.header.Get("Allow"), x.allow)
		}
	}
	if strings.Contains(c.log(), "report=") {
		t.Error("an error report was stored for what clients asked wrongly")
	}
}

func TestHeadHasNoBody(t *testing.T) {
	c := newCluster(t)
	if a := c.do("HEAD", "/v1/nodes", ""); a.status != 200 || len(a.body) > 0 {
		t.Errorf("status %d, body %q", a.status, a.body)
	}
}

func TestPropertyKeysMayHoldSlashes(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "/v1/controller/properties", `{"override_props":{"Aux/a/b/c":"1","Aux/d":"x y"}}`)
	c.do("DELETE", "/v1/controller/properties/Aux/a/b/c", "").code(200, wire.Deleted)
	c.do("DELETE", "/v1/controller/properties/Aux%2Fd", "").code(200, wire.Deleted)
	props := read[wire.Properties](c, "/v1/controller/properties")
	if len(props) != 3 {
		t.Errorf("the properties are %v, want the three that are there from the beginning", props)
	}
	if l := c.do("DELETE", "/v1/controller/properties/Aux/nope", "").entries(); !l.Has(wire.WarnDelUnsetProp) {
		t.Errorf("no warning for a property that was not set: %v", l)
	}
}

func TestNamesMayBeEscaped(t *testing.T) {
	c := newCluster(t)
	c.must(200, "PUT", "/v1/key-value-store/a%23b", `{"override_props":{"k":"v"}}`)
	if kv := read[[]wire.KeyValueStore](c, "/v1/key-value-store/a%23b"); len(kv) != 1 || kv[0].Name != "a#b" {
		t.Errorf("the store is %+v", kv)
	}
	c.do("GET", "/v1/key-value-store/a%2Fb", "").code(404, wire.FailNotFoundKVS)
	c.do("PUT", "/v1/key-value-store/a%2Fb", `{"override_props":{"k":"v"}}`).code(500, wire.FailInvldKVSName)
	c.do("GET", "/v1/nodes/..%2f..%2fetc", "").code(404, wire.FailNotFoundNode)
}

// many makes so many definitions that their list is sent in several pieces of some 60 definitions each.
func many(c *cluster) int {
	const n, half = 140, 70
	text := model.PropsOf(map[string]string{"Aux/text": strings.Repeat("x", 900)})
	for _, from := range []int{0, half} {
		if _, err := c.store.Update(c.Context(), func(tx *store.Tx) error {
			var failed error
			for i := from; i < from+half; i++ {
				failed = errors.Join(failed, schema.Definitions.Insert(tx, schema.Definition{
					Name: model.DefinitionName(fmt.Sprintf("rd-%03d", i)), UUID: "1", Group: schema.DefaultGroup.Key(), Props: text,
				}))
			}
			return failed
		}); err != nil {
			c.Fatal(err)
		}
	}
	return n
}

func TestLargeAnswersAreSentInPieces(t *testing.T) {
	c := newCluster(t)
	n := many(c)
	plain := c.do("GET", "/v1/resource-definitions", "", "Accept-Encoding", "identity")
	var l []wire.ResourceDefinition
	plain.into(&l)
	if len(l) != n || plain.header.Get("Content-Length") != "" || plain.header.Get("Content-Encoding") != "" {
		t.Errorf("%d definitions, header %v", len(l), plain.header)
	}
	small := c.do("GET", "/v1/resource-definitions/rd-000", "", "Accept-Encoding", "gzip")
	if small.header.Get("Content-Encoding") != "" || small.header.Get("Content-Length") == "" {
		t.Errorf("a small answer has the header %v", small.header)
	}
	zipped := c.do("GET", "/v1/resource-definitions", "", "Accept-Encoding", "gzip, deflate")
	if zipped.header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("a large answer is not compressed for who asks: %v", zipped.header)
	}
	r, err := gzip.NewReader(strings.NewReader(string(zipped.body)))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := io.ReadAll(r)
	if err != nil || string(unzipped) != string(plain.body) {
		t.Errorf("the compressed answer is another one, or broken: %v", err)
	}
	if never := c.do("GET", "/v1/resource-definitions", "", "Accept-Encoding", "gzip;q=0"); never.header.Get("Content-Encoding") != "" {
		t.Error("the answer is compressed though the client refuses that")
	}
}

// TestEveryLengthOfAnswerIsWhole walks the borders between one piece and two, where a comma may be the last byte sent.
func TestEveryLengthOfAnswerIsWhole(t *testing.T) {
	c := newCluster(t)
	n := many(c)
	for limit := 50; limit <= n; limit++ {
		a := c.do("GET", fmt.Sprintf("/v1/resource-definitions?limit=%d", limit), "", "Accept-Encoding", "identity")
		var l []json.RawMessage
		if err := json.Unmarshal(a.body, &l); err != nil || len(l) != limit {
			t.Fatalf("limit %d: %d elements, %v", limit, len(l), err)
		}
	}
}

func TestPanicsAreReportedAndAnswered(t *testing.T) {
	c := newCluster(t)
	c.server.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the tea is cold") })
	e := c.do("GET", "/metrics", "", "X-Request-Id", "tea-1").code(500, wire.FailImplError)
	if len(e.ErrorReportIDs) != 1 || strings.Contains(e.Message+e.Cause, "tea") {
		t.Errorf("the entry is %+v", e)
	}
	list := read[[]wire.ErrorReport](c, "/v1/error-reports")
	if len(list) != 1 || list[0].Text != "" || list[0].Filename != "ErrorReport-"+e.ErrorReportIDs[0]+".log" || list[0].ErrorTime == 0 {
		t.Fatalf("the list of reports is %+v", list)
	}
	one := read[[]wire.ErrorReport](c, "/v1/error-reports/"+e.ErrorReportIDs[0])
	if len(one) != 1 || !strings.Contains(one[0].Text, "the tea is cold") || !strings.Contains(one[0].Text, "goroutine") {
		t.Errorf("the report is %+v", one)
	}
	if l := c.log(); !strings.Contains(l, "request=tea-1") || !strings.Contains(l, "report="+e.ErrorReportIDs[0]) {
		t.Errorf("the log does not name request and report: %s", l)
	}
	c.must(200, "GET", "/v1/nodes", "")
}

func TestPanicInTheMiddleEndsTheConnection(t *testing.T) {
	c := newCluster(t)
	c.server.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of ")
		_ = http.NewResponseController(w).Flush()
		panic("gone")
	})
	resp, err := http.Get(c.http.URL + "/metrics")
	if err != nil {
		return // The connection ended before the header was read.
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the client took %q for a whole answer", b)
	}
	if len(read[[]wire.ErrorReport](c, "/v1/error-reports")) != 1 {
		t.Error("there is no report")
	}
}

func TestReportsAreBoundedFilteredAndDeleted(t *testing.T) {
	c := newCluster(t)
	c.server.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("again") })
	for range rest.MaxReports + 10 {
		c.must(500, "GET", "/metrics", "")
	}
	list := read[[]wire.ErrorReport](c, "/v1/error-reports?node=controller&withContent=True")
	if len(list) != rest.MaxReports || list[0].Text == "" || list[0].ErrorTime < list[len(list)-1].ErrorTime {
		t.Fatalf("%d reports, the first %+v", len(list), list[0])
	}
	for query, want := range map[string]int{
		"?limit=3&offset=1": 3, "?node=n1": 0, "?since=99999999999999": 0, "?to=99999999999999": rest.MaxReports, "?since=1": rest.MaxReports,
	} {
		if n := len(read[[]wire.ErrorReport](c, "/v1/error-reports/"+query)); n != want {
			t.Errorf("%s: %d reports, want %d", query, n, want)
		}
	}
	c.do("GET", "/v1/error-reports?since=yesterday", "").code(400, wire.APICallParseError)
	id := strings.TrimSuffix(strings.TrimPrefix(list[0].Filename, "ErrorReport-"), ".log")
	c.do("DELETE", "/v1/error-reports/"+id, "").code(200, wire.Deleted)
	c.must(404, "GET", "/v1/error-reports/"+id, "")
	c.must(404, "DELETE", "/v1/error-reports/"+id, "")
	c.do("PATCH", "/v1/error-reports", `{"nodes":["n1"]}`).code(200, wire.Deleted)
	if n := read[wire.Stats](c, "/v1/stats/error-reports").Count; n != rest.MaxReports-1 {
		t.Errorf("%d reports are left", n)
	}
	c.do("PATCH", "/v1/error-reports", `{"to":99999999999999}`).code(200, wire.Deleted)
	if n := read[wire.Stats](c, "/v1/stats/error-reports").Count; n != 0 {
		t.Errorf("%d reports are left", n)
	}
}

func TestRequestsAreMeasuredByRoute(t *testing.T) {
	c := newCluster(t)
	c.must(404, "GET", "/v1/nodes/n1", "")
	c.must(404, "GET", "/v1/nodes/n2/", "")
	c.must(404, "GET", "/v1/what/ever", "")
	for i, want := range []string{"/v1/nodes/{node}", "/v1/nodes/{node}", ""} {
		if m := <-c.measured; m.Route != want || m.Method != "GET" || m.Status != 404 || m.Bytes == 0 || m.Took <= 0 {
			t.Errorf("request %d was measured as %+v, want route %q", i, m, want)
		}
	}
}

func TestRequestIdsOfClientsAreKeptWhenTheyAreHarmless(t *testing.T) {
	c := newCluster(t)
	if id := c.do("GET", "/health", "", "X-Request-Id", "a-1.b").header.Get("X-Request-Id"); id != "a-1.b" {
		t.Errorf("the id is %q", id)
	}
	for _, bad := range []string{strings.Repeat("x", 100), "a b", `"`} {
		if id := c.do("GET", "/health", "", "X-Request-Id", bad).header.Get("X-Request-Id"); id == bad || id == "" {
			t.Errorf("the id is %q", id)
		}
	}
}

func TestChangesGoOnWhenTheClientHangsUp(t *testing.T) {
	c := newCluster(t)
	gate := c.engine.Hold(kvtest.BeforeAppend)
	contexts := make(chan context.Context, 1)
	handler := c.server.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contexts <- r.Context()
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/resource-groups", strings.NewReader(`{"name":"late"}`))
		if err == nil {
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}
		ended <- err
	}()
	<-gate.Reached
	hangUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v", err)
	}
	<-(<-contexts).Done()
	gate.Open(nil)
	if m := <-c.measured; m.Status != http.StatusCreated {
		t.Errorf("the call ended with %d", m.Status)
	}
	c.must(200, "GET", "/v1/resource-groups/late", "")
}

func TestHealthFollowsTheDatabase(t *testing.T) {
	c := newCluster(t)
	healthy := func() answer { return c.do("GET", "/health", "") }
	if a := healthy(); a.status != 200 || len(a.body) != 0 {
		t.Fatalf("status %d, body %q", a.status, a.body)
	}
	c.engine.Fail(kv.ErrFull)
	e := c.do("POST", "/v1/resource-groups", `{"name":"rg1"}`).code(503, wire.FailSQL)
	if e.Cause == "" || e.Correction == "" {
		t.Errorf("the entry says too little: %+v", e)
	}
	if a := healthy(); a.status != 503 || !strings.Contains(string(a.body), "database") {
		t.Errorf("status %d, body %q", a.status, a.body)
	}
	c.must(200, "GET", "/v1/resource-groups", "")
	c.engine.Fail(nil)
	for {
		if a := healthy(); a.status == 200 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("it did not get healthy again")
		}
	}
	c.must(201, "POST", "/v1/resource-groups", `{"name":"rg1"}`)
	if n := read[wire.Stats](c, "/v1/stats/error-reports").Count; n != 0 {
		t.Errorf("%d error reports were stored about the database", n)
	}
}
