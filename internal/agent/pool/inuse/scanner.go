// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultLimit bounds a look when Scanner.Limit is zero.
const DefaultLimit = 20 * time.Second

// Scanner looks for users. The zero value looks at this host and is ready for use by many goroutines at once.
type Scanner struct {
	Proc  string        // Where proc is mounted. Empty: /proc.
	Sys   string        // Where sysfs is mounted. Empty: /sys.
	Limit time.Duration // How long one look may take. Zero: DefaultLimit.

	mu      sync.Mutex
	running bool
	next    *pass // The pass that has not begun, and whoever calls now will share.
}

// pass is one look at the host. Its result may be read after done is closed.
type pass struct {
	callers int // Guarded by Scanner.mu.

	done  chan struct{}
	table *Table
	err   error
}

// sharedFor is how old a shared look may be when it is used again.
const sharedFor = 200 * time.Millisecond

// shared is a look that the calls of one context share.
type shared struct {
	mu    sync.Mutex
	of    *Scanner
	began time.Time
	table *Table
}

type sharedKey struct{}

// Sharing returns a context in which Glance returns one look again and again, up to 200 ms after it began: for work that looks before and after its steps.
func Sharing(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharedKey{}, &shared{})
}

// Glance is Scan, but for what is only told and nothing is done upon: when ctx is one of Sharing, the look may have begun shortly before the call.
func (s *Scanner) Glance(ctx context.Context) (*Table, error) {
	sh, ok := ctx.Value(sharedKey{}).(*shared)
	if !ok {
		return s.Scan(ctx)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.of == s && time.Since(sh.began) < sharedFor {
		return sh.table, nil
	}
	began := time.Now()
	table, err := s.Scan(ctx)
	if err == nil {
		sh.of, sh.began, sh.table = s, began, table
	}
	return table, err
}

// Scan returns who uses what, as of a moment after the call began.
func (s *Scanner) Scan(ctx context.Context) (*Table, error) {
	limit := s.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	s.mu.Lock()
	if s.next == nil {
		s.next = &pass{done: make(chan struct{})}
	}
	p := s.next
	p.callers++
	if !s.running {
		s.running = true
		go s.run(limit) //nolint:gosec,contextcheck // A look is for all who wait for it, so it outlives the context of the one who began it.
	}
	s.mu.Unlock()

	select {
	case <-p.done:
		return p.table, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("look for users of block devices: %w", ctx.Err())
	}
}

// run makes passes as long as someone waits for one.
func (s *Scanner) run(limit time.Duration) {
	for {
		s.mu.Lock()
		p := s.next
		s.next = nil
		s.running = p != nil
		s.mu.Unlock()
		if p == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		p.table, p.err = s.look(ctx)
		cancel()
		close(p.done)
	}
}

func (s *Scanner) proc() string {
	if s.Proc != "" {
		return s.Proc
	}
	return "/proc"
}

func (s *Scanner) sys() string {
	if s.Sys != "" {
		return s.Sys
	}
	return "/sys"
}
