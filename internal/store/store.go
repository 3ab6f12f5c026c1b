// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Store is the state of the collections that it was opened with. All methods may be called from several goroutines.
type Store struct {
	engine   kv.Engine
	layout   *layout
	settings settings

	durable atomic.Pointer[View]

	mu     sync.Mutex // one update at a time; guards what follows
	head   *state     // what the next update builds on
	queue  []*update  // not yet durable, in order, those of the commit under way included
	refuse error      // why no updates are taken
	closed bool
	count  counters
	fault  error // of the newest commit

	term   kv.Term // the committer's alone
	wake   chan struct{}
	fenced chan struct{}
	cancel context.CancelFunc // ends the committer's calls of the engine
	ended  chan struct{}      // the committer has ended
	log    *history

	follower *follower // nil: the store owns the map
}

// update is one update on its way to durability.
type update struct {
	state    *state // after it
	writes   []*write
	discards []string

	encoded sync.Once
	fit     error // why it cannot be encoded
	bytes   int

	done chan struct{}
	err  error // set before done is closed
}

// settings are what options set.
type settings struct {
	paranoid bool
	history  int
	retry    time.Duration
	origin   *Origin // nil: whatever the database says
	turn     time.Duration
}

// Setting changes how a store is opened.
type Setting func(*settings)

// Paranoid makes the store panic when a row was changed in place, in the transaction that did it or when the row is next
// read. It costs an encoding per read: it is for tests.
func Paranoid() Setting { return func(s *settings) { s.paranoid = true } }

// History sets how many changes the store keeps for its watchers, 16,384 without it.
func History(changes int) Setting { return func(s *settings) { s.history = changes } }

// Retry sets how long the store waits before it tries again to reach an engine that failed, one second without it.
func Retry(d time.Duration) Setting { return func(s *settings) { s.retry = d } }

// OwnWithin bounds how long Open waits for its turn to own the map; without it, the context does.
func OwnWithin(d time.Duration) Setting { return func(s *settings) { s.turn = d } }

// maxQueue bounds the updates that wait for an engine that does not answer.
const maxQueue = 16384

// Open takes the engine's map and loads it. The collections must include the parents and children of each of them. Stored rows that
// cannot be used are set aside, see [Store.SetAside]. When Open succeeds, Close closes the engine too.
func Open(ctx context.Context, engine kv.Engine, collections []Registered, opts ...Setting) (*Store, error) {
	s, err := prepare(engine, collections, opts)
	if err != nil {
		return nil, err
	}
	loaded, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	s.begin(loaded)
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go s.commits(background)
	return s, nil
}

// prepare makes a store that shows nothing yet.
func prepare(engine kv.Engine, collections []Registered, opts []Setting) (*Store, error) {
	l, err := arrange(collections)
	if err != nil {
		return nil, err
	}
	s := &Store{
		engine:   engine,
		layout:   l,
		settings: settings{history: 1 << 14, retry: time.Second},
		wake:     make(chan struct{}, 1),
		fenced:   make(chan struct{}),
		ended:    make(chan struct{}),
	}
	for _, o := range opts {
		o(&s.settings)
	}
	return s, nil
}

// begin makes a state the first one.
func (s *Store) begin(loaded *state) {
	s.head = loaded
	s.durable.Store(s.view(loaded))
	s.log = newHistory(loaded.revision, s.settings.history)
}

func (s *Store) view(st *state) *View { return &View{state: st, paranoid: s.settings.paranoid} }

// View calls fn with the newest durable state. It never waits, neither for updates nor for the engine.
func (s *Store) View(fn func(*View) error) error { return fn(s.Snapshot()) }

// Snapshot returns the newest durable state.
func (s *Store) Snapshot() *View { return s.durable.Load() }

// Update runs fn on the newest state, alone, and makes what it writes durable, whole. It answers when that is so, and returns the
// revision of the update.
//
// fn must decide from the transaction and from values that it was made with: no clock, no random numbers, no I/O, no waiting, no
// other call of the store. When it returns an error nothing is written and Update returns that error; when it writes nothing,
// nothing is stored and the revision is that of the state that it read. In these cases too the answer waits until the state that
// fn read is durable, so that no answer rests on what a crash could take back.
//
// Errors of Update itself:
//
//   - [ErrUnknown]: the update is durable or not, whole; the engine could not tell, or ctx ended while Update waited. In the second
//     case the commit goes on.
//   - [ErrFenced], [ErrStandby], [ErrUnavailable], [ErrBusy], [ErrClosed], a [*LimitError]: the update was not made.
//   - [ErrAborted]: an update that this one built on was not made, so neither was this one.
//   - any other error of the engine, such as [ErrFull]: the update was not made.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) (Revision, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, fmt.Errorf("update not begun: %w", err)
	}
	began := time.Now()
	u, read, err := s.stage(fn)
	if u == nil {
		return s.afterRead(ctx, read, err)
	}
	u.encode()
	select {
	case <-u.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("update %d was given up before it was known to be durable: %w: %w", u.state.revision, ErrUnknown, context.Cause(ctx))
	}
	s.count.waited.Add(int64(time.Since(began)))
	if u.err != nil {
		return 0, u.err
	}
	return u.state.revision, nil
}

