// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// granularity of all simulated pools, in bytes.
const granularity = 4 << 10

// Host is a host in memory. It keeps its content over any number of agents that run on it,
// one after the other, as a real one does over restarts.
type Host struct {
	// Capacity of a pool that Resize was not called for, in bytes; 1 TiB when zero. It is not
	// to be changed once the host is in use.
	Capacity int64

	mu      sync.Mutex
	pools   map[model.PoolKey]*simPool
	tricks  map[model.DefinitionKey]*trick
	applies int
	applied map[string]struct{} // the names of the resources that were
	paused  map[*suspension]struct{}
	changed func(resource, pool string) // tells the agent that runs; nil when none does
}

// simPool is one simulated pool.
type simPool struct {
	total   int64
	fault   string
	gate    *gate // holds what looks at the pool
	used    int64 // what volumes take together
	volumes map[pool.ID]*volume

	snapshots map[pool.SnapshotID]*snapshot
}

// volume is one simulated volume. Its size is usable; a thin one takes nothing of its pool.
type volume struct {
	size       int64
	thin       bool
	closed     bool   // has no device
	key        []byte // that opens it; none of one that is not encrypted
	filesystem *agentpb.Filesystem
	content    string
	rolledBack string // the token of its last roll-back
}

// trick is what a test does to one resource.
type trick struct {
	failing failing // applies
	copying failing // what copies: clones, roll-backs, snapshots
	pausing failing // suspensions
	gate    *gate   // holds applies
	copies  *Copies // holds what copies
	holders []string
}

// failing is what still is to fail.
type failing struct {
	times int // below zero for ever
	err   error
}

// next returns the failure of one more try, or nil.
func (f *failing) next() error {
	if f.times == 0 {
		return nil
	}
	if f.times > 0 {
		f.times--
	}
	return f.err
}

// Volume is a volume on the host, as tests see it.
type Volume struct {
	Pool       string // the folded name
	Resource   string // the folded name
	Number     int
	Size       int64 // bytes
	Filesystem string
}

// Volumes returns all volumes of the host by resource and number.
func (h *Host) Volumes() []Volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Volume
	for name, p := range h.pools {
		for id, v := range p.volumes {
			list = append(list, Volume{
				Pool: string(name), Resource: id.Resource, Number: id.Volume, Size: v.size, Filesystem: v.filesystem.GetType(),
			})
		}
	}
	slices.SortFunc(list, func(a, b Volume) int {
		return pool.ID{Resource: a.Resource, Volume: a.Number}.Compare(pool.ID{Resource: b.Resource, Volume: b.Number})
	})
	return list
}

// Applies returns how often a resource was applied, on the whole.
func (h *Host) Applies() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.applies
}

