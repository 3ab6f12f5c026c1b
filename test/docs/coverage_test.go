// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/rest"
)

var update = flag.Bool("update", false, "write pages that are made from the program anew")

// TestTheCoverageOfTheAPIIsWhatItsPageSays keeps docs/api-coverage.md equal to the routes of the server. After a change of
// routes: go test ./test/docs -run Coverage -update.
func TestTheCoverageOfTheAPIIsWhatItsPageSays(t *testing.T) {
	const page = "../../docs/api-coverage.md"
	want := coverage(rest.Routes(), rest.OwnRoutes())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what the server serves: run go test ./test/docs -run Coverage -update", page)
	}
}

// coverage renders the page.
func coverage(routes, own []rest.Route) string {
	var b strings.Builder
	b.WriteString("# Coverage of the LINSTOR REST API v1\n\n" +
		"Made from the routes of the server by a test. *Served*: works. *Empty*: answers as an installation that has none of these\n" +
		"objects. *Planned*: answers 501 and says so. Tiers: T1 everyday commands and the life of a volume under linstor-csi, T1\\* must\n" +
		"answer, T2 other clients and features, T3 rare.\n\n")
	counts := map[rest.Tier]map[rest.State]int{}
	for _, r := range routes {
		if counts[r.Tier] == nil {
			counts[r.Tier] = map[rest.State]int{}
		}
		counts[r.Tier][r.State]++
	}
	b.WriteString("| tier | served | empty | planned |\n|---|--:|--:|--:|\n")
	for _, tier := range []rest.Tier{rest.Daily, rest.Asked, rest.Feature, rest.Rare} {
		c := counts[tier]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", escape(string(tier)), c[rest.Served], c[rest.Empty], c[rest.Planned])
	}
	b.WriteString("\n| operation | tier | state |\n|---|---|---|\n")
	for _, r := range sorted(routes) {
		fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", r.Method, r.Path, escape(string(r.Tier)), r.State)
	}
	b.WriteString("\n## Beyond the API\n\nOperations that LINSTOR does not have:\n\n")
	for _, r := range sorted(own) {
		fmt.Fprintf(&b, "- `%s %s`\n", r.Method, r.Path)
	}
	return b.String()
}

func sorted(routes []rest.Route) []rest.Route {
	return slices.SortedFunc(slices.Values(routes), func(a, c rest.Route) int {
		return cmp.Or(cmp.Compare(a.Path, c.Path), cmp.Compare(a.Method, c.Method))
	})
}

func escape(s string) string { return strings.ReplaceAll(s, "*", "\\*") }
