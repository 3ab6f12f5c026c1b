// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// format is the layout of the keys, as the package comment describes it.
const format = 1

// Reign names the election that an owner has won: a key that its lease keeps alive, and the revision of etcd that created it.
type Reign struct {
	Key     string
	Created int64
}

// Engine is the map below a prefix of an etcd cluster.
type Engine struct {
	members  *Members
	where    string // for messages
	rows     string // begins the keys of entries
	sequence string // the key of the sequence
	patience time.Duration

	ctx context.Context // ends with Close
	end context.CancelCauseFunc

	mu    sync.Mutex // held through Own and Append
	term  kv.Term    // 0: over
	last  stamp      // the sequence as this owner wrote it last
	reign *Reign

	// One attempt, and whether attempts have been made for long enough; fields but for tests of what happens around them.
	commit func(context.Context, transaction) (*clientv3.TxnResponse, error)
	enough func(began time.Time) bool
}

var _ kv.Engine = (*Engine)(nil)

// sequence is the value of the sequence key.
type sequence struct {
	Format   int         `json:"format"`
	Revision kv.Revision `json:"revision"`
	Term     kv.Term     `json:"term"`
}

func (s sequence) text() string {
	return fmt.Sprintf(`{"format":%d,"revision":%d,"term":%d}`, s.Format, s.Revision, s.Term)
}

// stamp is a sequence and the revision of etcd that wrote it, 0 when there is none.
type stamp struct {
	sequence
	written int64
}

// New returns an engine on the map of a cluster. Nothing is read or written yet.
func New(s Settings) (*Engine, error) {
	members, err := Connect(s)
	if err != nil {
		return nil, err
	}
	const patience = 10 * time.Second
	e := &Engine{
		members:  members,
		where:    strings.Join(s.Endpoints, ",") + " " + s.Base(),
		rows:     s.Base() + "row/",
		sequence: s.Base() + "sequence",
		patience: cmp.Or(s.Patience, patience),
	}
	e.ctx, e.end = context.WithCancelCause(context.Background())
	e.commit = e.once
	e.enough = func(began time.Time) bool { return time.Since(began) > e.patience }
	return e, nil
}

// Reign makes the election key a condition of every later Own and Append: once the key is gone or is another's, they answer
// [kv.ErrFenced].
func (e *Engine) Reign(r Reign) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reign = &r
}

// bound returns ctx with the end of the engine and the bound of one attempt.
func (e *Engine) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), attempt)
	stop := context.AfterFunc(e.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// over returns why nothing more is to be tried.
func (e *Engine) over(ctx context.Context) error {
	if e.ctx.Err() != nil {
		return kv.ErrClosed
	}
	return context.Cause(ctx)
}

// pause waits before an attempt, longer from try to try.
func (e *Engine) pause(ctx context.Context, try int) {
	timer := time.NewTimer(min(pauseStep<<min(try, 8), pauseMost))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-e.ctx.Done():
	}
}

// get reads a key or a range, again and again until there is an answer, patience ends, or the error is one that another try
// does not mend.
func (e *Engine) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	began := time.Now()
	for try := 0; ; try++ {
		if err := e.over(ctx); err != nil {
			return nil, err
		}
		r, err := e.getOnce(ctx, key, opts)
		if err == nil {
			return r, nil
		}
		if cause := e.over(ctx); cause != nil {
			return nil, fmt.Errorf("%w (%w)", cause, explain(err))
		}
		if !passing(err) || e.enough(began) {
			return nil, explain(err)
		}
		e.pause(ctx, try)
	}
}

func (e *Engine) getOnce(ctx context.Context, key string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	client, turn, err := e.members.Use()
	if err != nil {
		return nil, err
	}
	one, done := e.bound(ctx)
	defer done()
	r, err := client.Get(one, key, opts...)
	if err != nil {
		turn()
	}
	return r, err
}

// read returns the sequence, as of a revision of etcd when it is not 0, and the revision at which it was read.
func (e *Engine) read(ctx context.Context, at int64) (stamp, int64, error) {
	r, err := e.get(ctx, e.sequence, clientv3.WithRev(at))
	if err != nil {
		return stamp{}, 0, err
	}
	s, err := stampOf(r.Kvs)
	return s, r.Header.GetRevision(), err
}

// stampOf reads the sequence key, as etcd answers it.
func stampOf(found []*mvccpb.KeyValue) (stamp, error) {
	if len(found) == 0 {
		return stamp{}, nil
	}
	s, err := parse(found[0].GetValue())
	return stamp{s, found[0].GetModRevision()}, err
}

