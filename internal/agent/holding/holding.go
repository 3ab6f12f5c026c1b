// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Config says where an agent keeps what belongs to its mounts. Node, State, Run and Runner are required.
type Config struct {
	Node   string
	State  string // The agent's folder; sources are mounted below it.
	Run    string // For what is void after a reboot: the journal and notes of helpers at work.
	Runner command.Runner
	Log    *slog.Logger // Nil: nothing is logged.

	Finders []hold.Finder // Who else uses mounts, besides running QEMU processes.
	Limits  hold.Limits
	Pools   held.Config // Its times; all else is filled in.
}

// Holding is the holds of this host and its pools on mounts.
type Holding struct {
	c      Config
	log    *slog.Logger
	kernel *mount.Kernel
	files  *hold.Files
	lock   *os.File
	stop   context.CancelFunc
	set    *hold.Set
	pools  *held.Host

	mu     sync.Mutex
	opened map[string][]*held.Pool // The newest of each name, and those that are looked at meanwhile.
	events map[chan<- struct{}]bool
}

// Open opens the holds of this host: they are as the process before has left them.
func Open(ctx context.Context, c Config) (*Holding, error) {
	h := &Holding{c: c, log: c.Log, opened: map[string][]*held.Pool{}, events: map[chan<- struct{}]bool{}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if err := h.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the holds of this host: %w", err), h.Close(ctx))
	}
	return h, nil
}

func (h *Holding) open(ctx context.Context) error {
	if err := errors.Join(os.MkdirAll(h.c.State, 0o700), os.MkdirAll(h.c.Run, 0o700)); err != nil {
		return err
	}
	state, err := filepath.EvalSymlinks(h.c.State)
	if err != nil {
		return err
	}
	if state, err = filepath.Abs(state); err != nil {
		return err
	}
	if err := h.take(); err != nil {
		return err
	}
	kernel, err := mount.New(mount.Config{
		Base: filepath.Join(state, "mnt"), Run: filepath.Join(h.c.Run, "helpers"), Runner: h.c.Runner,
	})
	if err != nil {
		return err
	}
	h.kernel = kernel
	if h.files, err = hold.OpenFiles(filepath.Join(h.c.Run, "holds"), ""); err != nil {
		return err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	changes, err := mount.Watch(life)
	if err != nil {
		return err
	}
	h.set, err = hold.Open(hold.Config{
		Driver: &preparing{Kernel: kernel}, Journal: h.files, Changes: changes, Observe: h.observe, Limits: h.c.Limits,
		Finders:  append([]hold.Finder{hold.Machines{Kernel: kernel}}, h.c.Finders...),
		Liveness: map[hold.HolderKind]hold.Liveness{hold.Job: hold.Processes{}, hold.Probe: hold.Processes{}},
	})
	if err != nil {
		return err
	}
	pools := h.c.Pools
	pools.Node, pools.Holds, pools.Runner, pools.Log = h.c.Node, h.set, h.c.Runner, h.log
	h.pools, err = held.New(ctx, pools)
	return err
}

// take makes sure that one process alone has the run folder.
func (h *Holding) take() error {
	f, err := os.OpenFile(filepath.Join(h.c.Run, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	h.lock = f
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another agent has %s: %w", h.c.Run, err)
	}
	return nil
}

// Close ends all work in pools on mounts. What is mounted and held stays so.
func (h *Holding) Close(ctx context.Context) (err error) {
	if h.pools != nil {
		h.pools.Close(ctx)
	}
	if h.set != nil {
		err = errors.Join(err, h.set.Close(ctx))
	}
	if h.stop != nil {
		h.stop()
	}
	if h.files != nil {
		err = errors.Join(err, h.files.Close())
	}
	if h.kernel != nil {
		err = errors.Join(err, h.kernel.Close())
	}
	if h.lock != nil {
		err = errors.Join(err, h.lock.Close())
	}
	return err
}

// Set returns the holds of this host.
func (h *Holding) Set() *hold.Set { return h.set }

// Kernel returns the mounts of this host.
func (h *Holding) Kernel() *mount.Kernel { return h.kernel }

// Open returns the driver of a pool that lies on a mount. It is false for any other pool.
func (h *Holding) Open(name string, thin bool, identity string, property func(key string) (string, bool)) (*held.Pool, bool, error) {
	s, ok, err := held.Parse(name, h.c.Node, property)
	if err != nil || !ok {
		return nil, ok, err
	}
	p, err := h.pools.Open(s, thin, identity)
	if err != nil {
		return nil, true, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := strings.ToLower(name)
	keep := slices.DeleteFunc(h.opened[key], (*held.Pool).Trial)
	h.opened[key] = append(keep[max(0, len(keep)-1):], p)
	return p, true, nil
}

// newest returns the pool of a name that was opened last, rather one that is in use than one that is only looked at. The caller holds h.mu.
func (h *Holding) newest(key string) *held.Pool {
	all := h.opened[key]
	for _, p := range slices.Backward(all) {
		if !p.Trial() {
			return p
		}
	}
	if len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// find returns the pool of a name.
func (h *Holding) find(name string) (*held.Pool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.newest(strings.ToLower(name))
	if p == nil {
		return nil, errs.New(errs.NotFound, errs.StoragePool, "storage pool %s is no pool on a mount of this host", name).
			Fix("see the pools on mounts of this host: holdfast hold ls")
	}
	return p, nil
}

// known returns the pools that are used as such, by name.
func (h *Holding) known() []*held.Pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*held.Pool
	for _, key := range slices.Sorted(maps.Keys(h.opened)) {
		if p := h.newest(key); p != nil && !p.Trial() {
			all = append(all, p)
		}
	}
	return all
}

// preparing is the kernel whose base folder is prepared before the first mount.
type preparing struct {
	*mount.Kernel

	mu   sync.Mutex
	done bool
}

// Mount implements hold.Driver.
func (p *preparing) Mount(ctx context.Context, spec mount.Spec) (mount.Mounted, error) {
	p.mu.Lock()
	if !p.done && spec.Source.Kind != mount.Existing {
		if err := p.Prepare(ctx); err != nil {
			p.mu.Unlock()
			return mount.Mounted{}, err
		}
		p.done = true
	}
	p.mu.Unlock()
	return p.Kernel.Mount(ctx, spec)
}
