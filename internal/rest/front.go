// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// front brings requests into the form that the routes have, and finds theirs.
//
// Clients add slashes at the end or double them, and some do not follow redirects: such paths are served as what they
// mean. Routes are matched on the escaped path, so that a name may hold an escaped slash.
type front struct {
	server *Server
	mux    *http.ServeMux
	served map[string]bool // by pattern, with the method
}

func newFront(s *Server) *front {
	f := &front{server: s, mux: http.NewServeMux(), served: make(map[string]bool)}
	for _, r := range slices.Concat(Routes(), OwnRoutes()) {
		f.served[r.pattern()] = true
		f.mux.Handle(r.pattern(), endpoint{s, r})
		if parent, _, ok := strings.Cut(r.Path, "/{key...}"); ok && !f.served[r.Method+" "+parent] {
			// Without this the mux would redirect the parent to a path with a slash at its end.
			f.mux.Handle(r.Method+" "+parent, endpoint{s, Route{handle: f.unknown}})
		}
	}
	f.mux.Handle("/", endpoint{s, Route{handle: f.unknown}})
	return f
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mux.ServeHTTP(w, tidy(r))
}

// tidy returns r with a path without empty segments and without a slash at its end.
func tidy(r *http.Request) *http.Request {
	escaped := r.URL.EscapedPath()
	clean := path.Clean("/" + escaped)
	if clean == escaped {
		return r
	}
	plain, err := url.PathUnescape(clean)
	if err != nil {
		return r
	}
	out := *r
	u := *r.URL
	u.Path, u.RawPath = plain, clean
	out.URL = &u
	return &out
}

// methods are those that operations of the API have.
func methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
}

// unknown answers for a path, or a method on a path, that the API does not have.
func (f *front) unknown(_ *Server, q *request) {
	var allowed []string
	for _, m := range methods() {
		probe := *q.Request
		probe.Method = m
		if _, pattern := f.mux.Handler(&probe); f.served[pattern] {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		q.fail(noSuchPath(q.URL.Path))
		return
	}
	list := strings.Join(allowed, ", ")
	q.w.Header().Set("Allow", list)
	q.fail(noSuchMethod(q.Method, q.URL.Path, list))
}
