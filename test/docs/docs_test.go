// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs_test runs the commands of the documentation as a reader would, and compares what they print with what the
// documentation shows.
package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// example is a command of a console block, and what it is shown to print.
type example struct {
	line    int
	command string
	output  string
}

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
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case line == "```console":
			inside = true
		case line == "```":
			inside = false
		case inside && isCommand:
			list = append(list, example{line: i + 1, command: command})
		case inside && len(list) > 0:
			list[len(list)-1].output += line + "\n"
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no examples", page)
	}
	return list
}

// agentsVariable is where agents are expected.
const agentsVariable = "HOLDFAST_AGENTS"

// up builds Holdfast, starts it as `make up` would, and returns the environment of a shell beside it.
func up(t *testing.T) []string {
	t.Helper()
	bin := t.TempDir()
	program := filepath.Join(bin, "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	api, agents := free(t), free(t)
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, program, "up", "--data", t.TempDir(), "--node", "host1", "--listen", api, "--agent-listen", agents)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = 20 * time.Second
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = io.Discard
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := server.Wait(); err != nil && server.ProcessState.ExitCode() != 0 {
			t.Errorf("the server ended with %v", err)
		}
	})
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(first, "Holdfast is up") {
		t.Fatalf("the server said %q, %v", first, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return append(os.Environ(), "LS_CONTROLLERS="+api, agentsVariable+"="+agents, "PATH="+bin+":"+os.Getenv("PATH"))
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// plain replaces what differs from run to run.
func plain(s string) string {
	for pattern, with := range map[string]string{
		`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`: "UUID",
		`/dev/loop\d+`:                   "/dev/loopN",
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`: "TIME",
		`\d+(\.\d+)? [KMGT]iB`:           "SIZE",
		`[-=]{4,}`:                       "---",
		` +`:                             " ",
	} {
		s = regexp.MustCompile(pattern).ReplaceAllString(s, with)
	}
	return strings.TrimSpace(s)
}

// TestTheExamplesOfPagesPrintWhatTheyShow runs each of these pages from top to bottom beside a Holdfast of its own.
func TestTheExamplesOfPagesPrintWhatTheyShow(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("devices need root")
	}
	for _, page := range []string{"README.md", "docs/snapshots.md", "docs/encryption.md"} {
		t.Run(page, func(t *testing.T) {
			env, dir := up(t), t.TempDir()
			for _, name := range []string{"passphrase", "new-passphrase"} { // Files that examples read.
				if err := os.WriteFile(filepath.Join(dir, name), []byte("the "+name+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range examples(t, "../../"+page) {
				shell := exec.CommandContext(t.Context(), "sh", "-c", e.command)
				shell.Env, shell.Dir = env, dir
				out, err := shell.CombinedOutput()
				if failed := err != nil; failed != strings.HasPrefix(e.output, "ERROR") {
					t.Errorf("%s:%d: $ %s: %v", page, e.line, e.command, err)
				}
				if got, want := plain(string(out)), plain(e.output); got != want {
					t.Errorf("%s:%d: $ %s\nprints\n%s\nnot\n%s", page, e.line, e.command, got, want)
				}
			}
		})
	}
}

func TestWhatPagesPointToExists(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	var pages []string
	for _, folder := range []string{"", "docs/", "docs/cli/", "docs/adr/", "test/lab/"} {
		some, err := filepath.Glob("../../" + folder + "*.md")
		if err != nil || len(some) == 0 {
			t.Fatalf("the pages of %s: %v, %v", folder, some, err)
		}
		pages = append(pages, some...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "http") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Error(fmt.Errorf("%s: %w", page, err))
			}
		}
	}
}
