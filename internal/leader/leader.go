// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package leader elects the controller that leads, among several on one etcd cluster.
//
// # How
//
// The election key, "leader" below the prefix of the map, belongs to whoever created it; its value names that controller. It is
// attached to a lease, which the leader renews and which ends soon after a leader that does not. A candidate looks at the key
// again and again, and creates it when it is absent: a compare in etcd sees to it that one candidate does.
//
// # What it promises
//
// Not that there is one leader: a leader that hangs may not have noticed yet that there is another. That it writes nothing any more is
// kept by the engine, which compares the election key in each commit ([Reign.Proof]). That it reads nothing old is kept by
// [Reign.Holds]: true only while the lease is surely alive, counted from before its renewal was sent, on a clock that nobody sets and
// that goes on in a suspended host, with a margin for clocks that differ in speed.
package leader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
)

// Candidate is a controller, as the others see it.
type Candidate struct {
	Name     string `json:"name"`
	API      string `json:"api"`      // URL of its REST API
	Instance string `json:"instance"` // differs from start to start
}

// Settings of an election.
type Settings struct {
	Etcd etcdkv.Settings
	Self Candidate // its instance is set here

	// Lease is how long a leader that does not renew it stays the leader, in whole seconds; 5 s when 0.
	Lease time.Duration
	Log   *slog.Logger

	// Clock is a clock that only goes forward; the time since the host was started when nil.
	Clock func() time.Duration
}

// defaultLease is short enough for a fail-over within 15 s, and long enough for a member of etcd to be replaced as its leader.
const defaultLease = 5 * time.Second

// Election is one controller's part in the election. It campaigns or leads, one at a time.
type Election struct {
	s       Settings
	members *etcdkv.Members
	key     string
	self    string // its value of the key
	lease   time.Duration

	seen   atomic.Pointer[sight]
	failed atomic.Pointer[error] // of the last look; nil when it succeeded
}

// sight is what the last look at the key that succeeded showed.
type sight struct {
	leader *Candidate // nil: nobody leads
	at     time.Duration
}

// New makes a part in the election. Nothing is read or written yet.
func New(s Settings) (*Election, error) {
	s.Self.Instance = uuid.NewString()
	self, err := json.Marshal(s.Self)
	if err != nil {
		return nil, fmt.Errorf("name the candidate %s: %w", s.Self.Name, err)
	}
	members, err := etcdkv.Connect(s.Etcd)
	if err != nil {
		return nil, err
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Clock == nil {
		s.Clock = sinceBoot
	}
	return &Election{
		s: s, members: members, key: s.Etcd.Base() + "leader", self: string(self),
		lease: max(cmp.Or(s.Lease, defaultLease).Round(time.Second), 2*time.Second),
	}, nil
}

// sinceBoot is the time since the host was started, with the time in which it was suspended.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("leader: the host has no clock: %v", err)) // Linux has it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// Leader returns the controller that leads, as last seen: nil when nobody does, and an error when etcd could not be asked for as
// long as a lease lives.
func (e *Election) Leader() (*Candidate, error) {
	v := e.seen.Load()
	if v != nil && e.s.Clock()-v.at <= e.lease {
		return v.leader, nil
	}
	if failed := e.failed.Load(); failed != nil {
		return nil, fmt.Errorf("etcd cannot be asked who leads: %w", *failed)
	}
	return nil, errors.New("etcd was not asked yet who leads")
}

// try bounds one request, so that several fit into the life of a lease.
func (e *Election) try(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(ctx), e.lease/4)
}

// look reads the key.
func (e *Election) look(ctx context.Context) (key *clientv3.GetResponse, err error) {
	ctx, cancel := e.try(ctx)
	defer cancel()
	at := e.s.Clock()
	c, turn, err := e.members.Use()
	if err != nil {
		e.failed.Store(&err)
		return nil, err
	}
	r, err := c.Get(ctx, e.key)
	if err != nil {
		turn()
		e.failed.Store(&err)
		return nil, err
	}
	v := &sight{at: at}
	if len(r.Kvs) > 0 {
		v.leader = &Candidate{}
		if err := json.Unmarshal(r.Kvs[0].GetValue(), v.leader); err != nil {
			v.leader.Name = string(r.Kvs[0].GetValue())
		}
	}
	e.seen.Store(v)
	e.failed.Store(nil)
	return r, nil
}

// Look asks etcd once who leads: nil when nobody does.
func (e *Election) Look(ctx context.Context) (*Candidate, error) {
	if _, err := e.look(ctx); err != nil {
		return nil, fmt.Errorf("ask etcd who leads: %w", err)
	}
	return e.seen.Load().leader, nil
}

// Campaign waits until this controller leads, or ctx ends. It goes on through every trouble with etcd.
func (e *Election) Campaign(ctx context.Context) (*Reign, error) {
	const often = 300 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		r, err := e.look(ctx)
		if err == nil && len(r.Kvs) == 0 {
			var reign *Reign
			if reign, err = e.claim(ctx); reign != nil {
				return reign, nil
			}
		}
		if err != nil && ctx.Err() == nil {
			e.s.Log.Debug("no part in the election at this moment", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// claim tries to create the key. It returns nothing when another candidate came first.
func (e *Election) claim(ctx context.Context) (*Reign, error) {
	trying, cancel := e.try(ctx)
	defer cancel()
	c, turn, err := e.members.Use()
	if err != nil {
		return nil, err
	}
	sent := e.s.Clock()
	lease, err := c.Grant(trying, int64(e.lease/time.Second))
	if err != nil {
		turn()
		return nil, err
	}
	r, err := c.Txn(trying).
		If(clientv3.Compare(clientv3.CreateRevision(e.key), "=", 0)).
		Then(clientv3.OpPut(e.key, e.self, clientv3.WithLease(lease.ID))).
		Commit()
	if err != nil || !r.Succeeded {
		// Whatever became of it, the key goes with the lease.
		e.revoke(ctx, lease.ID)
		return nil, err
	}
	g := &Reign{e: e, lease: lease.ID, created: r.Header.GetRevision(), lost: make(chan struct{}), ended: make(chan struct{})}
	g.renewed(sent, time.Duration(lease.TTL)*time.Second)
	e.seen.Store(&sight{leader: &e.s.Self, at: sent})
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	go g.keep(keeping)
	return g, nil
}

// revoke gives up a lease. When that fails, the lease ends by itself.
func (e *Election) revoke(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := e.try(context.WithoutCancel(ctx))
	defer cancel()
	c, turn, err := e.members.Use()
	if err == nil {
		if _, err = c.Revoke(ctx, id); err != nil {
			turn()
		}
	}
	if err != nil {
		e.s.Log.Debug("a lease could not be revoked; it will expire", "error", err)
	}
}

// Instance is the instance of this part in the election.
func (e *Election) Instance() string { return e.s.Self.Instance }

// Close ends the connections. No reign of the election may go on.
func (e *Election) Close() error { return e.members.Close() }
