// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

var (
	volOnAlpha  = model.ResourceID{Definition: "vol", Node: "alpha"}
	snapOnAlpha = model.SnapshotReplicaID{Definition: "vol", Snapshot: "snap", Node: "alpha"}
)

// snapshot makes the rows of a snapshot of vol on alpha.
func (r *rig) snapshot(state schema.SnapshotState) uint64 {
	r.Helper()
	return r.write(func(tx *store.Tx) error {
		return errors.Join(
			schema.Snapshots.Insert(tx, schema.Snapshot{Definition: "vol", Name: "Snap", State: schema.SnapshotTaking}),
			schema.SnapshotReplicas.Insert(tx, schema.SnapshotReplica{
				Definition: "vol", Snapshot: "snap", Node: "alpha", State: state, Volumes: []schema.SnapshotVolume{{Pool: "data"}},
			}),
		)
	})
}

func (r *rig) part(f func(*schema.SnapshotReplica)) uint64 {
	r.Helper()
	return change(r, schema.SnapshotReplicas, snapOnAlpha, f)
}

// removeParts is what makes it durable that snapshots are gone.
func removeParts(r **rig) func(*dispatch.Config) {
	return func(c *dispatch.Config) {
		c.SnapshotsDestroyed = func(ctx context.Context, _ model.NodeKey, gone []dispatch.SnapshotGone) error {
			_, err := (*r).store.Update(ctx, func(tx *store.Tx) error {
				for _, g := range gone {
					if err := schema.SnapshotReplicas.Delete(tx, g.Snapshot); err != nil {
						return err
					}
				}
				return nil
			})
			return err
		}
	}
}

// only returns the one resource of a message.
func only(r *rig, m *agentpb.Assignments) *agentpb.Resource {
	r.Helper()
	if len(m.GetResources()) != 1 {
		r.Fatalf("%v", m)
	}
	return m.GetResources()[0]
}

func taking(destroy, taken bool) []*agentpb.Snapshot {
	return []*agentpb.Snapshot{{Name: "Snap", Destroy: destroy, Taken: taken, Volumes: []*agentpb.SnapshotVolume{{Pool: "Data"}}}}
}

func TestNodesAreToldOfTheirSnapshots(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		r.snapshot(schema.SnapshotPlanned)
		c.quiet()
		for _, step := range []struct {
			change func(*schema.SnapshotReplica)
			want   []*agentpb.Snapshot
		}{
			{func(p *schema.SnapshotReplica) { p.State = schema.SnapshotTaking }, taking(false, false)},
			{func(p *schema.SnapshotReplica) { p.State = schema.SnapshotTaken }, taking(false, true)},
			{func(p *schema.SnapshotReplica) { p.Deleting = true }, taking(true, true)},
		} {
			g := r.part(step.change)
			want := vol("vol", g)
			want.Snapshots = step.want
			r.same(c.next(), &agentpb.Assignments{Resources: []*agentpb.Resource{want}})
		}
	})
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		r.snapshot(schema.SnapshotFailed)
		if got := only(r, r.dial("alpha").next()); len(got.GetSnapshots()) != 0 {
			r.Errorf("a snapshot that failed is told of: %v", got)
		}
	})
}

func TestVolumesSayWhereTheirContentComesFrom(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		r.create("copy", "alpha")
		r.snapshot(schema.SnapshotTaken)
		c := r.dial("alpha")
		c.next()
		change(r, schema.Resources, model.ResourceID{Definition: "copy", Node: "alpha"}, func(x *schema.Resource) {
			x.Volumes = []schema.Volume{{Pool: "data", Size: 1 << 30, Source: &snapOnAlpha}}
		})
		want := &agentpb.Source{Resource: "vol", Snapshot: "Snap"}
		if got := only(r, c.next()).GetVolumes()[0].GetSource(); !cmp.Equal(got.String(), want.String()) {
			r.Errorf("source %v, want %v", got, want)
		}
		change(r, schema.Resources, volOnAlpha, func(x *schema.Resource) {
			x.Volumes = []schema.Volume{{Pool: "data", Size: 1 << 30, RollBack: &schema.RollBack{Snapshot: "snap", Token: "t"}}}
			x.Inactive = true
		})
		got := only(r, c.next())
		if b := got.GetVolumes()[0].GetRollBack(); b.GetSnapshot() != "Snap" || b.GetToken() != "t" || !got.GetInactive() {
			r.Errorf("%v", got)
		}
		change(r, schema.VolumeDefinitions, model.VolumeDefinitionID{Definition: "vol"}, func(v *schema.VolumeDefinition) {
			v.Props = model.PropsOf(map[string]string{"FileSystem/AutoGrow": "True"})
		})
		if !only(r, c.next()).GetVolumes()[0].GetGrowFilesystem() {
			r.Error("the filesystem is not to grow")
		}
	})
}

