// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package transcript plays conversations with the REST API that are written down in files, and compares the answers.
//
// A file is paragraphs. A paragraph starts with comments (#) and orders to the world around the server (!), and has a
// request: method, path, and a body on the next line when there is one. After an arrow follows the answer: its status, then the data
// as JSON, or a line for each entry with its code and its objects; "as before" stands for the answer that the same question had
// before. What differs from run to run is made the same: UUIDs are
// numbered in the order in which they come, and times are left out. Texts for people are not compared.
//
// Every answer, whatever it says, is checked for what clients rely on in all of them: it is JSON without null, and a list of
// entries is not empty.
package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Player plays a file against one server.
type Player struct {
	URL   string                // of the server
	Order func(words ...string) // follows an order; words that an order does not have are ""

	answers map[string]string // to GET, by path
}

// Run plays each file that a pattern matches as a test of its own, with the player that start returns. With update, the
// answers in the files are written anew.
func Run(t *testing.T, pattern string, update bool, start func(t *testing.T) *Player) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts match %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { start(t).file(t, file, update) })
	}
}

func (p *Player) file(t *testing.T, name string, update bool) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p.answers = make(map[string]string)
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		out.WriteString(p.paragraph(t, paragraph) + "\n\n")
	}
	got := numbered(strings.TrimSpace(out.String()) + "\n")
	if update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: wanted (-), answered (+); go test -update rewrites the file: %s", name, diff)
	}
}

// paragraph does what a paragraph says and returns it with the answer that came.
func (p *Player) paragraph(t *testing.T, paragraph string) string {
	t.Helper()
	question, _, _ := strings.Cut(paragraph, "\n=> ")
	var request, body string
	for line := range strings.Lines(question) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "!"):
			p.Order(append(strings.Fields(line[1:]), "", "", "")...)
		case request == "":
			request = line
		default:
			body += line
		}
	}
	if request == "" {
		return question
	}
	method, path, _ := strings.Cut(request, " ")
	answer := p.ask(t, method, path, body)
	if method == http.MethodGet {
		status, data, _ := strings.Cut(answer, "\n")
		if data != "" && p.answers[path] == answer {
			answer = status + " as before"
		} else {
			p.answers[path] = answer
		}
	}
	return question + "\n=> " + answer
}

// ask sends a request and returns the answer as transcripts have it.
func (p *Player) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if method != http.MethodGet && strings.TrimSpace(string(text)) == "[]" {
		t.Errorf("%s %s answers with a list of no entries", method, path)
	}
	return shown(t, answer.StatusCode, answer.Header.Get("Content-Type"), text)
}

func shown(t *testing.T, code int, kind string, text []byte) string {
	t.Helper()
	status := fmt.Sprint(code)
	if len(text) == 0 {
		return status
	}
	if kind != "application/json" {
		t.Errorf("the answer is %q: %s", kind, text)
		return status + "\n" + string(text)
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if hasNull(v) {
		t.Errorf("the answer has a null: %s", text)
	}
	if isEntries(v) {
		return status + entries(t, text)
	}
	elements, isList := masked(v).([]any)
	if !isList {
		return status + "\n" + oneLine(v)
	}
	lines := make([]string, len(elements))
	for i, e := range elements {
		lines[i] = " " + oneLine(e)
	}
	return strings.TrimSuffix(status+"\n[\n"+strings.Join(lines, ",\n"), "\n") + "\n]"
}

// isEntries tells whether an answer is a list of entries.
func isEntries(v any) bool {
	list, _ := v.([]any)
	return len(list) > 0 && slices.ContainsFunc(list, func(e any) bool {
		m, _ := e.(map[string]any)
		_, has := m["ret_code"]
		return has
	})
}

// entries shows a list of entries, a line for each.
func entries(t *testing.T, text []byte) string {
	t.Helper()
	var l wire.RcList
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var lines strings.Builder
	for _, e := range l {
		if e.Message == "" || e.CreatedAt == "" {
			t.Errorf("the entry %+v has no message or no time", e)
		}
		parts := []string{e.RetCode.String(), fmt.Sprint(int64(e.RetCode))}
		for _, k := range slices.Sorted(maps.Keys(e.ObjRefs)) {
			parts = append(parts, k+"="+e.ObjRefs[k])
		}
		lines.WriteString("\n" + strings.Join(parts, " "))
	}
	return lines.String()
}

func oneLine(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // It came out of JSON.
	return strings.TrimSpace(b.String())
}

func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasNull)
	case []any:
		return slices.ContainsFunc(v, hasNull)
	default:
		return false
	}
}

// masked leaves out of data what differs from run to run, and the texts for people in the entries that are part of it.
func masked(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, entry := v["ret_code"]; entry {
			for _, k := range []string{"message", "cause", "correction", "details", "created_at"} {
				delete(v, k)
			}
		}
		for k := range v {
			if v[k] = masked(v[k]); strings.HasSuffix(k, "_timestamp") {
				v[k] = "(time)"
			}
		}
	case []any:
		for i := range v {
			v[i] = masked(v[i])
		}
	}
	return v
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// numbered names the UUIDs of a text u1, u2 and so on: which ones they are does not matter, where they are the same does.
func numbered(text string) string {
	names := make(map[string]string)
	return uuid.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("u%d", len(names)+1)
		}
		return names[id]
	})
}
