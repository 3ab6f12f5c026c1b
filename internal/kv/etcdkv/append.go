// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// transaction replaces the sequence that etcd wrote at a revision, 0 for none, by the next one, together with the rows of a batch.
type transaction struct {
	expect int64
	next   sequence
	batch  kv.Batch
}

// once sends a transaction. When it does not apply, the response holds the sequence key and, in a reign, the election key.
func (e *Engine) once(ctx context.Context, t transaction) (*clientv3.TxnResponse, error) {
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.sequence), "=", t.expect)}
	look := []clientv3.Op{clientv3.OpGet(e.sequence)}
	if e.reign != nil {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(e.reign.Key), "=", e.reign.Created))
		look = append(look, clientv3.OpGet(e.reign.Key, clientv3.WithKeysOnly()))
	}
	ops := make([]clientv3.Op, 0, t.batch.Rows()+1)
	for _, p := range t.batch.Put {
		ops = append(ops, clientv3.OpPut(e.rows+p.Key, string(p.Value)))
	}
	for _, k := range t.batch.Delete {
		ops = append(ops, clientv3.OpDelete(e.rows+k))
	}
	// Watchers take the sequence for the end of a batch.
	ops = append(ops, clientv3.OpPut(e.sequence, t.next.text()))
	client, turn, err := e.members.Use()
	if err != nil {
		return nil, err
	}
	one, done := e.bound(ctx)
	defer done()
	r, err := client.Txn(one).If(conditions...).Then(ops...).Else(look...).Commit()
	if err != nil {
		turn()
	}
	return r, err
}

// reigns returns an error when a transaction that did not apply shows that the reign has ended.
func (e *Engine) reigns(r *clientv3.TxnResponse) error {
	if e.reign == nil {
		return nil
	}
	if key := r.Responses[1].GetResponseRange().GetKvs(); len(key) == 0 || key[0].GetCreateRevision() != e.reign.Created {
		return fmt.Errorf("%w: this controller leads no longer", kv.ErrFenced)
	}
	return nil
}

// Append implements [kv.Engine].
func (e *Engine) Append(ctx context.Context, t kv.Term, b kv.Batch) (kv.Revision, error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.over(ctx); err != nil {
		return 0, e.problem("write", err)
	}
	if t == 0 || t != e.term {
		return 0, e.problem("write", fmt.Errorf("term %d is over: %w", t, kv.ErrFenced))
	}
	w := transaction{
		expect: e.last.written, batch: b,
		next: sequence{Format: format, Revision: e.last.Revision + 1, Term: t},
	}
	written, err := e.settle(ctx, w)
	switch {
	case err == nil:
		e.last = stamp{w.next, written}
		return w.next.Revision, nil
	case errors.Is(err, kv.ErrFenced), errors.Is(err, kv.ErrUnknown):
		e.term = 0
	}
	return 0, e.problem("write", err)
}

// settle sends a transaction until its outcome is known, and returns the revision of etcd that it made.
func (e *Engine) settle(ctx context.Context, w transaction) (int64, error) {
	began, open := time.Now(), false // open: an attempt may have been applied or may yet be
	for try := 0; ; try++ {
		r, err := e.commit(ctx, w)
		if err == nil {
			return e.outcome(w, r)
		}
		lasting := !passing(err)
		switch {
		case lasting && !open && is(err, rpctypes.ErrNoSpace):
			return e.filled(ctx, w, explain(err))
		case lasting && !open:
			return 0, explain(err)
		}
		open = open || !lasting
		if cause := e.over(ctx); cause != nil {
			return 0, fmt.Errorf("%w: %w (%w)", kv.ErrUnknown, cause, explain(err))
		}
		if e.enough(began) {
			return 0, fmt.Errorf("%w: no answer in %s: %w", kv.ErrUnknown, e.patience, explain(err))
		}
		e.pause(ctx, try)
	}
}

// filled reads what became of a transaction for which etcd said that it has no room: the one that takes the last of it is applied all the same
// (etcd's applier looks for room before, and says so after). No other one of this owner can be on its way.
func (e *Engine) filled(ctx context.Context, w transaction, full error) (int64, error) {
	now, _, err := e.read(ctx, 0)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w (%w)", kv.ErrUnknown, err, full)
	case now.written == w.expect:
		return 0, full
	}
	return e.became(w, now)
}

// outcome reads what became of a transaction from the answer to one attempt: when it did not apply, an earlier attempt may have.
func (e *Engine) outcome(w transaction, r *clientv3.TxnResponse) (int64, error) {
	if r.Succeeded {
		return r.Header.GetRevision(), nil
	}
	now, err := stampOf(r.Responses[0].GetResponseRange().GetKvs())
	if err != nil {
		return 0, fmt.Errorf("%w: %w", kv.ErrFenced, err)
	}
	if err := e.reigns(r); err != nil && now.written == w.expect {
		return 0, err
	}
	return e.became(w, now)
}

// became tells what became of a transaction from a sequence that is not the one that it was to replace.
func (e *Engine) became(w transaction, now stamp) (int64, error) {
	switch {
	case now.written == 0:
		return 0, fmt.Errorf("%w: the key %s was removed", kv.ErrFenced, e.sequence)
	case now.sequence == w.next: // a term is one owner's alone
		return now.written, nil
	case now.Term > w.next.Term && now.Revision >= w.next.Revision:
		// A later owner came: whether it found this batch or another one at this revision, it does not say.
		return e.overtaken(w, now.written)
	}
	return 0, fmt.Errorf("term %d is over, it is term %d now: %w", w.next.Term, now.Term, kv.ErrFenced)
}

// overtaken looks into the history for the batch of a transaction, from before a later owner came.
func (e *Engine) overtaken(w transaction, before int64) (int64, error) {
	fenced := fmt.Errorf("term %d is over: %w", w.next.Term, kv.ErrFenced)
	for at := before - 1; at > w.expect; {
		s, _, err := e.read(e.ctx, at)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%w: a later owner came: %w", kv.ErrUnknown, err)
		case s.sequence == w.next: // the later owner has found it
			return s.written, nil
		case s.written == 0 || s.written <= w.expect:
			return 0, fenced
		}
		at = s.written - 1
	}
	return 0, fenced
}
