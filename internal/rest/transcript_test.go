// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the answers in the transcripts")

// TestTranscripts sends the requests of each file in testdata/transcripts and compares the answers.
//
// A file is paragraphs. A paragraph starts with comments (#), orders to the simulated hosts (!) and a request: method,
// path, and a body on the next line when there is one. After an arrow follows the answer: its status, then the data as
// JSON, or a line for each entry with its code and its objects. Texts for people are not compared.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			c := newClusterAt(t, func() time.Time { return at })
			var out strings.Builder
			for paragraph := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
				out.WriteString(c.play(paragraph) + "\n\n")
			}
			got := numbered(strings.TrimSpace(out.String()) + "\n")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("wanted (-), answered (+); go test -update rewrites the file: %s", diff)
			}
		})
	}
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

// play does what a paragraph says and returns it with the answer that came.
func (c *cluster) play(paragraph string) string {
	c.Helper()
	question, _, _ := strings.Cut(paragraph, "\n=> ")
	var request, body string
	for line := range strings.Lines(question) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "!"):
			c.order(strings.Fields(line[1:]))
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
	return question + "\n=> " + c.do(method, path, body).shown()
}

// order does something to a simulated host.
func (c *cluster) order(words []string) {
	c.Helper()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "node":
		c.node(arg(1))
	case "halt":
		c.halt(c.agents[arg(1)])
	case "start":
		c.start(c.agents[arg(1)])
	case "pool":
		c.pool(arg(1), arg(2), arg(3))
	case "use":
		c.agents[arg(1)].Use(arg(2), arg(3))
	case "leave":
		c.agents[arg(1)].Leave(arg(2))
	case "fail":
		c.agents[arg(1)].FailApplies(arg(2), -1, nil)
	case "heal":
		c.agents[arg(1)].FailApplies(arg(2), 0, nil)
	case "wait":
		text := strings.Join(words[2:], " ")
		c.until(func() bool { return strings.Contains(string(c.do("GET", arg(1), "").body), text) })
	default:
		c.Fatalf("unknown order %q", words)
	}
}

// shown is an answer as transcripts have it.
func (a answer) shown() string {
	a.Helper()
	status := fmt.Sprint(a.status)
	if len(a.body) == 0 {
		return status
	}
	var raw json.RawMessage
	a.into(&raw)
	if bytes.Contains(raw, []byte(`"ret_code"`)) && raw[0] == '[' && !bytes.HasPrefix(raw, []byte(`[{"name"`)) &&
		!bytes.HasPrefix(raw, []byte(`[{"storage_pool_name"`)) {
		lines := []string{status}
		for _, e := range a.entries() {
			lines = append(lines, entryLine(e))
		}
		return strings.Join(lines, "\n")
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		a.Fatal(err)
	}
	elements, isList := withoutTexts(v).([]any)
	if !isList {
		return status + "\n" + oneLine(v)
	}
	lines := make([]string, len(elements))
	for i, e := range elements {
		lines[i] = " " + oneLine(e)
	}
	return strings.TrimSuffix(status+"\n[\n"+strings.Join(lines, ",\n"), "\n") + "\n]"
}

func oneLine(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return strings.TrimSpace(b.String())
}

func entryLine(e wire.Rc) string {
	name := e.RetCode.String()
	parts := []string{name, fmt.Sprint(int64(e.RetCode))}
	for _, k := range slices.Sorted(maps.Keys(e.ObjRefs)) {
		parts = append(parts, k+"="+e.ObjRefs[k])
	}
	return strings.Join(parts, " ")
}

// withoutTexts leaves the texts for people out of the entries in data.
func withoutTexts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, entry := v["ret_code"]; entry {
			for _, k := range []string{"message", "cause", "correction", "details"} {
				delete(v, k)
			}
		}
		for k := range v {
			v[k] = withoutTexts(v[k])
		}
	case []any:
		for i := range v {
			v[i] = withoutTexts(v[i])
		}
	}
	return v
}
