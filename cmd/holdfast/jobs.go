// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/job"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// works is this host as jobs see it.
type works struct {
	mounts *mounts
	began  time.Time

	mu      sync.Mutex
	machine *agent.Machine
	pools   map[string]agent.Pool // Those that drivers were made for, by their names in lower case.
	held    map[string]hold.Hold  // Those that jobs hold, likewise.
}

// openJobs opens the jobs of this host. Those that are not over wait until their pools are known.
func openJobs(state string, w *works, runner command.Runner, log *slog.Logger) (*job.Service, error) {
	return job.Open(job.Config{Dir: filepath.Join(state, "jobs"), Host: w, Runner: runner, Log: log})
}

// note takes note of a pool.
func (w *works) note(p agent.Pool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pools[strings.ToLower(p.Name)] = p
}

// drivers returns the drivers of the pools that this host has, by name.
func (w *works) drivers() map[string]pool.Driver {
	w.mu.Lock()
	machine, pools := w.machine, maps.Clone(w.pools)
	w.mu.Unlock()
	all := map[string]pool.Driver{}
	for _, p := range pools {
		if d, err := machine.Driver(p.Name, ""); err == nil {
			all[p.Name] = d
		}
	}
	return all
}

// search asks all pools whether they have something. After a start the pools become known one by one: for a while nothing counts as absent.
func (w *works) search(ctx context.Context, absent error, has func(pool.Driver) (bool, error)) (name string, d pool.Driver, err error) {
	const settled, between = 20 * time.Second, time.Second
	for {
		all := w.drivers()
		var failed error
		for _, name := range slices.Sorted(maps.Keys(all)) {
			ok, err := has(all[name])
			if ok {
				return name, all[name], nil
			}
			failed = errors.Join(failed, err)
		}
		if time.Since(w.began) > settled {
			if failed != nil { // It may be where nobody could look.
				return "", nil, failed
			}
			return "", nil, absent
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
}

// nowhere says that no pool of this host has something.
type nowhere struct{ what pool.NotFoundError }

func (e *nowhere) Error() string {
	if e.what.Snapshot != "" {
		return fmt.Sprintf("no pool of this host has the snapshot %s of volume %s", e.what.Snapshot, e.what.ID)
	}
	return fmt.Sprintf("no pool of this host has the volume %s", e.what.ID)
}

// Unwrap returns the same as drivers say it.
func (e *nowhere) Unwrap() error { return &e.what }

// Pool implements job.Host.
func (w *works) Pool(ctx context.Context, id pool.ID) (string, pool.Driver, error) {
	name, d, err := w.search(ctx, &nowhere{pool.NotFoundError{ID: id}}, func(d pool.Driver) (bool, error) {
		if _, known := w.machine.IsEncrypted(pool.SnapshotID{Resource: id.Resource, Volume: id.Volume}); !known && !job.IsClone(id) {
			return false, nil
		}
		_, ok, err := pool.Find(ctx, d, id)
		return ok, err
	})
	return w.above(name, d, pool.SnapshotID{Resource: id.Resource, Volume: id.Volume}, err)
}

// above returns the driver of what users see: of an encrypted volume, that is not what its pool has. A clone of a job is removed in any case by the one that
// knows both.
func (w *works) above(name string, d pool.Driver, id pool.SnapshotID, err error) (string, pool.Driver, error) {
	if encrypted, _ := w.machine.IsEncrypted(id); err == nil && (encrypted || job.IsClone(id.Of())) {
		d, err = w.machine.Encrypted(name, "")
	}
	return name, d, err
}

// Keeper implements job.Host.
func (w *works) Keeper(ctx context.Context, id pool.SnapshotID) (string, pool.Driver, error) {
	name, d, err := w.search(ctx, &nowhere{pool.NotFoundError{ID: id.Of(), Snapshot: id.Snapshot}}, func(d pool.Driver) (bool, error) {
		s, ok := d.(pool.Snapshotter)
		if _, known := w.machine.IsEncrypted(id); !ok || !known {
			return false, nil
		}
		all, err := s.Snapshots(ctx, id.Resource)
		return slices.ContainsFunc(all, func(s pool.Snapshot) bool { return s.ID.Compare(id) == 0 && !s.New }), err
	})
	return w.above(name, d, id, err)
}

// jobHolder is the name by which a job holds pools: the same after a restart.
const jobHolder = "job/"

// Hold implements job.Host.
func (w *works) Hold(ctx context.Context, name, id string) (release func(), err error) {
	p, err := w.pool(name)
	if err != nil {
		return nil, err
	}
	key := strings.ToLower(p.Name)
	if _, on, err := held.Parse(p.Name, "", p.Props.Get); err != nil || !on {
		w.mu.Lock()
		delete(w.held, key) // An earlier pool of the name may have lain on a mount.
		w.mu.Unlock()
		return func() {}, err
	}
	if w.mounts.Holding == nil {
		return nil, w.mounts.why
	}
	owner, _, _ := strings.Cut(strings.TrimPrefix(id, jobHolder), "/")
	h, err := w.mounts.Hold(ctx, p.Name, hold.Request{
		ID: hold.ID(id), Holder: hold.Holder{Kind: hold.Job, Name: jobHolder + owner}, Mode: hold.ReadWrite,
	})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.held[key] = h
	w.mu.Unlock()
	return func() { go w.mounts.release(hold.ID(id)) }, nil //nolint:contextcheck // It outlives the job.
}

func (w *works) pool(name string) (agent.Pool, error) {
	w.mu.Lock()
	machine, p := w.machine, w.pools[strings.ToLower(name)]
	w.mu.Unlock()
	if _, err := machine.Driver(name, ""); err != nil || p.Name == "" {
		return p, &pool.NotFoundError{Pool: name}
	}
	return p, nil
}

// Folder implements job.Host.
func (w *works) Folder(_ context.Context, name string) (worker.Place, error) {
	p, err := w.pool(name)
	if err != nil {
		return worker.Place{}, err
	}
	if p.Provider != model.File && p.Provider != model.FileThin {
		return worker.Place{}, errs.New(errs.Invalid, errs.StoragePool, "storage pool %s of provider %s has no files", p.Name, p.Provider).
			Fix("name a pool of the provider FILE or FILE_THIN")
	}
	w.mu.Lock()
	h, mounted := w.held[strings.ToLower(name)]
	w.mu.Unlock()
	if mounted {
		return worker.Place{Mount: h.Mount, Folder: h.Subpath}, nil
	}
	dir, err := agent.Place(p)
	return worker.Place{Dir: dir}, err
}

// release gives back what a job has held.
func (m *mounts) release(id hold.ID) {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t, err := m.Set().Release(ctx, id)
	if err != nil {
		m.log.Warn("the hold of a job could not be released", "hold", id, "error", err)
	} else if t.Outcome == hold.Deferred {
		m.log.Warn("a pool is not used any more and stays mounted", "hold", id, "outcome", t.String())
	}
}

// releaseEnded gives back what jobs hold that are over: their process may have ended in between.
func (w *works) releaseEnded(ctx context.Context, jobs *job.Service) {
	if w.mounts.Holding == nil {
		return
	}
	all, err := w.mounts.Set().InspectAll(ctx)
	if err != nil {
		w.mounts.log.Warn("holds of jobs cannot be looked at", "error", err)
		return
	}
	for _, s := range all {
		for _, h := range s.Holds {
			id, isJob := strings.CutPrefix(h.Holder.Name, jobHolder)
			if !isJob || h.Holder.Kind != hold.Job || h.Derived || jobs.Active(id) {
				continue
			}
			w.mounts.release(h.ID) //nolint:contextcheck // It has a limit of its own.
		}
	}
}
