// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/rest/encode"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Server serves the API of one controller.
type Server struct {
	Store     *store.Store
	Observed  *observed.State
	Inventory *inventory.Inventory
	Catalog   *catalog.Catalog
	Resources *resources.Resources
	Snapshots *snapshots.Snapshots
	Keys      *passphrase.Keyring
	Joiner    Joiner // makes join tokens; nil: there are none
	Work      Work   // has hosts do jobs and hold pools; nil: they do nothing

	Database Database // writes the database to files; nil: it is not written

	Build   Build
	Setup   Setup
	Log     *slog.Logger      // nil: nothing is logged
	Now     func() time.Time  // nil: time.Now
	Measure func(Measurement) // called once for each request, when it was answered; nil: not at all
	Metrics http.Handler      // serves /metrics; nil: that is not there
	Reports Reports           // of faults of the software
	buffers sync.Pool         // of *[]byte
	gzips   sync.Pool         // of *gzip.Writer
	numbers requestNumbers    // of requests, for the log
	walks   walks             // of lists that are read in pages
	stop    stopping          // streams of events end with it
}

// Build says what program this is.
type Build struct {
	Version string // a semantic version; clients compare it
	Commit  string
	Time    string // RFC 3339
}

// Measurement is one answered request.
type Measurement struct {
	Method string
	Route  string // the pattern of the operation, the same for all objects; empty when there is no such operation
	Status int
	Bytes  int64 // of the body, as sent
	Took   time.Duration
}

// Handler returns the handler of all routes.
func (s *Server) Handler() http.Handler {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	return newFront(s)
}

// encoder returns an encoder of the newest durable state, and that state.
func (s *Server) encoder() (*encode.Encoder, *store.View) {
	view := s.Store.Snapshot()
	return encode.New(view, s.Observed), view
}

// version is what clients ask for first.
func (s *Server) version(*request) (body, error) {
	return value{wire.ControllerVersion{
		Version: s.Build.Version, GitHash: s.Build.Commit, BuildTime: s.Build.Time, RestAPIVersion: wire.RestAPIVersion,
	}}, nil
}

// health answers 200 and nothing else while reads and writes work: load balancers and plugins choose a controller by it.
func (s *Server) health(q *request) {
	if err := s.Store.Err(); err != nil {
		q.text(http.StatusServiceUnavailable, "the database cannot be written: "+err.Error()+"\n")
		return
	}
	q.text(http.StatusOK, "")
}
