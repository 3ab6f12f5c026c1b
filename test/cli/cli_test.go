// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

var update = flag.Bool("update", false, "write what the scripts and the pages show anew")

// program builds the program once, and returns the folder that it is in as holdfast and as linstor.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-cli-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "holdfast"), "../../cmd/holdfast").CombinedOutput()
	if err != nil {
		return "", &buildError{string(out), err}
	}
	return dir, os.Symlink("holdfast", filepath.Join(dir, "linstor"))
})

type buildError struct {
	said string
	err  error
}

func (e *buildError) Error() string { return "build: " + e.err.Error() + "\n" + e.said }

func TestMain(m *testing.M) {
	if code, done := mounttest.Private(); done {
		os.Exit(code)
	}
	code := m.Run()
	if dir, err := program(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// binaries is program, for a test.
func binaries(t *testing.T) string {
	t.Helper()
	dir, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts %v, %v", files, err)
	}
	bin := binaries(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, bin: bin, file: file, golden: map[string]string{}}
			if strings.HasPrefix(name, "real") {
				s.startReal()
			} else {
				s.cluster = cluster.Start(t, cluster.Options{Nodes: 3})
				s.controller = strings.TrimPrefix(s.cluster.URL, "http://")
			}
			t.Cleanup(s.write)
			testscript.Run(t, testscript.Params{Files: []string{file}, Setup: s.setup, Cmds: s.commands()})
		})
	}
}

// script is one that runs.
type script struct {
	t          *testing.T
	bin        string // the folder of the program
	file       string
	cluster    *cluster.Cluster // nil with real devices
	controller string           // host and port
	golden     map[string]string
	terminal   string // what was printed there last, until it was compared
}

func (s *script) setup(env *testscript.Env) error {
	env.Setenv("PATH", s.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	env.Setenv("LS_CONTROLLERS", s.controller)
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("TERM", "xterm")
	env.Setenv("TZ", "UTC")
	return nil
}

// same replaces what differs from run to run by something of the same width.
func (s *script) same(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "5a793cbf-1ecb-43f6-9b54-fd3958f9b006"},
		{`uuid: "(.*)"`, "uuid: $1"}, // YAML quotes those that begin with a digit.
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "2026-01-01 00:00:00"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "2026-01-01T00:00:00Z"},
		{`(_timestamp|since|next_try)("?): \d{13}`, "${1}${2}: 1767225600000"},
		{regexp.QuoteMeta(s.controller), "controller:3370"},
		{`127\.0\.0\.1:[1-6]\d{4}`, "other:3370"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// compare is the command golden.
func (s *script) compare(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: golden FILE")
	}
	got := s.terminal
	if got == "" {
		got = ts.ReadFile("stdout") + ts.ReadFile("stderr")
	}
	got, s.terminal = s.same(got), ""
	if *update {
		s.golden[args[0]] = got
		return
	}
	if want := ts.ReadFile(args[0]); want != got {
		ts.Fatalf("%s (-want +got)\n%s", args[0], cmp.Diff(want, got))
	}
}

// write writes what was printed into the script.
func (s *script) write() {
	if !*update || s.t.Failed() || len(s.golden) == 0 {
		return
	}
	archive, err := txtar.ParseFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, f := range archive.Files {
		if got, ok := s.golden[f.Name]; ok {
			archive.Files[i].Data = []byte(got)
			delete(s.golden, f.Name)
		}
	}
	for line := range strings.Lines(string(archive.Comment)) { // New ones, in the order of the script.
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "golden ")
		if got, isNew := s.golden[name]; ok && isNew {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got)})
		}
	}
	if err := os.WriteFile(s.file, txtar.Format(archive), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
