// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"math/rand/v2"
	"time"
)

// Limits are the times that a Set works with. A zero one stands for its default.
type Limits struct {
	Mount   time.Duration // For one mount. Default 60 s.
	Unmount time.Duration // For one unmount. Default 30 s.
	Ask     time.Duration // For asking who uses a source, before an unmount. Default 20 s.
	Probe   time.Duration // How long a server may take for an answer before it is Suspect. Default 10 s.
	Grace   time.Duration // How long a driver may take to return after its time is over before it is abandoned. Default 5 s.

	MountRetry   Backoff // After a failed mount. Default 1 s to 30 s.
	UnmountRetry Backoff // After a failed unmount. Default 1 s to 5 min.

	ForceAfter  time.Duration // How long an unmount of a transfer pool must have hung before its calls are aborted. Default 30 s.
	DetachAfter time.Duration // Likewise before the mount is detached from its place. Default 2 min.

	ProbeEvery  time.Duration // Between two probes of a mount. Default 15 s. Below zero: never.
	CheckEvery  time.Duration // Between two looks at holders, users and strays. Default 1 min. Below zero: never.
	OrphanGrace time.Duration // How long the hold of a dead holder stays. Default 10 min.

	// Jitter spreads a time so that many hosts do not try at once. Nil: by a fifth in both directions.
	Jitter func(time.Duration) time.Duration
}

// Backoff is how long to wait between tries: First after the first failure, then twice as long each time, and never longer than Last.
type Backoff struct {
	First, Last time.Duration
}

func (b Backoff) after(failures int) time.Duration {
	d := b.First
	for range failures - 1 {
		if d *= 2; d >= b.Last {
			return b.Last
		}
	}
	return min(d, b.Last)
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&l.Mount, time.Minute)
	set(&l.Unmount, 30*time.Second)
	set(&l.Ask, 20*time.Second)
	set(&l.Probe, 10*time.Second)
	set(&l.Grace, 5*time.Second)
	set(&l.MountRetry.First, time.Second)
	set(&l.MountRetry.Last, 30*time.Second)
	set(&l.UnmountRetry.First, time.Second)
	set(&l.UnmountRetry.Last, 5*time.Minute)
	set(&l.ForceAfter, 30*time.Second)
	set(&l.DetachAfter, 2*time.Minute)
	set(&l.ProbeEvery, 15*time.Second)
	set(&l.CheckEvery, time.Minute)
	set(&l.OrphanGrace, 10*time.Minute)
	if l.Jitter == nil {
		const fifth = 5
		l.Jitter = func(d time.Duration) time.Duration {
			if d < fifth {
				return d
			}
			return d - d/fifth + rand.N(2*d/fifth+1) //nolint:gosec // Nothing depends on it being unpredictable.
		}
	}
	return l
}

// retry is a backoff that is under way.
type retry struct {
	failures int
	since    time.Time // Of the first failure.
	next     time.Time // When to try again.
}

func (r *retry) failed(now time.Time, b Backoff, jitter func(time.Duration) time.Duration) {
	if r.failures == 0 {
		r.since = now
	}
	r.failures++
	r.next = now.Add(jitter(b.after(r.failures)))
}

// waits tells whether it is too early to try again.
func (r *retry) waits(now time.Time) bool { return r.failures > 0 && now.Before(r.next) }
