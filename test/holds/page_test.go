// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holds_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

// TestTheExamplesOfThePageWork runs the commands of docs/holds.md from top to bottom, with the folder of the page replaced by
// one of the test.
func TestTheExamplesOfThePageWork(t *testing.T) {
	s := start(t)
	text, err := os.ReadFile("../../docs/holds.md")
	if err != nil {
		t.Fatal(err)
	}
	images := mounttest.Mkdir(t, s.dir, "images")
	env := append(os.Environ(), "LS_CONTROLLERS="+s.listen, "HOLDFAST_SOCKET="+s.socket,
		"PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	ran, inside := 0, false
	for i, line := range strings.Split(string(text), "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case line == "```console":
			inside = true
		case line == "```":
			inside = false
		case inside && isCommand:
			ran++
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "/srv/images", images))
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("holds.md:%d: $ %s: %v\n%s", i+1, command, err, out)
			}
		}
	}
	if ran < 15 {
		t.Errorf("only %d commands were run", ran)
	}
	for _, name := range []string{"web", "copy"} {
		s.must("DELETE", "/v1/resource-definitions/"+name, "")
	}
	s.await("nothing is mounted", func() bool { return len(s.mounts()) == 0 })
}