// Apply implements agent.Host.
func (h *Host) Apply(ctx context.Context, w agent.Want) (agent.Result, error) {
	if err := h.enter(ctx, w); err != nil {
		return agent.Result{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.applies++
	if h.applied == nil {
		h.applied = map[string]struct{}{}
	}
	h.applied[w.Resource] = struct{}{}
	if err := h.failure(w.Resource, func(t *trick) *failing { return &t.failing }); err != nil {
		return agent.Result{}, err
	}
	if err := h.usable(w); err != nil {
		return agent.Result{}, err
	}
	work, err := h.provide(w)
	if err != nil {
		return agent.Result{}, err
	}
	r := h.seen(w)
	r.Work, r.Pending = work, len(work) > 0
	return r, nil
}

// Inspect implements agent.Host.
func (h *Host) Inspect(_ context.Context, w agent.Want) (agent.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range w.Volumes {
		if v.Pool == nil {
			continue
		}
		if err := h.pool(v.Pool.Name).faulty(v.Pool.Name); err != nil {
			return agent.Result{}, err
		}
	}
	return h.seen(w), nil
}

// reach returns a pool that works, once no gate is in the way, with h.mu held until leave.
func (h *Host) reach(ctx context.Context, name string) (p *simPool, leave func(), err error) {
	h.mu.Lock()
	g := h.pool(name).gate
	h.mu.Unlock()
	if err := g.pass(ctx); err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	p = h.pool(name)
	if err := p.faulty(name); err != nil {
		h.mu.Unlock()
		return nil, nil, err
	}
	return p, h.mu.Unlock, nil
}

// Measure implements agent.Host.
func (h *Host) Measure(ctx context.Context, p agent.Pool) (agent.Space, error) {
	sim, leave, err := h.reach(ctx, p.Name)
	if err != nil {
		return agent.Space{}, err
	}
	defer leave()
	space := agent.Space{
		Total: sim.total, Free: max(0, sim.total-sim.used), Allocated: sim.used, Granularity: granularity,
		CanSnapshot: snapshots(p.Provider),
	}
	for _, id := range slices.SortedFunc(maps.Keys(sim.volumes), pool.ID.Compare) {
		v := sim.volumes[id]
		space.Volumes = append(space.Volumes, pool.Volume{ID: id, Size: v.size, Granularity: granularity, Allocated: v.allocated()})
	}
	for _, id := range slices.SortedFunc(maps.Keys(sim.snapshots), pool.SnapshotID.Compare) {
		s := sim.snapshots[id]
		space.Snapshots = append(space.Snapshots, pool.Snapshot{ID: id, Size: s.size, Allocated: s.allocated(), Created: s.created})
	}
	return space, nil
}

// Check implements agent.Host.
func (h *Host) Check(ctx context.Context, p agent.Pool) (agent.Space, error) {
	return h.Measure(ctx, p)
}

// Remove implements agent.Host.
func (h *Host) Remove(ctx context.Context, p agent.Pool, id pool.ID) error {
	sim, leave, err := h.reach(ctx, p.Name)
	if err != nil {
		return err
	}
	defer leave()
	id = id.Fold()
	if users := h.trick(id.Resource).holders; len(users) > 0 && sim.volumes[id] != nil {
		return &pool.InUseError{ID: id, Holders: holdersOf(users)}
	}
	sim.remove(id)
	return nil
}

// holdersOf is the users of a volume as a pool tells them.
func holdersOf(users []string) []pool.Holder {
	list := make([]pool.Holder, len(users))
	for i, u := range users {
		list[i] = pool.Holder{Kind: pool.Opened, Name: u, PID: 1}
	}
	return list
}

// Watch implements agent.Watcher.
func (h *Host) Watch(ctx context.Context, resource, pool func(name string)) {
	h.mu.Lock()
	h.changed = func(r, p string) {
		if r != "" {
			resource(r)
		}
		if p != "" {
			pool(p)
		}
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.changed = nil
	h.mu.Unlock()
}

// enter waits at the gates that hold w.
func (h *Host) enter(ctx context.Context, w agent.Want) error {
	h.mu.Lock()
	gates := []*gate{h.trick(w.Resource).gate, h.trick("").gate}
	for _, v := range w.Volumes {
		if v.Pool != nil {
			gates = append(gates, h.pool(v.Pool.Name).gate)
		}
	}
	h.mu.Unlock()
	for _, g := range gates {
		if err := g.pass(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// failure is what a test ordered the work on a resource to fail with. The caller holds h.mu.
func (h *Host) failure(resource string, which func(*trick) *failing) error {
	for _, name := range []string{resource, ""} {
		t := h.tricks[model.DefinitionName(name).Key()]
		if t == nil {
			continue
		}
		if err := which(t).next(); err != nil {
			return err
		}
	}
	return nil
}

// usable refuses w for a faulty pool, and the destruction of what is in use. The caller holds
// h.mu.
func (h *Host) usable(w agent.Want) error {
	users := h.trick(w.Resource).holders
	for _, v := range w.Volumes {
		if v.Pool == nil {
			continue
		}
		p := h.pool(v.Pool.Name)
		if err := p.faulty(v.Pool.Name); err != nil {
			return err
		}
		id := pool.ID{Resource: w.Resource, Volume: int(v.Number)}.Fold()
		away := w.Destroy || v.Destroy || w.Inactive || v.RollBack != nil && p.volumes[id].lastRollBack() != v.RollBack.GetToken()
		if away && len(users) > 0 && p.volumes[id] != nil {
			return &pool.InUseError{ID: id, Holders: holdersOf(users)}
		}
	}
	return nil
}

// seen is what there is of w. The caller holds h.mu.
func (h *Host) seen(w agent.Want) agent.Result {
	var r agent.Result
	users := h.trick(w.Resource).holders
	for _, v := range w.Volumes {
		s := &agentpb.VolumeStatus{
			Number: v.Number, DevicePath: fmt.Sprintf("/dev/fake/%s/%d", w.Resource, v.Number),
			InUse: new(len(users) > 0), Holders: slices.Clone(users),
		}
		switch {
		case w.Destroy || v.Destroy:
			if v.Pool == nil || h.find(w, v) == nil {
				continue
			}
		case v.Pool == nil:
			s.Usable, s.DiskState = new(v.Size), "Diskless"
		}
		if v.Pool != nil {
			have := h.find(w, v)
			if have == nil {
				continue
			}
			if have.closed {
				s.DevicePath = ""
			}
			s.Usable, s.Allocated, s.RolledBack = new(have.size), new(have.allocated()), have.rolledBack
			s.BackingPath = fmt.Sprintf("/fake/%s/%s", v.Pool.Name, pool.ID{Resource: w.Resource, Volume: int(v.Number)}.Name())
			if slices.Contains(w.Layers, model.DRBD) {
				s.DiskState = "UpToDate"
			}
		}
		r.Volumes = append(r.Volumes, s)
	}
	for _, sw := range w.Snapshots {
		r.Snapshots = append(r.Snapshots, h.seenSnapshot(w, sw))
	}
	return r
}

func (h *Host) find(w agent.Want, v agent.VolumeWant) *volume {
	return h.pool(v.Pool.Name).volumes[pool.ID{Resource: w.Resource, Volume: int(v.Number)}.Fold()]
}

// pool returns the pool of a name, which exists. The caller holds h.mu.
func (h *Host) pool(name string) *simPool {
	k := model.PoolName(name).Key()
	p := h.pools[k]
	if p == nil {
		p = &simPool{total: h.Capacity, volumes: map[pool.ID]*volume{}, snapshots: map[pool.SnapshotID]*snapshot{}}
		if p.total == 0 {
			p.total = 1 << 40
		}
		if h.pools == nil {
			h.pools = map[model.PoolKey]*simPool{}
		}
		h.pools[k] = p
	}
	return p
}

// trick returns the trick for a resource to be read. The caller holds h.mu.
func (h *Host) trick(resource string) trick {
	if t := h.tricks[model.DefinitionName(resource).Key()]; t != nil {
		return *t
	}
	return trick{}
}

// make makes the volume v, or grows it. A new one has a content.
func (p *simPool) make(v agent.VolumeWant, id pool.ID, content string) error {
	size, err := pool.RoundUp(v.Size, granularity)
	if err != nil {
		return err
	}
	have := p.volumes[id]
	if have == nil && v.Existing {
		return &stack.MissingError{Pool: v.Pool.Name, ID: id}
	}
	grown := &volume{size: size, thin: v.Pool.Provider.Thin(), filesystem: v.Filesystem, content: content}
	if v.Source != nil {
		grown.filesystem = nil
	}
	missing := grown.allocated()
	if have != nil {
		if have.size >= size {
			return nil
		}
		grown.filesystem, grown.content, grown.rolledBack = have.filesystem, have.content, have.rolledBack
		grown.closed, grown.key = have.closed, have.key
		missing -= have.allocated()
	}
	if err := p.room(v.Pool.Name, missing); err != nil {
		return err
	}
	p.put(id, grown)
	return nil
}

// room refuses what a pool has not enough room for.
func (p *simPool) room(name string, missing int64) error {
	if free := p.total - p.used; missing > free {
		return &pool.NoSpaceError{Pool: name, Asked: missing, Free: max(0, free), Total: p.total}
	}
	return nil
}

func (p *simPool) put(id pool.ID, v *volume) {
	p.remove(id)
	p.volumes[id] = v
	p.used += v.allocated()
}

func (p *simPool) remove(id pool.ID) {
	if v := p.volumes[id]; v != nil {
		p.used -= v.allocated()
		delete(p.volumes, id)
	}
}

func (p *simPool) faulty(name string) error {
	if p.fault == "" {
		return nil
	}
	return &pool.FaultyError{Pool: name, Place: "/fake/" + name, Reason: pool.Unreadable, Detail: p.fault}
}

// lastRollBack returns the token of the last roll-back; none of no volume.
func (v *volume) lastRollBack() string {
	if v == nil {
		return ""
	}
	return v.rolledBack
}

func (v *volume) allocated() int64 {
	if v.thin {
		return 0
	}
	return v.size
}
