// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/model"
)

var errSimulated = errors.New("simulated failure of a step")

// FailApplies makes the next n applies of a resource fail with err, or all of them when n is
// below zero; zero makes them succeed again. The name "" is every resource. A nil err is some
// failure of the host; errors of package pool and errs.Error have the reasons that they have
// in the field.
func (h *Host) FailApplies(resource string, n int, err error) {
	if err == nil {
		err = errSimulated
	}
	h.change(resource, "", func(t *trick, _ *simPool) { t.failing = failing{n, err} })
}

// FailCopies makes the next n copies of a resource fail with err, or all of them when n is below
// zero: the making of its volumes from others, roll-backs, and the taking of its snapshots. The
// name "" is every resource. Nil is some failure of the host.
func (h *Host) FailCopies(resource string, n int, err error) {
	if err == nil {
		err = errSimulated
	}
	h.change(resource, "", func(t *trick, _ *simPool) { t.copying = failing{n, err} })
}

// FailSuspensions makes the next n suspensions of a resource fail with err, or all of them when n
// is below zero. The name "" is every resource. Nil is some failure of the host.
func (h *Host) FailSuspensions(resource string, n int, err error) {
	if err == nil {
		err = errSimulated
	}
	h.change(resource, "", func(t *trick, _ *simPool) { t.pausing = failing{n, err} })
}

// HoldCopies makes copies of a resource go on in the background until they are released: the
// making of its volumes from others, roll-backs, and the taking of its snapshots. The name "" is
// every resource. A later call replaces the one before.
func (h *Host) HoldCopies(resource string) *Copies {
	c := &Copies{host: h, resource: resource, hold: newHold()}
	h.change(resource, "", func(t *trick, _ *simPool) { t.copies = c })
	return c
}

// Copies is copies that a test holds up.
type Copies struct {
	host     *Host
	resource string
	hold     *Hold
	done     int64 // guarded by the host's lock
}

// Progress makes the copies be done up to some bytes.
func (c *Copies) Progress(bytes int64) {
	c.host.change(c.resource, "", func(*trick, *simPool) { c.done = bytes })
	c.host.tellAll(c.resource)
}

// Release lets the copies end. It may be called again.
func (c *Copies) Release() {
	c.hold.Release()
	c.host.tellAll(c.resource)
}

// Wait returns nil once a copy has begun since the last Wait, or ctx's error.
func (c *Copies) Wait(ctx context.Context) error { return c.hold.Wait(ctx) }

func (c *Copies) over() bool {
	select {
	case <-c.hold.released:
		return true
	default:
		return false
	}
}

// LoseSnapshot takes a snapshot of a resource away, as someone might with the tools of the host.
func (h *Host) LoseSnapshot(resource, name string) {
	k, s := model.DefinitionName(resource).Key(), model.SnapshotName(name).Key()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		for id := range p.snapshots {
			if id.Resource == string(k) && id.Snapshot == string(s) {
				p.removeSnapshot(id)
			}
		}
	}
	h.tell(resource, "")
}

// Use makes a resource be in use by the named users, as well as by those before.
func (h *Host) Use(resource string, holders ...string) {
	h.change(resource, "", func(t *trick, _ *simPool) { t.holders = append(slices.Clone(t.holders), holders...) })
}

// Leave ends all use of a resource.
func (h *Host) Leave(resource string) {
	h.change(resource, "", func(t *trick, _ *simPool) { t.holders = nil })
}

// Resize gives a pool room for total bytes, whatever lies in it.
func (h *Host) Resize(name string, total int64) {
	h.change("", name, func(_ *trick, p *simPool) { p.total = total })
}

// FailPool makes a pool faulty for a reason, until HealPool.
func (h *Host) FailPool(name, why string) {
	h.change("", name, func(_ *trick, p *simPool) { p.fault = why })
}

// HealPool ends what FailPool began.
func (h *Host) HealPool(name string) { h.FailPool(name, "") }

