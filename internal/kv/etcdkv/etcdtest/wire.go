// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
)

// Wire is a way to a member that can be cut: a listener that passes bytes on.
type Wire struct {
	Endpoint string

	l    net.Listener
	to   string
	done chan struct{}

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

// NewWire makes a wire to a member, which ends with the test.
func (c *Cluster) NewWire(i int) *Wire {
	c.t.Helper()
	scheme, to, _ := strings.Cut(c.Endpoints[i], "://")
	l, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	w := &Wire{Endpoint: scheme + "://" + l.Addr().String(), l: l, to: to, done: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	go w.serve()
	c.t.Cleanup(func() {
		_ = l.Close()
		w.Cut()
		<-w.done
	})
	return w
}

// Cut ends all connections, and lets no new one live.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// Mend lets connections live again.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

func (w *Wire) serve() {
	defer close(w.done)
	var passing sync.WaitGroup
	defer passing.Wait()
	for {
		near, err := w.l.Accept()
		if err != nil {
			return
		}
		if !w.keep(near) {
			continue
		}
		far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		if !w.keep(far) {
			_ = near.Close()
			continue
		}
		passing.Go(func() { move(near, far) })
		passing.Go(func() { move(far, near) })
	}
}

// keep notes a connection, or closes it when the wire is cut.
func (w *Wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = c.Close()
		return false
	}
	w.conns[c] = struct{}{}
	return true
}

func move(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
