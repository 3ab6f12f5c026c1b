// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/client"
)

func TestTablesFitAndLoseNothing(t *testing.T) {
	words := rapid.StringMatching(`[a-z0-9]{1,12}( [a-z0-9]{1,12}){0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		table := newTable("Name", ">Size", "Description")
		var all []string
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			row := []any{words.Draw(t, "name"), words.Draw(t, "size"), words.Draw(t, "text")}
			for _, cell := range row {
				all = append(all, strings.Fields(cell.(string))...)
			}
			table.row(row...)
		}
		most := rapid.IntRange(20, 120).Draw(t, "width")
		drawn := table.draw(style{width: most})
		framed := strings.HasPrefix(drawn, "+")
		for line := range strings.Lines(drawn) {
			if w := width(strings.TrimRight(line, "\n")); framed && w > most {
				t.Fatalf("a line of %d columns, and there are %d:\n%s", w, most, drawn)
			}
		}
		letters := strings.NewReplacer("\n", "", " ", "", "|", "", "-", "", "=", "", "+", "").Replace(drawn)
		for _, word := range all {
			found := true
			for _, r := range word { // A word may be broken.
				found = found && strings.ContainsRune(letters, r)
			}
			if !found || !framed && !strings.Contains(drawn, word) {
				t.Fatalf("%q is lost:\n%s", word, drawn)
			}
		}
	})
}

func TestWrapBreaksAtBlanksAndKeepsAllLetters(t *testing.T) {
	for text, want := range map[string]string{
		"one two three":     "one two\nthree",
		"one,two,three":     "one,two,\nthree",
		"abcdefghijklm":     "abcdefgh\nijklm",
		"short":             "short",
		"first\nsecond one": "first\nsecond\none",
		"":                  "",
	} {
		if got := wrap(text, 8); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zß,]{0,40}`).Draw(t, "text")
		got := wrap(text, rapid.IntRange(1, 20).Draw(t, "width"))
		if strings.ReplaceAll(got, "\n", "") != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestYAMLHoldsWhatTheJSONHolds(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{}`, " {}\n"},
		{`[]`, " []\n"},
		{`{"a":1,"b":"x y","c":null,"d":true,"e":1.5e3}`, "a: 1\nb: x y\nc: null\nd: true\ne: 1.5e3\n"},
		{
			`{"a":"true","b":"1","c":"","d":"- x","e":"a: b","f":"No","g":"<é>","h":"a\nb"}`,
			"a: \"true\"\nb: \"1\"\nc: \"\"\nd: \"- x\"\ne: \"a: b\"\nf: \"No\"\ng: \"<é>\"\nh: \"a\\nb\"\n",
		},
		{`[{"a":[1,2],"b":{}},{"a":[],"b":{"c":"d"}}]`, "- a:\n    - 1\n    - 2\n  b: {}\n- a: []\n  b:\n    c: d\n"},
		{`[[1,[2]],[]]`, "- - 1\n  - - 2\n- []\n"},
		{`{"odd key":1,"2":2,"~":3}`, "odd key: 1\n\"2\": 2\n\"~\": 3\n"},
	} {
		got, err := toYAML([]byte(c.body))
		if err != nil || got != c.want {
			t.Errorf("%s became %q, %v", c.body, got, err)
		}
	}
	if _, err := toYAML([]byte(`{"a":`)); err == nil {
		t.Error("half an answer is YAML")
	}
}

func TestNearestNameIsTheOneThatWasMeant(t *testing.T) {
	names := []string{"node", "node-connection", "resource-group", "rg", "volume"}
	for word, want := range map[string]string{
		"nod": "node", "ndoe": "node", "nodes": "node", "resource-gruop": "resource-group", "volme": "volume", "VOLUMN": "volume",
		"node": "", "xyz": "", "": "", "snapshot": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("%q: %q was meant", word, got)
		}
	}
}

func TestMomentsAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]string{
		"2026-08-30 13:40:00": "2026-08-30 13:40:00", "2026-08-30": "2026-08-30 00:00:00", "2026-08": "2026-08-01 00:00:00",
		"2026-08-30 13": "2026-08-30 13:00:00",
	} {
		if got, err := moment(text, "00:00:00", time.UTC); err != nil || got.Format(timeLayout) != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for text, ago := range map[string]time.Duration{"1d10h": 34 * time.Hour, "3h": 3 * time.Hour, "2d": 48 * time.Hour, "3days": 72 * time.Hour} {
		got, err := moment(text, "", time.UTC)
		if since := time.Since(got) - ago; err != nil || since < 0 || since > time.Minute {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "2026-13-01", "5x", "-3h", "2026-08-30 13:40:00 and more"} {
		if got, err := moment(text, "00:00:00", time.UTC); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzMoment(f *testing.F) {
	for _, text := range []string{"1d10h", "2026-08-30", "3 days", "", "-1", "99999999999d"} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) { _, _ = moment(text, "23:59:59", time.UTC) })
}

func FuzzGlobalSection(f *testing.F) {
	f.Add("[global]\ncontrollers = a,b\nno-color\n# x\n")
	f.Add("[global]\n: = \n[")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range globalSection(text) {
			if s.key != strings.ToLower(strings.TrimSpace(s.key)) {
				t.Errorf("key %q", s.key)
			}
		}
	})
}

func TestSizesAreExactOnRequest(t *testing.T) {
	table := newTable("A", ">B").named("B", "A")
	table.row("x", client.SizeKiB(1536))
	table.row("y", new(client.Unlimited))
	table.row("z", (*client.SizeKiB)(nil))
	if got := table.draw(style{bytes: true}); !strings.Contains(got, "| x | 1572864 |") || !strings.Contains(got, "| y |         |") {
		t.Error(got)
	}
	if got := table.draw(style{}); !strings.Contains(got, "| x | 1.50 MiB |") {
		t.Error(got)
	}
}
