// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// Config is what a Set is opened with.
type Config struct {
	Driver   Driver
	Journal  Journal
	Pools    []Pool // What is desired from the start, as by Ensure.
	Finders  []Finder
	Liveness map[HolderKind]Liveness // Holders of kinds that are not in it live for ever.
	Changes  <-chan struct{}         // Gets a value when the table of mounts has changed, as mount.Watch gives it. May be nil.
	Observe  func(Event)             // Is told of each event, in order for each source. It must be quick and must not call the Set. May be nil.
	Limits   Limits
}

// Set is all holds of this host.
type Set struct {
	c      Config
	limits Limits
	life   context.Context //nolint:containedctx // Its end is the end of the Set and of all that it has begun.
	die    context.CancelFunc
	loops  sync.WaitGroup // The owners and the watcher; not what may hang.

	finding []chan struct{} // For each finder, full while it is asked.

	mu      sync.Mutex // Guards what follows, and is never held while anything waits.
	sources map[mount.Source]*source
	pools   map[string]*source // By the id of a pool that was named last for a source.
	owners  map[ID]*source     // Of the holds.
	proven  map[*source]proof  // What the sources that are mounted have shown themselves to be.
	events  map[EventKind]int
	closing bool
}

// proof is what tells that two sources lead to the same file system.
type proof struct {
	entry    mount.Entry
	inode    uint64 // Of the root. Zero: not known.
	identity string
}

// same tells whether two sources lead to one folder of one file system.
func (p proof) same(o proof) bool {
	if p.identity != "" && p.identity == o.identity {
		return true
	}
	return p.entry.SameFS(o.entry) && p.entry.Root == o.entry.Root && p.inode != 0 && p.inode == o.inode
}

// Open returns the Set of this host, rebuilt from the journal and from what is mounted. No unmount happens before all finders have answered.
func Open(c Config) (*Set, error) {
	if c.Driver == nil || c.Journal == nil {
		return nil, errors.New("open the holds of this host: driver or journal is missing")
	}
	for _, p := range c.Pools {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("open the holds of this host: %w", err)
		}
	}
	saved, err := c.Journal.Load()
	if err != nil {
		return nil, fmt.Errorf("open the holds of this host: %w", err)
	}
	s := &Set{
		c: c, limits: c.Limits.withDefaults(), sources: map[mount.Source]*source{}, pools: map[string]*source{},
		owners: map[ID]*source{}, proven: map[*source]proof{}, events: map[EventKind]int{},
	}
	for range c.Finders {
		s.finding = append(s.finding, make(chan struct{}, 1))
	}
	s.life, s.die = context.WithCancel(context.Background())
	for _, sv := range saved {
		s.mu.Lock()
		src := s.add(sv.Source)
		s.mu.Unlock()
		src.rebuild(sv)
	}
	for _, p := range c.Pools {
		s.mu.Lock()
		src := s.sources[p.Spec.Source]
		if src == nil {
			src = s.add(p.Spec.Source)
		}
		s.mu.Unlock()
		if err := src.desire(p); err != nil {
			src.fault(err) // The others are served all the same.
			src.tell(Event{Kind: MountError, Err: err})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.sources {
		s.loops.Go(src.run)
	}
	s.loops.Go(s.watch)
	return s, nil
}

// add makes the owner of a source. s.mu is held.
func (s *Set) add(id mount.Source) *source {
	src := newSource(s, id)
	s.sources[id] = src
	return src
}

// pin returns the owner of a source, made when it is missing, and keeps it from retiring until what is sent to it has been done.
func (s *Set) pin(id mount.Source) (*source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, &Error{Kind: ShuttingDown, Source: id.String()}
	}
	src := s.sources[id]
	if src == nil {
		src = s.add(id)
		s.loops.Go(src.run)
	}
	src.pins++
	return src, nil
}

// pinBy is pin for an owner that is found in one of the indexes, or nil.
func (s *Set) pinBy(find func() *source) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := find()
	if src != nil {
		src.pins++
	}
	return src
}

func (s *Set) pinAll() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.sources))
	for _, src := range all {
		src.pins++
	}
	return all
}

