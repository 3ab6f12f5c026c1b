// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// written by hand in the folder of pages.
const byHand = "differences.md"

// TestThePagesAreWhatTheCommandsSay keeps docs/cli equal to the commands. After a change of them: make docs-cli.
func TestThePagesAreWhatTheCommandsSay(t *testing.T) {
	const folder = "../../docs/cli"
	made := t.TempDir()
	holdfast(t, "pages", made)
	if *update {
		replacePages(t, folder, made)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(names(t, made), names(t, folder)...)))) {
		want, wanted := os.ReadFile(filepath.Join(made, name))
		have, err := os.ReadFile(filepath.Join(folder, name))
		switch {
		case name == byHand:
		case wanted != nil:
			t.Errorf("%s is of no command: run make docs-cli", name)
		case err != nil || string(want) != string(have):
			t.Errorf("%s is not what the commands say: run make docs-cli", name)
		}
	}
}

// replacePages puts new pages into a folder, and takes old ones away.
func replacePages(t *testing.T, folder, made string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, folder) {
		if name != byHand {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range names(t, made) {
		body, err := os.ReadFile(filepath.Join(made, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), body, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// holdfast runs the program.
func holdfast(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(binaries(t), "holdfast"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestManPagesAreWellFormed asks man itself about them, where it is there.
func TestManPagesAreWellFormed(t *testing.T) {
	made := t.TempDir()
	holdfast(t, "pages", "--form", "man", made)
	all := names(t, made)
	if !slices.Contains(all, "holdfast.1") || !slices.Contains(all, "holdfast-node.1") {
		t.Errorf("made %v", all)
	}
	_, noMan := exec.LookPath("man")
	for _, name := range all {
		path := filepath.Join(made, name)
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(body), "\n") {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("%s:%d: %q would be a request", name, i+1, line)
			}
		}
		if noMan != nil {
			continue
		}
		c := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", path)
		c.Env = append(os.Environ(), "MANWIDTH=120", "LC_ALL=C.UTF-8")
		var warnings strings.Builder
		c.Stderr = &warnings
		if err := c.Run(); err == nil && strings.Contains(warnings.String(), "warning") {
			t.Errorf("%s: %s", name, warnings.String())
		}
	}
}

// TestEveryCommandIsInAScript finds commands that no script runs.
func TestEveryCommandIsInAScript(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var ran [][]string
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if words := strings.Fields(line); slices.Contains(words, "holdfast") {
				ran = append(ran, words[slices.Index(words, "holdfast")+1:])
			}
		}
	}
	for _, command := range commands(t) {
		if !slices.ContainsFunc(ran, func(words []string) bool { return command.isIn(words) }) {
			t.Errorf("no script runs %s", command)
		}
	}
}

// path is a command: the words, each in all of its forms.
type path [][]string

func (p path) String() string {
	var words []string
	for _, forms := range p {
		words = append(words, forms[0])
	}
	return strings.Join(words, " ")
}

// isIn reports whether a line runs the command.
func (p path) isIn(line []string) bool {
	line = slices.DeleteFunc(slices.Clone(line), func(word string) bool { return strings.HasPrefix(word, "-") })
	if len(line) < len(p) {
		return false
	}
	for i, forms := range p {
		if !slices.Contains(forms, line[i]) {
			return false
		}
	}
	return true
}

// elsewhere are commands that have tests of their own: they serve, or work on hosts.
func elsewhere() []string {
	return []string{"up", "agent", "bench", "hold", "job", "pool", "db"}
}

// commands reads the tree that the program prints of itself.
func commands(t *testing.T) []path {
	t.Helper()
	var all []path
	var above path
	lines := strings.Split(strings.TrimSpace(holdfast(t, "list-commands", "--tree")), "\n")
	for i, line := range lines {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 4
		name, aliases, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), ")"), " (")
		above = append(above[:depth:depth], append([]string{name}, strings.FieldsFunc(aliases, func(r rune) bool { return r == ',' || r == ' ' })...))
		deeper := i+1 < len(lines) && strings.HasPrefix(lines[i+1], strings.Repeat(" ", (depth+1)*4))
		if !deeper && !slices.Contains(elsewhere(), above[0][0]) {
			all = append(all, slices.Clone(above))
		}
	}
	if len(all) < 50 {
		t.Fatal(fmt.Sprint("found only ", all))
	}
	return all
}

// TestCommandsThatPagesNameExist asks for the help of each command that a page or a topic writes outside of the examples that are run:
// that fails when there is no such command, or it has no such option.
func TestCommandsThatPagesNameExist(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../internal/cli/topics/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		pages = append(pages, files...)
	}
	named := regexp.MustCompile("(?m)(?:`|'|^ +|^host[12]# )holdfast ([a-z][^`'\n]*)")
	ends := regexp.MustCompile(`  .*| [|>&].*| -- .*`)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			args := strings.Fields(ends.ReplaceAllString(m[1], ""))
			if args[0] == "help" {
				continue
			}
			out, err := exec.Command(filepath.Join(binaries(t), "holdfast"), append(args, "--help")...).CombinedOutput()
			_, usage, _ := strings.Cut(string(out), "Usage:\n")
			usage, _, _ = strings.Cut(usage, "\n")
			// A group shows its help whatever follows its name.
			if isGroup := strings.HasSuffix(usage, " COMMAND"); err != nil || isGroup && len(strings.Fields(usage)) != len(args)+2 {
				t.Errorf("%s: holdfast %s: %v\n%s", page, m[1], err, out)
			}
		}
	}
	if least := 60; found < least {
		t.Errorf("found only %d commands", found)
	}
}
