// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/test/transcript"
)

var update = flag.Bool("update", false, "rewrite the answers in the transcripts")

func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/transcripts/*.txt", *update, func(t *testing.T) *transcript.Player {
		t.Helper()
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		c := newClusterAt(t, func() time.Time { return at })
		return &transcript.Player{URL: c.http.URL, Order: c.order}
	})
}

// order does something to a simulated host.
func (c *cluster) order(words ...string) {
	c.Helper()
	switch words[0] {
	case "node":
		c.node(words[1])
	case "halt":
		c.halt(c.agents[words[1]])
	case "start":
		c.start(c.agents[words[1]])
	case "pool":
		c.pool(words[1], words[2], words[3])
	case "use":
		c.agents[words[1]].Use(words[2], words[3])
	case "leave":
		c.agents[words[1]].Leave(words[2])
	case "fail":
		c.agents[words[1]].FailApplies(words[2], -1, nil)
	case "heal":
		c.agents[words[1]].FailApplies(words[2], 0, nil)
	case "wait":
		text := strings.TrimSpace(strings.Join(words[2:], " "))
		c.until(func() bool { return strings.Contains(string(c.do("GET", words[1], "").body), text) })
	default:
		c.Fatalf("unknown order %q", words)
	}
}
