// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Turns has a lock for each key that is in use. The zero value is ready for use.
type Turns struct {
	mu   sync.Mutex
	held map[string]*lock
}

// lock is free while its channel is empty.
type lock struct {
	held  chan struct{}
	users int // Who hold it or wait for it.
}

// Take waits until nobody else has one of the keys, and returns what gives them back. Keys may be named several times.
func (t *Turns) Take(ctx context.Context, keys ...string) (release func(), err error) {
	keys = slices.Clone(keys)
	slices.Sort(keys) // One order for all, so that nobody waits for one who waits for him.
	var taken []func()
	release = func() {
		for _, give := range slices.Backward(taken) {
			give()
		}
	}
	for _, key := range slices.Compact(keys) {
		give, err := t.take(ctx, key)
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, give)
	}
	return release, nil
}

func (t *Turns) take(ctx context.Context, key string) (release func(), err error) {
	t.mu.Lock()
	k := t.held[key]
	if k == nil {
		if t.held == nil {
			t.held = map[string]*lock{}
		}
		k = &lock{held: make(chan struct{}, 1)}
		t.held[key] = k
	}
	k.users++
	t.mu.Unlock()

	drop := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(t.held, key)
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

// Glance waits until nobody else works on some volumes, and looks. The caller calls end when there was no error.
func Glance[R any](ctx context.Context, t *Turns, look func(context.Context) (R, error), ids ...pool.ID) (r R, end func(), err error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		if err := id.Validate(); err != nil {
			return r, nil, err
		}
		keys[i] = id.Name()
	}
	if end, err = t.Take(ctx, keys...); err != nil {
		return r, nil, err
	}
	if r, err = look(ctx); err != nil {
		end()
		return r, nil, err
	}
	return r, end, nil
}
