// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

var onAlpha = model.ResourceID{Definition: "vol", Node: "alpha"}

func TestReportIsObservedWhole(t *testing.T) {
	in(t, func(r *rig) {
		g := r.create("vol", "alpha")
		c := r.join("alpha")
		next := time.Unix(1000, 5).UTC()
		c.report(&agentpb.ResourceStatus{
			Name: "VOL", Generation: g, State: agentpb.ResourceStatus_FAILED,
			Volumes: []*agentpb.VolumeStatus{
				{
					Number: 2, DevicePath: "/dev/a", BackingPath: "/dev/b", Usable: new(int64(0)), Allocated: new(int64(7)),
					InUse: new(false), Holders: []string{"one"}, DiskState: "UpToDate", ResyncDone: new(99.5),
				},
				{Number: 3},
			},
			Drbd: &agentpb.DrbdStatus{
				Role: "Secondary", MayPromote: new(true), PromotionScore: new(int32(10101)), Quorum: new(false), Suspended: true,
				Connections: []*agentpb.DrbdConnection{{
					Node: "Beta", State: "Connected", Role: "Primary",
					DiskStates: map[int32]string{2: "UpToDate"}, Replication: map[int32]string{2: "SyncTarget"},
				}, {Node: "gamma", State: "StandAlone"}},
			},
			Failure: &agentpb.Failure{
				Step: "grow", Message: "no", Reason: agentpb.Failure_NO_SPACE, Attempts: 3, NextTry: timestamppb.New(next),
			},
		})
		want := observed.ResourceStatus{
			Generation: g, Phase: observed.Failed, Current: true,
			Volumes: []observed.VolumeStatus{
				{
					Number: 2, DevicePath: "/dev/a", BackingPath: "/dev/b", Usable: new(int64(0)), Allocated: new(int64(7)),
					InUse: new(false), Holders: []string{"one"}, DiskState: "UpToDate", ResyncDone: new(99.5),
				},
				{Number: 3},
			},
			DRBD: &observed.DRBDStatus{
				Role: "Secondary", MayPromote: new(true), PromotionScore: new(int32(10101)), Quorum: new(false), Suspended: true,
				Connections: []observed.DRBDConnection{{
					Node: "Beta", State: "Connected", Role: "Primary",
					DiskStates: map[model.VolumeNumber]string{2: "UpToDate"}, Replication: map[model.VolumeNumber]string{2: "SyncTarget"},
				}, {Node: "gamma", State: "StandAlone"}},
			},
			Failure: &observed.Failure{Step: "grow", Message: "no", Reason: observed.NoSpace, Attempts: 3, NextTry: next},
		}
		got, _ := r.seen.Resource(onAlpha)
		if diff := cmp.Diff(want, got); diff != "" {
			r.Error(diff)
		}
		c.reportPools(&agentpb.PoolStatus{
			Name: "data", Total: new(int64(9)), Free: new(int64(0)), Granularity: 4096, SupportsSnapshots: true,
			Faults: []string{"f"}, UnknownVolumes: []string{"u"},
		})
		pool, _ := r.seen.Pool(model.PoolID{Node: "alpha", Pool: "data"})
		if diff := cmp.Diff(observed.PoolStatus{
			Total: new(int64(9)), Free: new(int64(0)), Granularity: 4096, SupportsSnapshots: true,
			Faults: []string{"f"}, Unknown: []string{"u"}, At: time.Now(), Current: true,
		}, pool); diff != "" {
			r.Error(diff)
		}
	})
}

