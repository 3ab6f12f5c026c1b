// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// operation is one line of the table: the names of wildcards are the server's own.
func operation(tier, method, path string) string {
	return tier + " " + method + " " + wildcard.ReplaceAllString(strings.TrimSuffix(path, "{$}"), "{}")
}

func TestEveryOperationOfTheAPIHasARoute(t *testing.T) {
	text, err := os.ReadFile("testdata/operations.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] != "#" {
			want = append(want, operation(f[0], f[1], f[2]))
		}
	}
	for _, r := range rest.Routes() {
		got = append(got, operation(string(r.Tier), r.Method, r.Path))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations of the API (-) and routes (+): %s", diff)
	}
}

// TestRoutesByState prints what is served, for go test -v.
func TestRoutesByState(t *testing.T) {
	count := make(map[string]int)
	for _, r := range rest.Routes() {
		t.Logf("%-7s %-3s %-7s %s", r.State, r.Tier, r.Method, r.Path)
		count[fmt.Sprintf("%s %s", r.Tier, r.State)]++
		count["all "+string(r.State)]++
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%s: %d", k, count[k])
	}
	if count["T1 served"] == 0 || count["T1* planned"] > 0 {
		t.Error("the everyday operations are not served, or an operation that every client asks for is not answered")
	}
}

// filled is a path with a name for each wildcard.
func filled(path string) string {
	path = strings.ReplaceAll(strings.TrimSuffix(path, "{$}"), "{volume_number}", "0")
	return wildcard.ReplaceAllString(path, "name1")
}

func TestPlannedOperationsSaySo(t *testing.T) {
	c := newCluster(t)
	for _, r := range rest.Routes() {
		if r.State != rest.Planned {
			continue
		}
		e := c.do(r.Method, filled(r.Path), "{}").code(501, wire.FailImplError)
		if !strings.Contains(e.Message, r.Method+" "+r.Path) || e.Correction == "" {
			t.Errorf("the answer does not name the operation: %+v", e)
		}
	}
	if reports := read[[]wire.ErrorReport](c, "/v1/error-reports"); len(reports) > 0 {
		t.Errorf("%d error reports were stored for operations that are not there yet", len(reports))
	}
}

// TestEveryAnswerIsJSON calls every operation of a cluster that has nothing: whatever it says, it says it in JSON, without
// null, and no fault of the server is among it.
func TestEveryAnswerIsJSON(t *testing.T) {
	c := newCluster(t)
	for _, r := range rest.Routes() {
		if !strings.HasPrefix(r.Path, "/v1/") || strings.HasPrefix(r.Path, "/v1/events/") {
			continue // events are a stream of their own form
		}
		for _, body := range []string{"", "{}", "[]"} {
			if r.Method == "GET" && body != "" {
				continue
			}
			a := c.do(r.Method, filled(r.Path), body)
			var v any
			a.into(&v)
			if a.status >= 400 {
				e, failed := a.entries().FirstError()
				if !failed || e.RetCode.Is(wire.FailImplError) != (a.status == 501) {
					t.Errorf("%s %s %q: %d %s", r.Method, r.Path, body, a.status, a.body)
				}
			}
		}
	}
}
