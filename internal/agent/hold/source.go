// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// source is the owner of one source: a goroutine that alone reads and writes the fields below, one step after the other. A step never
// blocks: what can is done by another goroutine that posts a step when it has ended. After each step advance looks at what is and what is
// wanted, and begins what is to be done.
type source struct {
	set    *Set
	id     mount.Source
	target string
	do     chan mail
	gone   chan struct{} // Closed when the owner has ended.
	pins   int           // Who is about to send a step. Guarded by set.mu.

	pools   map[string]*member // That named this source.
	want    mount.Spec         // How it is mounted next.
	holds   map[ID]*held       // Those that are being recorded, wait, are granted, or are being released.
	orphans map[ID]*held       // Those whose holder is known to be dead.
	asks    []*ask             // Who waits for an answer to Acquire, in order.
	parked  []*ask             // Who waits for the mount to be made anew with what they want. They have no holds yet.
	leavers []chan<- left      // Who waits for what becomes of the mount.
	drains  []*drain           // Who waits for a pool to be empty.
	derived map[int][]Hold     // What the finders told last, by their number.
	unasked map[int]bool       // The finders that have not answered since the start.

	at       *mount.Entry // Our mount. Nil: none.
	fit      bool         // It is verified, and wanted: holds can be granted on it.
	reject   error        // Why it must go although it was mounted: it is no source of its own. Nil: nothing.
	running  mount.Spec   // What it was mounted with, while at is not nil.
	identity string       // The uuid it has, or had when holds were granted on it.
	seen     *mount.Entry // What at was when look found it at its place,
	seenIn   *mount.Entry // in the table that begins here.
	blind    error        // Why the table could not be read.
	foreign  *mount.Entry // What lies at the place and is not ours.
	lost     *mount.Entry // What was ours, is gone, and has users that may write.
	lostWhen time.Time

	op        *operation // What is under way. It is the slot: no mutation without it.
	mountTry  retry
	lowerTry  retry
	lostTry   retry
	lowered   Teardown     // What became of the last unmount that failed.
	hung      bool         // The last unmount that failed did so because something hangs.
	blockers  []mount.User // As they were found last.
	freeSince time.Time    // Since when nobody holds it.

	prober   *probing
	probed   time.Time // When the last probe began.
	health   State     // Ready, StateSuspect or StateStale.
	failed   error     // The last failure, whatever it was.
	failedAt time.Time

	log     writer
	timer   *time.Timer
	now     time.Time // Of the last advance.
	closing bool
	quiet   chan struct{} // Closed once closing is set and nothing is left to be done.
	checked bool          // A check since the last step that changed anything found nothing to do: it may retire.
}

// mail is a step. A pinned one gives its pin back when it was done.
type mail struct {
	step   func()
	pinned bool
}

// member is a pool of the source.
type member struct {
	pool     Pool
	desired  bool
	draining bool
}

func newSource(set *Set, id mount.Source) *source {
	s := &source{
		set: set, id: id, target: set.c.Driver.Target(id),
		do: make(chan mail), gone: make(chan struct{}), quiet: make(chan struct{}),
		pools: map[string]*member{}, holds: map[ID]*held{}, orphans: map[ID]*held{}, derived: map[int][]Hold{}, unasked: map[int]bool{},
		health: Ready, timer: time.NewTimer(time.Hour), freeSince: time.Now(),
	}
	for i := range set.c.Finders {
		s.unasked[i] = true
	}
	s.timer.Stop()
	s.log = writer{image: newImage()}
	return s
}

// run is the life of the owner.
func (s *source) run() {
	defer close(s.gone)
	defer s.timer.Stop()
	s.advance()
	for {
		s.arm()
		select {
		case m := <-s.do:
			m.step()
			if m.pinned {
				s.set.mu.Lock()
				s.pins--
				s.set.mu.Unlock()
			}
		case <-s.timer.C:
		case <-s.set.life.Done():
			return
		}
		s.advance()
		if s.retire() {
			return
		}
	}
}

// send hands a step to the owner, for somebody who has pinned it. False: the owner has ended.
func (s *source) send(step func()) bool {
	select {
	case s.do <- mail{step: step, pinned: true}:
		return true
	case <-s.gone:
		return false
	}
}

