// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

func TestLoggerKeepsToItsLevel(t *testing.T) {
	for _, c := range []struct {
		level string
		lines int
	}{
		{"debug", 4}, {"info", 3}, {"WARN", 2}, {"error", 1},
	} {
		var out bytes.Buffer
		log, err := telemetry.Logger(&out, c.level, "json")
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("x")
		log.Info("x")
		log.Warn("x")
		log.Error("x", "node", "n1")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != c.lines {
			t.Errorf("at level %s: %d lines, want %d", c.level, len(lines), c.lines)
		}
		var last map[string]any
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last["node"] != "n1" {
			t.Errorf("at level %s the last line is %v, %v", c.level, last, err)
		}
	}
}

func TestLevelCanBeChanged(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.Logger(&out, "warn", "text")
	if err != nil {
		t.Fatal(err)
	}
	part := log.With("part", "x")
	part.Info("not yet")
	log.Level.Set(slog.LevelDebug)
	part.Debug("now")
	log.Level.Set(slog.LevelError)
	part.Warn("no more")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=now") {
		t.Errorf("the lines are %q", got)
	}
}

func TestLoggerWritesText(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.Logger(&out, "info", "text")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("the controller is ready", "api", "http://[::1]:3370")
	if got := out.String(); !strings.Contains(got, `msg="the controller is ready" api=http://[::1]:3370`) {
		t.Errorf("the line is %q", got)
	}
}

func TestLoggerSaysWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"loud", "text", `the log level "loud" is not known; use debug, info, warn or error`},
		{"", "text", `the log level "" is not known; use debug, info, warn or error`},
		{"info", "xml", `the log format "xml" is not known; use text or json`},
	} {
		log, err := telemetry.Logger(&bytes.Buffer{}, c.level, c.format)
		if log.Logger != nil || err == nil || err.Error() != c.want {
			t.Errorf("%q, %q: %v, want %s", c.level, c.format, err, c.want)
		}
	}
}

func TestHandlerServesTheProcessAndWhatWasAdded(t *testing.T) {
	r := telemetry.Registry()
	added := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_example", Help: "An example."})
	added.Set(42)
	r.MustRegister(added)
	w := httptest.NewRecorder()
	telemetry.Handler(r).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"\nprocess_resident_memory_bytes ", "\nprocess_cpu_seconds_total ", "\ngo_goroutines ", "\nholdfast_example 42\n"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// Two programs in one process, as in tests, do not share their metrics.
func TestRegistriesAreApart(t *testing.T) {
	for range 2 {
		telemetry.Registry().MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_example", Help: "An example."}))
	}
}

// One metric that cannot be gathered does not take the others away.
func TestHandlerServesTheOthersWhenOneFails(t *testing.T) {
	r := telemetry.Registry()
	r.MustRegister(failing{prometheus.NewDesc("holdfast_failing", "An example.", nil, nil)})
	w := httptest.NewRecorder()
	telemetry.Handler(r).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(w.Body.String(), "\ngo_goroutines ") {
		t.Errorf("status %d: %.200s", w.Code, w.Body.String())
	}
}

type failing struct{ what *prometheus.Desc }

func (f failing) Describe(to chan<- *prometheus.Desc) { to <- f.what }
func (f failing) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(f.what, http.ErrServerClosed)
}
