// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Machine is the real [Host]: it makes volumes on the drivers of this machine's pools.
type Machine struct {
	open  func(Pool) (pool.Driver, error)
	stack *stack.Stack

	mu      sync.Mutex
	drivers map[model.PoolKey]opened
}

// opened is the driver of a pool, and what it was opened for.
type opened struct {
	pool   Pool
	driver pool.Driver
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
// assignment of the pool changes.
func NewMachine(open func(Pool) (pool.Driver, error), runner command.Runner) *Machine {
	m := &Machine{open: open, drivers: map[model.PoolKey]opened{}}
	m.stack = stack.New(m, runner)
	return m
}

// Driver implements stack.Pools for the pools of the assignments that were applied last.
func (m *Machine) Driver(name, provider string) (pool.Driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.drivers[poolKey(name)]
	if !ok || provider != "" && provider != string(o.pool.Provider) {
		return nil, &pool.NotFoundError{Pool: name}
	}
	return o.driver, nil
}

// Apply implements Host.
func (m *Machine) Apply(ctx context.Context, w Want) (Result, error) {
	wish, err := m.wish(w)
	if err != nil {
		return Result{}, err
	}
	r, err := m.stack.Apply(ctx, wish)
	if err != nil {
		return Result{}, err
	}
	return resultOf(r), nil
}

// Inspect implements Host.
func (m *Machine) Inspect(ctx context.Context, w Want) (Result, error) {
	wish, err := m.wish(w)
	if err != nil {
		return Result{}, err
	}
	r, err := m.stack.Inspect(ctx, wish)
	if err != nil {
		return Result{}, err
	}
	return resultOf(r), nil
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

// Remove implements Host.
func (m *Machine) Remove(ctx context.Context, p Pool, id pool.ID) error {
	d, err := m.driver(p)
	if err != nil {
		return err
	}
	var absent *pool.NotFoundError
	if err := d.Remove(ctx, id); err != nil && !errors.As(err, &absent) {
		return err
	}
	return nil
}

// Suspend implements Suspender.
func (m *Machine) Suspend(ctx context.Context, wants []Want, limit time.Duration) (Suspension, error) {
	wishes := make([]stack.Want, len(wants))
	for i, w := range wants {
		var err error
		if wishes[i], err = m.wish(w); err != nil {
			return nil, err
		}
	}
	held, err := m.stack.Suspend(ctx, wishes, limit)
	if err != nil {
		return nil, err // and no Suspension of a nil pointer
	}
	return held, nil
}

// wish turns w into what the stack is asked for, with the drivers of its pools at hand.
func (m *Machine) wish(w Want) (stack.Want, error) {
	if len(w.Layers) != 1 || w.Layers[0] != model.Storage {
		return stack.Want{}, errs.New(errs.Unsupported, errs.Resource, "resource %s has the layers %v", w.Resource, w.Layers).
			Because("this host makes volumes of the layer %s alone", model.Storage)
	}
	wish := stack.Want{Resource: w.Resource, Destroy: w.Destroy}
	for _, v := range w.Volumes {
		if v.Pool == nil {
			if w.Destroy || v.Destroy {
				continue
			}
			return stack.Want{}, errs.New(errs.Unsupported, errs.Resource, "volume %d of resource %s has no storage pool", v.Number, w.Resource).
				Because("a replica without storage needs the layer %s", model.DRBD)
		}
		if _, err := m.driver(*v.Pool); err != nil {
			return stack.Want{}, err
		}
		vw := stack.VolumeWant{
			Number: int(v.Number), Destroy: v.Destroy, Existing: v.Existing,
			Pool: v.Pool.Name, Provider: string(v.Pool.Provider), Size: v.Size,
		}
		if v.Filesystem != nil {
			vw.Filesystem = &stack.Filesystem{Type: v.Filesystem.GetType(), MkfsParams: v.Filesystem.GetMkfsParams()}
		}
		wish.Volumes = append(wish.Volumes, vw)
	}
	return wish, nil
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
	m.drivers[k] = opened{pool: p, driver: d}
	return d, nil
}

func resultOf(r stack.Result) Result {
	var result Result
	for _, v := range r.Volumes {
		s := &agentpb.VolumeStatus{
			Number: int32(v.Number), DevicePath: v.DevicePath, Usable: new(v.Usable), Allocated: new(v.Allocated), Holders: v.Holders,
		}
		if v.UseUnknown == "" {
			s.InUse = new(v.InUse)
		}
		result.Volumes = append(result.Volumes, s)
	}
	return result
}

// spaceOf asks d for all that there is to know of its pool. It is all or nothing. Volumes come
// and go meanwhile: what is free is the less of before and after they were listed, so that
// nothing counts both as free and as taken by a volume.
func spaceOf(ctx context.Context, d pool.Driver) (Space, error) {
	before, err := d.Space(ctx)
	if err != nil {
		return Space{}, err
	}
	volumes, err := d.List(ctx)
	if err != nil {
		return Space{}, err
	}
	after, err := d.Space(ctx)
	if err != nil {
		return Space{}, err
	}
	s := Space{Total: after.Total, Free: min(before.Free, after.Free), Volumes: volumes}
	if d, ok := d.(identifier); ok {
		if s.Identity, err = d.Identity(ctx); err != nil {
			return Space{}, err
		}
	}
	if d, ok := d.(granular); ok {
		s.Granularity = d.Granularity()
	}
	for _, v := range volumes {
		s.Allocated += v.Allocated
	}
	return s, nil
}
