// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// lender lends one listener to those who serve on it, one after the other. While nobody has it, connections are closed at once, so
// that whoever dials goes on to the next address.
type lender struct {
	net.Listener

	mu  sync.Mutex
	now *lent
}

// lent is a listener until it is closed or taken back.
type lent struct {
	address net.Addr
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func newLender(l net.Listener) *lender { return &lender{Listener: l} }

// run accepts connections until ctx ends, and closes the listener.
func (l *lender) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serve agents on %s: %w", l.Addr(), err)
		}
		l.mu.Lock()
		now := l.now
		l.mu.Unlock()
		if now == nil {
			_ = conn.Close()
			continue
		}
		select {
		case now.conns <- conn:
		case <-now.closed:
			_ = conn.Close()
		case <-ctx.Done():
			_ = conn.Close()
		}
	}
}

// lend returns a listener that gets the connections from now on.
func (l *lender) lend() *lent {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = &lent{address: l.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	return l.now
}

// takeBack ends a loan.
func (l *lender) takeBack(t *lent) {
	_ = t.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == t {
		l.now = nil
	}
}

// Accept implements net.Listener.
func (t *lent) Accept() (net.Conn, error) {
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *lent) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// Addr implements net.Listener.
func (t *lent) Addr() net.Addr { return t.address }
