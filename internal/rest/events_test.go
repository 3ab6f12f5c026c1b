// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// listen reads a stream of events until the test ends: each event as its name and data in one line.
func (c *cluster) listen(path string, header http.Header) <-chan string {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.http.URL+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	req.Header = header
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	if got := a.Header.Get("Content-Type"); a.StatusCode != http.StatusOK || got != "text/event-stream" {
		c.Fatalf("it is answered with %d, %s", a.StatusCode, got)
	}
	events, ended := make(chan string, 100), make(chan struct{})
	lines := bufio.NewScanner(a.Body)
	connected := make(chan struct{})
	go func() {
		defer close(ended)
		name := ""
		for lines.Scan() {
			if lines.Text() == ": connected" {
				close(connected)
			}
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			} else if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				events <- name + " " + text
			}
		}
	}()
	select {
	case <-connected:
	case <-ended:
		c.Fatal("the stream ended before it began")
	}
	c.Cleanup(func() {
		cancel()
		_ = a.Body.Close()
		<-ended
	})
	return events
}

// next returns the next event, and fails the test when it does not begin so.
func next(t *testing.T, events <-chan string, prefix string) string {
	t.Helper()
	const long = 30 * time.Second
	select {
	case e := <-events:
		if !strings.HasPrefix(e, prefix) {
			t.Fatalf("got the event %s, want %s", e, prefix)
		}
		return e
	case <-time.After(long):
		t.Fatalf("the event %s did not come", prefix)
	}
	return ""
}

func (c *cluster) register(name string) {
	c.Helper()
	if _, err := c.server.Inventory.CreateNode(c.Context(), inventory.NewNode{
		Name: name, Interfaces: []inventory.NewInterface{{Name: "default", Address: "10.0.0.1"}},
	}); err != nil {
		c.Fatal(err)
	}
}

func TestNodesThatComeChangeAndGoAreTold(t *testing.T) {
	c := newCluster(t)
	c.register("old")
	events := c.listen("/v1/events/nodes", nil)
	c.register("new")
	if e := next(t, events, "node-create "); !strings.Contains(e, `"name":"new"`) {
		t.Errorf("got %s", e)
	}
	c.seen.Connect("old", observed.Facts{}, false)
	if e := next(t, events, "node-modified "); !strings.Contains(e, `"old_node"`) || !strings.Contains(e, `"CONNECTED"`) {
		t.Errorf("got %s", e)
	}
	if a := c.do("PUT", "/v1/nodes/new/evacuate", "{}"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	next(t, events, "node-evacuate ")
	next(t, events, "node-modified ")
	if a := c.do("PUT", "/v1/nodes/new/restore", "{}"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	next(t, events, "node-restored ")
	next(t, events, "node-modified ")
	if a := c.do("DELETE", "/v1/nodes/new", ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if e := next(t, events, "node-delete "); !strings.Contains(e, `"name":"new"`) {
		t.Errorf("got %s", e)
	}
}

func TestWhatMayBePromotedIsToldFirstAndWhenItChanges(t *testing.T) {
	c := newCluster(t)
	c.register("n1")
	c.do("POST", "/v1/resource-definitions", `{"resource_definition":{"name":"vol","layer_data":[{"type":"DRBD"},{"type":"STORAGE"}]}}`)
	if _, err := schema.Update(t.Context(), c.store, func(tx *store.Tx) error {
		return schema.Resources.Insert(tx, schema.Resource{Definition: "vol", Node: "n1", UUID: "u", Kind: schema.Client})
	}); err != nil {
		t.Fatal(err)
	}
	may := func(is bool) {
		rep := observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{
			"vol": {Generation: 1, Phase: observed.Ready, DRBD: &observed.DRBDStatus{MayPromote: &is}},
		}}
		c.seen.Report("n1", rep)
	}
	c.seen.Connect("n1", observed.Facts{}, false)
	may(true)
	changes := c.listen("/v1/events/drbd/promotion", nil)
	all := c.listen("/v1/events/drbd/promotion", http.Header{"Last-Event-Id": {"current"}})
	const told = `may-promote-change {"resource_name":"vol","node_name":"n1","may_promote":`
	next(t, all, told+"true}")
	may(false)
	next(t, all, told+"false}")
	next(t, changes, told+"false}")
	may(true)
	next(t, all, told+"true}")
	next(t, changes, told+"true}")
	c.seen.Disconnect("n1", "gone")
	next(t, all, told+"false}")
	next(t, changes, told+"false}")
}

func TestAReaderThatTakesNothingHoldsUpNobody(t *testing.T) {
	c := newCluster(t)
	c.register("n1")
	const slow = 50
	for range slow {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.http.URL+"/v1/events/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }() // Nobody reads it.
	}
	events := c.listen("/v1/events/nodes", nil)
	for range 20 {
		c.seen.Connect("n1", observed.Facts{}, false)
		next(t, events, "node-modified ")
		c.seen.Disconnect("n1", "gone")
		next(t, events, "node-modified ")
	}
}

func TestStreamsOfEventsEndWithTheServer(t *testing.T) {
	c := newCluster(t)
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, c.http.URL+"/v1/events/nodes", nil)
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(a.Body); lines.Scan(); {
		}
	}()
	c.server.Stop()
	<-ended
	if ctx.Err() != nil {
		t.Error("it did not end")
	}
}
