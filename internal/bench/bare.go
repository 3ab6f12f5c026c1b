// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Bare serves the handler of the ceiling until ctx ends: it decodes a spawn and makes it
// durable as one row, by the group commit of the store, and does nothing else.
func Bare(ctx context.Context, listen, data string) error {
	spawns := store.Define("spawn", func(s *wire.ResourceGroupSpawn) string { return s.ResourceDefinitionName })
	st, err := store.Open(ctx, boltkv.New(filepath.Join(data, "bare.db")), []store.Registered{spawns})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, q *http.Request) {
		var body wire.ResourceGroupSpawn
		if err := wire.Decode(q.Body, &body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, err := st.Update(q.Context(), func(tx *store.Tx) error { return spawns.Insert(tx, body) }); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	const patience = 10 * time.Second
	s := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, st.Close())
	}
	return st.Close()
}
