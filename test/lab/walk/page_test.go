// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package walk_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// example is a command of a page, the host that it is for, and what it is shown to print.
type example struct {
	line    int
	host    string
	command string
	output  string
}

var prompt = regexp.MustCompile(`^(host[12])# (.+)$`)

// examples reads the console blocks of a page.
func examples(t *testing.T, page string) []example {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list []example
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		m := prompt.FindStringSubmatch(line)
		switch {
		case line == "```console":
			inside = true
		case line == "```":
			inside = false
		case inside && m != nil:
			list = append(list, example{line: i + 1, host: m[1], command: m[2]})
		case inside && len(list) > 0:
			list[len(list)-1].output += line + "\n"
		}
	}
	return list
}

// differs are what is another thing in each run, and what stands for it.
var differs = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\d+(\.\d+)? [KMGT]iB`), "SIZE"},
	{regexp.MustCompile(`[-=]{4,}`), "---"},
	{regexp.MustCompile(` +`), " "},
}

// shows tells whether all that a page shows of what a command prints is printed, line by line and in that order. A page may leave lines out.
func shows(page, printed string) bool {
	lines := strings.Split(plain(printed), "\n")
	for want := range strings.SplitSeq(plain(page), "\n") {
		if want == "" {
			continue
		}
		i := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == strings.TrimSpace(want) })
		if i < 0 {
			return false
		}
		lines = lines[i+1:]
	}
	return true
}

// plain replaces what differs from run to run.
func plain(s string) string {
	for _, d := range differs {
		s = d.what.ReplaceAllString(s, d.with)
	}
	return strings.TrimSpace(s)
}

func TestPagesMayLeaveLinesOut(t *testing.T) {
	for _, c := range []struct {
		page, printed string
		fits          bool
	}{
		{"", "something", true},
		{"one\nthree\n", "one\ntwo\nthree", true},
		{"three\none\n", "one\ntwo\nthree", false},
		{"| db | 1.00 MiB |  UpToDate |\n", "+------+\n| db | 22.5 KiB | UpToDate |\n", true},
		{"one\none\n", "one\n", false},
		{"one\n", "", false},
	} {
		if got := shows(c.page, c.printed); got != c.fits {
			t.Errorf("%q in %q: %t", c.page, c.printed, got)
		}
	}
}

// TestThePageHasCommandsForBothHosts: one whose commands are not recognized would prove nothing.
func TestThePageHasCommandsForBothHosts(t *testing.T) {
	page := os.Getenv(pageVariable)
	if page == "" {
		page = "../../../docs/drbd.md"
	}
	hosts := map[string]int{}
	for _, e := range examples(t, page) {
		hosts[e.host]++
	}
	if hosts["host1"] < 20 || hosts["host2"] < 10 {
		t.Errorf("commands for each host: %v", hosts)
	}
}