// Acquire takes a hold on a pool: it mounts the pool's source when that is needed, waits for an unmount that is under way, and returns when
// the hold is recorded and the mount verified. An *Error says why a pool cannot be held; when ctx ends first, the error is ctx's. In both
// cases there is no hold.
//
// Acquiring a hold that the same holder already has returns it again, and an error leaves it as it was: whoever asks again because the agent was
// restarted before it answered, and gets an error, releases it to be sure.
func (s *Set) Acquire(ctx context.Context, p Pool, r Request) (Hold, error) {
	if err := errors.Join(p.Validate(), r.Validate()); err != nil {
		return Hold{}, &Error{Kind: Invalid, Pool: p.ID, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return Hold{}, fmt.Errorf("hold pool %s: %w", p.ID, err)
	}
	src, err := s.pin(p.Spec.Source)
	if err != nil {
		return Hold{}, err
	}
	a := &ask{pool: p, request: r, reply: make(chan granted, 1)}
	if !src.send(func() { src.acquire(a) }) {
		return Hold{}, &Error{Kind: ShuttingDown, Pool: p.ID, Source: src.id.String()}
	}
	select {
	case g := <-a.reply:
		return g.hold, g.err
	case <-src.gone:
		return Hold{}, &Error{Kind: ShuttingDown, Pool: p.ID, Source: src.id.String()}
	case <-ctx.Done():
	}
	back := make(chan struct{})
	if s.pinBy(func() *source { return src }); src.send(func() { src.withdraw(a); close(back) }) {
		select {
		case <-back:
		case <-src.gone:
		}
	}
	return Hold{}, fmt.Errorf("hold pool %s (%s): %w", p.ID, src.id, context.Cause(ctx))
}

// Release gives a hold back and says what became of the mount. Releasing a hold that is not there changes nothing and is no error. An error
// means that the release could not be recorded, and the hold is still there. When ctx ends while the mount is being taken down, that goes
// on, and the outcome is Deferred.
func (s *Set) Release(ctx context.Context, id ID) (Teardown, error) {
	src := s.pinBy(func() *source { return s.owners[id] })
	if src == nil {
		s.tell(Event{Kind: Anomaly, Hold: &Hold{ID: id}, Detail: "a hold was released that is not there"})
		return Teardown{Outcome: NotNeeded, Anomaly: true}, nil
	}
	reply := make(chan left, 1)
	if !src.send(func() { src.release(id, reply) }) {
		return Teardown{}, &Error{Kind: ShuttingDown, Source: src.id.String()}
	}
	select {
	case l := <-reply:
		return l.teardown, l.err
	case <-src.gone:
		return Teardown{}, &Error{Kind: ShuttingDown, Source: src.id.String()}
	case <-ctx.Done():
		return Teardown{Outcome: Deferred, Reason: "it goes on without being waited for"}, nil
	}
}

// With holds a pool while fn runs. The error is that of Acquire or of fn, and never one of what came after; that is the Teardown.
func (s *Set) With(ctx context.Context, p Pool, r Request, fn func(context.Context, Hold) error) (td Teardown, err error) {
	h, err := s.Acquire(ctx, p, r)
	if err != nil {
		return Teardown{}, err
	}
	defer func() {
		var failed error
		if td, failed = s.Release(context.WithoutCancel(ctx), r.ID); failed != nil {
			td = Teardown{Outcome: Deferred, Reason: failed.Error()}
		}
	}()
	return td, fn(ctx, h)
}

// Ensure says that this host shall have the pool. One that is always resident is mounted from now on until Forget. It returns at once; an
// *Error of the kind OptionsConflict says that the source is wanted otherwise by another pool.
func (s *Set) Ensure(ctx context.Context, p Pool) error {
	if err := p.Validate(); err != nil {
		return &Error{Kind: Invalid, Pool: p.ID, Err: err}
	}
	src, err := s.pin(p.Spec.Source)
	if err != nil {
		return err
	}
	before := s.pinBy(func() *source { return s.pools[p.ID] })
	err = src.call(ctx, func() error { return src.desire(p) })
	if before == nil {
		return err
	}
	return errors.Join(err, before.call(ctx, func() error {
		if err == nil && before != src { // The pool has moved to another source.
			before.forget(p.ID)
		}
		return nil
	}))
}

// Forget says that this host need not have the pool any more. Holds stay.
func (s *Set) Forget(ctx context.Context, pool string) error {
	src := s.pinBy(func() *source { return s.pools[pool] })
	if src == nil {
		return nil
	}
	return src.call(ctx, func() error { src.forget(pool); return nil })
}

// Inspect returns what is known of the source of a pool. It never waits for anything but its turn.
func (s *Set) Inspect(ctx context.Context, pool string) (Status, error) {
	src := s.pinBy(func() *source { return s.pools[pool] })
	if src == nil {
		return Status{State: Absent}, &Error{Kind: Unknown, Pool: pool}
	}
	var st Status
	err := src.call(ctx, func() error { st = src.status(); return nil })
	return st, err
}

// InspectAll returns what is known of all sources, by their names.
func (s *Set) InspectAll(ctx context.Context) ([]Status, error) {
	var all []Status
	for _, src := range s.pinAll() {
		var st Status
		if err := src.call(ctx, func() error { st = src.status(); return nil }); err != nil {
			if IsKind(err, ShuttingDown) {
				continue // It has retired meanwhile.
			}
			return nil, err
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Source.String(), b.Source.String()) })
	return all, nil
}

// tell reports an event.
func (s *Set) tell(e Event) {
	e.Time = time.Now()
	s.mu.Lock()
	s.events[e.Kind]++
	s.mu.Unlock()
	if s.c.Observe != nil {
		s.c.Observe(e)
	}
}

// own notes who owns a hold, or returns false when another source does.
func (s *Set) own(id ID, src *source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[id]; o != nil && o != src {
		return false
	}
	s.owners[id] = src
	return true
}

func (s *Set) disown(id ID, src *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[id] == src {
		delete(s.owners, id)
	}
}

// prove notes what a source has shown itself to be. When another source has shown the same, it returns that one and notes nothing.
func (s *Set) prove(src *source, p proof) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, o := range s.proven {
		if other == src {
			continue
		}
		if p.same(o) {
			return other
		}
	}
	s.proven[src] = p
	return nil
}

func (s *Set) unprove(src *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.proven, src)
}
