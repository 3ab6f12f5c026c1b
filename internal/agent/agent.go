// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// agent is one run of an agent.
type agent struct {
	cfg      Config
	limits   Limits
	log      *slog.Logger
	read     reader
	instance string

	mu       sync.Mutex
	set      *assigned
	attempts map[model.DefinitionKey]uint32 // failures in a row, of the present assignment
	settled  map[model.DefinitionKey]bool   // the present assignment was applied once
	faults   map[model.PoolKey]uint32       // failures in a row
	removing map[model.DefinitionKey]int    // unknown volumes of that name that are being removed

	heartbeat atomic.Int64 // time.Duration; how often to report at least
	out       *outbox
	resources *queue[model.DefinitionKey]
	pools     *queue[model.PoolKey]
	saver     *saver // nil when nothing is kept

	asks        chan struct{} // holds one for each ask that is being answered
	answering   sync.WaitGroup
	suspensions *suspensions
}

// Run is an agent until ctx ends, which is no error. It returns an error at once when c
// cannot be worked with: a required field is missing, or the state directory is not usable
// or in use by another agent.
func Run(ctx context.Context, c Config) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	a := newAgent(c)
	if c.StateDir != "" {
		unlock, err := a.loadState()
		if err != nil {
			return err
		}
		defer unlock()
	}
	a.run(ctx)
	return nil
}

func newAgent(c Config) *agent {
	a := &agent{
		cfg:      c,
		limits:   c.Limits,
		log:      c.Log.With("node", c.Node),
		read:     reader{c.Providers, c.Layers, c.UnsupportedProviders, c.UnsupportedLayers},
		instance: uuid.NewString(),
		set:      newAssigned(),
		attempts: map[model.DefinitionKey]uint32{},
		settled:  map[model.DefinitionKey]bool{},
		faults:   map[model.PoolKey]uint32{},
		removing: map[model.DefinitionKey]int{},
		out:      newOutbox(),
		asks:     make(chan struct{}, c.Limits.Asks),

		suspensions: newSuspensions(c.Log),
	}
	a.heartbeat.Store(int64(5 * time.Second))
	a.resources = newQueue(c.Limits.PerLane, a.tend)
	a.pools = newQueue(1, a.measure)
	return a
}

// run does everything until ctx ends, and then stops it in order: no more work is begun, what
// runs may finish, and the state is saved last.
func (a *agent) run(ctx context.Context) {
	workCtx, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()
	var loops sync.WaitGroup
	loops.Go(func() { a.resources.run(ctx, workCtx) })
	loops.Go(func() { a.pools.run(ctx, workCtx) })
	if w, ok := a.cfg.Host.(Watcher); ok {
		loops.Go(func() { w.Watch(ctx, a.resourceChanged, a.poolChanged) })
	}
	if a.saver != nil {
		loops.Go(func() { a.saver.run(ctx) })
	}
	a.listen(ctx, &loops)
	a.dial(ctx)
	loops.Wait()
	a.suspensions.close()
	a.finish(cancelWork)
	if a.saver != nil {
		a.saver.last()
	}
}

// listen takes into the outbox what the optional abilities tell, until ctx ends.
func (a *agent) listen(ctx context.Context, loops *sync.WaitGroup) {
	if a.cfg.Jobs != nil {
		loops.Go(func() { a.cfg.Jobs.Watch(ctx, a.out.putJob) })
	}
	if a.cfg.Holds != nil {
		loops.Go(func() {
			a.cfg.Holds.Watch(ctx, func(pools []*agentpb.HeldPool) {
				a.out.changeHost(func(s *agentpb.HostStatus) { s.HeldPools = pools })
			})
		})
	}
	if a.cfg.Numbers != nil {
		loops.Go(func() {
			a.cfg.Numbers.Watch(ctx, func(ports, minors []uint32) {
				a.out.changeHost(func(s *agentpb.HostStatus) { s.TakenPorts, s.TakenMinors = ports, minors })
			})
		})
	}
}

// finish returns when all work has ended. Work that does not end by itself in a while is
// cancelled, and what is stuck in the kernel even then is left behind: it must not keep the
// agent from being restarted.
func (a *agent) finish(cancelWork func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.resources.wait()
		a.pools.wait()
		a.answering.Wait()
	}()
	for _, then := range []func(){cancelWork, func() { a.log.Error("work on this host does not end and is left behind") }} {
		timer := time.NewTimer(a.limits.Stop)
		select {
		case <-ended:
			timer.Stop()
			return
		case <-timer.C:
			then()
		}
	}
}

