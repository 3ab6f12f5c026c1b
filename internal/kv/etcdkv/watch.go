// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Watch implements [kv.Engine]. It goes on through lost connections, also while etcd has no majority.
func (e *Engine) Watch(ctx context.Context, after kv.Revision) iter.Seq2[kv.Batch, error] {
	return func(yield func(kv.Batch, error) bool) {
		for try := 0; ; try++ {
			err := e.over(ctx)
			var at int64
			if err == nil {
				at, err = e.place(ctx, after)
			}
			if cause := e.over(ctx); cause != nil {
				err = cause
			}
			switch {
			case err == nil:
			case e.over(ctx) != nil, errors.Is(err, kv.ErrCompacted), !passing(err):
				yield(kv.Batch{}, e.problem("watch", err))
				return
			default:
				e.pause(ctx, try)
				continue
			}
			before := after
			for b, err := range e.follow(ctx, at, after) {
				if err != nil {
					break // the place is looked for again
				}
				if !yield(b, nil) {
					return
				}
				after = b.Revision
			}
			if after != before {
				try = 0
			}
			e.pause(ctx, try)
		}
	}
}

// place finds a revision of etcd at which the map had a revision. It looks at the newest state first, then searches the history by
// halves: a sequence never falls.
func (e *Engine) place(ctx context.Context, want kv.Revision) (int64, error) {
	now, newest, err := e.read(ctx, 0)
	switch {
	case err != nil:
		return 0, err
	case now.Revision == want: // also when nobody has ever owned the map
		return newest, nil
	case now.Revision < want:
		return 0, fmt.Errorf("after revision %d, but the newest one is %d: %w", want, now.Revision, kv.ErrCompacted)
	}
	lo, hi := int64(1), now.written-1
	for lo <= hi {
		mid := lo + (hi-lo)/2
		s, _, err := e.read(ctx, mid)
		switch {
		case errors.Is(err, kv.ErrCompacted):
			lo = mid + 1
		case err != nil:
			return 0, err
		case s.written != 0 && s.Revision == want:
			return mid, nil
		case s.Revision > want:
			hi = s.written - 1
		default:
			lo = mid + 1
		}
	}
	return 0, fmt.Errorf("after revision %d: %w", want, kv.ErrCompacted)
}

// follow yields the batches that etcd shows after one of its revisions, until something goes wrong with the connection.
func (e *Engine) follow(ctx context.Context, at int64, after kv.Revision) iter.Seq2[kv.Batch, error] {
	return func(yield func(kv.Batch, error) bool) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		defer context.AfterFunc(e.ctx, cancel)() //nolint:contextcheck // The engine's end cancels what the caller has begun.
		client, turn, err := e.members.Use()
		if err != nil {
			yield(kv.Batch{}, err)
			return
		}
		var seen atomic.Uint64
		seen.Store(uint64(after))
		var guard sync.WaitGroup
		guard.Go(func() {
			e.lags(ctx, &seen)
			turn()
			cancel()
		})
		defer guard.Wait()
		defer cancel()
		var b kv.Batch
		base := strings.TrimSuffix(e.sequence, "sequence")
		for r := range client.Watch(ctx, base, clientv3.WithPrefix(), clientv3.WithRev(at+1)) {
			if err := r.Err(); err != nil {
				yield(kv.Batch{}, err)
				return
			}
			for _, event := range r.Events {
				ended, err := e.gather(&b, event)
				if err != nil {
					yield(kv.Batch{}, err)
					return
				}
				if !ended {
					continue
				}
				batch := b
				b = kv.Batch{}
				if batch.Revision <= after { // a new term has the revision of the one before
					continue
				}
				if batch.Revision != after+1 {
					yield(kv.Batch{}, fmt.Errorf("revision %d follows %d", batch.Revision, after))
					return
				}
				after = batch.Revision
				seen.Store(uint64(after))
				if !yield(batch, nil) {
					return
				}
			}
		}
	}
}

// lags returns when a watch has not shown for a while what other members of etcd say is there, or ctx ends. A watch on a member
// that hangs or cannot be reached says nothing by itself.
func (e *Engine) lags(ctx context.Context, seen *atomic.Uint64) {
	tick := time.NewTicker(attempt / 2)
	defer tick.Stop()
	var due kv.Revision
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if kv.Revision(seen.Load()) < due {
			return
		}
		if now, _, err := e.read(ctx, 0); err == nil {
			due = now.Revision
		}
	}
}

// gather adds a change to a batch, and reports whether it was the last one of it.
func (e *Engine) gather(b *kv.Batch, event *clientv3.Event) (ended bool, err error) {
	key := string(event.GetKv().GetKey())
	switch {
	case key == e.sequence && event.GetType() == clientv3.EventTypePut:
		s, err := parse(event.GetKv().GetValue())
		b.Revision = s.Revision
		return true, err
	case key == e.sequence:
		return false, fmt.Errorf("%w: the key %s was removed", kv.ErrCorrupt, e.sequence)
	case len(key) <= len(e.rows) || key[:len(e.rows)] != e.rows:
	case event.GetType() == clientv3.EventTypePut:
		b.Put = append(b.Put, kv.Entry{Key: key[len(e.rows):], Value: event.GetKv().GetValue()})
	default:
		b.Delete = append(b.Delete, key[len(e.rows):])
	}
	return false, nil
}
