// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"os/exec"
	"testing"
)

func TestTheExamplesOfTheSnapshotsPagePrintWhatItShows(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("devices need root")
	}
	env := up(t)
	for _, e := range examples(t, "../../docs/snapshots.md") {
		shell := exec.CommandContext(t.Context(), "sh", "-c", e.command)
		shell.Env = env
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Errorf("snapshots.md:%d: $ %s: %v", e.line, e.command, err)
		}
		if got, want := plain(string(out)), plain(e.output); got != want {
			t.Errorf("snapshots.md:%d: $ %s\nprints\n%s\nnot\n%s", e.line, e.command, got, want)
		}
	}
}