// take takes assignments over and wakes what they change. After a *chainError nothing has
// changed, and the next session asks for a full set.
func (a *agent) take(m *agentpb.Assignments) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, err := a.set.take(m)
	if err != nil {
		a.set.resultsIn = ""
		return err
	}
	a.wake(d)
	if !asksOnly(m) {
		a.save()
	}
	return nil
}

// save has the set written to disk soon.
func (a *agent) save() {
	if a.saver != nil {
		a.saver.changed()
	}
}

// wake forgets and wakes what d names. The caller holds a.mu.
func (a *agent) wake(d delta) {
	for _, k := range d.goneResources {
		a.forgetResource(k)
	}
	for _, k := range d.gonePools {
		a.forgetPool(k)
	}
	changed := make(map[model.PoolKey]struct{}, len(d.pools))
	for _, k := range d.pools {
		changed[k] = struct{}{}
		delete(a.faults, k)
		a.pools.wake(k, string(k), urgent)
	}
	c := urgent
	if d.first {
		c = routine
	}
	for _, k := range d.resources {
		delete(a.attempts, k)
		delete(a.settled, k)
		if a.out.resource(k).GetState() == agentpb.ResourceStatus_DESTROYED {
			a.out.forgetResource(k) // that was another incarnation of it
		}
		a.wakeResource(k, c)
	}
	if len(changed) > 0 {
		for _, k := range a.set.usersOf(changed) {
			a.wakeResource(k, routine)
		}
	}
	if d.confirmed {
		a.wakeUnsettled()
	}
	if d.confirmed || len(d.goneResources) > 0 {
		a.lookForStrays()
	}
}

// wakeUnsettled wakes what waited for a controller to confirm the set. The caller holds a.mu.
func (a *agent) wakeUnsettled() {
	for k := range a.set.resources {
		if s := a.out.resource(k); s.GetState() != agentpb.ResourceStatus_READY {
			a.wakeResource(k, routine)
		}
	}
}

// lookForStrays has all pools looked at for volumes that are in no assignment any more. The
// caller holds a.mu.
func (a *agent) lookForStrays() {
	for k := range a.set.pools {
		a.pools.soon(k, next{delay: settle, lane: string(k), class: routine})
	}
	for k := range a.set.strays {
		a.pools.soon(k, next{delay: settle, lane: string(k), class: routine})
	}
}

func (a *agent) wakeResource(k model.DefinitionKey, c class) {
	r := a.set.resources[k]
	a.resources.wake(k, laneOf(r), classOf(r, c))
}

// classOf is the class of work on r that would be c if it did not destroy.
func classOf(r *agentpb.Resource, c class) class {
	if r.GetDestroy() {
		return destroying
	}
	return c
}

func (a *agent) forgetResource(k model.DefinitionKey) {
	delete(a.attempts, k)
	delete(a.settled, k)
	a.resources.forget(k)
	a.out.forgetResource(k)
}

func (a *agent) forgetPool(k model.PoolKey) {
	delete(a.faults, k)
	a.pools.forget(k)
	a.out.forgetPool(k)
}

// settle is how long a change waits for others like it before a look.
const settle = 100 * time.Millisecond

// resourceChanged is told by the host that something about a resource changed by itself.
func (a *agent) resourceChanged(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := resourceKey(name)
	if r := a.set.resources[k]; r != nil {
		a.resources.soon(k, next{delay: settle, lane: laneOf(r), class: classOf(r, routine)})
	}
}

// poolChanged is told by the host that something about a pool changed by itself.
func (a *agent) poolChanged(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := poolKey(name)
	if a.set.pools[k] != nil {
		a.pools.soon(k, next{delay: settle, lane: string(k), class: routine})
	}
}

// backoff is how long to wait after a number of failures in a row: doubled each time up to
// most, and spread, so that many that failed together do not come back together.
func backoff(failures uint32, first, most time.Duration) time.Duration {
	d := first
	for i := uint32(1); i < failures && d < most; i++ {
		d *= 2
	}
	return spread(min(d, most))
}

// spread returns d give or take a fifth.
func spread(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5+1) //nolint:gosec // It spreads load, it guards nothing.
}
