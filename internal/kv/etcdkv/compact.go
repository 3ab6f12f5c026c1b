// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Forget makes etcd forget its history from time to time, all but that of the last one or two spans, until ctx ends. Without it, an
// etcd that is not told to compact itself keeps every former state of each row until it is full. It concerns the whole etcd; an
// error is told to failed, and tried again after the next span.
func (e *Engine) Forget(ctx context.Context, span time.Duration, failed func(error)) {
	tick := time.NewTicker(span)
	defer tick.Stop()
	var before int64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-e.ctx.Done():
			return
		}
		_, now, err := e.read(ctx, 0)
		if err == nil && before > 0 {
			err = e.forget(ctx, before)
		}
		if err != nil && ctx.Err() == nil {
			failed(e.problem("compact", explain(err)))
			continue
		}
		before = now
	}
}

// forget compacts once. That someone else has done it is no error.
func (e *Engine) forget(ctx context.Context, before int64) error {
	client, turn, err := e.members.Use()
	if err != nil {
		return err
	}
	one, done := e.bound(ctx)
	defer done()
	_, err = client.Compact(one, before)
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	if err != nil {
		turn()
	}
	return err
}
