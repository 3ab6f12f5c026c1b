// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// What the agents are told is never what a crash can take back.
func TestAssignmentsAreDurable(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		gate := r.engine.Hold(kvtest.BeforeAppend)
		done := make(chan error, 1)
		go func() {
			_, err := r.store.Update(r.Context(), func(tx *store.Tx) error { return insert(tx, "vol", "alpha") })
			done <- err
		}()
		<-gate.Reached
		c.quiet()
		gate.Open(nil)
		if err := <-done; err != nil {
			r.Fatal(err)
		}
		c.next()
	})
}

func TestMissedCommitsAreMadeUpFor(t *testing.T) {
	in(t, func(r *rig) {
		r.create("old", "alpha")
		r.create("lost", "alpha")
		c, b := r.join("alpha"), r.join("beta")
		c.report(ready("old", 1), ready("lost", 1))
		// An update with an unknown outcome makes the store read its state again.
		gate := r.engine.Hold(kvtest.BeforeAnswer)
		done := make(chan error, 1)
		go func() {
			_, err := r.store.Update(r.Context(), func(tx *store.Tx) error {
				return errors.Join(
					insert(tx, "new", "alpha"),
					schema.Resources.Delete(tx, model.ResourceID{Definition: "lost", Node: "alpha"}),
					schema.Pools.Delete(tx, model.PoolID{Node: "beta", Pool: "data"}),
					schema.Nodes.Delete(tx, "beta"),
				)
			})
			done <- err
		}()
		<-gate.Reached
		gate.Open(errors.New("cut off"))
		if err := <-done; !errors.Is(err, kv.ErrUnknown) {
			r.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the store recovers
		m := c.next()
		if len(m.GetResources()) != 1 || m.GetResources()[0].GetName() != "new" || m.GetResources()[0].GetDestroy() {
			r.Errorf("%v", m)
		}
		if len(m.GetGoneResources()) != 1 || m.GetGoneResources()[0] != "lost" {
			r.Errorf("%v", m)
		}
		if _, known := r.seen.Resource(model.ResourceID{Definition: "lost", Node: "alpha"}); known {
			r.Error("the status of a replica whose row went is still there")
		}
		if got := b.end(); got != codes.NotFound {
			r.Errorf("the deleted node's session ended with %s", got)
		}
		if r.server.Sessions().Resyncs == 0 {
			r.Error("no resync was counted")
		}
		r.create("after", "alpha")
		c.next()
	})
}

// A definition that cannot be read keeps its replicas from being assigned, and nothing else.
// They are left as they are on the hosts.
func TestUnreadableRowBlocksOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kvtest.NewMemory())
		r.write(func(tx *store.Tx) error {
			return errors.Join(
				schema.Groups.Insert(tx, schema.Group{Name: "group"}),
				schema.Nodes.Insert(tx, schema.Node{Name: "alpha"}),
				schema.Pools.Insert(tx, schema.Pool{Node: "alpha", Name: "Data", Provider: model.LVM}),
				insert(tx, "good", "alpha"), insert(tx, "broken", "alpha"),
			)
		})
		r.stopServing()
		for range r.served { // until it has ended
		}
		_ = r.store.Close()
		engine := r.engine.Peer()
		spoil(t, engine, "definition/broken")
		r = newRig(t, engine.Peer())
		if len(r.store.SetAside()) == 0 {
			t.Fatal("nothing was set aside")
		}
		c := r.dial("alpha")
		m := c.next()
		if len(m.GetResources()) != 1 || m.GetResources()[0].GetName() != "good" || len(m.GetGoneResources()) != 0 {
			t.Errorf("%v", m)
		}
		c.report(ready("good", 1), ready("broken", 1), gone("broken", 1))
		r.connection("alpha", observed.Online)
		r.same(c.next(), &agentpb.Assignments{GoneResources: []string{"broken"}})
		if len(r.told) != 0 || len(r.store.SetAside()) == 0 {
			t.Errorf("Destroyed was told %+v", r.told)
		}
	})
}

// spoil overwrites the rows whose stored keys begin so.
func spoil(t *testing.T, engine *kvtest.Memory, prefix string) {
	t.Helper()
	term, err := engine.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	_, rows := engine.Load(t.Context())
	for e, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Key, prefix) {
			b.Put = append(b.Put, kv.Entry{Key: e.Key, Value: []byte("not a row")})
		}
	}
	if _, err := engine.Append(t.Context(), term, b); err != nil || len(b.Put) == 0 {
		t.Fatalf("spoil %d rows: %v", len(b.Put), err)
	}
}
