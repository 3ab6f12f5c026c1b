// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/leader"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Member is one controller of a cluster that may have several: it leads, or stands by, for as long as it serves. Alone, it leads
// whenever its database can be written.
//
// A standby keeps a warm state and passes requests on to the leader. A member that leads serves all itself, runs the loops and takes
// agents. One that cannot learn who leads, and one whose database cannot be written, answers reads from the newest state that it
// has, marked as possibly old where that may be so, and refuses everything else.
type Member struct {
	Config // without Engine and Store

	// Map makes a new engine on the cluster's map. It is called for each time of following, leading or reading.
	Map func() (kv.Engine, error)
	// Reader makes an engine that can be read while the map cannot be owned, or nil.
	Reader func(context.Context) (kv.Engine, error)
	// Election is this member's part in the election; nil when it is alone.
	Election *leader.Election
	Self     leader.Candidate
	// Backups makes the backups of an engine; nil: there are none.
	BackupsOf func(kv.Engine) Backups
	// Forget is the span of history that etcd keeps at least, of which the leader sees to; 0: it does not.
	Forget time.Duration
	// Retry is how long after a failure the database is tried again; 1 s when 0.
	Retry time.Duration

	role          atomic.Pointer[role]
	agents        *lender
	transportOnce sync.Once
	toLeader      *http.Transport
	reached       atomic.Pointer[reached]
}

// role is how requests are answered at a time.
type role struct {
	lead  http.Handler // serves everything; nil: this member does not lead
	holds func() bool  // the leadership is sure at this moment
	old   http.Handler // serves reads from a state that may be old; nil: there is none
	why   error        // this member neither leads nor stands by
}

// reigning is an engine that proves in each commit that its owner leads.
type reigning interface{ Reign(etcdkv.Reign) }

// forgetful is an engine whose history grows until it is forgotten.
type forgetful interface {
	Forget(ctx context.Context, span time.Duration, failed func(error))
}

// Serve serves agents and clients on two listeners until ctx ends. Trouble with the database does not end it: it goes on trying. Errors
// are those of the listeners, and of a database that this program must not use.
func (m *Member) Serve(ctx context.Context, agents, clients net.Listener) error {
	if m.Log == nil {
		m.Log = slog.New(slog.DiscardHandler)
	}
	m.agents = newLender(agents)
	m.role.Store(&role{why: errors.New("the database is being opened")})
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	ended := make(chan error, 3)
	go func() { ended <- m.agents.run(back) }()
	go func() { ended <- m.rounds(back) }()
	go func() {
		defer stopBack()
		ended <- serveClients(front, clients, m, m.Log)
	}()
	var first error
	for range cap(ended) {
		if err := <-ended; first == nil {
			first = err
		}
		stopFront()
	}
	return first
}

// rounds stands by and leads in turn until ctx ends.
func (m *Member) rounds(ctx context.Context) error {
	last := ""
	for ctx.Err() == nil {
		err := m.round(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // What ends with ctx is no error.
		}
		if lasting(err) {
			return err
		}
		now := m.role.Load()
		m.role.Store(&role{old: now.old, why: err})
		if err != nil && err.Error() != last {
			last = err.Error()
			m.Log.Error("this controller does not take writes, and goes on trying", "error", err)
		}
		wait := time.NewTimer(cmp.Or(m.Retry, time.Second))
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
	return nil
}

// lasting reports whether trying again does not mend an error, and hides a mistake.
func lasting(err error) bool {
	newer, isNewer := errors.AsType[*store.NewerError](err)
	return isNewer && newer != nil || errors.Is(err, kv.ErrInUse) || errors.Is(err, kv.ErrCorrupt)
}

// round leads once, after it has stood by for as long as another one leads.
func (m *Member) round(ctx context.Context) error {
	engine, err := m.Map()
	if err != nil {
		return err
	}
	if m.Election == nil {
		return m.alone(ctx, engine)
	}
	st, err := store.Follow(ctx, engine, schema.Collections(), m.settings()...)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	if _, err := m.Election.Look(ctx); err != nil { // before requests come that are to be passed on
		m.Log.Debug("the leader is not known yet", "error", err)
	}
	m.role.Store(&role{old: m.reads(st)})
	m.Log.Info("this controller stands by", "name", m.Self.Name)
	reign, err := m.Election.Campaign(ctx)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	defer reign.Resign(context.WithoutCancel(ctx))
	engine.(reigning).Reign(reign.Proof())
	began := time.Now()
	if err := st.Promote(ctx); err != nil {
		return errors.Join(err, st.Close())
	}
	c := m.Config
	c.Store = st
	if m.BackupsOf != nil {
		c.Backups = m.BackupsOf(engine)
	}
	k, err := New(ctx, c)
	if err != nil {
		return err
	}
	m.Log.Info("this controller leads", "name", m.Self.Name, "took", time.Since(began))
	return m.reigns(ctx, k, engine, reign)
}

// reigns leads until the reign ends.
func (m *Member) reigns(ctx context.Context, k *Controller, engine kv.Engine, reign *leader.Reign) error {
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-reign.Lost():
			stop(errors.New("the lease of the leader has ended"))
		case <-k.Store.Fenced():
			stop(errors.New("another controller has taken over"))
		case <-leading.Done():
		}
	}()
	if f, can := engine.(forgetful); can && m.Forget > 0 {
		go f.Forget(leading, m.Forget, func(err error) { m.Log.Warn("the history in etcd was not compacted", "error", err) })
	}
	h := k.REST.Handler()
	m.role.Store(&role{lead: h, holds: reign.Holds, old: h})
	err := m.leads(leading, k)
	m.role.Store(&role{old: h, why: errors.New("the leadership has ended, and the next leader is not known yet")})
	if ctx.Err() == nil {
		m.Log.Warn("this controller leads no longer", "reason", context.Cause(leading), "error", err)
	}
	closed := k.Close()
	if err != nil {
		return errors.Join(err, closed)
	}
	return nil // a store that was fenced cannot be closed cleanly, and need not be
}

