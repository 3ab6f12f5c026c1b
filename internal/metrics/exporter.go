// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Config is what an [Exporter] tells of. Store and Observed are required.
type Config struct {
	Store    *store.Store
	Observed *observed.State
	Build    rest.Build

	Sessions func() dispatch.Stats // nil: nothing of sessions is told

	// Expiries says when certificates stop being good. nil: nothing of them is told.
	Expiries func() []authority.Expiry

	// ErrorReports says how many reports of faults of the software are kept, and how many were
	// made since the start. nil: nothing of them is told.
	ErrorReports func() (kept, made int)

	// Registry has what others measure, such as the figures of the process. Its metrics follow
	// those of the exporter, which registers its own figures of requests in it. nil: a new one.
	Registry *prometheus.Registry

	Now func() time.Time // nil: time.Now
}

// Exporter serves the metrics of one controller. It is an [http.Handler]: a path that ends in
// /scrape-target is answered with where the metrics of DRBD are, every other one with the
// metrics.
//
// The parameters resource, storage_pools and error_reports leave out a part of the metrics
// when they are false, as in LINSTOR.
type Exporter struct {
	Config

	requests *requests
	scrapes  atomic.Int64
	slots    chan struct{} // bounds the scrapes at a time
	ages     ages
	found    sync.Pool // of *findings
	gzips    sync.Pool // of *gzip.Writer
}

// atATime is how many scrapes are made at a time; more wait. One large scrape takes a few
// megabytes.
const atATime = 2

// New returns an exporter.
func New(c Config) *Exporter {
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	e := &Exporter{Config: c, requests: newRequests(), slots: make(chan struct{}, atATime)}
	e.requests.register(c.Registry)
	return e
}

// Measure counts a request that was answered. It is for [rest.Server.Measure].
func (e *Exporter) Measure(m rest.Measurement) { e.requests.measure(m) }

// ServeHTTP implements [http.Handler].
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/scrape-target") {
		e.targets(w)
		return
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Add("Vary", "Accept-Encoding")
	if !takesGzip(r) {
		e.scrape(w, asked(r.URL.Query()))
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, ok := e.gzips.Get().(*gzip.Writer)
	if ok {
		z.Reset(w)
	} else {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // The level is a valid one.
	}
	e.scrape(z, asked(r.URL.Query()))
	_ = z.Close() // The client is gone; there is nobody to tell.
	e.gzips.Put(z)
}

// takesGzip reads the client's word on compression. Weights are not looked at but for "never".
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if name == "gzip" {
			weight = strings.ReplaceAll(weight, " ", "")
			return weight != "q=0" && weight != "q=0.0"
		}
	}
	return false
}

// scrape writes everything to w. An error of w is left to its owner: whoever asked is gone.
func (e *Exporter) scrape(w io.Writer, want parts) {
	began := e.Now()
	found, ok := e.found.Get().(*findings)
	if !ok {
		found = newFindings()
	}
	defer func() {
		found.reset()
		e.found.Put(found)
	}()
	s := &scrape{Exporter: e, text: newText(w), view: e.Store.Snapshot(), now: began, want: want, found: found}
	s.write()
	s.others()
	s.family("linstor_scrape_requests_count", counter, "Scrapes since the start.")
	s.count(e.scrapes.Add(1))
	s.family("linstor_scrape_duration_seconds", gauge, "Time that this scrape took.")
	s.measure(e.Now().Sub(began).Seconds())
	_ = s.out.Flush()
}

// others writes what the registry has. What cannot be gathered is left out.
func (s *scrape) others() {
	families, _ := s.Registry.Gather()
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(s.out, f); err != nil {
			return
		}
	}
}
