// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Machine is the real [Host]: it makes volumes on the drivers of this machine's pools.
type Machine struct {
	// Encryption is how volumes are encrypted, but for their keys. Its Runner is that of
	// NewMachine when it is nil. It is not to be changed once the machine is in use.
	Encryption luks.Config

	open   func(Pool) (pool.Driver, error)
	stack  *stack.Stack
	keys   keys
	runner command.Runner

	replication *Replication // nil without the layer DRBD

	mu        sync.Mutex
	drivers   map[model.PoolKey]opened
	numbers   map[model.DefinitionKey]numbersOf // of replicas under DRBD that were applied and have not gone
	stretched map[pool.ID]int64                 // to which sizes mounted filesystems on DRBD's devices were grown
	changed   func(resource string)             // tells the agent that runs; nil when none does
}

// opened is the driver of a pool, and what it was opened for.
type opened struct {
	pool      Pool
	driver    pool.Driver
	encrypted pool.Driver // over driver
}

// identifier is a driver whose pool carries a mark of its own, so that another place that is
// mounted over it, or the empty one below it, is not taken for the pool.
type identifier interface {
	Identity(ctx context.Context) (string, error)
}

// granular is a driver that rounds sizes up.
type granular interface {
	Granularity() int64
}

// NewMachine returns the machine that this process runs on. open makes the driver of a pool;
// it only builds it and touches nothing that can hang. It is called again when the
// assignment of the pool changes. Close ends what goes on in the background.
func NewMachine(open func(Pool) (pool.Driver, error), runner command.Runner, options ...stack.Option) *Machine {
	m := &Machine{
		Encryption: luks.Config{Runner: runner}, open: open, runner: runner, drivers: map[model.PoolKey]opened{},
		numbers: map[model.DefinitionKey]numbersOf{}, stretched: map[pool.ID]int64{},
	}
	m.Encryption.Key = m.keys.of
	m.stack = stack.New(m, runner, append(options, stack.Changed(m.tell))...)
	return m
}

// Close breaks off all copies and waits for their end. It is called when no agent runs on the
// machine any more, and nothing is called after it.
func (m *Machine) Close() { m.stack.Close() }

// Watch implements Watcher: it tells of copies that have ended, and of what DRBD tells.
func (m *Machine) Watch(ctx context.Context, resource, _ func(name string)) {
	m.watch(resource)
	if r := m.replication; r != nil && r.Events != nil {
		r.Events.Watch(ctx, resource)
	}
	<-ctx.Done()
	m.watch(nil)
}

func (m *Machine) watch(resource func(name string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed = resource
}

func (m *Machine) tell(resource string) {
	m.mu.Lock()
	changed := m.changed
	m.mu.Unlock()
	if changed != nil {
		changed(resource)
	}
}

// Driver implements stack.Pools for the pools of the assignments that were applied last.
func (m *Machine) Driver(name, provider string) (pool.Driver, error) {
	o, err := m.opened(name, provider)
	return o.driver, err
}

// IsEncrypted tells whether a snapshot or, when none is named, a volume of an assigned resource
// lies encrypted in its pool, and whether that is known already.
func (m *Machine) IsEncrypted(id pool.SnapshotID) (encrypted, known bool) {
	return m.keys.encrypted(id)
}

// Encrypted implements stack.Encrypter for the same pools.
func (m *Machine) Encrypted(name, provider string) (pool.Driver, error) {
	o, err := m.opened(name, provider)
	return o.encrypted, err
}

func (m *Machine) opened(name, provider string) (opened, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.drivers[poolKey(name)]
	if !ok || provider != "" && provider != string(o.pool.Provider) {
		return opened{}, &pool.NotFoundError{Pool: name}
	}
	return o, nil
}

// Apply implements Host.
func (m *Machine) Apply(ctx context.Context, w Want) (Result, error) {
	if w.replicates() {
		return m.applyReplica(ctx, w)
	}
	wish, err := m.wish(w)
	if err != nil {
		return Result{}, err
	}
	r, err := m.stack.Apply(ctx, wish)
	if err != nil {
		return Result{}, err
	}
	return resultOf(wish, r), nil
}

// Inspect implements Host.
func (m *Machine) Inspect(ctx context.Context, w Want) (Result, error) {
	if w.replicates() {
		return m.inspectReplica(ctx, w)
	}
	wish, err := m.wish(w)
	if err != nil {
		return Result{}, err
	}
	r, err := m.stack.Inspect(ctx, wish)
	if err != nil {
		return Result{}, err
	}
	return resultOf(wish, r), nil
}

// Measure implements Host.
func (m *Machine) Measure(ctx context.Context, p Pool) (Space, error) {
	d, err := m.driver(p)
	if err != nil {
		return Space{}, err
	}
	return spaceOf(ctx, d)
}

// Check implements Host. The pool is looked at by a driver of its own, so that a check of
// other properties of a pool that is in use changes nothing for its users.
func (m *Machine) Check(ctx context.Context, p Pool) (Space, error) {
	d, err := m.open(p)
	if err != nil {
		return Space{}, err
	}
	if c, ok := d.(pool.Checker); ok {
		if err := c.Check(ctx); err != nil {
			return Space{}, err
		}
	}
	return spaceOf(ctx, d)
}

// Remove implements Host. Nobody knows any more whether the volume was encrypted; one that was may
// still be open.
func (m *Machine) Remove(ctx context.Context, p Pool, id pool.ID) error {
	if _, err := m.driver(p); err != nil {
		return err
	}
	d, err := m.Encrypted(p.Name, string(p.Provider))
	if err != nil {
		return err
	}
	var absent *pool.NotFoundError
	if err := d.Remove(ctx, id); err != nil && !errors.As(err, &absent) {
		return err
	}
	return nil
}

// RemoveSnapshot implements Host.
func (m *Machine) RemoveSnapshot(ctx context.Context, p Pool, id pool.SnapshotID) error {
	d, err := m.driver(p)
	if err != nil {
		return err
	}
	if s, ok := d.(pool.Snapshotter); ok {
		return s.RemoveSnapshot(ctx, id)
	}
	return nil // it has none
}

// driver returns the driver of p, made anew when the pool is another than before.
func (m *Machine) driver(p Pool) (pool.Driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := poolKey(p.Name)
	if o, ok := m.drivers[k]; ok && o.pool.Provider == p.Provider && o.pool.Props.Equal(p.Props) {
		return o.driver, nil
	}
	d, err := m.open(p)
	if err != nil {
		return nil, err
	}
	m.drivers[k] = opened{pool: p, driver: d, encrypted: luks.Over(d, m.Encryption)}
	return d, nil
}
