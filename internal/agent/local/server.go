// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Holding is what the agent knows of its pools on mounts. *holding.Holding is one.
type Holding interface {
	List(ctx context.Context) ([]*agentpb.HeldPool, error)
	Inspect(ctx context.Context, pool string) (*agentpb.HeldPool, error)
	Hold(ctx context.Context, pool string, r hold.Request) (hold.Hold, error)
	Set() *hold.Set
}

// Server serves the socket of one agent.
type Server struct {
	Holding Holding
	Metrics http.Handler // Nil: there are none.
	Log     *slog.Logger // Nil: nothing is logged.

	watches watches
}

// Serve serves at a path until ctx ends. A socket that an earlier process has left there is replaced.
func (s *Server) Serve(ctx context.Context, path string) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen for users of this host: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	s.watches.resume(ctx, s)
	const patience = 10 * time.Second
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: patience, ConnContext: withPeer,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(server.Close(), <-ended)
	}
	s.watches.wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// peerKey is the key of the peer in the context of a connection.
type peerKey struct{}

// peer is the process at the other end of a connection.
type peer struct {
	uid   uint32
	pid   int
	start uint64
	err   error
}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerOf(c))
}

func peerOf(c net.Conn) (p peer) {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return peer{err: errors.New("the connection is none of this host")}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{err: err}
	}
	var cred *unix.Ucred
	if err := raw.Control(func(fd uintptr) { cred, p.err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return peer{err: err}
	}
	if p.err != nil {
		return p
	}
	p.uid, p.pid = cred.Uid, int(cred.Pid)
	if p.start, p.err = mount.StartTime(p.pid); p.err != nil {
		p.err = fmt.Errorf("the process that asks is not seen: %w", p.err)
	}
	return p
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pools", s.list)
	mux.HandleFunc("GET /pools/{pool}", s.inspect)
	mux.HandleFunc("POST /pools/{pool}/holds", s.acquire)
	mux.HandleFunc("DELETE /holds", s.release)
	mux.HandleFunc("DELETE /pools/{pool}/mount", s.detach)
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := r.Context().Value(peerKey{}).(peer); !ok || p.uid != 0 {
			answer(w, http.StatusForbidden, failure{"only root may ask the agent"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // Whoever asked is gone, and nobody else cares.
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusConflict
	switch errs.As(err).Kind {
	case errs.NotFound:
		status = http.StatusNotFound
	case errs.Invalid:
		status = http.StatusBadRequest
	default:
	}
	answer(w, status, failure{err.Error()})
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all, err := s.Holding.List(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	pools := make([]Pool, len(all))
	for i, m := range all {
		pools[i] = poolOf(m)
	}
	answer(w, http.StatusOK, pools)
}

func (s *Server) inspect(w http.ResponseWriter, r *http.Request) {
	m, err := s.Holding.Inspect(r.Context(), r.PathValue("pool"))
	if err != nil {
		refuse(w, err)
		return
	}
	p := poolOf(m)
	if st, err := s.Holding.Set().Inspect(r.Context(), p.Name); err == nil {
		p.Token = st.Token
	}
	answer(w, http.StatusOK, p)
}

// detach is for an operator whose pool cannot be unmounted and whose server does not come back.
func (s *Server) detach(w http.ResponseWriter, r *http.Request) {
	m, err := s.Holding.Inspect(r.Context(), r.PathValue("pool"))
	if err != nil {
		refuse(w, err)
		return
	}
	q := r.URL.Query()
	if q.Get("reason") == "" || q.Get("token") == "" {
		answer(w, http.StatusBadRequest, failure{"a reason, and the token of what is mounted, are wanted"})
		return
	}
	t, err := s.Holding.Set().Detach(r.Context(), m.GetPool(), q.Get("reason"), q.Get("token"))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, Released{Outcome: t.String(), Gone: t.Outcome == hold.Done})
}

func (s *Server) acquire(w http.ResponseWriter, r *http.Request) {
	const most = 64 << 10
	var ask Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&ask); err != nil {
		answer(w, http.StatusBadRequest, failure{"the request is not understood: " + err.Error()})
		return
	}
	req := hold.Request{ID: hold.ID(ask.ID), Holder: hold.Holder{Kind: hold.Operator, Name: ask.Holder}, Mode: hold.ReadWrite}
	if ask.ReadOnly {
		req.Mode = hold.ReadOnly
	}
	if ask.Process {
		p, _ := r.Context().Value(peerKey{}).(peer)
		if p.err != nil {
			answer(w, http.StatusBadRequest, failure{p.err.Error()})
			return
		}
		req.ID = processID(p)
		req.Holder = hold.Holder{Kind: hold.Job, Name: ask.Holder, PID: p.pid, Start: p.start}
	}
	h, err := s.Holding.Hold(r.Context(), r.PathValue("pool"), req)
	if err != nil {
		refuse(w, err)
		return
	}
	if ask.Process {
		s.watches.add(s, h) //nolint:contextcheck // It outlives the request.
	}
	answer(w, http.StatusOK, Granted{ID: string(h.ID), Path: h.Path()})
}

func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	t, err := s.Holding.Set().Release(r.Context(), hold.ID(r.URL.Query().Get("id")))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, Released{Outcome: t.String(), Gone: t.Outcome == hold.Done, Anomaly: t.Anomaly})
}
