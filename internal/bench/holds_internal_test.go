// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// TestMain makes the test binary a helper of package mount.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == mount.HelperName {
		os.Exit(mount.HelperMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestHoldsAreMeasured(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it looks for users of a mount")
	}
	var out bytes.Buffer
	b := &bench{Config: Config{Out: &out}, dir: t.TempDir(), runner: &command.Exec{}}
	if err := b.holds(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, line := range []string{"journal in memory", "journal on disk", "fdatasync alone"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, out.String())
		}
	}
}
