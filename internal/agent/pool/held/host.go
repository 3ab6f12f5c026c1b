// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Holds is what the pools need of the host's holds. *[hold.Set] is one.
type Holds interface {
	Acquire(ctx context.Context, p hold.Pool, r hold.Request) (hold.Hold, error)
	Release(ctx context.Context, id hold.ID) (hold.Teardown, error)
	Inspect(ctx context.Context, pool string) (hold.Status, error)
	InspectAll(ctx context.Context) ([]hold.Status, error)
	Ensure(ctx context.Context, p hold.Pool) error
	Forget(ctx context.Context, pool string) error
}

// Config is what the pools of a host have in common. Node, Holds and Runner are required.
type Config struct {
	Node   string
	Holds  Holds
	Runner command.Runner // Starts the workers.
	Argv   []string       // How a worker is started; see [worker.Config].
	Log    *slog.Logger   // Nil: nothing is logged.

	Linger   time.Duration // How long the agent goes on holding a pool that it has worked in. Default 5 s.
	Remember time.Duration // How long what was seen of a pool counts while it is not mounted. Default 10 min.
	Lease    time.Duration // A pool that is resident always is taken down when its space was not asked for for so long. Default 10 min.
	Quick    time.Duration // For calls that only look, or change little. Default 30 s.
	Watch    time.Duration // How often is looked, during a call, whether the source is well. Default 2 s.
	Farewell time.Duration // How long a worker that was killed may take to end before it counts as hanging. Default 5 s.
}

// Host is the pools of this host that lie on mounted sources.
type Host struct {
	c     Config
	start uint64 // Of this process.

	mu     sync.Mutex
	runs   int            // That were begun, to tell their holds apart.
	active map[*Pool]bool // Those that have something running.
	closed bool
}

// New returns the pools of a host. What an earlier process of the agent held for its own work is released.
func New(ctx context.Context, c Config) (*Host, error) {
	if c.Node == "" || c.Holds == nil || c.Runner == nil {
		return nil, errors.New("pools on mounts need a node, holds and a runner")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Linger = cmp.Or(c.Linger, 5*time.Second)
	c.Remember = cmp.Or(c.Remember, 10*time.Minute)
	c.Lease = cmp.Or(c.Lease, 10*time.Minute)
	c.Quick = cmp.Or(c.Quick, 30*time.Second)
	c.Watch = cmp.Or(c.Watch, 2*time.Second)
	c.Farewell = cmp.Or(c.Farewell, 5*time.Second)
	start, err := mount.StartTime(os.Getpid())
	if err != nil {
		return nil, err
	}
	h := &Host{c: c, start: start, active: map[*Pool]bool{}}
	return h, h.releaseOld(ctx)
}

// holderName is the name of the agent's own holds.
const holderName = "agent"

// releaseOld releases the holds of earlier processes.
func (h *Host) releaseOld(ctx context.Context) error {
	all, err := h.c.Holds.InspectAll(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		for _, held := range s.Holds {
			o := held.Holder
			if held.Derived || o.Kind != hold.Job || o.Name != holderName || mount.Alive(o.PID, o.Start) {
				continue
			}
			if _, err := h.c.Holds.Release(ctx, held.ID); err != nil {
				return fmt.Errorf("release what an earlier process held: %w", err)
			}
		}
	}
	return nil
}

// Open returns the driver of a pool. It touches nothing. identity is the mark that the pool's folder is known to have, empty when it is not known yet.
func (h *Host) Open(s Spec, thin bool, identity string) (*Pool, error) {
	if err := s.Pool.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{
		host: h, spec: s, thin: thin, identity: identity,
		deployed: map[pool.ID]bool{}, locks: map[pool.ID]chan struct{}{},
	}
	p.spec.Pool.Generation = time.Now().UnixNano() // What is opened later knows newer options.
	return p, nil
}

// Close ends all work in all pools, and waits for it until ctx ends. Volumes stay open, and hold their sources.
func (h *Host) Close(ctx context.Context) {
	h.mu.Lock()
	h.closed = true
	var all []*Pool
	for p := range h.active {
		all = append(all, p)
	}
	h.mu.Unlock()
	for _, p := range all {
		p.shut(ctx)
	}
}

// note keeps a pool in mind as long as it has something running, and numbers what it runs. It is false when the host is closed.
func (h *Host) note(p *Pool, active bool) (number int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !active:
		delete(h.active, p)
		return 0, true
	case h.closed:
		return 0, false
	}
	h.active[p] = true
	h.runs++
	return h.runs, true
}

// place is where people find a pool: on which source, and in which folder.
func (s Spec) place() string { return path.Join(s.Pool.Spec.Source.Device(), s.Folder) }

// workerConfig says what the worker of a pool is to be.
func (p *Pool) workerConfig(h hold.Hold) worker.Config {
	c := p.host.c
	return worker.Config{
		Kind: KindName, Codec: codec(), Runner: c.Runner, Argv: c.Argv,
		Place: &worker.Place{Mount: h.Mount, Folder: p.spec.Folder, Make: true},
		Setup: setup{
			Name: p.spec.Pool.ID, Node: c.Node, Dir: path.Join(h.Place, p.spec.Folder), Thin: p.thin, Identity: p.known(),
		},
	}
}
