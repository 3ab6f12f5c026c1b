// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// tend works on one resource once: it applies the newest assignment, puts the status into
// the outbox, and says when to look again.
func (a *agent) tend(ctx context.Context, k model.DefinitionKey) next {
	a.mu.Lock()
	r, confirmed := a.set.resources[k], a.set.confirmed
	if r == nil || r.GetDestroy() && !confirmed || a.removing[k] > 0 { // who removes wakes it again
		a.mu.Unlock()
		return next{}
	}
	w, err := a.read.resource(r, a.set)
	a.mu.Unlock()
	if err != nil {
		return a.tended(ctx, k, r, outcome{failure: failureOf("read the assignment", err)})
	}
	all := len(w.Volumes)
	if !confirmed {
		w.Volumes = slices.DeleteFunc(w.Volumes, func(v VolumeWant) bool { return v.Destroy })
	}
	working := a.watch(k, r)
	o := a.apply(ctx, w)
	working.stop()
	o.partly = len(w.Volumes) < all // some of it waits for a controller's word
	return a.tended(ctx, k, r, o)
}

// outcome is what came of work on a resource.
type outcome struct {
	volumes []*agentpb.VolumeStatus
	failure *agentpb.Failure
	partly  bool // a part of the assignment was left out
}

// apply applies w. After a failure the volumes are what an inspection saw, as far as it saw
// anything: a volume whose growth failed is still there and in use.
func (a *agent) apply(ctx context.Context, w Want) outcome {
	applyCtx, cancel := context.WithTimeout(ctx, a.limits.Apply)
	defer cancel()
	result, err := a.cfg.Host.Apply(applyCtx, w)
	if err == nil {
		return outcome{volumes: result.Volumes}
	}
	step := "apply the assignment"
	if w.Destroy {
		step = "destroy the resource"
	}
	failure := failureOf(step, err)
	lookCtx, cancelLook := context.WithTimeout(ctx, a.limits.Inspect)
	defer cancelLook()
	if result, err = a.cfg.Host.Inspect(lookCtx, w); err != nil {
		return outcome{failure: failure}
	}
	return outcome{volumes: result.Volumes, failure: failure}
}

// tended records the outcome of work on r. What belongs to a resource that is no longer
// assigned is dropped; what belongs to an older assignment is still true, and says so.
func (a *agent) tended(ctx context.Context, k model.DefinitionKey, r *agentpb.Resource, o outcome) next {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.set.resources[k]
	if now == nil || ctx.Err() != nil {
		return next{}
	}
	before := a.out.resource(k)
	s, failure := statusOf(r, o), o.failure
	n := next{delay: spread(a.limits.Repair), lane: laneOf(now), class: classOf(now, routine)}
	switch {
	case failure == nil:
		delete(a.attempts, k)
		if !o.partly && a.set.saw(k, r, s.GetVolumes()) {
			a.save()
		}
	case now != r: // a newer assignment is tried at once
		s.State, s.Failure = agentpb.ResourceStatus_FAILED, tried(failure, 1, time.Now())
	default:
		a.attempts[k]++
		n.delay = backoff(a.attempts[k], a.limits.RetryFirst, a.limits.RetryMost)
		s.State, s.Failure = agentpb.ResourceStatus_FAILED, tried(failure, a.attempts[k], time.Now().Add(n.delay))
		if failure.GetMessage() != before.GetFailure().GetMessage() {
			a.log.Warn("resource failed; it will be tried again", "resource", r.GetName(), "step", failure.GetStep(),
				"error", failure.GetMessage(), "attempts", a.attempts[k])
		}
	}
	switch {
	case s.GetState() != agentpb.ResourceStatus_DESTROYED:
		a.out.putResource(k, s)
	case now == r:
		a.out.putResource(k, s)
		n = next{}
	}
	if now == r && !a.settled[k] || !sameSizes(before, s) {
		a.measureSoon(r)
	}
	if now == r && failure == nil {
		a.settled[k] = true
	}
	return n
}

// statusOf is the status of a resource on which all steps succeeded.
func statusOf(r *agentpb.Resource, o outcome) *agentpb.ResourceStatus {
	s := &agentpb.ResourceStatus{Name: clip(r.GetName()), Generation: r.GetGeneration(), State: agentpb.ResourceStatus_READY}
	switch {
	case r.GetDestroy():
		s.State = agentpb.ResourceStatus_DESTROYED
	case o.partly: // READY would say that the volumes which are to go are gone
		s.State = agentpb.ResourceStatus_WORKING
	}
	for _, v := range o.volumes {
		v.Holders, v.DevicePath, v.BackingPath = clipAll(v.GetHolders()), clip(v.GetDevicePath()), clip(v.GetBackingPath())
		s.Volumes = append(s.Volumes, v)
	}
	return s
}

// sameSizes tells whether two statuses of a resource take the same room in its pools.
func sameSizes(a, b *agentpb.ResourceStatus) bool {
	return slices.EqualFunc(a.GetVolumes(), b.GetVolumes(), func(v, w *agentpb.VolumeStatus) bool {
		return v.GetNumber() == w.GetNumber() && v.GetUsable() == w.GetUsable()
	})
}

// measureSoon has the pools of r looked at, once for many changes. The caller holds a.mu.
func (a *agent) measureSoon(r *agentpb.Resource) {
	for _, p := range poolsOf(r) {
		if a.set.pools[p] != nil {
			a.pools.soon(p, next{delay: settle, lane: string(p), class: urgent})
		}
	}
}

// watching reports a resource as being worked on while that takes long.
type watching struct {
	agent *agent
	key   model.DefinitionKey
	work  *agentpb.Resource
	began time.Time
	long  bool        // was reported once
	ended bool        // guarded by agent.mu, as all fields that change
	timer *time.Timer // set before it can fire
}

// watch reports r as WORKING when its work is not done in a while.
func (a *agent) watch(k model.DefinitionKey, r *agentpb.Resource) *watching {
	w := &watching{agent: a, key: k, work: r, began: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.timer = time.AfterFunc(a.limits.Slow, w.report)
	return w
}

// report tells that the work goes on. The volumes and the failure are those seen last; when
// the host does not come back for very long, that is the failure.
func (w *watching) report() {
	a := w.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.ended || a.set.resources[w.key] == nil {
		return
	}
	last := a.out.resource(w.key)
	s := &agentpb.ResourceStatus{
		Name: clip(w.work.GetName()), Generation: w.work.GetGeneration(), State: agentpb.ResourceStatus_WORKING,
		Volumes: last.GetVolumes(), Failure: last.GetFailure(),
	}
	if w.long {
		s.Failure = &agentpb.Failure{
			Step: "wait for the host", Attempts: a.attempts[w.key],
			Message: fmt.Sprintf("the host has been working on it since %s", w.began.UTC().Format(time.RFC3339)),
		}
	} else {
		w.long = true
		w.timer.Reset(a.limits.Inspect)
	}
	a.out.putResource(w.key, s)
}

// stop ends the watch: nothing is reported by it any more.
func (w *watching) stop() {
	w.agent.mu.Lock()
	defer w.agent.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}