func TestStatesAndReasonsAreKnown(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		phases := map[agentpb.ResourceStatus_State]observed.Phase{
			agentpb.ResourceStatus_STATE_UNSPECIFIED: observed.Working,
			agentpb.ResourceStatus_WORKING:           observed.Working,
			agentpb.ResourceStatus_READY:             observed.Ready,
			agentpb.ResourceStatus_FAILED:            observed.Failed,
			99:                                       observed.Working,
		}
		for state, want := range phases {
			c.report(&agentpb.ResourceStatus{Name: "vol", State: state})
			if st, _ := r.seen.Resource(onAlpha); st.Phase != want {
				r.Errorf("%s is %s, want %s", state, st.Phase, want)
			}
		}
		reasons := map[agentpb.Failure_Reason]observed.Reason{
			agentpb.Failure_REASON_UNSPECIFIED: observed.Other,
			agentpb.Failure_IN_USE:             observed.InUse,
			agentpb.Failure_NO_SPACE:           observed.NoSpace,
			agentpb.Failure_POOL_FAULTY:        observed.PoolFaulty,
			agentpb.Failure_UNSUPPORTED:        observed.Unsupported,
			agentpb.Failure_INVALID:            observed.Invalid,
			agentpb.Failure_LOCKED:             observed.Locked,
			99:                                 observed.Other,
		}
		for reason, want := range reasons {
			c.report(&agentpb.ResourceStatus{Name: "vol", Failure: &agentpb.Failure{Reason: reason}})
			if st, _ := r.seen.Resource(onAlpha); st.Failure == nil || st.Failure.Reason != want || !st.Failure.NextTry.IsZero() {
				r.Errorf("%s is %+v, want %v", reason, st.Failure, want)
			}
		}
	})
}

func TestReportsOfSessionsThatAreNotThere(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		for _, session := range []string{"", "made up"} {
			c.session = session
			if unknown, err := c.tryReport(); !unknown || err != nil {
				r.Errorf("session %q: unknown %v, %v", session, unknown, err)
			}
		}
		c.hello.Node = "beta"
		if unknown, err := c.tryReport(); !unknown || err != nil {
			r.Errorf("beta: unknown %v, %v", unknown, err)
		}
	})
}

func TestStatusWithoutARowIsDroppedAndTheAgentForgets(t *testing.T) {
	in(t, func(r *rig) {
		g := r.create("vol", "alpha")
		c := r.join("alpha")
		c.report(ready("Stranger", 5, 0), ready("no valid name!", 5), ready("vol", g, 0))
		if _, known := r.seen.Resource(model.ResourceID{Definition: "stranger", Node: "alpha"}); known {
			r.Error("the status was kept")
		}
		if st, _ := r.seen.Resource(onAlpha); st.Phase != observed.Ready {
			r.Error("the status beside it was not taken")
		}
		r.same(c.next(), &agentpb.Assignments{GoneResources: []string{"Stranger", "no valid name!"}})
		c.report(gone("Stranger", 5)) // repeated without end, it does no harm
		c.next()
		c.quiet()
		if st := r.server.Sessions(); st.Strangers != 3 || st.Destroyed != 0 {
			r.Errorf("%+v", st)
		}
	})
}

// Volumes of ours in a pool that nobody registered are what an empty database over full hosts
// looks like.
func TestPoolThatIsNotRegisteredIsShownWhileItHoldsVolumesOfOurs(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		c.reportPools(&agentpb.PoolStatus{Name: "empty"}, &agentpb.PoolStatus{Name: "full", UnknownVolumes: []string{"vol_00000"}})
		if _, known := r.seen.Pool(model.PoolID{Node: "alpha", Pool: "empty"}); known {
			r.Error("a pool that is nobody's business is shown")
		}
		if st, known := r.seen.Pool(model.PoolID{Node: "alpha", Pool: "full"}); !known || len(st.Unknown) != 1 {
			r.Errorf("known %v, %+v", known, st)
		}
		c.quiet() // the agent goes on to look at it
	})
}

