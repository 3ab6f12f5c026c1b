// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// define creates a resource definition.
func (c *cluster) define(name string) {
	c.Helper()
	c.must(http.StatusCreated, "POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":%q}}`, name))
}

// names reads a page of the definitions.
func (c *cluster) names(offset, limit int, header ...string) []string {
	c.Helper()
	a := c.do("GET", fmt.Sprintf("/v1/resource-definitions?limit=%d&offset=%d", limit, offset), "", header...)
	var rows []wire.ResourceDefinition
	a.into(&rows)
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}

func TestPagesAreStableWhileOthersCreateAndDelete(t *testing.T) {
	c := newCluster(t)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("vol-%03d", i))
		c.define(want[i])
	}
	const limit = 7
	var got []string
	for offset := 0; ; offset += limit {
		rows := c.names(offset, limit)
		got = append(got, rows...)
		if len(rows) < limit {
			break
		}
		// Before all that was seen, and among what is to come.
		c.define(fmt.Sprintf("a-%03d", offset))
		c.define(fmt.Sprintf("vol-%03d-b", offset+limit))
		c.must(http.StatusOK, "DELETE", fmt.Sprintf("/v1/resource-definitions/vol-%03d", offset), "")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the walk has seen\n%q\nwant\n%q", got, want)
	}
	if now := c.names(0, 1000); len(now) == len(want) || now[0] != "a-000" {
		t.Errorf("a new walk begins with %q and has %d elements", now[0], len(now))
	}
}

func TestWalksOfSeveralClientsDoNotMix(t *testing.T) {
	c := newCluster(t)
	c.define("m-1")
	c.define("m-2")
	one, two := []string{"User-Agent", "one"}, []string{"User-Agent", "two"}
	first := c.names(0, 1, one...)
	c.define("a-1")
	second := c.names(0, 1, two...)
	c.define("a-0")
	first = append(first, c.names(1, 1, one...)...)
	second = append(second, c.names(1, 1, two...)...)
	if !slices.Equal(first, []string{"m-1", "m-2"}) || !slices.Equal(second, []string{"a-1", "m-1"}) {
		t.Errorf("one has seen %q, two %q", first, second)
	}
}

func TestAPageByItselfIsOfTheNewestState(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := newClusterAt(t, func() time.Time { return at })
	c.define("m-1")
	c.define("m-2")
	c.names(0, 1)
	c.define("a-1")
	if got := c.names(2, 1); !slices.Equal(got, []string{"m-2"}) {
		t.Errorf("a page that nobody has read up to is %q", got)
	}
	if got := c.names(1, 2); !slices.Equal(got, []string{"m-1", "m-2"}) {
		t.Errorf("a page of another size is %q", got)
	}
	at = at.Add(time.Hour)
	if got := c.names(1, 1); !slices.Equal(got, []string{"m-1"}) {
		t.Errorf("after an hour, the next page is %q", got)
	}
}

func TestManyWalksAreBounded(t *testing.T) {
	c := newCluster(t)
	c.define("m-1")
	c.define("m-2")
	header := func(i int) []string { return []string{"User-Agent", fmt.Sprintf("agent %d", i)} }
	for i := range 200 {
		c.names(0, 1, header(i)...)
	}
	c.define("a-1")
	if got := c.names(1, 1, header(0)...); got[0] != "m-1" {
		t.Errorf("the oldest walk was kept: %q", got)
	}
	if got := c.names(1, 1, header(199)...); got[0] != "m-2" {
		t.Errorf("the newest walk was not kept: %q", got)
	}
}