func TestSnapshotOutlivesItsReplica(t *testing.T) {
	var late *rig
	in(t, func(r *rig) {
		late = r
		r.create("vol", "alpha")
		r.snapshot(schema.SnapshotTaken)
		c := r.join("alpha")
		g := r.delete(volOnAlpha)
		if got := only(r, c.next()); !got.GetDestroy() || len(got.GetSnapshots()) != 1 || got.GetSnapshots()[0].GetDestroy() {
			r.Errorf("%v", got)
		}
		c.report(gone("vol", g))
		left := only(r, c.next())
		if left.GetDestroy() || len(left.GetVolumes()) != 0 || len(left.GetSnapshots()) != 1 || left.GetGeneration() < g {
			r.Errorf("%v", left)
		}
		told := func(generation uint64, state agentpb.SnapshotStatus_State) {
			t.Helper()
			c.report(&agentpb.ResourceStatus{
				Name: "vol", Generation: generation, State: agentpb.ResourceStatus_READY,
				Snapshots: []*agentpb.SnapshotStatus{{Name: "snap", State: state}},
			})
		}
		told(left.GetGeneration(), agentpb.SnapshotStatus_COMPLETE)
		c.quiet() // it is no stranger
		if st, ok := r.seen.Snapshot(snapOnAlpha); !ok || st.Phase != observed.Ready || !st.Current {
			r.Errorf("%+v", st)
		}

		g = r.part(func(p *schema.SnapshotReplica) { p.Deleting = true })
		if got := only(r, c.next()); !got.GetSnapshots()[0].GetDestroy() {
			r.Errorf("%v", got)
		}
		waited := make(chan error, 1)
		go func() {
			st, err := r.seen.WaitSnapshot(r.Context(), snapOnAlpha, g)
			if st.Phase != observed.Destroyed {
				err = errors.Join(err, errors.New("it is "+st.Phase.String()))
			}
			waited <- err
		}()
		synctest.Wait()
		told(g-1, agentpb.SnapshotStatus_DESTROYED) // the word about an older assignment
		if _, is := schema.SnapshotReplicas.Get(r.store.Snapshot(), snapOnAlpha); !is {
			r.Error("the row went for the word about an older assignment")
		}
		told(g, agentpb.SnapshotStatus_DESTROYED)
		if _, is := schema.SnapshotReplicas.Get(r.store.Snapshot(), snapOnAlpha); is {
			r.Error("the row is still there")
		}
		if err := <-waited; err != nil {
			r.Error(err)
		}
		if st, err := r.seen.WaitSnapshot(r.Context(), snapOnAlpha, g); err != nil || st.Phase != observed.Destroyed {
			r.Errorf("who comes late: %+v, %v", st, err)
		}
		r.same(c.next(), &agentpb.Assignments{GoneResources: []string{"vol"}})
	}, removeParts(&late))
}

func TestGenerationDoesNotFallWhenASnapshotGoes(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		c := r.join("alpha")
		g := r.snapshot(schema.SnapshotTaken)
		c.next()
		r.write(func(tx *store.Tx) error { return schema.SnapshotReplicas.Delete(tx, snapOnAlpha) })
		if got := only(r, c.next()); got.GetGeneration() < g || len(got.GetSnapshots()) != 0 {
			r.Errorf("%v", got)
		}
		c.quiet()
	})
}