// The row goes before the report is answered, and a waiter hears of it after that.
func TestDestroyedReplicaLosesItsRow(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		g := r.delete(onAlpha)
		c.next()
		waited := make(chan observed.ResourceStatus, 1)
		go func() {
			st, err := r.seen.Wait(r.Context(), onAlpha, g)
			if err != nil {
				r.Error(err)
			}
			waited <- st
		}()
		gate := r.engine.Hold(kvtest.BeforeAppend)
		answered := make(chan error, 1)
		go func() {
			_, err := c.tryReport(gone("vol", g))
			answered <- err
		}()
		<-gate.Reached
		synctest.Wait()
		if len(answered) != 0 || len(waited) != 0 {
			r.Fatal("answered before it was durable")
		}
		gate.Open(nil)
		if err := <-answered; err != nil {
			r.Fatal(err)
		}
		if st := <-waited; st.Phase != observed.Destroyed || r.has(onAlpha) {
			r.Errorf("%+v, row there %v", st, r.has(onAlpha))
		}
		if _, known := r.seen.Resource(onAlpha); known {
			r.Error("the status is still there")
		}
		if st, err := r.seen.Wait(r.Context(), onAlpha, g); err != nil || st.Phase != observed.Destroyed {
			r.Errorf("a late wait: %+v, %v", st, err)
		}
		r.same(c.next(), &agentpb.Assignments{GoneResources: []string{"vol"}})
		c.report(gone("vol", g)) // the answer was lost
	})
}

func TestReportIsRepeatedWhenTheRowsCannotGo(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		other := r.create("other", "alpha")
		c := r.join("alpha")
		g := r.delete(onAlpha)
		c.next()
		r.refuse(errors.New("disk full"))
		for range 3 {
			_, err := c.tryReport(gone("vol", g), ready("other", other, 0))
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "disk full") {
				r.Fatalf("got %v", err)
			}
		}
		if st, _ := r.seen.Resource(onAlpha); st.Phase == observed.Destroyed {
			r.Error("seen as destroyed")
		}
		if st, _ := r.seen.Resource(model.ResourceID{Definition: "other", Node: "alpha"}); st.Phase != observed.Ready {
			r.Error("the status beside it waits for it")
		}
		r.refuse(nil)
		c.report(gone("vol", g))
		if r.has(onAlpha) {
			r.Error("the row is still there")
		}
		if st := r.server.Sessions(); st.Refused != 3 || st.Destroyed != 1 {
			r.Errorf("%+v", st)
		}
	})
}

// The rows may have gone although the controller could not learn it.
func TestDestroyedReplicaIsSeenSoAlsoAfterAnUnknownOutcome(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		g := r.delete(onAlpha)
		c.next()
		waited := make(chan error, 1)
		go func() {
			_, err := r.seen.Wait(r.Context(), onAlpha, g)
			waited <- err
		}()
		gate := r.engine.Hold(kvtest.BeforeAnswer)
		answered := make(chan error, 1)
		go func() {
			_, err := c.tryReport(gone("vol", g))
			answered <- err
		}()
		<-gate.Reached
		gate.Open(errors.New("cut off"))
		if err := <-answered; status.Code(err) != codes.Unavailable {
			r.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the store reads its state again, and the row is not in it
		synctest.Wait()
		if err := <-waited; !errors.Is(err, observed.ErrForgotten) {
			r.Errorf("the wait ended with %v", err)
		}
		c.report(gone("vol", g))
	})
}

// A word about another assignment than one that said destroy removes nothing.
func TestRowStaysWhenItIsNotMeant(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig, created uint64) (generation uint64)
	}{
		{"not deleting", func(_ *rig, created uint64) uint64 { return created }},
		{"deleting, said of the assignment before", func(r *rig, created uint64) uint64 {
			r.delete(onAlpha)
			return created
		}},
		{"marked again since", func(r *rig, _ uint64) uint64 {
			g := r.delete(onAlpha)
			r.delete(onAlpha)
			return g
		}},
		{"never sent", func(r *rig, _ uint64) uint64 { return r.delete(onAlpha) + 1 }},
		{"made anew under the name", func(r *rig, _ uint64) uint64 {
			g := r.delete(onAlpha)
			r.write(func(tx *store.Tx) error { return schema.Resources.Delete(tx, onAlpha) })
			r.write(func(tx *store.Tx) error {
				return schema.Resources.Insert(tx, schema.Resource{Definition: "vol", Node: "alpha", Kind: schema.Diskful})
			})
			return g
		}},
		{"made anew and marked as well", func(r *rig, _ uint64) uint64 {
			g := r.delete(onAlpha)
			r.write(func(tx *store.Tx) error { return schema.Resources.Delete(tx, onAlpha) })
			r.write(func(tx *store.Tx) error {
				return schema.Resources.Insert(tx, schema.Resource{Definition: "vol", Node: "alpha", Kind: schema.Diskful, Deleting: true})
			})
			return g
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				created := r.create("vol", "alpha")
				client := r.join("alpha")
				g := c.do(r, created)
				client.report(gone("vol", g))
				if len(r.told) != 0 {
					r.Errorf("Destroyed was told %+v", r.told)
				}
				if !r.has(onAlpha) {
					r.Error("the row is gone")
				}
				if st, known := r.seen.Resource(onAlpha); known && st.Phase == observed.Destroyed {
					r.Errorf("seen as %+v", st)
				}
			})
		})
	}
}

