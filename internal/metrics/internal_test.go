// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What is written as a label reads back as it was.
func FuzzLabels(f *testing.F) {
	for _, value := range []string{"vm-1", "", `/srv/"data"`, "C:\\", "two\nlines", "ü", `\n`} {
		f.Add(value, value)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			t.Skip("names are UTF-8")
		}
		var out bytes.Buffer
		w := newText(&out)
		w.family("x", gauge, a)
		w.count(7, "a", a, "b", b)
		_ = w.out.Flush()
		p := expfmt.NewTextParser(model.LegacyValidation)
		families, err := p.TextToMetricFamilies(strings.NewReader(out.String()))
		if err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		got := map[string]string{"a": "", "b": ""}
		m := families["x"].GetMetric()[0]
		for _, l := range m.GetLabel() {
			got[l.GetName()] = l.GetValue()
		}
		if got["a"] != a || got["b"] != b || m.GetGauge().GetValue() != 7 {
			t.Errorf("%q, %q read back as %v from %q", a, b, got, out.String())
		}
	})
}

func TestDiskWords(t *testing.T) {
	for _, c := range []struct {
		word    string
		diskful bool
		want    int64
	}{
		{"UpToDate", true, 1},
		{"uptodate", true, 1},
		{"Inconsistent", true, 5},
		{"Failed", true, 6},
		{"Diskless", false, 4},
		{"Diskless", true, 90}, // It has lost its disk.
		{"Outdated", true, -1},
		{"", true, -1},
	} {
		if got := drbdDisk(c.word, c.diskful); got != c.want {
			t.Errorf("%q (diskful: %v) is %d, want %d", c.word, c.diskful, got, c.want)
		}
	}
}