// read is the state that an update without effect was decided on.
type read struct {
	revision Revision
	pending  *update // the newest update in it that was not durable; nil when there was none
}

// stage runs fn on the head and puts the update into the queue. Without effect, it returns no update but what fn has read.
func (s *Store) stage(fn func(*Tx) error) (*update, read, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := read{revision: s.head.revision}
	if n := len(s.queue); n > 0 {
		seen.pending = s.queue[n-1]
	}
	if err := s.takes(); err != nil {
		return nil, read{}, err
	}
	tx := begin(s.head, s.settings.paranoid)
	defer func() { tx.over = true }()
	if err := fn(tx); err != nil {
		s.count.refused.Add(1)
		tx.release()
		return nil, seen, err
	}
	writes, err := tx.finish()
	if err != nil {
		s.count.refused.Add(1)
		return nil, seen, err
	}
	if len(writes) == 0 && len(tx.discards) == 0 && !tx.marked {
		return nil, seen, nil
	}
	after := tx.state
	u := &update{state: &after, writes: writes, discards: tx.discards, done: make(chan struct{})}
	s.head = u.state
	s.queue = append(s.queue, u)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return u, read{}, nil
}

// takes returns why no update is taken now. The caller holds the lock.
func (s *Store) takes() error {
	switch {
	case s.closed:
		return fmt.Errorf("update refused: %w", ErrClosed)
	case s.refuse != nil:
		return s.refuse
	case len(s.queue) >= maxQueue:
		return fmt.Errorf("update refused: %w (%d)", ErrBusy, len(s.queue))
	default:
		return nil
	}
}

// afterRead answers for an update without effect once the state that it has read is durable. When that state was taken back, so
// is the answer.
func (s *Store) afterRead(ctx context.Context, r read, answer error) (Revision, error) {
	if r.pending != nil {
		select {
		case <-r.pending.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("the state that the answer rests on is not known to be durable: %w", context.Cause(ctx))
		}
		if err := r.pending.err; err != nil {
			return 0, fmt.Errorf("%w: %w", ErrAborted, withoutOutcome(err))
		}
	}
	if answer != nil {
		return 0, answer
	}
	return r.revision, nil
}

// withoutOutcome keeps an error's text but not its kind when the kind says that the outcome is unknown: that is so for the update
// that failed, not for those that never began because of it.
func withoutOutcome(err error) error {
	if errors.Is(err, ErrUnknown) {
		return errors.New(err.Error())
	}
	return err
}

// Fenced is closed when the store has learned that another owner has taken the engine's map. Reads go on, from a state that
// may be past; updates are refused.
func (s *Store) Fenced() <-chan struct{} { return s.fenced }

// Err returns why updates fail: the error of the newest commit, or nil when it succeeded. The store tries on its own to get out
// of every error but [ErrFenced] and [ErrClosed], also when there are no updates.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	return s.fault
}

// SetAside lists the stored rows that could not be used when the state was loaded, by stored key. They stay in the engine until
// they are discarded.
func (s *Store) SetAside() []Aside {
	aside := s.Snapshot().state.aside
	list := make([]Aside, 0, len(aside))
	for _, key := range slices.Sorted(maps.Keys(aside)) {
		list = append(list, aside[key])
	}
	return list
}

// Discard removes a row that was set aside from the engine, for ever.
func (s *Store) Discard(ctx context.Context, storedKey string) error {
	_, err := s.Update(ctx, func(tx *Tx) error {
		if _, is := tx.state.aside[storedKey]; !is {
			return fmt.Errorf("discard %q: no such row is set aside", storedKey)
		}
		tx.state.aside = maps.Clone(tx.state.aside)
		delete(tx.state.aside, storedKey)
		tx.discards = append(tx.discards, storedKey)
		return nil
	})
	return err
}

// closeGrace is how long Close lets the engine finish what is queued.
const closeGrace = 10 * time.Second

// Close takes no more updates, lets those that wait become durable, and closes the engine. Views stay usable.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	f := s.follower
	s.mu.Unlock()
	if f != nil {
		f.cancel()
		<-f.ended
		s.log.close()
		return s.engine.Close()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	grace := time.AfterFunc(closeGrace, s.cancel)
	<-s.ended
	grace.Stop()
	s.cancel()
	s.log.close()
	if again {
		return nil
	}
	err := s.engine.Close()
	if s.settings.paranoid {
		s.Snapshot().unchanged()
	}
	return err
}