// A change of the definition meanwhile does not take the agent's word back.
func TestDestroyedCountsWhenOnlyOtherRowsChangedSince(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		g := r.delete(onAlpha)
		change(r, schema.Definitions, "vol", func(d *schema.Definition) { d.Deleting = true })
		c.report(gone("vol", g))
		if r.has(onAlpha) {
			r.Error("the row is still there")
		}
	})
}

func TestDestroyedVolumesAreTold(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol")
		created := r.write(func(tx *store.Tx) error {
			return errors.Join(
				schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "vol", Number: 1, Size: 1 << 20}),
				schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "vol", Number: 2, Size: 1 << 20}),
				schema.Resources.Insert(tx, schema.Resource{Definition: "vol", Node: "alpha", Kind: schema.Diskful, Volumes: []schema.Volume{
					{Number: 0, Pool: "data"}, {Number: 1, Pool: "data"}, {Number: 2, Pool: "data"},
				}}),
			)
		})
		c := r.join("alpha")
		g := change(r, schema.Resources, onAlpha, func(x *schema.Resource) {
			x.Volumes = []schema.Volume{{Number: 0, Pool: "data"}, {Number: 1, Pool: "data", Deleting: true}, {Number: 2, Pool: "data", Deleting: true}}
		})
		c.next()
		c.report(ready("vol", created, 0)) // of the assignment before
		c.report(&agentpb.ResourceStatus{Name: "vol", Generation: g, State: agentpb.ResourceStatus_FAILED})
		c.report(ready("vol", g, 0, 1, 2)) // all still there
		if len(r.told) != 0 {
			r.Fatalf("told %+v", r.told)
		}
		r.refuse(errors.New("disk full"))
		if _, err := c.tryReport(ready("vol", g, 0, 2)); status.Code(err) != codes.Unavailable {
			r.Fatal(err)
		}
		if st, _ := r.seen.Resource(onAlpha); len(st.Volumes) != 3 {
			r.Errorf("seen before it was recorded: %+v", st)
		}
		r.refuse(nil)
		c.report(ready("vol", g, 0, 2))
		want := dispatch.Gone{Resource: onAlpha, Generation: g, Volumes: []model.VolumeNumber{1}}
		if diff := cmp.Diff([]dispatch.Gone{want, want}, r.told); diff != "" {
			r.Error(diff)
		}
		row, _ := schema.Resources.Get(r.store.Snapshot(), onAlpha)
		if len(row.Volumes) != 2 {
			r.Errorf("volumes: %+v", row.Volumes)
		}
		if st, _ := r.seen.Resource(onAlpha); st.Phase != observed.Ready || len(st.Volumes) != 2 {
			r.Errorf("%+v", st)
		}
		if m := c.next(); len(m.GetResources()[0].GetVolumes()) != 2 {
			r.Errorf("%v", m)
		}
	})
}

func TestForcedRemovalOfARowEndsTheWait(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		g := r.delete(onAlpha)
		c.next()
		waited := make(chan error, 1)
		go func() {
			_, err := r.seen.Wait(r.Context(), onAlpha, g)
			waited <- err
		}()
		synctest.Wait()
		r.write(func(tx *store.Tx) error { return schema.Resources.Delete(tx, onAlpha) })
		if err := <-waited; !errors.Is(err, observed.ErrForgotten) {
			r.Errorf("got %v", err)
		}
	})
}
