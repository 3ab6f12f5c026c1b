// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// endpoint serves one route.
type endpoint struct {
	server *Server
	route  Route
}

// request is one request in work and its answer.
type request struct {
	*http.Request

	server *Server
	route  Route
	w      http.ResponseWriter
	id     string
	began  time.Time

	status  int    // of the answer; 0 before it was begun
	bytes   int64  // of the body sent
	problem string // the error that was answered
	report  string // the id of the stored report about it
}

// limit bounds a request that changes something. Use cases have their own, shorter patience with hosts; this one is for
// a database that does not answer.
const limit = 5 * time.Minute

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := e.server
	q := &request{Request: r, server: s, route: e.route, w: w, id: s.numbers.id(r), began: s.Now()}
	w.Header().Set(headerRequestID, q.id)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		// What has begun goes on when the client hangs up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), limit)
		defer cancel()
		q.Request = r.WithContext(ctx)
	}
	defer q.end() //nolint:contextcheck // It takes the context of the request.
	if q.route.handle == nil {
		q.fail(notThereYet(q.route))
		return
	}
	q.route.handle(s, q)
}

// end answers for a handler that panicked, and tells log and metrics about the request.
func (q *request) end() {
	broken := recover()
	if broken == http.ErrAbortHandler { //nolint:errorlint // The value that net/http documents.
		broken = nil
		defer panic(http.ErrAbortHandler)
	}
	if broken != nil {
		q.report = q.server.Reports.add(q, fmt.Sprint(broken), string(debug.Stack()))
		q.problem = fmt.Sprint(broken)
		if q.status == 0 {
			q.entries(wire.RcList{panicked(q.report)}, http.StatusInternalServerError)
		} else {
			defer panic(http.ErrAbortHandler) // Ends the connection: the client must not take half an answer for all of it.
		}
	}
	took := q.server.Now().Sub(q.began)
	q.log(took)
	if q.server.Measure != nil {
		q.server.Measure(Measurement{Method: q.Method, Route: q.route.Path, Status: q.status, Bytes: q.bytes, Took: took})
	}
}

func (q *request) log(took time.Duration) {
	level := slog.LevelDebug
	switch {
	case q.report != "":
		level = slog.LevelError
	case q.problem != "", q.Method != http.MethodGet:
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("request", q.id), slog.String("method", q.Method), slog.String("path", q.URL.Path),
		slog.Int("status", q.status), slog.Int64("bytes", q.bytes), slog.Duration("took", took),
		slog.String("client", q.RemoteAddr),
	}
	if q.problem != "" {
		attrs = append(attrs, slog.String("problem", q.problem))
	}
	if q.report != "" {
		attrs = append(attrs, slog.String("report", q.report))
	}
	q.server.Log.LogAttrs(q.Context(), level, "request", attrs...)
}

const headerRequestID = "X-Request-Id"

// requestNumbers gives each request an id: the one that its client gave it, or a new one.
type requestNumbers struct {
	once    sync.Once
	process string
	last    atomic.Uint64
}

func (n *requestNumbers) id(r *http.Request) string {
	const most = 64
	if id := r.Header.Get(headerRequestID); id != "" && len(id) <= most && plainToken(id) {
		return id
	}
	n.once.Do(func() { n.process = rand.Text()[:6] })
	return fmt.Sprintf("%s-%d", n.process, n.last.Add(1))
}

// plainToken tells whether s holds nothing but letters, digits and a few marks.
func plainToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return false
		}
	}
	return true
}
