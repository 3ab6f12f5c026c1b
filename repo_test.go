// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFiles yields the path and text of each Go file that a person wrote.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d Go files found", len(files))
	}
	return files
}

func TestEveryFileHasItsLicence(t *testing.T) {
	const want = "// Copyright The Holdfast Authors\n// SPDX-License-Identifier: Apache-2.0\n"
	for path, text := range goFiles(t) {
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s does not begin with the licence lines", path)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	documented, files := map[string]bool{}, map[string]string{}
	for path, text := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		files[dir] = path
		if f.Doc != nil && len(strings.TrimSpace(f.Doc.Text())) > 20 {
			documented[dir] = true
		}
	}
	for dir := range files {
		if !documented[dir] {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

func TestNamesSaySomething(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "types", "manager", "base"}
	for path := range goFiles(t) {
		for part := range strings.SplitSeq(strings.TrimSuffix(path, ".go"), "/") {
			for word := range strings.SplitSeq(strings.TrimSuffix(part, "_test"), "_") {
				// The client names the JSON types of an API; "types" is what they are.
				if slices.Contains(empty, word) && path != "client/types.go" {
					t.Errorf("%s: %q says nothing about what is in it", path, word)
				}
			}
		}
	}
}

func TestCommentsStateNoHistory(t *testing.T) {
	ticket := regexp.MustCompile(`(?i)\b(bug|issue|ticket|fixes|closes|pr)\s*#?\d+|(^|\s)#\d{2,}\b`)
	unfinished := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	for path, text := range goFiles(t) {
		if path == "repo_test.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			c := group.Text()
			if m := ticket.FindString(c); m != "" {
				t.Errorf("%s: a comment cites %q; it belongs into the commit message", path, strings.TrimSpace(m))
			}
			if m := unfinished.FindString(c); m != "" {
				t.Errorf("%s: a comment says %q", path, m)
			}
		}
	}
}

func TestNothingRegistersItself(t *testing.T) {
	for path, text := range goFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function; wiring is in cmd, in order", path)
			}
		}
	}
}

func TestFilesAreShortEnoughToRead(t *testing.T) {
	const most = 600
	for path, text := range goFiles(t) {
		if n := strings.Count(text, "\n"); n > most {
			t.Errorf("%s has %d lines, more than %d: it has more than one subject", path, n, most)
		}
	}
}

// The direction of imports is kept by the linter; this keeps what the linter cannot see: what
// a binary is made of without its parts naming it.
func TestAgentAndStoreDoNotKnowEachOther(t *testing.T) {
	forbidden := map[string][]string{
		"internal/agent":  {"internal/store", "internal/schema", "internal/kv", "internal/wire", "internal/rest"},
		"internal/store":  {"internal/schema", "internal/model", "internal/wire"},
		"internal/placer": {"internal/store", "internal/schema", "internal/observed"},
		"internal/cli":    {"internal/store", "internal/schema", "internal/resources"},
	}
	const module = "github.com/holdfast-storage/holdfast/"
	for path, text := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for dir, list := range forbidden {
			if !strings.HasPrefix(path, dir+"/") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range f.Imports {
				got := strings.TrimPrefix(strings.Trim(imp.Path.Value, `"`), module)
				if slices.Contains(list, got) {
					t.Errorf("%s imports %s", path, got)
				}
			}
		}
	}
}
