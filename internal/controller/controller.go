// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller puts a controller together: the store on its engine, the soft state, the
// use cases and the leader's loops, the agents' sessions with their authority, and the REST API. It decides nothing by itself.
//
// A [Controller] has a database that can be written. A [Member] is what runs as a service: alone or one of several, it becomes a
// Controller whenever it leads, passes requests on to the leader otherwise, and answers reads as well as it can while its database
// is in trouble, without a restart.
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
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/converge"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/metrics"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Config is what a controller is made of.
type Config struct {
	Engine  kv.Engine    // owned by the controller from New on
	Store   *store.Store // in place of Engine: a store on it that takes updates already
	Backups Backups      // made before an upgrade and from time to time; nil: none are
	Build   rest.Build
	Setup   rest.Setup
	Log     *slog.Logger
	Metrics *prometheus.Registry // what is served after the controller's own metrics; nil: nothing else

	// Plaintext serves agents without TLS, and takes everybody for the agent that he says he
	// is. It is for tests alone.
	Plaintext bool
	// ConnectionAge is after how long an agent makes its connection anew, so that what was
	// replaced of its credentials counts. Its session goes on meanwhile. 0: an hour.
	ConnectionAge time.Duration

	StoreSettings []store.Setting
	Heartbeat     time.Duration // of agents; 0: the default
	OfflineAfter  time.Duration // of silence; 0: the default
	Patience      time.Duration // how long a call waits for hosts; 0: the default
	AlarmEvery    time.Duration // how often volumes are looked for that nothing knows; 0: 10 s
	WithoutLoops  bool          // the leader's loops do not run: a test runs them
}

// Controller is a controller. Its parts are there from New on; Serve makes it reachable.
type Controller struct {
	Store     *store.Store
	Observed  *observed.State
	Inventory *inventory.Inventory
	Catalog   *catalog.Catalog
	Resources *resources.Resources
	Snapshots *snapshots.Snapshots
	Loops     *converge.Loops // nil when they do not run
	Dispatch  *dispatch.Server
	REST      *rest.Server
	Identity  *authority.Authority // nil when agents are served in plain text

	log           *slog.Logger
	connectionAge time.Duration
	backups       Backups
	alarmEvery    time.Duration
	strangers     sync.Map // names of nodes that the database does not know, of which the log was told
}

// Backups makes backups of the database.
type Backups interface {
	// Make makes a backup now and returns where it is. The reason becomes a part of its name.
	Make(ctx context.Context, reason string) (path string, err error)
	// Run makes backups from time to time, and removes old ones, until ctx ends.
	Run(ctx context.Context)
	rest.Database
}

// New opens the store and makes the rows that every cluster has. Rows that cannot be used do
// not keep it from starting: they are logged.
func New(ctx context.Context, c Config) (*Controller, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range st.SetAside() {
		c.Log.Error("a row cannot be used and was set aside", "collection", a.Collection, "key", a.Key, "reason", a.Reason)
	}
	if err := c.upgrade(ctx, st); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if err := schema.Bootstrap(ctx, st, uuid.NewString()); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the database: %w", err), st.Close())
	}
	k := &Controller{
		Store: st, Observed: observed.New(time.Now), log: c.Log, connectionAge: cmp.Or(c.ConnectionAge, time.Hour), backups: c.Backups, alarmEvery: cmp.Or(c.AlarmEvery, alarmEvery),
	}
	keys := &passphrase.Keyring{Store: st}
	sessions := dispatch.Config{
		Keys: keys, Store: st, Observed: k.Observed, Destroyed: k.destroyed, SnapshotsDestroyed: k.snapshotsDestroyed, Heartbeat: c.Heartbeat, OfflineAfter: c.OfflineAfter, Log: c.Log,
	}
	if c.Plaintext {
		c.Log.Warn("agents are served in plain text, and everybody is taken for the agent that he says he is: this is for tests alone")
	} else {
		if k.Identity, err = authority.Open(ctx, authority.Config{Store: st, Log: c.Log}); err != nil {
			return nil, errors.Join(err, st.Close())
		}
		sessions.Admit = k.Identity.Admit
	}
	k.assemble(c, sessions, keys)
	if k.Identity != nil {
		k.REST.Joiner = k.Identity
	}
	if c.Backups != nil {
		k.REST.Database = c.Backups
	}
	k.measure(c)
	return k, nil
}

// assemble makes the parts that work on the store.
func (k *Controller) assemble(c Config, sessions dispatch.Config, keys *passphrase.Keyring) {
	st := k.Store
	k.Dispatch = dispatch.New(sessions)
	keys.Opened = k.Dispatch.KeysOpened
	k.Inventory = &inventory.Inventory{Store: st, Observed: k.Observed, Hosts: k.Dispatch, NewID: uuid.NewString}
	k.Catalog = &catalog.Catalog{Store: st, NewID: uuid.NewString, Now: time.Now}
	k.Resources = &resources.Resources{
		Store: st, Observed: k.Observed, Hosts: k.Dispatch, Catalog: k.Catalog, Keys: keys, NewID: uuid.NewString, Now: time.Now, Patience: c.Patience,
	}
	k.Snapshots = &snapshots.Snapshots{
		Store: st, Observed: k.Observed, Hosts: k.Dispatch, Resources: k.Resources, NewID: uuid.NewString, Now: time.Now, Log: c.Log,
		Patience: c.Patience,
	}
	if !c.WithoutLoops {
		k.Loops = converge.New(converge.Config{
			Store: st, Observed: k.Observed, Worker: k.Worker(), Log: c.Log,
			Beside: []func(context.Context){k.Snapshots.Run, resources.NewAutoDiskful(k.Resources, c.Log).Run},
		})
	}
	k.REST = &rest.Server{
		Store: st, Observed: k.Observed, Inventory: k.Inventory, Catalog: k.Catalog, Resources: k.Resources, Snapshots: k.Snapshots, Build: c.Build, Setup: c.Setup,
		Log: c.Log, Work: k.Dispatch, Keys: keys,
	}
}

