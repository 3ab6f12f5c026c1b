// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) controllerProps(*request) (body, error) {
	e, view := s.encoder()
	return one[model.Props]{schema.SettingsOf(view), e.Properties}, nil
}

func (s *Server) modifyControllerProps(q *request) (wire.RcList, error) {
	var b wire.ControllerPropsModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	return s.changeSettings(q, propsChange(b.PropsModify))
}

func (s *Server) deleteControllerProp(q *request) (wire.RcList, error) {
	return s.changeSettings(q, model.PropsChange{Delete: []string{q.PathValue("key")}})
}

func (s *Server) changeSettings(q *request, c model.PropsChange) (wire.RcList, error) {
	notices, err := s.Inventory.ModifySettings(q.Context(), c)
	if err != nil {
		return nil, err
	}
	return q.with(done(q.route.success(), "", "controller properties changed"), notices), nil
}

// count makes the read of how many rows there are.
func count(rows func(store.Reader) int) reader {
	return func(s *Server, _ *request) (body, error) {
		return value{wire.Stats{Count: int64(rows(s.Store.Snapshot()))}}, nil
	}
}

// metrics serves what the program measures of itself.
func (s *Server) metrics(q *request) {
	if s.Metrics == nil {
		q.fail(notThereYet(q.route))
		return
	}
	w := &passed{q: q}
	s.Metrics.ServeHTTP(w, q.Request)
}

// passed lets a handler of another package write the answer of a request.
type passed struct{ q *request }

func (p *passed) Header() http.Header { return p.q.w.Header() }

func (p *passed) WriteHeader(status int) { p.q.begin(status) }

func (p *passed) Write(b []byte) (int, error) {
	if p.q.status == 0 {
		p.q.begin(http.StatusOK)
	}
	return p.q.Write(b)
}

// index answers who opens the address in a browser.
func (s *Server) index(q *request) {
	q.text(http.StatusOK, "Holdfast "+s.Build.Version+" serves the LINSTOR REST API v1 below /v1.\n")
}
