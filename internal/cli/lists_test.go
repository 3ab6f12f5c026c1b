// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		name, line string
		code       int
	}{
		{"node-list", "node list", cli.ExitOK},
		{"node-info", "node info", cli.ExitOK},
		{"node-interface-list", "n i l n1", cli.ExitOK},
		{"node-list-properties", "n lp n1", cli.ExitOK},
		{"storage-pool-list", "sp l", cli.ExitOK},
		{"storage-pool-list-properties", "sp lp n1 ssd", cli.ExitOK},
		{"resource-group-list", "rg l", cli.ExitOK},
		{"resource-group-list-properties", "rg lp ssd", cli.ExitOK},
		{"resource-group-query-size-info", "rg qsi ssd", cli.ExitOK},
		{"resource-group-query-size-info-none", "rg qsi DfltRscGrp", cli.ExitAPI},
		{"volume-group-list", "vg l ssd", cli.ExitOK},
		{"volume-group-list-properties", "vg lp ssd 1", cli.ExitOK},
		{"resource-definition-list", "rd l", cli.ExitOK},
		{"resource-definition-list-external", "rd l -e", cli.ExitOK},
		{"resource-definition-list-properties", "rd lp r1", cli.ExitOK},
		{"volume-definition-list", "vd l", cli.ExitOK},
		{"volume-definition-list-properties", "vd lp r1 0", cli.ExitOK},
		{"resource-list", "r l -a", cli.ExitOK},
		{"resource-list-faulty", "r l --faulty", cli.ExitOK},
		{"resource-list-properties", "r lp n1 r1", cli.ExitOK},
		{"volume-list", "v l", cli.ExitOK},
		{"volume-list-without-replication", "v l --hide-replication-states", cli.ExitOK},
		{"volume-list-properties", "v lp n1 r1 0", cli.ExitOK},
		{"controller-version", "c v", cli.ExitOK},
		{"controller-list-properties", "c lp", cli.ExitOK},
		{"key-value-store-list", "kv l", cli.ExitOK},
		{"key-value-store-show", "kv s kv1", cli.ExitOK},
		{"error-reports-list", "err l --full", cli.ExitOK},
		{"error-reports-show", "err s 65A0B1C2-00000-000001", cli.ExitOK},

		{"node-connection-list", "nc l", cli.ExitOK},
		{"node-connection-list-properties", "nc lp n1 n2", cli.ExitOK},
		{"node-connection-path-list", "nc path list n1 n2", cli.ExitOK},
		{"resource-connection-list", "rc l r1", cli.ExitOK},
		{"resource-connection-list-properties", "rc lp n1 n2 r1", cli.ExitOK},
		{"storage-pool-definition-list", "spd l", cli.ExitOK},
		{"storage-pool-definition-list-properties", "spd lp ssd", cli.ExitOK},
		{"physical-storage-list", "ps l", cli.ExitOK},
		{"space-reporting-query", "spr query", cli.ExitOK},
		{"resource-list-effective", "r list-effective n1 r1", cli.ExitOK},
		{"resource-definition-wait-sync", "rd ws r1", cli.ExitOK},
		{"advise-resource", "advise resource", cli.ExitOK},
		{"advise-resource-some", "adv r -f too-many-replicas -r R3", cli.ExitOK},
		{"advise-maintenance", "advise maintenance N1", cli.ExitOK},
		{"resource-group-explain", "rg explain ssd 1G", cli.ExitOK},
		{"resource-group-explain-none", "rg explain hdd", cli.ExitAPI},
		{"machine-explain", "-m rg explain hdd", cli.ExitAPI},
		{"resource-list-pending-deletes", "r lpd", cli.ExitOK},
		{"orphans-list", "orphans list", cli.ExitOK},
		{"job-list", "job list", cli.ExitOK},
		{"job-show", "job show j2", cli.ExitOK},

		{"machine-advise", "-m adv m n1", cli.ExitOK},
		{"machine-space-reporting", "-m spr qry", cli.ExitOK},
		{"machine-list", "-m kv l", cli.ExitOK},
		{"machine-properties", "-m v lp n1 r1 0", cli.ExitOK},
		{"machine-object", "-m c v", cli.ExitOK},
		{"machine-query-size-info-none", "-m rg qsi DfltRscGrp", cli.ExitAPI},
		{"machine-resource-group-list", "-m rg l", cli.ExitOK},
		{"machine-error-report", "-m err s 65A0B1C2-00000-000001", cli.ExitOK},
		{"json-list", "-o json kv l", cli.ExitOK},
		{"json-properties", "-o json kv s kv1", cli.ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, at(startController(t).URL), c.line)
			if got.code != c.code || got.stderr != "" {
				t.Errorf("exit %d: %s", got.code, got.stderr)
			}
			golden(t, c.name, got.stdout)
		})
	}
}

func TestTerminalsGetColoursAndLines(t *testing.T) {
	f := startController(t)
	for _, c := range []struct {
		name, line     string
		terminal       bool
		vars           map[string]string
		colored, drawn bool
	}{
		{"terminal", "n l", true, map[string]string{"LANG": "en_GB.UTF-8"}, true, true},
		{"no terminal", "n l", false, map[string]string{"LANG": "en_GB.UTF-8"}, false, false},
		{"no UTF-8", "n l", true, map[string]string{"LANG": "C"}, true, false},
		{"overridden locale", "n l", true, map[string]string{"LANG": "en_GB.UTF-8", "LC_ALL": "C"}, true, false},
		{"small letters", "n l", true, map[string]string{"LC_CTYPE": "C.utf8"}, true, true},
		{"NO_COLOR", "n l", true, map[string]string{"LANG": "C.UTF-8", "NO_COLOR": "1"}, false, true},
		{"--no-color", "--no-color n l", true, map[string]string{"LANG": "C.UTF-8"}, false, true},
		{"--no-utf8", "n l --no-utf8", true, map[string]string{"LANG": "C.UTF-8"}, true, false},
		{"pastable", "n l -p", true, map[string]string{"LANG": "C.UTF-8"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := cli.Env{Terminal: c.terminal, Getenv: func(name string) string {
				if name == "LS_CONTROLLERS" {
					return f.URL
				}
				return c.vars[name]
			}}
			got := run(t, env, c.line).stdout
			if colored := strings.Contains(got, "\x1b["); colored != c.colored {
				t.Errorf("coloured: %t\n%s", colored, got)
			}
			if drawn := strings.Contains(got, "│"); drawn != c.drawn {
				t.Errorf("drawn: %t\n%s", drawn, got)
			}
			if strings.Contains(got, "\x1b[31m\t") {
				t.Errorf("text of the controller reached the terminal as it is:\n%q", got)
			}
		})
	}
	env := at(f.URL)
	env.Terminal = true
	golden(t, "terminal-node-list", run(t, env, "n l").stdout)
}