// measure makes the API serve what the controller knows of the cluster and of itself.
func (k *Controller) measure(c Config) {
	m := metrics.Config{
		Store: k.Store, Observed: k.Observed, Sessions: k.Dispatch.Sessions, Build: c.Build, Registry: c.Metrics,
		ErrorReports: k.REST.Reports.Counts,
	}
	if k.Identity != nil {
		m.Expiries = k.Identity.Expiries
	}
	x := metrics.New(m)
	k.REST.Metrics, k.REST.Measure = x, x.Measure
}

func (k *Controller) destroyed(ctx context.Context, _ model.NodeKey, gone []dispatch.Gone) error {
	list := make([]resources.Gone, len(gone))
	for i, g := range gone {
		list[i] = resources.Gone(g)
	}
	return k.Resources.Destroyed(ctx, list)
}

func (k *Controller) snapshotsDestroyed(ctx context.Context, _ model.NodeKey, gone []dispatch.SnapshotGone) error {
	list := make([]snapshots.Gone, len(gone))
	for i, g := range gone {
		list[i] = snapshots.Gone(g)
	}
	return k.Snapshots.Destroyed(ctx, list)
}

// Worker returns what makes tries at the jobs of all use cases.
func (k *Controller) Worker() converge.Worker { return workers{k.Resources, k.Snapshots} }

// workers gives each job to the use cases that it belongs to.
type workers struct {
	*resources.Resources
	snapshots *snapshots.Snapshots
}

// Work makes one try at a job.
func (w workers) Work(ctx context.Context, j schema.Job, progress resources.Progress) schema.JobTry {
	if j.Kind == schema.CloneDefinition {
		return w.snapshots.Work(ctx, j, progress)
	}
	return w.Resources.Work(ctx, j, progress)
}

// Serve serves agents and clients on two listeners until ctx ends, or one of them fails. It
// ends gracefully: first the requests under way are answered, within a bound, then the
// agents' sessions end. It closes the listeners; the store stays open until Close.
func (k *Controller) Serve(ctx context.Context, agents, clients net.Listener) error {
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	ended := make(chan error, 2)
	go func() { ended <- k.lead(back, agents) }()
	go func() {
		defer stopBack()
		ended <- serveClients(front, clients, k.REST.Handler(), k.log)
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

// lead runs all that only one controller may do, until ctx ends or a part of it fails.
func (k *Controller) lead(ctx context.Context, agents net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parts := []func() error{
		func() error { return k.Dispatch.Run(ctx) },
		func() error { return k.converge(ctx) },
		func() error { return k.serveAgents(ctx, agents) },
	}
	parts = append(parts, func() error { k.watchForLoss(ctx); return nil })
	if k.backups != nil {
		parts = append(parts, func() error { k.backups.Run(ctx); return nil })
	}
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part() }()
	}
	var first error
	for range parts {
		if err := <-ended; first == nil {
			first = err
		}
		stop()
	}
	return first
}

// converge runs the leader's loops until ctx ends.
func (k *Controller) converge(ctx context.Context) error {
	if k.Loops == nil {
		<-ctx.Done()
		return nil
	}
	return k.Loops.Run(ctx)
}

// Close closes the store and its engine.
func (k *Controller) Close() error { return k.Store.Close() }

func (k *Controller) serveAgents(ctx context.Context, l net.Listener) error {
	const mostMessage = 64 << 20
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(mostMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 10 * time.Second, Timeout: 10 * time.Second, MaxConnectionAge: k.connectionAge,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	options = append(options, grpc.StreamInterceptor(strangers(k.Store, k.alarmOfStranger)))
	if k.Identity != nil {
		options = append(options, k.Identity.ServerOptions()...)
	}
	s := grpc.NewServer(options...)
	agentpb.RegisterAgentServer(s, k.Dispatch)
	if k.Identity != nil {
		agentpb.RegisterIdentityServer(s, k.Identity)
	}
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve agents on %s: %w", l.Addr(), err)
	}
	return nil
}

// serveClients serves the API until ctx ends, and answers what is under way then.
func serveClients(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	const (
		readHeader = 10 * time.Second
		grace      = 10 * time.Second // for requests under way when the controller stops
	)
	s := &http.Server{Handler: h, ReadHeaderTimeout: readHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := s.Shutdown(last); err != nil {
			log.Warn("requests were cut off by the stop", "error", err)
		}
	}()
	err := s.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve clients on %s: %w", l.Addr(), err)
	}
	<-stopped
	return nil
}
