// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Command proven writes what the lab proved into a page of the documentation: proven RESULTS PAGE, in the root of the project.
//
// RESULTS is the folder in which the lab leaves what its families printed; PAGE has two marks, between which the table stands. Families
// that were left out, or of which only a choice was run, keep the lines that they have, since nothing new is known of them as a whole.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: proven RESULTS PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "proven:", err)
		os.Exit(1)
	}
}

func run(results, page string) error {
	families, err := os.ReadDir(results)
	if err != nil {
		return err
	}
	var rows []Row
	for _, f := range families {
		if _, err := os.Stat(filepath.Join(scripts, f.Name())); err != nil { //nolint:gosec // Who runs this names his own files.
			continue // A choice, or a family that there is no more.
		}
		read, err := readFamily(filepath.Join(results, f.Name()))
		if err != nil {
			return fmt.Errorf("family %s: %w", f.Name(), err)
		}
		rows = append(rows, read...)
	}
	text, err := os.ReadFile(page) //nolint:gosec // Who runs this names his own files.
	if err != nil {
		return err
	}
	changed, err := Insert(string(text), rows)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(changed), 0o644) //nolint:gosec // Likewise.
}

// scripts is the folder with the families, from the root of the project.
const scripts = "test/lab/families"

// Row is a line of the table.
type Row struct {
	Family string
	What   string // A suite, such as that of a provider, or the tests of a package.
	On     string // Versions.
	Passed int
	Failed int
	Left   []string // Tests that were left out.
}

// readFamily reads what one family left. One that was left out, or did not end well, has no rows.
func readFamily(dir string) ([]Row, error) {
	status, err := os.ReadFile(filepath.Join(dir, "status")) //nolint:gosec // Likewise.
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if !strings.HasPrefix(string(status), "0 ") {
		return nil, nil
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	versions, err := os.ReadFile(filepath.Join(dir, "versions")) //nolint:gosec // Likewise.
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	on := strings.Join(strings.FieldsFunc(string(versions), func(r rune) bool { return r == '\n' }), ", ")
	var rows []Row
	for _, log := range logs {
		text, err := os.ReadFile(log) //nolint:gosec // Likewise.
		if err != nil {
			return nil, err
		}
		of := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(log), ".txt"), "-", "/")
		for _, r := range Count(of, string(text)) {
			r.Family, r.On = filepath.Base(dir), on
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// suite is the name of the tests that run one suite on several providers: each of those is a row.
const suite = "TestDriver/"

// Count reads what go test -v printed of a package.
func Count(of, text string) []Row {
	rows := map[string]*Row{}
	parents := map[string]bool{} // Tests that are made of others do not count themselves.
	type result struct{ name, how string }
	var results []result
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		how, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimLeft(lines.Text(), " "), "--- "), ": ")
		if !ok || how != "PASS" && how != "FAIL" && how != "SKIP" || !strings.Contains(lines.Text(), "--- ") {
			continue
		}
		name, _, _ := strings.Cut(rest, " ")
		results = append(results, result{name, how})
		for parent := name; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndexByte(parent, '/')]
			parents[parent] = true
		}
	}
	for _, r := range results {
		if parents[r.name] {
			continue
		}
		what := "tests of `" + of + "`"
		short := r.name
		if rest, ok := strings.CutPrefix(r.name, suite); ok {
			provider, test, ok := strings.Cut(rest, "/")
			if ok && strings.ToUpper(provider) == provider {
				what, short = "provider "+provider, test
			} else {
				what, short = "suite of pools over `"+of+"`", rest
			}
		}
		row := rows[what]
		if row == nil {
			row = &Row{What: what}
			rows[what] = row
		}
		switch r.how {
		case "PASS":
			row.Passed++
		case "FAIL":
			row.Failed++
		case "SKIP":
			row.Left = append(row.Left, short)
		}
	}
	sorted := make([]Row, 0, len(rows))
	for _, r := range rows {
		sorted = append(sorted, *r)
	}
	slices.SortFunc(sorted, func(a, b Row) int { return cmp.Compare(a.What, b.What) })
	return sorted
}

// The marks in the page.
const (
	begin = "<!-- What stands between these marks is written by make lab-docs. -->\n"
	end   = "<!-- End. -->\n"
)

// Insert replaces the table of a page. Families without rows keep the lines that they have.
func Insert(page string, rows []Row) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", errors.New("it has no marks for the table")
	}
	lines := map[string][]string{}
	for _, r := range rows {
		left := strings.Join(r.Left, ", ")
		if left == "" {
			left = "nothing"
		}
		count := fmt.Sprintf("%d passed", r.Passed)
		if r.Failed > 0 {
			count += fmt.Sprintf(", **%d failed**", r.Failed)
		}
		lines[r.Family] = append(lines[r.Family], fmt.Sprintf("| %s | %s | %s | %s | %s |", r.Family, r.What, r.On, count, left))
	}
	fresh := map[string]bool{}
	for family := range lines {
		fresh[family] = true
	}
	for line := range strings.Lines(old) {
		words := strings.Split(line, "|")
		if len(words) < 3 || strings.HasPrefix(words[1], "---") {
			continue
		}
		if family := strings.TrimSpace(words[1]); family != "family" && !fresh[family] {
			lines[family] = append(lines[family], strings.TrimSuffix(line, "\n"))
		}
	}
	var b strings.Builder
	b.WriteString("| family | what | on | tests | left out |\n|---|---|---|---|---|\n")
	families := make([]string, 0, len(lines))
	for family := range lines {
		families = append(families, family)
	}
	slices.Sort(families)
	for _, family := range families {
		b.WriteString(strings.Join(lines[family], "\n") + "\n")
	}
	return before + begin + b.String() + end + after, nil
}
