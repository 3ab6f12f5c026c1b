// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"context"
	"iter"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// page is how many entries are read at a time. Rows of the largest size then still fit in a message.
const page = 500

// Load implements [kv.Engine]. It reads pages at one revision of etcd; when etcd compacts that revision meanwhile, the sequence ends
// with [kv.ErrCompacted], and the caller loads again. The map need not be owned.
func (e *Engine) Load(ctx context.Context) (kv.Revision, iter.Seq2[kv.Entry, error]) {
	s, at, err := e.read(ctx, 0)
	if err != nil {
		return 0, func(yield func(kv.Entry, error) bool) { yield(kv.Entry{}, e.problem("read", err)) }
	}
	return s.Revision, func(yield func(kv.Entry, error) bool) {
		from, end := e.rows, clientv3.GetPrefixRangeEnd(e.rows)
		for {
			r, err := e.get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(at), clientv3.WithLimit(page))
			if err != nil {
				yield(kv.Entry{}, e.problem("read", err))
				return
			}
			for _, row := range r.Kvs {
				if err := e.over(ctx); err != nil {
					yield(kv.Entry{}, e.problem("read", err))
					return
				}
				if !yield(kv.Entry{Key: string(row.GetKey()[len(e.rows):]), Value: row.GetValue()}, nil) {
					return
				}
			}
			if !r.More || len(r.Kvs) == 0 {
				return
			}
			from = string(r.Kvs[len(r.Kvs)-1].GetKey()) + "\x00"
		}
	}
}