// leads runs what only a leader runs, with the listener of the agents.
func (m *Member) leads(ctx context.Context, k *Controller) error {
	l := m.agents.lend()
	defer m.agents.takeBack(l)
	return k.lead(ctx, l)
}

// alone leads until ctx ends. While the map cannot be owned, reads are served from what can be read of it.
func (m *Member) alone(ctx context.Context, engine kv.Engine) error {
	c := m.Config
	c.Engine = engine
	if m.BackupsOf != nil {
		c.Backups = m.BackupsOf(engine)
	}
	k, err := New(ctx, c)
	if err != nil {
		if now := m.role.Load(); now.old == nil && m.Reader != nil && !lasting(err) {
			m.readAlone(ctx, err)
		}
		return err
	}
	h := k.REST.Handler()
	m.role.Store(&role{lead: h, holds: func() bool { return true }, old: h})
	m.Log.Info("this controller takes requests")
	err = m.leads(ctx, k)
	return errors.Join(err, k.Close())
}

// readAlone serves reads from a map that cannot be owned.
func (m *Member) readAlone(ctx context.Context, why error) {
	engine, err := m.Reader(ctx)
	if err != nil {
		m.Log.Warn("the database cannot be read either", "error", err)
		return
	}
	st, err := store.Follow(ctx, engine, schema.Collections(), m.settings()...)
	if err != nil {
		m.Log.Warn("the database cannot be read either", "error", errors.Join(err, engine.Close()))
		return
	}
	h := m.reads(st)
	if err := st.Close(); err != nil { // what it has shown stays readable
		m.Log.Warn("the database was not closed after it was read", "error", err)
	}
	m.role.Store(&role{old: h, why: why})
}

// reads is the API on a state that others write. What agents say reaches the leader alone, so nothing is known of hosts.
func (m *Member) reads(st *store.Store) http.Handler {
	k := &Controller{Store: st, Observed: observed.New(time.Now), log: m.Log}
	k.assemble(m.Config, dispatch.Config{Store: st, Observed: k.Observed, Log: m.Log}, &passphrase.Keyring{Store: st})
	return k.REST.Handler()
}

// Leads reports whether this member leads at this moment, for tests and metrics.
func (m *Member) Leads() bool {
	r := m.role.Load()
	return r != nil && r.lead != nil && r.holds()
}

// standing says in words what this member is when it does not lead.
func (m *Member) standing() (next *leader.Candidate, why error) {
	r := m.role.Load()
	if m.Election == nil {
		return nil, cmp.Or(r.why, errors.New("the database is being opened"))
	}
	l, err := m.Election.Leader()
	switch {
	case err != nil:
		return nil, err
	case l == nil || l.Instance == m.Election.Instance():
		if r.why != nil {
			return nil, r.why
		}
		return nil, errors.New("no controller leads at this moment")
	}
	return l, fmt.Errorf("this controller stands by; %s leads, at %s", l.Name, l.API)
}
