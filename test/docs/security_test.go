// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheExamplesOfTheSecurityPagePrintWhatItShows lets a host join as an operator would, with
// the addresses and folders of the page replaced by those of the test.
func TestTheExamplesOfTheSecurityPagePrintWhatItShows(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("devices need root")
	}
	env := up(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	var agents string
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, agentsVariable+"="); ok {
			agents = value
		}
	}
	here := strings.NewReplacer("10.0.0.1:3366", agents, "/var/lib/holdfast/agent", state)
	shell := func(command string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", here.Replace(command))
		cmd.Env, cmd.Dir = env, dir
		return cmd
	}
	for _, e := range examples(t, "../../docs/security.md") {
		if program, ok := strings.CutSuffix(e.command, " &"); ok {
			background(t, shell("exec "+program))
			continue
		}
		var got string
		deadline := time.Now().Add(30 * time.Second)
		for {
			out, err := shell(e.command).CombinedOutput()
			if err != nil {
				t.Fatalf("security.md:%d: $ %s: %v\n%s", e.line, e.command, err, out)
			}
			// What agents do takes a moment: a list that is not yet as shown is asked for again.
			if got = plain(string(out)); got == plain(e.output) || !strings.Contains(e.command, " list") || time.Now().After(deadline) {
				break
			}
			pause(t)
		}
		if want := plain(e.output); got != want {
			t.Errorf("security.md:%d: $ %s\nprints\n%s\nnot\n%s", e.line, e.command, got, want)
		}
	}
	// The token of the last example makes the agent join again, without a restart.
	file := filepath.Join(state, "identity.pem")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; pause(t) {
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(now, first) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent has not joined by the second token")
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s has the mode %v, %v", file, info.Mode(), err)
	}
}

func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// background runs a command until the end of the test.
func background(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("%s ended with %v", cmd, err)
		}
		if t.Failed() {
			t.Logf("it said:\n%s", log.String())
		}
	})
}
