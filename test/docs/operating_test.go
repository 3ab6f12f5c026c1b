// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
)

// systemctl stands for that of the host: it starts and stops the one controller of the page.
const systemctl = `#!/bin/sh
case "$1" in
stop)
	kill "$(cat "$HERE/pid")"
	while kill -0 "$(cat "$HERE/pid")" 2>/dev/null; do sleep 0.05; done ;;
start)
	holdfast controller --data "$HERE/data" --listen "$LS_CONTROLLERS" --agent-listen "$AGENTS" >>"$HERE/log" 2>&1 &
	echo $! >"$HERE/pid"
	for i in $(seq 200); do
		curl -sf "http://$LS_CONTROLLERS/health" && exit 0
		sleep 0.05
	done
	cat "$HERE/log" >&2
	exit 1 ;;
esac
`

// TestTheExamplesOfTheOperatingPagePrintWhatItShows runs the page from top to bottom against a controller of its own, with the
// addresses and folders of the page replaced by those of the test.
func TestTheExamplesOfTheOperatingPagePrintWhatItShows(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Options{})
	here := t.TempDir()
	program := filepath.Join(here, "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(here, "systemctl"), []byte(systemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	api := free(t)
	env := append(os.Environ(), "HERE="+here, "LS_CONTROLLERS="+api, "AGENTS="+free(t), "PATH="+here+":"+os.Getenv("PATH"))
	shell := func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Env, cmd.Dir = env, here
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := shell("systemctl start"); err != nil {
		t.Fatal(out, err)
	}
	t.Cleanup(func() { _, _ = shell("systemctl stop") })

	// The `backup` of the page asks the controller at the default address; that of the test is in a file.
	config := filepath.Join(here, "holdfast.toml")
	if err := os.WriteFile(config, []byte("[controller]\nlisten = '"+api+"'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pairs := []string{ // Of two that fit, the first is taken.
		"127.0.0.1:3370", api, "/var/lib/holdfast/controller", filepath.Join(here, "data"), "/root/", here + "/", "http://10.0.0.11:2379", etcd.Endpoints[0],
	}
	toTest := strings.NewReplacer(append([]string{"holdfast db backup", "holdfast db backup --config " + config}, pairs...)...)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	toPage := strings.NewReplacer(pairs...)
	for _, e := range examples(t, "../../docs/operating.md") {
		out, err := shell(toTest.Replace(e.command))
		if failed := err != nil; failed != strings.HasPrefix(e.output, "error") {
			t.Fatalf("operating.md:%d: $ %s: %v\n%s", e.line, e.command, err, out)
		}
		got := plain(toPage.Replace(out))
		for pattern, with := range map[string]string{
			`1\.\d+\.\d+\+\w+`: "VERSION", `process \d+`: "process N", `\d{8}T\d{6}Z`: "STAMP",
		} {
			got = regexp.MustCompile(pattern).ReplaceAllString(got, with)
		}
		if want := plain(e.output); got != want {
			t.Errorf("operating.md:%d: $ %s\nprints\n%s\nnot\n%s", e.line, e.command, got, want)
		}
	}
}
