// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// locks has a lock for each volume that is worked on. The zero value is ready for use.
type locks struct {
	mu   sync.Mutex
	held map[pool.ID]*lock
}

// lock is free while its channel is empty.
type lock struct {
	held  chan struct{}
	users int // Who hold it or wait for it.
}

// take waits for the lock of a folded ID and returns what releases it.
func (l *locks) take(ctx context.Context, id pool.ID) (release func(), err error) {
	l.mu.Lock()
	k := l.held[id]
	if k == nil {
		if l.held == nil {
			l.held = map[pool.ID]*lock{}
		}
		k = &lock{held: make(chan struct{}, 1)}
		l.held[id] = k
	}
	k.users++
	l.mu.Unlock()

	drop := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, id)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; drop() }, nil
	case <-ctx.Done():
		drop()
		return nil, ctx.Err()
	}
}