// PutVolume puts a volume into a pool that no one assigned, of size bytes.
func (h *Host) PutVolume(poolName, resource string, number int, size int64) {
	id := pool.ID{Resource: resource, Volume: number}.Fold()
	h.change("", poolName, func(_ *trick, p *simPool) { p.put(id, &volume{size: size}) })
}

// LoseVolumes takes all volumes of a resource away, as someone might with the tools of the
// host.
func (h *Host) LoseVolumes(resource string) {
	k := model.DefinitionName(resource).Key()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		for id := range p.volumes {
			if id.Resource == string(k) {
				p.remove(id)
			}
		}
	}
	h.tell(resource, "")
}

// CloseVolumes takes the devices of a resource down, as a restart of the host does.
func (h *Host) CloseVolumes(resource string) {
	k := model.DefinitionName(resource).Key()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		for id, v := range p.volumes {
			v.closed = v.closed || id.Resource == string(k)
		}
	}
	h.tell(resource, "")
}

// HoldApplies makes applies of a resource wait, whoever starts them, until the hold is
// released or the apply is cancelled. The name "" is every resource.
func (h *Host) HoldApplies(resource string) *Hold {
	hold := newHold()
	h.change(resource, "", func(t *trick, _ *simPool) { t.gate = &gate{hold: hold, before: t.gate} })
	return hold
}

// HoldPool makes everything that touches a pool wait, as on a server that does not answer,
// until the hold is released.
func (h *Host) HoldPool(name string) *Hold {
	hold := newHold()
	h.change("", name, func(_ *trick, p *simPool) { p.gate = &gate{hold: hold, before: p.gate} })
	return hold
}

// change changes what a test does to a resource and, if named, to a pool, and tells the
// agent.
func (h *Host) change(resource, poolName string, fn func(*trick, *simPool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var p *simPool
	if poolName != "" {
		p = h.pool(poolName)
	}
	k := model.DefinitionName(resource).Key()
	t := h.tricks[k]
	if t == nil {
		t = &trick{}
		if h.tricks == nil {
			h.tricks = map[model.DefinitionKey]*trick{}
		}
		h.tricks[k] = t
	}
	fn(t, p)
	h.tell(resource, poolName)
}

// tell tells the agent that something changed by itself. The caller holds h.mu.
func (h *Host) tell(resource, poolName string) {
	if h.changed != nil {
		h.changed(resource, poolName)
	}
}

// tellAll tells the agent that a resource changed, or for "" each that the host has anything of.
func (h *Host) tellAll(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if resource != "" {
		h.tell(resource, "")
		return
	}
	for name := range h.applied {
		h.tell(name, "")
	}
}

// Hold is something that a test holds up.
type Hold struct {
	once     sync.Once
	released chan struct{}
	arrived  chan struct{} // holds one: someone waits, or has waited
}

func newHold() *Hold {
	return &Hold{released: make(chan struct{}), arrived: make(chan struct{}, 1)}
}

// Release lets all that wait go on, and all that come later pass. It may be called again.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

// Wait returns nil once somebody has come to wait since the last Wait, or ctx's error.
func (h *Hold) Wait(ctx context.Context) error {
	select {
	case <-h.arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Hold) arrive() {
	select {
	case h.arrived <- struct{}{}:
	default:
	}
}

// gate is a hold in the way, and those that were there before it.
type gate struct {
	hold   *Hold
	before *gate
}

// pass waits until all holds are released.
func (g *gate) pass(ctx context.Context) error {
	for ; g != nil; g = g.before {
		select {
		case <-g.hold.released:
			continue
		default:
		}
		g.hold.arrive()
		select {
		case <-g.hold.released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Filesystem returns the type of filesystem that a volume was formatted with, "" for none.
func (h *Host) Filesystem(resource string, number int) string {
	id := pool.ID{Resource: resource, Volume: number}.Fold()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		if v := p.volumes[id]; v != nil {
			return proto.CloneOf(v.filesystem).GetType()
		}
	}
	return ""
}
