// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package walk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long is waited for something that goes on by itself, on machines that are a tenth as fast as real ones.
const patience = 2 * time.Minute

// TestWalk runs a page from top to bottom.
func TestWalk(t *testing.T) {
	at, page := os.Getenv(peerVariable), os.Getenv(pageVariable)
	if at == "" || page == "" {
		t.Skipf("needs two hosts: %s and %s are set by the family walk of the lab", peerVariable, pageVariable)
	}
	second := peer(at)
	hosts := map[string]host{"host1": here{}, "host2": second}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := second.end(ctx); err != nil {
			t.Error(err)
		}
	})
	await(t, "host2", func(ctx context.Context) bool {
		_, ok, err := second.run(ctx, "true")
		return ok && err == nil
	})
	cluster(t, hosts)
	for _, e := range examples(t, page) {
		goesOn := false
		t.Run(fmt.Sprintf("%s:%d %s %s", filepath.Base(page), e.line, e.host, short(e.command)), func(t *testing.T) { goesOn = walk(t, hosts[e.host], e) })
		if !goesOn {
			break
		}
	}
	if t.Failed() {
		look(t, hosts)
	}
}

// cluster starts a controller on the first host, and lets both hosts join.
func cluster(t *testing.T, hosts map[string]host) {
	t.Helper()
	must := func(name, command string) string {
		t.Helper()
		out, ok, err := hosts[name].run(t.Context(), command)
		if err != nil || !ok {
			t.Fatalf("%s# %s: %v\n%s", name, command, err, out)
		}
		return out
	}
	must("host1", "holdfast controller --data /tmp/controller --listen 10.0.0.1:3370 --agent-listen 10.0.0.1:3366 &")
	await(t, "the controller", func(ctx context.Context) bool {
		_, ok, err := hosts["host1"].run(ctx, "holdfast controller version")
		return ok && err == nil
	})
	for i, name := range []string{"host1", "host2"} {
		must("host1", fmt.Sprintf("holdfast node create %s 10.0.0.%d --communication-type SSL", name, i+1))
		token := strings.TrimSpace(must("host1", "holdfast node join-token "+name))
		must(name, fmt.Sprintf("umask 077; echo '%s' >/tmp/token", token))
		must(name, fmt.Sprintf("holdfast agent --node %s --controller 10.0.0.1:3366 --state /tmp/agent --join-file /tmp/token &", name))
	}
	await(t, "the agents", func(ctx context.Context) bool {
		out, ok, err := hosts["host1"].run(ctx, "holdfast node list")
		return ok && err == nil && strings.Count(out, "Online") == len(hosts)
	})
}

// walk runs one command, and tells whether the ones after it make sense.
func walk(t *testing.T, h host, e example) bool {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		out, ok, err := h.run(t.Context(), e.command)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		as := ok == !refused(e.output)
		fits := as && shows(e.output, out)
		if !fits && looks(e.command) && time.Now().Before(deadline) { // What it looks at goes on by itself.
			pause(t)
			continue
		}
		t.Logf("\n%s# %s\n%s", e.host, e.command, out)
		if !fits {
			t.Errorf("it ended well: %t; the page shows\n%s", ok, e.output)
		}
		return as
	}
}

// refused tells whether what a command prints says that it did nothing.
func refused(output string) bool {
	return strings.HasPrefix(output, "ERROR") || strings.HasPrefix(output, "error")
}

// looks tells whether a command only looks: then it is asked again, until it shows what the page does.
func looks(command string) bool {
	words := strings.Fields(command)
	for _, w := range words[1:min(len(words), 3)] {
		if w == "list" || w == "status" {
			return true
		}
	}
	return false
}

// short is the beginning of a command, as the name of a test, in which a slash would begin another test.
func short(command string) string {
	words := strings.Fields(command)
	return strings.ReplaceAll(strings.Join(words[:min(len(words), 5)], " "), "/", ":")
}

// look prints what an operator would look at after a step that failed.
func look(t *testing.T, hosts map[string]host) {
	t.Helper()
	for _, name := range []string{"host1", "host2"} {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		out, _, err := hosts[name].run(ctx, "drbdsetup status --verbose 2>&1; cat /etc/drbd.d/*.res; lvs; dmesg | tail -n 40; tail -n 20 /tmp/results/*.log")
		cancel()
		t.Logf("%s: %v\n%s", name, err, out)
	}
	out, _, _ := hosts["host1"].run(context.WithoutCancel(t.Context()), "holdfast -m node list | grep -A9 unsupported_layers; holdfast volume list; holdfast error-reports list")
	t.Logf("%s", out)
}

func await(t *testing.T, what string, is func(context.Context) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(t.Context()); pause(t) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// pause is between two looks at other machines.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(300 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