func parse(value []byte) (sequence, error) {
	var s sequence
	if err := json.Unmarshal(value, &s); err != nil {
		return s, fmt.Errorf("%w: the sequence key does not decode: %w", kv.ErrCorrupt, err)
	}
	if s.Format != format {
		return s, fmt.Errorf("%w: it has format %d, this program knows %d", kv.ErrCorrupt, s.Format, format)
	}
	return s, nil
}

// Own implements [kv.Engine]. It fences the owner before it at once: whose turn it is, an election decides.
func (e *Engine) Own(ctx context.Context) (kv.Term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.over(ctx); err != nil {
		return 0, e.problem("take", err)
	}
	e.term = 0
	if err := e.members.suit(ctx); err != nil {
		return 0, e.problem("take", err)
	}
	began := time.Now()
	for try := 0; ; try++ {
		taken, err := e.take(ctx)
		if err == nil {
			e.term, e.last = taken.Term, taken
			return taken.Term, nil
		}
		if cause := e.over(ctx); cause != nil {
			return 0, e.problem("take", fmt.Errorf("%w (%w)", cause, err))
		}
		if !errors.Is(err, errOvertaken) && (!passing(err) || e.enough(began)) {
			return 0, e.problem("take", e.members.reason(ctx, explain(err)))
		}
		e.pause(ctx, try)
	}
}

// errOvertaken says that the sequence was written meanwhile.
var errOvertaken = errors.New("another owner came in between")

// take writes the next term, once. One that was not answered, or for which etcd said that it has no room, may have been written all the
// same. Nobody can tell, since another owner's next term reads alike: the caller takes a later one.
func (e *Engine) take(ctx context.Context) (stamp, error) {
	now, _, err := e.read(ctx, 0)
	if err != nil {
		return stamp{}, err
	}
	if now.written == 0 {
		r, err := e.get(ctx, e.rows, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return stamp{}, err
		}
		if len(r.Kvs) > 0 {
			return stamp{}, fmt.Errorf("%w: there are rows such as %q, but the key %s is missing", kv.ErrCorrupt, r.Kvs[0].GetKey(), e.sequence)
		}
	}
	next := sequence{Format: format, Revision: now.Revision, Term: now.Term + 1}
	r, err := e.once(ctx, transaction{expect: now.written, next: next})
	if err != nil {
		return stamp{}, err
	}
	if r.Succeeded {
		return stamp{next, r.Header.GetRevision()}, nil
	}
	if err := e.reigns(r); err != nil {
		return stamp{}, err
	}
	return stamp{}, errOvertaken
}

// Close implements [kv.Engine].
func (e *Engine) Close() error {
	if e.ctx.Err() != nil {
		return nil
	}
	e.end(kv.ErrClosed)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = 0
	if err := e.members.Close(); err != nil {
		return e.problem("close", err)
	}
	return nil
}

// problem says what could not be done with which map.
func (e *Engine) problem(what string, err error) error {
	return fmt.Errorf("%s database etcd %s: %w", what, e.where, err)
}

// explain puts an error of etcd into the kinds of package kv, with what to do about it.
func explain(err error) error {
	switch {
	case err == nil, errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrCorrupt), errors.Is(err, kv.ErrFenced), errors.Is(err, errSilent):
		return err
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%w: %w", kv.ErrCompacted, err)
	case is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w: compact and defragment etcd, or raise its --quota-backend-bytes, then disarm the alarm", kv.ErrFull, err)
	case is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: %w: the user needs the rights to read and write below the prefix", kv.ErrReadOnly, err)
	case is(err, rpctypes.ErrUserEmpty), is(err, rpctypes.ErrAuthFailed), is(err, rpctypes.ErrInvalidAuthToken):
		return fmt.Errorf("%w: %w: check the name and the password of the user", kv.ErrReadOnly, err)
	case is(err, rpctypes.ErrTooManyOps), is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%w: etcd must take 128 operations (--max-txn-ops) and 1.5 MiB (--max-request-bytes) in a transaction, as it does by default", err)
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", errSilent, err)
	default:
		return err
	}
}

// errSilent says that no member has answered.
var errSilent = errors.New("etcd does not answer: a majority of its members must run and be reachable")

// is reports whether an error is one of etcd's, in either form that the client has for it.
func is(err, kind error) bool {
	return errors.Is(err, kind) || errors.Is(rpctypes.Error(err), kind) || rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(kind)
}

// passing reports whether another try may mend an error.
func passing(err error) bool {
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrCompacted) {
		return false
	}
	for _, lasting := range []error{
		rpctypes.ErrCompacted, rpctypes.ErrFutureRev, rpctypes.ErrNoSpace, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty,
		rpctypes.ErrAuthFailed, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge,
	} {
		if is(err, lasting) {
			return false
		}
	}
	return true
}
