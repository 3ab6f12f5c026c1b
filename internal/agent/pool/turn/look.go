// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	"sync"
)

// Look is a question that many ask. Do answers it; it must end by itself, because nobody in particular waits for it. Do must not change after the
// first call of Get.
type Look[T any] struct {
	Do func(ctx context.Context) (T, error)

	mu      sync.Mutex
	running bool
	next    *pass[T] // The one that has not begun, and whoever asks now will share.
}

// pass is one answer. Its result may be read after done is closed.
type pass[T any] struct {
	done chan struct{}
	is   T
	err  error
}

// Get returns an answer that was looked for after Get was called. Callers that come while one is under way share the next one.
func (l *Look[T]) Get(ctx context.Context) (T, error) {
	l.mu.Lock()
	if l.next == nil {
		l.next = &pass[T]{done: make(chan struct{})}
	}
	p := l.next
	if !l.running {
		l.running = true
		go l.run() //nolint:contextcheck // An answer is for all who wait for it, so it outlives the context of the one who asked first.
	}
	l.mu.Unlock()
	select {
	case <-p.done:
		return p.is, p.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// run looks as long as someone waits for an answer.
func (l *Look[T]) run() {
	for {
		l.mu.Lock()
		p := l.next
		l.next = nil
		l.running = p != nil
		l.mu.Unlock()
		if p == nil {
			return
		}
		p.is, p.err = l.Do(context.Background())
		close(p.done)
	}
}