// post hands a step to the owner from what it has begun itself.
func (s *source) post(step func()) {
	select {
	case s.do <- mail{step: step}:
	case <-s.gone:
	}
}

// call has the owner do a step and waits for its end, for somebody who has pinned it.
func (s *source) call(ctx context.Context, step func() error) error {
	result := make(chan error, 1)
	if !s.send(func() { result <- step() }) {
		return &Error{Kind: ShuttingDown, Source: s.id.String()}
	}
	select {
	case err := <-result:
		return err
	case <-s.gone:
		return &Error{Kind: ShuttingDown, Source: s.id.String()}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retire ends the owner of a source that is not mounted and that nobody wants. It is called after a step.
func (s *source) retire() bool {
	if !s.checked || !s.idle() || s.log.filed {
		return false
	}
	s.set.mu.Lock()
	defer s.set.mu.Unlock()
	if s.pins > 0 || s.set.closing {
		return false
	}
	delete(s.set.sources, s.id)
	for name, owner := range s.set.pools {
		if owner == s {
			delete(s.set.pools, name)
		}
	}
	return true
}

// idle tells whether there is nothing to be done or remembered.
func (s *source) idle() bool {
	if s.at != nil || s.op != nil || s.prober != nil || s.lost != nil || s.foreign != nil || s.inUse() || s.log.busy() {
		return false
	}
	if len(s.asks)+len(s.parked)+len(s.leavers)+len(s.drains) > 0 || s.mountTry.failures > 0 {
		return false
	}
	for _, m := range s.pools {
		if m.desired || m.draining {
			return false
		}
	}
	return true
}

// inUse tells whether somebody holds the source, or is about to.
func (s *source) inUse() bool { return s.users() > 0 }

// users counts who holds the source or is about to.
func (s *source) users() int {
	n := len(s.holds)
	for _, d := range s.derived {
		n += len(d)
	}
	return n
}

// writers tells whether somebody holds it who may write.
func (s *source) writers() bool {
	for _, h := range s.holds {
		if h.settled() && h.writes() {
			return true
		}
	}
	for _, d := range s.derived {
		if slices.ContainsFunc(d, Hold.writes) {
			return true
		}
	}
	return false
}

// bound tells whether somebody depends on the file system that the source was when he came.
func (s *source) bound() bool {
	for _, h := range s.holds {
		if h.settled() {
			return true
		}
	}
	for _, d := range s.derived {
		if len(d) > 0 {
			return true
		}
	}
	return false
}

// desired tells whether the source is to be mounted although nobody holds it.
func (s *source) desired() bool {
	for _, m := range s.pools {
		if m.desired && !m.draining && m.pool.Residency == Always {
			return true
		}
	}
	return false
}

// renew tells whether the mount must go before it is of use again.
func (s *source) renew() bool {
	return s.at != nil && (s.health == StateStale || s.reject != nil || s.pending() || len(s.parked) > 0)
}

// pending tells whether the mount has other options than it is wanted with.
func (s *source) pending() bool { return s.at != nil && !sameMount(s.running, s.want) }

// needed tells whether the source is to be mounted now.
func (s *source) needed() bool {
	return s.inUse() || s.desired() && !s.renew()
}

// transfer tells whether all pools of the source are for transfers.
func (s *source) transfer() bool {
	for _, m := range s.pools {
		if m.pool.Class != Transfer {
			return false
		}
	}
	return len(s.pools) > 0
}

// idleTime is how long the source stays mounted after its last hold.
func (s *source) idleTime() time.Duration {
	var idle time.Duration
	for _, m := range s.pools {
		idle = max(idle, m.pool.Idle)
	}
	return idle
}

// tell reports an event of this source.
func (s *source) tell(e Event) {
	e.Source, e.Target = s.id, s.target
	s.set.tell(e)
}

// fault remembers a failure for those who inspect.
func (s *source) fault(err error) {
	s.failed, s.failedAt = err, time.Now()
}

// refusal is an Error of this source.
func (s *source) refusal(kind Kind, pool string) *Error {
	return &Error{Kind: kind, Pool: pool, Source: s.id.String()}
}
