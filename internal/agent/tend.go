// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
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
		return a.tended(ctx, k, r, outcome{failure: failureOf("read the assignment", err), unseen: true})
	}
	partly := false
	if !confirmed {
		w, partly = w.unconfirmed()
	}
	working := a.watch(k, r)
	o := a.apply(ctx, w)
	working.stop()
	o.partly = partly
	return a.tended(ctx, k, r, o)
}

// waits is how many times longer than for its own progress a resource is left alone that waits for
// other hosts, or is filled by them.
const waits = 10

// outcome is what came of work on a resource.
type outcome struct {
	Result
	failure  *agentpb.Failure                       // of the resource, but for its snapshots
	snapshot map[model.SnapshotKey]*agentpb.Failure // of each that fails
	partly   bool                                   // a part of the assignment was left out
	unseen   bool                                   // nothing is known of what there is
}

// failed tells whether anything is to be tried again.
func (o outcome) failed() bool { return o.failure != nil || len(o.snapshot) > 0 }

// apply applies w. After a failure the result is what an inspection saw, as far as it saw
// anything: a volume whose growth failed is still there and in use.
func (a *agent) apply(ctx context.Context, w Want) outcome {
	applyCtx, cancel := context.WithTimeout(ctx, a.limits.Apply)
	defer cancel()
	result, err := a.cfg.Host.Apply(applyCtx, w)
	if err == nil {
		return outcome{Result: result}
	}
	o := failuresOf(w, err)
	lookCtx, cancelLook := context.WithTimeout(ctx, a.limits.Inspect)
	defer cancelLook()
	result, err = a.cfg.Host.Inspect(lookCtx, w)
	o.Result, o.unseen = result, err != nil
	return o
}

