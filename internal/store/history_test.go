// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// accounts is how many rows a history works on.
const accounts = 3

// balances is the whole state of the sequential model.
type balances struct {
	revision store.Revision
	of       [accounts]int64
}

// request is an operation of a client.
type request struct {
	kind     string // view, read, refuse, add, move
	from, to int
	amount   int64
}

// response is what the client has learned.
type response struct {
	seen    balances // what view, read and refuse saw; for add and move the balances afterwards
	unknown bool
}

// bank is the sequential model. An operation whose outcome is unknown has happened or not.
func bank() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{balances{}} },
		Step: func(state, in, out any) []any {
			s, req, res := state.(balances), in.(request), out.(response)
			next := s
			switch req.kind {
			case "add":
				next.of[req.to] += req.amount
				next.revision++
			case "move":
				next.of[req.from] -= req.amount
				next.of[req.to] += req.amount
				next.revision++
			}
			switch {
			case res.unknown:
				return []any{s, next}
			case next == res.seen:
				return []any{next}
			default:
				return nil
			}
		},
		DescribeOperation: func(in, out any) string {
			req, res := in.(request), out.(response)
			return fmt.Sprintf("%s %d to %d of %d: %v unknown=%v", req.kind, req.from, req.to, req.amount, res.seen, res.unknown)
		},
	}
	return m.ToModel()
}

// world is a store that faults and crashes, with its history.
type world struct {
	sh      shop
	update  func(*store.Store) updater
	mu      sync.RWMutex // held by a view, and by what replaces the store
	s       *store.Store
	memory  *kvtest.Memory
	clock   atomic.Int64
	record  sync.Mutex
	history []porcupine.Operation
}

func (w *world) now() (*store.Store, *kvtest.Memory) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.s, w.memory
}

func accountOf(i int) replicaKey { return replicaKey{"account", nodeName(i)} }

// read is the balances that a reader shows.
func (w *world) read(r store.Reader, revision store.Revision) balances {
	b := balances{revision: revision - 1} // the first update made the accounts
	for i := range accounts {
		x, _ := w.sh.replicas.Get(r, accountOf(i))
		b.of[i] = x.Size
	}
	return b
}

var errRefused = errors.New("refused by the client")

// do runs one operation and records it. What is known not to have happened is not recorded: it leaves no trace to look for.
func (w *world) do(client int, req request) {
	call := w.clock.Add(1)
	var res response
	var err error
	if req.kind == "view" {
		w.mu.RLock()
		v := w.s.Snapshot()
		res.seen = w.read(v, v.Revision())
		w.mu.RUnlock()
	} else {
		s, _ := w.now()
		_, err = w.update(s)(context.Background(), func(tx *store.Tx) error { return w.transact(tx, req, &res) })
	}
	end := w.clock.Add(1)
	switch {
	case errors.Is(err, store.ErrUnknown):
		if req.kind == "read" || req.kind == "refuse" {
			return
		}
		res, end = response{unknown: true}, 1<<60 // it may happen at any later time
	case err != nil && !errors.Is(err, errRefused):
		return
	}
	w.record.Lock()
	defer w.record.Unlock()
	w.history = append(w.history, porcupine.Operation{ClientId: client, Input: req, Output: res, Call: call, Return: end})
}

// transact is the function of an update.
func (w *world) transact(tx *store.Tx, req request, res *response) error {
	change := func(i int, by int64) error {
		x, _ := w.sh.replicas.Get(tx, accountOf(i))
		x.Size += by
		return w.sh.replicas.Update(tx, x)
	}
	switch req.kind {
	case "read":
		res.seen = w.read(tx, tx.Revision()-1)
		return nil
	case "refuse":
		res.seen = w.read(tx, tx.Revision()-1)
		return errRefused
	case "move":
		if err := change(req.from, -req.amount); err != nil {
			return err
		}
	}
	err := change(req.to, req.amount)
	res.seen = w.read(tx, tx.Revision())
	return err
}

// crash kills the store and opens another one on what is durable.
func (w *world) crash(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory.Crash()
	_ = w.s.Close()
	w.memory = w.memory.Peer()
	w.start(t)
}

func (w *world) start(t *testing.T) {
	t.Helper()
	s, err := store.Open(context.Background(), w.memory, w.sh.all(), store.Retry(time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	w.s = s
}

// trouble makes one fault.
func (w *world) trouble(t *testing.T, r *rand.Rand) {
	t.Helper()
	_, m := w.now()
	switch r.IntN(4) {
	case 0:
		w.crash(t)
	case 1:
		m.Hold(kvtest.BeforeAppend).Open(kv.ErrUnknown)
	case 2:
		m.Hold(kvtest.BeforeAnswer).Open(kv.ErrUnknown)
	default:
		m.Hold(kvtest.BeforeAppend).Open(kv.ErrFull)
	}
}

// record lets clients work on a store in trouble and returns what they have seen.
func record(t *testing.T, seed uint64, trouble bool, update func(*store.Store) updater) []porcupine.Operation {
	t.Helper()
	const clients, each = 5, 24
	w := &world{sh: newShop(), memory: kvtest.NewMemory(), update: update}
	w.start(t)
	must(t, w.s, func(tx *store.Tx) error {
		for i := range accounts {
			if err := w.sh.insertAll(tx, nodeName(i), replica{Key: accountOf(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	var working sync.WaitGroup
	for c := range clients {
		working.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			for range each {
				if trouble && r.IntN(15) == 0 {
					w.trouble(t, r)
				}
				w.do(c, request{
					kind: []string{"view", "read", "refuse", "add", "add", "move", "move"}[r.IntN(7)],
					from: r.IntN(accounts), to: r.IntN(accounts), amount: r.Int64N(9) + 1,
				})
			}
		})
	}
	working.Wait()
	s, m := w.now()
	m.Release()
	_ = s.Close()
	return w.history
}

// TestHistoriesAreStrictlySerial records what concurrent clients see, through crashes, full disks and unknown outcomes, and looks for a
// serial order of all operations that explains it and keeps to real time.
func TestHistoriesAreStrictlySerial(t *testing.T) {
	operations, unknown := 0, 0
	for seed := range uint64(40) {
		history := record(t, seed, seed%4 != 0, func(s *store.Store) updater { return s.Update })
		for _, o := range history {
			if operations++; o.Output.(response).unknown {
				unknown++
			}
		}
		if verdict := porcupine.CheckOperationsTimeout(bank(), history, 20*time.Second); verdict != porcupine.Ok {
			t.Fatalf("seed %d: the history of %d operations is %s", seed, len(history), verdict)
		}
	}
	t.Logf("%d operations, %d with unknown outcome", operations, unknown)
	if operations < 1000 || unknown < 10 {
		t.Errorf("the histories are too tame: %d operations, %d with unknown outcome", operations, unknown)
	}
}

// TestCheckerRefutesUnlockedStores is a test of the test above.
func TestCheckerRefutesUnlockedStores(t *testing.T) {
	for seed := range uint64(50) {
		history := record(t, seed, false, func(s *store.Store) updater {
			return func(ctx context.Context, fn func(*store.Tx) error) (store.Revision, error) {
				return s.UpdateWithoutLock(ctx, func() {}, fn)
			}
		})
		if porcupine.CheckOperationsTimeout(bank(), history, 20*time.Second) == porcupine.Illegal {
			return
		}
	}
	t.Error("no history of a store that updates without its lock was refuted")
}
