// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/client"
)

// served starts a server that ends with the test.
func served(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// answering returns a handler that always gives one answer and counts.
func answering(status int, body string, count *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// dead returns an address at which nothing listens.
func dead(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

func newClient(t *testing.T, addresses []string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(addresses, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAddressesAsPeopleWriteThem(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"ctrl", "http://ctrl:3370"},
		{"ctrl:80", "http://ctrl:80"},
		{" ctrl ", "http://ctrl:3370"},
		{"http://ctrl/", "http://ctrl:3370"},
		{"https://ctrl", "https://ctrl:3371"},
		{"linstor://ctrl", "http://ctrl:3370"},
		{"linstor+ssl://ctrl:1", "https://ctrl:1"},
		{"LINSTOR://ctrl", "http://ctrl:3370"},
		{"::1", "http://[::1]:3370"},
		{"[fe80::1]:80", "http://[fe80::1]:80"},
		{"https://[::1]", "https://[::1]:3371"},
		{"10.0.0.1", "http://10.0.0.1:3370"},
	} {
		var asked string
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.Scheme + "://" + r.URL.Host
			return nil, errors.New("stop here")
		})
		_ = newClient(t, []string{c.in}, client.WithHTTPClient(&http.Client{Transport: transport})).Health(t.Context())
		if asked != c.want {
			t.Errorf("%q is asked at %q, want %q", c.in, asked, c.want)
		}
	}
	for _, bad := range []string{"", "http://", "ftp://ctrl", "ctrl/path", "http://user@ctrl", "ctrl:port", "http://ctrl?x=1", "a b"} {
		if _, err := client.New([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := client.New(nil); err == nil {
		t.Error("no address at all is accepted")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNextControllerIsAskedWhenOneIsGone(t *testing.T) {
	var calls atomic.Int32
	alive := served(t, answering(201, `[{"ret_code":1,"message":"ok"}]`, &calls))
	c := newClient(t, []string{dead(t), alive.URL})
	for range 3 {
		entries, err := c.CreateNode(t.Context(), client.NodeCreate{Name: "n1"})
		if err != nil || len(entries) != 1 {
			t.Fatalf("got %v, error %v", entries, err)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls arrived", n)
	}
}

func TestTheControllerThatAnsweredIsAskedFirst(t *testing.T) {
	var first, second atomic.Int32
	gone := served(t, func(http.ResponseWriter, *http.Request) {
		first.Add(1)
		panic(http.ErrAbortHandler)
	})
	alive := served(t, answering(200, `[]`, &second))
	c := newClient(t, []string{gone.URL, alive.URL})
	for range 5 {
		if _, err := c.Nodes(t.Context(), client.NodeFilter{}); err != nil {
			t.Fatal(err)
		}
	}
	if first.Load() != 1 || second.Load() != 5 {
		t.Errorf("first asked %d times, second %d", first.Load(), second.Load())
	}
}

func TestAChangeThatMayHaveHappenedIsNotRepeated(t *testing.T) {
	var second atomic.Int32
	cut := served(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	alive := served(t, answering(201, `[{"ret_code":1,"message":"ok"}]`, &second))
	c := newClient(t, []string{cut.URL, alive.URL})
	_, err := c.CreateNode(t.Context(), client.NodeCreate{Name: "n1"})
	failure, ok := errors.AsType[*client.ConnectionError](err)
	if !ok || !failure.Unknown || len(failure.Attempts) != 1 || failure.Timeout() {
		t.Errorf("got %#v", err)
	}
	if second.Load() != 0 {
		t.Error("the change was sent again")
	}
}

func TestAControllerThatDoesNotServeIsPassedOver(t *testing.T) {
	var first, second atomic.Int32
	standby := served(t, answering(503, `[{"ret_code":-4611686018427386908,"message":"no leader"}]`, &first))
	alive := served(t, answering(201, `[{"ret_code":1,"message":"ok"}]`, &second))
	if _, err := newClient(t, []string{standby.URL, alive.URL}).CreateNode(t.Context(), client.NodeCreate{}); err != nil {
		t.Fatal(err)
	}
	_, err := newClient(t, []string{standby.URL, dead(t)}).CreateNode(t.Context(), client.NodeCreate{})
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != 503 || refused.Error() != "no leader" {
		t.Errorf("without another controller: %#v", err)
	}
}

func TestNoControllerAtAll(t *testing.T) {
	a, b := dead(t), dead(t)
	_, err := newClient(t, []string{a, b}).Nodes(t.Context(), client.NodeFilter{})
	failure, ok := errors.AsType[*client.ConnectionError](err)
	if !ok || len(failure.Attempts) != 2 || failure.Unknown || failure.Timeout() {
		t.Fatalf("got %#v", err)
	}
	for _, address := range []string{a, b} {
		if host := strings.TrimPrefix(address, "http://"); !strings.Contains(err.Error(), host) {
			t.Errorf("%q does not name %s", err, host)
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Error("the cause cannot be reached")
	}
}

func TestTimeoutsAreTold(t *testing.T) {
	release := make(chan struct{})
	hanging := served(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	_, err := newClient(t, []string{hanging.URL}, client.WithTimeout(time.Millisecond)).Nodes(t.Context(), client.NodeFilter{})
	if failure, ok := errors.AsType[*client.ConnectionError](err); !ok || !failure.Timeout() || failure.Unknown {
		t.Errorf("own time-out: %#v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = newClient(t, []string{hanging.URL}, client.WithTimeout(0)).Nodes(ctx, client.NodeFilter{})
	if failure, ok := errors.AsType[*client.ConnectionError](err); !ok || !failure.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's: %#v", err)
	}
}

func TestRefusalsCarryTheEntries(t *testing.T) {
	const exists = `{"ret_code":-4611686018406940171,"message":"Resource definition r1 exists.","cause":"It was made before","correction":"Choose another name"}`
	for _, c := range []struct {
		name, body string
		status     int
		text       string
	}{
		{"as a status", `[{"ret_code":1,"message":"first"},` + exists + `]`, 500, "Resource definition r1 exists.: It was made before (Choose another name)"},
		{"within a success", `[` + exists + `]`, 201, "Resource definition r1 exists.: It was made before (Choose another name)"},
		{"in a clone's object", `{"location":"","source_name":"a","clone_name":"b","messages":[` + exists + `]}`, 500, "Resource definition r1 exists.: It was made before (Choose another name)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := served(t, answering(c.status, c.body, new(atomic.Int32)))
			_, err := newClient(t, []string{s.URL}).CreateResourceDefinition(t.Context(), client.ResourceDefinitionCreate{})
			if !client.Is(err, client.FailExistsRscDfn) || client.Is(err, client.FailExistsRsc) || client.IsNotFound(err) {
				t.Errorf("got %#v", err)
			}
			if err.Error() != c.text {
				t.Errorf("says %q, want %q", err, c.text)
			}
		})
	}
}

func TestAbsenceIsToldFromAWrongPath(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       bool
	}{
		{"absent", `[{"ret_code":-4611686018427387604,"message":"Node n1 not found."}]`, true},
		{"unknown call", `[{"ret_code":-3458764513820540929,"message":"No such call."}]`, false},
		{"another server", `404 page not found`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := served(t, answering(404, c.body, new(atomic.Int32)))
			_, err := newClient(t, []string{s.URL}).Node(t.Context(), "n1")
			if err == nil || client.IsNotFound(err) != c.want {
				t.Errorf("got %#v", err)
			}
		})
	}
	s := served(t, answering(200, `[]`, new(atomic.Int32)))
	if _, err := newClient(t, []string{s.URL}).KeyValueStore(t.Context(), "x"); !client.IsNotFound(err) {
		t.Errorf("an empty list of stores: %#v", err)
	}
}

func TestAnswersOfOthersAreUnexpected(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for _, c := range []struct {
		body  string
		begin string
	}{
		{"<html>hello</html>", "<html>hello</html>"},
		{"", ""},
		{`{"name":1}`, `{"name":1}`},
		{long, strings.Repeat("ä", 40)},
		{"x" + long, "x" + strings.Repeat("ä", 39)},
	} {
		s := served(t, answering(200, c.body, new(atomic.Int32)))
		_, err := newClient(t, []string{s.URL}).Nodes(t.Context(), client.NodeFilter{})
		other, ok := errors.AsType[*client.UnexpectedError](err)
		if !ok || other.Answer != c.begin || other.Status != 200 {
			t.Errorf("%q gives %#v", c.body, err)
		}
	}
}

func TestRedirectKeepsMethodAndBody(t *testing.T) {
	var got []string
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+string(body)+" "+r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `[{"ret_code":1,"message":"ok"}]`)
	}))
	t.Cleanup(secure.Close)
	var redirects atomic.Int32
	front := served(t, func(w http.ResponseWriter, r *http.Request) {
		redirects.Add(1)
		w.Header().Set("Location", secure.URL+r.URL.Path)
		w.WriteHeader(http.StatusFound)
	})
	c := newClient(t, []string{front.URL}, client.WithHTTPClient(secure.Client()), client.WithToken("t0"))
	for range 2 {
		if _, err := c.CreateNode(t.Context(), client.NodeCreate{Name: "n1"}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `POST /v1/nodes {"name":"n1"} Bearer t0`
	if diff := cmp.Diff([]string{want, want}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if redirects.Load() != 1 {
		t.Errorf("redirected %d times", redirects.Load())
	}
}

func TestRedirectToAnotherHostIsRefused(t *testing.T) {
	for location, why := range map[string]string{"http://elsewhere.invalid/v1/nodes": "not the same host", "://": "Location"} {
		s := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		_, err := newClient(t, []string{s.URL}, client.WithToken("secret")).Nodes(t.Context(), client.NodeFilter{})
		if failure, ok := errors.AsType[*client.ConnectionError](err); !ok || !strings.Contains(failure.Error(), why) {
			t.Errorf("%s: %v", location, err)
		}
	}
	var loops atomic.Int32
	loop := served(t, func(w http.ResponseWriter, r *http.Request) {
		loops.Add(1)
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(http.StatusFound)
	})
	_, err := newClient(t, []string{loop.URL}).Nodes(t.Context(), client.NodeFilter{})
	if _, ok := errors.AsType[*client.ConnectionError](err); !ok || loops.Load() != 3 {
		t.Errorf("a loop: %d requests, error %v", loops.Load(), err)
	}
}

func TestHealthExplainsItself(t *testing.T) {
	well := served(t, answering(200, "", new(atomic.Int32)))
	if err := newClient(t, []string{well.URL}).Health(t.Context()); err != nil {
		t.Error(err)
	}
	sick := served(t, answering(500, "database: disk full\n", new(atomic.Int32)))
	err := newClient(t, []string{sick.URL}).Health(t.Context())
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != 500 || !strings.Contains(err.Error(), "database: disk full") {
		t.Errorf("got %#v", err)
	}
}

func TestTraceShowsEachExchange(t *testing.T) {
	s := served(t, answering(200, `[{"ret_code":3,"message":"ok"}]`, new(atomic.Int32)))
	var seen []client.Exchange
	c := newClient(t, []string{s.URL}, client.WithTrace(func(x client.Exchange) {
		x.Duration = 0
		seen = append(seen, x)
	}))
	if _, err := c.ModifyNode(t.Context(), "n/1", client.NodeModify{NodeType: client.NodeCombined}); err != nil {
		t.Fatal(err)
	}
	want := []client.Exchange{{
		Method: "PUT", URL: s.URL + "/v1/nodes/n%2F1", Request: []byte(`{"node_type":"Combined"}`),
		Status: 200, Answer: []byte(`[{"ret_code":3,"message":"ok"}]`),
	}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