// failuresOf tells what of w fails: a snapshot fails alone.
func failuresOf(w Want, err error) outcome {
	o := outcome{snapshot: map[model.SnapshotKey]*agentpb.Failure{}}
	for _, s := range stack.FailedSteps(err) {
		f := failureOf(s.What, s.Err)
		k := snapshotKey(s.Snapshot)
		switch {
		case s.Snapshot != "" && o.snapshot[k] == nil:
			o.snapshot[k] = f
		case s.Snapshot == "" && o.failure == nil:
			o.failure = f
		}
	}
	if !o.failed() { // it did not come to any step
		step := "apply the assignment"
		if w.Destroy {
			step = "destroy the resource"
		}
		o.failure = failureOf(step, err)
	}
	return o
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
	s := statusOf(r, o)
	if o.unseen {
		s.Snapshots = lastSnapshots(now, before)
	}
	n := next{delay: spread(a.limits.Repair), lane: laneOf(now), class: classOf(now, routine)}
	if o.failure == nil && !o.partly && a.set.saw(k, r, s.GetVolumes()) {
		a.save()
	}
	switch {
	case !o.failed():
		delete(a.attempts, k)
		switch {
		case o.Pending && o.Waits, o.Fills && !o.Pending:
			n.delay = min(n.delay, waits*a.limits.Progress)
		case o.Pending:
			n.delay = a.limits.Progress
		}
	case now != r: // a newer assignment is tried at once
		fail(s, o, 1, time.Now())
	default:
		a.attempts[k]++
		n.delay = backoff(a.attempts[k], a.limits.RetryFirst, a.limits.RetryMost)
		fail(s, o, a.attempts[k], time.Now().Add(n.delay))
		a.logFailures(before, s)
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
	if now == r && o.failure == nil {
		a.settled[k] = true
	}
	return n
}

// lastSnapshots returns what was last told of the snapshots of r: to say nothing would mean that
// they are not there.
func lastSnapshots(r *agentpb.Resource, before *agentpb.ResourceStatus) []*agentpb.SnapshotStatus {
	var list []*agentpb.SnapshotStatus
	for _, s := range before.GetSnapshots() {
		if slices.ContainsFunc(r.GetSnapshots(), func(w *agentpb.Snapshot) bool { return snapshotKey(w.GetName()) == snapshotKey(s.GetName()) }) {
			list = append(list, proto.CloneOf(s))
		}
	}
	return list
}

// stillGoing returns what was last told of the snapshots of r while it is worked on: of those that are to go, that something goes on. That they are
// complete was said of an older assignment, and would be taken for the outcome of this one.
func stillGoing(r *agentpb.Resource, last []*agentpb.SnapshotStatus) []*agentpb.SnapshotStatus {
	list := slices.Clone(last)
	for i, s := range list {
		if slices.ContainsFunc(r.GetSnapshots(), func(w *agentpb.Snapshot) bool {
			return w.GetDestroy() && snapshotKey(w.GetName()) == snapshotKey(s.GetName())
		}) {
			list[i] = proto.CloneOf(s)
			list[i].State = agentpb.SnapshotStatus_TAKING
		}
	}
	return list
}

// fail adds to a status what fails, how often it came, and when the next try is due.
func fail(s *agentpb.ResourceStatus, o outcome, attempts uint32, at time.Time) {
	if o.failure != nil {
		s.State, s.Failure = agentpb.ResourceStatus_FAILED, tried(o.failure, attempts, at)
	}
	for k, f := range o.snapshot {
		i := slices.IndexFunc(s.GetSnapshots(), func(t *agentpb.SnapshotStatus) bool { return snapshotKey(t.GetName()) == k })
		if i < 0 {
			s.Snapshots = append(s.Snapshots, &agentpb.SnapshotStatus{Name: string(k)})
			i = len(s.GetSnapshots()) - 1
		}
		s.Snapshots[i].State, s.Snapshots[i].Failure = agentpb.SnapshotStatus_FAILED, tried(f, attempts, at)
	}
}

// logFailures logs the failures that a status has and the one before had not.
func (a *agent) logFailures(before, s *agentpb.ResourceStatus) {
	if f := s.GetFailure(); f != nil && f.GetMessage() != before.GetFailure().GetMessage() {
		a.log.Warn("resource failed; it will be tried again", "resource", s.GetName(), "step", f.GetStep(), "error", f.GetMessage(),
			"attempts", f.GetAttempts())
	}
	said := map[string]string{}
	for _, snapshot := range before.GetSnapshots() {
		said[snapshot.GetName()] = snapshot.GetFailure().GetMessage()
	}
	for _, snapshot := range s.GetSnapshots() {
		if f := snapshot.GetFailure(); f != nil && f.GetMessage() != said[snapshot.GetName()] {
			a.log.Warn("snapshot failed; it will be tried again", "resource", s.GetName(), "snapshot", snapshot.GetName(),
				"step", f.GetStep(), "error", f.GetMessage(), "attempts", f.GetAttempts())
		}
	}
}

// statusOf is the status of a resource on which all steps succeeded.
func statusOf(r *agentpb.Resource, o outcome) *agentpb.ResourceStatus {
	s := &agentpb.ResourceStatus{Name: clip(r.GetName()), Generation: r.GetGeneration(), State: agentpb.ResourceStatus_READY}
	switch {
	case r.GetDestroy():
		s.State = agentpb.ResourceStatus_DESTROYED
	case o.partly, len(o.Work) > 0, o.Pending && len(o.snapshot) == 0:
		// READY would say that the volumes which are to go are gone. A snapshot that fails says so itself.
		s.State = agentpb.ResourceStatus_WORKING
	}
	for _, v := range o.Volumes {
		v.Holders, v.DevicePath, v.BackingPath = clipAll(v.GetHolders()), clip(v.GetDevicePath()), clip(v.GetBackingPath())
		s.Volumes = append(s.Volumes, v)
	}
	for _, w := range o.Work {
		w.What = clip(w.GetWhat())
		s.Work = append(s.Work, w)
	}
	s.Snapshots = o.Snapshots
	if o.DRBD != nil {
		o.DRBD.Problems = clipAll(o.DRBD.GetProblems())
		s.Drbd = o.DRBD
	}
	return s
}

// sameSizes tells whether two statuses of a resource take the same room in its pools.
func sameSizes(a, b *agentpb.ResourceStatus) bool {
	return slices.EqualFunc(a.GetVolumes(), b.GetVolumes(), func(v, w *agentpb.VolumeStatus) bool {
		return v.GetNumber() == w.GetNumber() && v.GetUsable() == w.GetUsable() && v.GetRolledBack() == w.GetRolledBack()
	}) && slices.EqualFunc(a.GetSnapshots(), b.GetSnapshots(), func(s, t *agentpb.SnapshotStatus) bool {
		return s.GetName() == t.GetName() && s.GetState() == t.GetState()
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
		Volumes: last.GetVolumes(), Failure: last.GetFailure(), Snapshots: stillGoing(w.work, last.GetSnapshots()), Work: last.GetWork(),
		Drbd: last.GetDrbd(),
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
