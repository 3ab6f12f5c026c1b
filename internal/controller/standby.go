// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// The headers of requests and answers that pass between controllers.
const (
	// forwardedHeader names the standby that has passed a request on: it is not passed on again.
	forwardedHeader = "Holdfast-Forwarded-By"
	// warningHeader marks an answer from a state that may be old, as RFC 7234 has it.
	warningHeader = "Warning"
	staleWarning  = `110 holdfast "this answer may be old: the database cannot be asked who leads"`
)

// ServeHTTP implements [http.Handler]: it serves as the leader, passes on to the leader, or says why it does neither.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := m.role.Load()
	// Asked after the request has come: a state that was the newest at that moment is a right answer to it, also when the
	// leadership ends right afterwards.
	if now.lead != nil && now.holds() {
		now.lead.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/health" {
		_, why := m.standing()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, why.Error()+"\n")
		return
	}
	if m.pass(w, r) {
		return
	}
	_, why := m.standing()
	if now = m.role.Load(); now.old != nil && reading(r) {
		w.Header().Set(warningHeader, staleWarning)
		now.old.ServeHTTP(w, r)
		return
	}
	refuse(w, why)
}

// reading reports whether a request changes nothing.
func reading(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(r.URL.Path, "/v1/")
}

// refuse answers that nothing can be done now.
func refuse(w http.ResponseWriter, why error) {
	l := wire.RcList{wire.NewRc(wire.FailSQL, "the controller does not take this request now").
		WithCause(why.Error()).WithCorrection("try again, or ask another controller of the cluster")}.Finish(0, time.Now())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(l)
}

// patience is how long a request waits for a leader when there is none: about as long as a fail-over takes.
const patience = 8 * time.Second

// pass passes a request on to the leader, and waits a while for one. It returns false, with nothing answered, when there is none, when
// nobody can be asked, and for a request that was passed on already.
func (m *Member) pass(w http.ResponseWriter, r *http.Request) bool {
	if m.Election == nil || r.Header.Get(forwardedHeader) != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if now := m.role.Load(); now.lead != nil && now.holds() { // this member itself leads by now
			now.lead.ServeHTTP(w, r)
			return true
		}
		if _, err := m.Election.Leader(); err != nil && m.lastKnown() {
			return false
		}
		if next, _ := m.standing(); next != nil {
			target, err := url.Parse(next.API)
			if err == nil && m.reachable(ctx, target) {
				m.proxy(target).ServeHTTP(w, r)
				return true
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// lastKnown reports whether there is a state to read from.
func (m *Member) lastKnown() bool { return m.role.Load().old != nil }

// reachable reports whether the leader takes connections: one that has died is still named until its lease ends, and a request that
// was not sent can wait for the next one. A leader that was reached lately is not asked again for each request.
func (m *Member) reachable(ctx context.Context, target *url.URL) bool {
	const soon, lately = time.Second, time.Second
	if r := m.reached.Load(); r != nil && r.host == target.Host && time.Since(r.at) < lately {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", target.Host)
	if err != nil {
		return false
	}
	_ = conn.Close()
	m.reached.Store(&reached{target.Host, time.Now()})
	return true
}

// reached is a leader that took a connection.
type reached struct {
	host string
	at   time.Time
}

// proxy passes requests on to a leader, and streams its answers.
func (m *Member) proxy(target *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.SetXForwarded()
			p.Out.Host = p.In.Host
			p.Out.Header.Set(forwardedHeader, m.Self.Name)
		},
		Transport:     m.transport(),
		FlushInterval: -1,
		ErrorLog:      nil,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			m.reached.Store(nil)
			if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
				return // the client is gone
			}
			refuse(w, errors.Join(errors.New("the leader at "+target.String()+" did not answer; whether it has done what was asked is not known"), err))
		},
	}
}

// transport keeps connections to leaders.
func (m *Member) transport() http.RoundTripper {
	m.transportOnce.Do(func() {
		m.toLeader = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		}
	})
	return m.toLeader
}
