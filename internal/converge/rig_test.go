// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package converge_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/converge"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// rig is a leader's loops on a database in memory, in a bubble whose time is the test's own.
type rig struct {
	*testing.T
	ctx    context.Context
	engine *kvtest.Memory
	store  *store.Store
	seen   *observed.State
	worker *worker
	log    []string // what the worker did, with the seconds since the test began
	began  time.Time
	end    func() error // ends the loops
	jobs   int
}

// in runs a test with running loops.
func in(t *testing.T, fn func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, ctx: t.Context(), engine: kvtest.NewMemory(), seen: observed.New(time.Now), began: time.Now()}
		r.worker = &worker{rig: r}
		r.open(r.engine)
		r.run()
		fn(r)
		if err := r.end(); err != nil {
			t.Errorf("the loops ended with %v", err)
		}
		for _, p := range schema.Check(r.store.Snapshot()) {
			t.Error(p)
		}
		if err := r.store.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
}

func (r *rig) open(engine kv.Engine) {
	r.Helper()
	st, err := store.Open(r.ctx, engine, schema.Collections(), store.Paranoid())
	if err == nil {
		err = schema.Bootstrap(r.ctx, st, "group")
	}
	if err != nil {
		r.Fatal(err)
	}
	r.store = st
}

// run starts the loops.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	loops := converge.New(converge.Config{Store: r.store, Observed: r.seen, Worker: r.worker})
	go func() { ended <- loops.Run(ctx) }()
	r.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	synctest.Wait()
}

func (r *rig) update(fn func(*store.Tx) error) {
	r.Helper()
	if _, err := schema.Update(r.ctx, r.store, fn); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

// begin begins a job, or asks for it again.
func (r *rig) begin(object string) {
	r.Helper()
	r.jobs++
	r.update(func(tx *store.Tx) error {
		_, err := schema.BeginJob(tx, target(object), schema.JobSpec{}, fmt.Sprintf("job-%d", r.jobs), time.Now())
		return err
	})
}

func target(object string) schema.JobTarget {
	return schema.JobTarget{Kind: schema.AdjustGroup, Object: object}
}

// job is the newest job about an object.
func (r *rig) job(object string) schema.Job {
	r.Helper()
	var newest schema.Job
	for j := range schema.Jobs.All(r.store.Snapshot()) {
		if j.Object == object && !j.Created.Before(newest.Created) {
			newest = j
		}
	}
	return newest
}

// worker does what a test says.
type worker struct {
	rig *rig
	mu  sync.Mutex
	do  func(ctx context.Context, j schema.Job, progress resources.Progress) schema.JobTry // done when nil
}

// Work implements converge.Worker.
func (w *worker) Work(ctx context.Context, j schema.Job, progress resources.Progress) schema.JobTry {
	w.note("%s", j.Object)
	w.mu.Lock()
	do := w.do
	w.mu.Unlock()
	if do == nil {
		return schema.JobTry{State: schema.JobDone}
	}
	return do(ctx, j, progress)
}

// heal makes all work succeed from now on.
func (w *worker) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.do = nil
}

// EvictNode implements converge.Worker.
func (w *worker) EvictNode(_ context.Context, name string) (schema.Job, []errs.Notice, error) {
	w.note("evict %s", name)
	r := w.rig
	_, err := schema.Update(r.ctx, r.store, func(tx *store.Tx) error {
		n, err := schema.FindNode(tx, name)
		n.Evicted, n.LeftAt = true, time.Now()
		return errors.Join(err, schema.Nodes.Update(tx, n))
	})
	return schema.Job{}, nil, err
}

func (w *worker) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Since(w.rig.began).Seconds()
	w.rig.log = append(w.rig.log, fmt.Sprintf(format+" at %g", append(args, at)...))
}

// did is what the worker did since the last call.
func (r *rig) did() string {
	r.worker.mu.Lock()
	defer r.worker.mu.Unlock()
	text := fmt.Sprint(r.log)
	r.log = nil
	return text
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// node registers a node with a replica, and says whether it is connected.
func (r *rig) node(name string, props map[string]string) {
	r.Helper()
	n := model.NodeName(name)
	r.update(func(tx *store.Tx) error {
		pool := schema.Pool{Node: n.Key(), Name: schema.DisklessPool, Provider: model.Diskless}
		d := schema.Definition{Name: model.DefinitionName("vol-" + name), Group: schema.DefaultGroup.Key()}
		return errors.Join(
			schema.Nodes.Insert(tx, schema.Node{Name: n, Type: model.SatelliteNode, Props: model.PropsOf(props)}),
			schema.Pools.Insert(tx, pool), schema.Definitions.Insert(tx, d),
			schema.Resources.Insert(tx, schema.Resource{Definition: d.Name.Key(), Node: n.Key(), Kind: schema.Diskful}),
		)
	})
	r.connect(name)
}

func (r *rig) connect(name string) {
	key := model.NodeName(name).Key()
	r.seen.Connect(key, observed.Facts{}, false)
	r.seen.Ready(key)
}

func (r *rig) disconnect(name string) { r.seen.Disconnect(model.NodeName(name).Key(), "test") }
